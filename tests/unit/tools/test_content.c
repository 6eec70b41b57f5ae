/* SPDX-License-Identifier: Apache-2.0 */
/* Results for models: texts that are cut in their middle, and the result of an execution in words. */
#include "../test.h"

#include "base/json.h"
#include "tools/content.h"
#include "tools/render.h"

static const char *text_of(const json_t *result, size_t index) {
        const json_t *block = json_array_get(json_object_get(result, "content"), index);

        return json_string_value(json_object_get(block, "text"));
}

static json_t *render(const struct sbx_result *result, bool fresh, bool script) {
        struct sbx_error err = {0};
        json_t *rendered = NULL;

        assert_int_equal(sbx_render_result(result, fresh, script, &rendered, &err), 0);
        return rendered;
}

/* ---- cutting ---- */

static void test_clip(void **state) {
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(1 << 20);
        char text[1001];

        for (size_t i = 0; i < 1000; i++)
                text[i] = (char)('a' + i / 100);
        text[1000] = '\0';
        assert_int_equal(sbx_text_clip((struct sbx_bytes){text, 1000}, 1000, &out), 0);
        assert_string_equal(out.data, text);
        sbx_buffer_clear(&out);
        assert_int_equal(sbx_text_clip((struct sbx_bytes){text, 1000}, 300, &out), 0);
        assert_contains(out.data, "[cut: 700 of 1000 characters are not shown]");
        assert_memory_equal(out.data, text, 200);
        assert_memory_equal(out.data + out.size - 100, text + 900, 100);
        assert_true(out.size < 400);
}

static void test_clip_keeps_characters_whole(void **state) {
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(1 << 20), long_text = SBX_BUFFER(1 << 20);

        for (unsigned i = 0; i < 100; i++)
                assert_int_equal(sbx_buffer_append_text(&long_text, "\xf0\x9f\x98\x80"), 0);
        assert_int_equal(sbx_text_clip(sbx_buffer_bytes(&long_text), 100, &out), 0);
        assert_int_equal(out.size, 400);
        sbx_buffer_clear(&out);
        assert_int_equal(sbx_text_clip(sbx_buffer_bytes(&long_text), 10, &out), 0);
        assert_memory_equal(out.data, long_text.data, 28);
        assert_int_equal(out.data[28], '\n');
        assert_memory_equal(out.data + out.size - 12, long_text.data, 12);
}

static void test_clip_repairs(void **state) {
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(1 << 20);

        assert_int_equal(sbx_text_clip(BYTES("a\xff\xed\xa0\x80z"), 100, &out), 0);
        assert_contains(out.data, "a\xef\xbf\xbd");
}

/* ---- executions ---- */

static void test_success(void **state) {
        struct sbx_result result = {.stdout_text = BYTES("hello\n"),
                                    .stderr_text = BYTES("careful"),
                                    .value = "42",
                                    .result = "'done'",
                                    .session_id = "default",
                                    .isolation = "namespaces",
                                    .duration_ns = 1500000};
        _cleanup_json_ json_t *rendered = render(&result, false, false);
        const json_t *facts = json_object_get(json_object_get(rendered, "_meta"), "snipara-sandbox/execution");

        assert_string_equal(text_of(rendered, 0), "hello\ncareful\n42\nresult = 'done'");
        assert_true(json_is_false(json_object_get(rendered, "isError")));
        assert_string_equal(json_string_value(json_object_get(facts, "end")), "ok");
        assert_string_equal(json_string_value(json_object_get(facts, "state")), "kept");
        assert_string_equal(json_string_value(json_object_get(facts, "isolation")), "namespaces");
        assert_true(json_real_value(json_object_get(facts, "duration_ms")) == 1.5);
}

static void test_no_output(void **state) {
        struct sbx_result result = {.notice = NULL};
        _cleanup_json_ json_t *rendered = render(&result, false, false), *noticed = NULL;

        assert_string_equal(text_of(rendered, 0), "(no output)");
        result.notice = "It was restarted.";
        noticed = render(&result, false, false);
        assert_string_equal(text_of(noticed, 0), "[It was restarted.]\n(no output)");
}

static void test_exception(void **state) {
        struct sbx_result result = {.end = SBX_END_ERROR,
                                    .error_type = "ValueError",
                                    .error_message = "no",
                                    .traceback = "Traceback (most recent call last):\n  ...\nValueError: no",
                                    .stdout_text = BYTES("before\n")};
        _cleanup_json_ json_t *rendered = render(&result, false, false), *script = render(&result, true, true);

        assert_true(json_is_true(json_object_get(rendered, "isError")));
        assert_string_equal(text_of(rendered, 0),
                            "Error: ValueError: no\n\nTraceback (most recent call last):\n  ...\nValueError: no\n\n"
                            "Output before the end:\nbefore\n");
        assert_string_equal(text_of(script, 0), "before\nTraceback (most recent call last):\n  ...\nValueError: no");
        assert_true(json_is_true(json_object_get(script, "isError")));
}

static void test_ends(void **state) {
        static const struct {
                enum sbx_end end;
                enum sbx_state kept;
                const char *text;
        } cases[] = {
                {SBX_END_TIMEOUT, SBX_STATE_KEPT, "Error: Timeout: why\nThe session's variables are kept.\n"},
                {SBX_END_TIMEOUT, SBX_STATE_LOST,
                 "Error: Timeout: why\nThe session's variables are lost; the next call"},
                {SBX_END_MEMORY, SBX_STATE_KEPT, "Error: Out of memory: why\n"},
                {SBX_END_CANCELLED, SBX_STATE_KEPT, "Error: Cancelled: why\n"},
                {SBX_END_KILLED, SBX_STATE_LOST, "Error: Killed: why\n"},
                {SBX_END_LOST, SBX_STATE_LOST, "Error: Lost: why\n"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct sbx_result result = {.end = cases[i].end,
                                            .state = cases[i].kept,
                                            .error_message = "why",
                                            .stdout_text = BYTES("so far")};
                _cleanup_json_ json_t *rendered = render(&result, false, false), *fresh = render(&result, true, false);

                assert_contains(text_of(rendered, 0), cases[i].text);
                assert_contains(text_of(rendered, 0), "so far");
                assert_null(strstr(text_of(fresh, 0), "session's"));
        }
}

static json_t *render_kept(const struct sbx_result *result) {
        struct sbx_keep keep = {.session_id = "s"};
        struct sbx_error err = {0};
        json_t *rendered = NULL;

        assert_int_equal(sbx_render_kept(result, false, false, &keep, &rendered, &err), 0);
        return rendered;
}

/* What a session could not keep is said once, to clients alone; the facts are there in any case. */
static void test_checkpoint(void **state) {
        struct sbx_result result = {
                .value = "1",
                .notice = "It goes on from its stored state.",
                .notice_kind = "resumed",
                .checkpoint =
                        "{\"id\":\"c2\",\"mechanism\":\"portable\",\"durable\":true,\"unsaved\":["
                        "{\"name\":\"old\",\"type\":\"socket\",\"reason\":\"told before\"},"
                        "{\"name\":\"rows\",\"type\":\"generator\",\"reason\":\"it can't be\\nsaved\",\"new\":true}]}"};
        _cleanup_json_ json_t *client = render_kept(&result), *model = render(&result, false, false), *again = NULL;
        const json_t *facts = json_object_get(json_object_get(model, "_meta"), "snipara-sandbox/execution");

        assert_string_equal(text_of(client, 0), "[It goes on from its stored state.]\n1");
        assert_string_equal(text_of(client, 1),
                            "[If this session has to be restored, it will be without rows (generator: it can't be)]");
        assert_int_equal(json_array_size(json_object_get(model, "content")), 1);
        assert_string_equal(json_string_value(json_object_get(facts, "notice_kind")), "resumed");
        assert_string_equal(json_string_value(json_object_get(json_object_get(facts, "checkpoint"), "id")), "c2");
        assert_int_equal(json_array_size(json_object_get(json_object_get(facts, "checkpoint"), "unsaved")), 2);
        assert_null(json_object_get(client, "structuredContent")); /* some clients show it instead of the text */
        result.checkpoint = "{\"id\":null,\"durable\":false,\"reason\":\"the disk is full\",\"reason_new\":true}";
        again = render_kept(&result);
        assert_string_equal(text_of(again, 1), "[This session's state is not kept: the disk is full]");
}

static void test_no_checkpoint(void **state) {
        static const char *const silent[] = {NULL,
                                             "",
                                             "no JSON",
                                             "[]",
                                             "{}",
                                             "{\"id\":\"c1\",\"unsaved\":7}",
                                             "{\"id\":null,\"reason\":\"as before\"}",
                                             "{\"unsaved\":[{\"name\":\"a\"},7,null]}"};

        for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++) {
                struct sbx_result result = {.value = "1", .checkpoint = silent[i]};
                _cleanup_json_ json_t *rendered = render_kept(&result);

                assert_int_equal(json_array_size(json_object_get(rendered, "content")), 1);
        }
}

static void test_dropped_output(void **state) {
        struct sbx_result result = {.stdout_text = BYTES("abc"), .stdout_dropped_bytes = 12345};
        _cleanup_json_ json_t *rendered = render(&result, false, false);

        assert_contains(text_of(rendered, 0), "abc\n[12345 more bytes of stdout are lost");
}

static void test_long_output_keeps_its_ends(void **state) {
        static char output[200000];
        struct sbx_result result = {.stdout_text = {output, sizeof(output)}, .value = "the value"};
        json_t *rendered;

        memset(output, 'x', sizeof(output));
        memcpy(output, "the beginning", 13);
        rendered = render(&result, false, false);
        assert_true(strlen(text_of(rendered, 0)) < 30200);
        assert_memory_equal(text_of(rendered, 0), "the beginning", 13);
        assert_contains(text_of(rendered, 0), "the value");
        assert_contains(text_of(rendered, 0), "characters are not shown");
        json_decref(rendered);
}

static void test_displays(void **state) {
        static char large[700000];
        struct sbx_display displays[7];
        struct sbx_result result = {.displays = displays, .display_count = 7, .display_dropped_count = 2};
        json_t *rendered, *content;

        memset(large, 'A', sizeof(large));
        for (size_t i = 0; i < 5; i++)
                displays[i] = (struct sbx_display){"image/png", BYTES("iVBORw0KGgo=")};
        displays[5] = (struct sbx_display){"text/html", BYTES("<b>bold</b>")};
        displays[6] = (struct sbx_display){"image/jpeg", {large, sizeof(large)}};
        rendered = render(&result, false, false);
        content = json_object_get(rendered, "content");
        assert_int_equal(json_array_size(content), 6); /* four images, one text, one note */
        assert_string_equal(json_string_value(json_object_get(json_array_get(content, 0), "type")), "image");
        assert_string_equal(json_string_value(json_object_get(json_array_get(content, 0), "mimeType")), "image/png");
        assert_string_equal(json_string_value(json_object_get(json_array_get(content, 0), "data")), "iVBORw0KGgo=");
        assert_string_equal(text_of(rendered, 4), "[text/html]\n<b>bold</b>");
        assert_contains(text_of(rendered, 5), "1 image(s) larger than 500 kB");
        assert_contains(text_of(rendered, 5), "3 display(s) not shown");
        json_decref(rendered);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_clip),
                cmocka_unit_test(test_clip_keeps_characters_whole),
                cmocka_unit_test(test_clip_repairs),
                cmocka_unit_test(test_success),
                cmocka_unit_test(test_no_output),
                cmocka_unit_test(test_exception),
                cmocka_unit_test(test_ends),
                cmocka_unit_test(test_checkpoint),
                cmocka_unit_test(test_no_checkpoint),
                cmocka_unit_test(test_dropped_output),
                cmocka_unit_test(test_long_output_keeps_its_ends),
                cmocka_unit_test(test_displays),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
