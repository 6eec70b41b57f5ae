/* SPDX-License-Identifier: Apache-2.0 */
/* Portable states of guests that lie: parts out of order, too many, accounts that are none. They are ended, or bounded.
 */
#include <inttypes.h>

#include "../test.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/json.h"
#include "guest/frame.h"
#include "guest/guest.h"
#include "script_backend.h"

#define MIB ((size_t)1 << 20)
#define READY "{\"protocol\":1,\"runtime\":\"python\",\"version\":\"3.11.2\",\"features\":[\"files\",\"states\"]}"
#define GOOD "{\"id\":1,\"end\":\"ok\",\"variables\":1,\"names\":[\"x\"],\"digest\":\"d1\"}"

struct talk {
        struct script_backend script;
        struct sbx_buffer stream;
        struct sbx_guest_process *guest;
        struct sbx_error err;
        struct sbx_buffer parts[4]; /* that came */
        size_t count;
        int answer; /* to each part */
        bool take;  /* the buffers are taken over */
};

static void add(struct talk *talk, uint8_t type, const char *json, const char *blob, size_t blob_size) {
        size_t json_size = strlen(json), before = type == SBX_FRAME_READY ? 0 : 4,
               size = before + json_size + blob_size;
        unsigned char head[9] = {(unsigned char)size,
                                 (unsigned char)(size >> 8),
                                 (unsigned char)(size >> 16),
                                 (unsigned char)(size >> 24),
                                 type,
                                 (unsigned char)json_size,
                                 (unsigned char)(json_size >> 8),
                                 (unsigned char)(json_size >> 16),
                                 0};

        assert_return_code(sbx_buffer_append(&talk->stream, head, 5 + before), 0);
        assert_return_code(sbx_buffer_append(&talk->stream, json, json_size), 0);
        if (blob_size > 0)
                assert_return_code(sbx_buffer_append(&talk->stream, blob, blob_size), 0);
}

static void begin(struct talk *talk) {
        *talk = (struct talk){.stream = SBX_BUFFER(4 * MIB)};
        script_backend_init(&talk->script);
        add(talk, SBX_FRAME_READY, READY, NULL, 0);
}

static void start(struct talk *talk) {
        struct sbx_guest_spec spec = {.struct_size = sizeof(spec), .label = "x", .runtime = "python"};

        talk->script.stream = sbx_buffer_bytes(&talk->stream);
        if (sbx_guest_start(&talk->script.instance, NULL, &spec, NULL, &talk->guest, &talk->err) < 0)
                fail_msg("start: %s", talk->err.message);
}

static void end(struct talk *talk) {
        for (size_t i = 0; i < talk->count; i++)
                sbx_buffer_free(&talk->parts[i]);
        sbx_guest_free(talk->guest);
        sbx_buffer_free(&talk->stream);
}

static int keep(void *data, struct sbx_buffer *part) {
        struct talk *talk = data;

        if (talk->answer < 0)
                return talk->answer;
        assert_true(talk->count < sizeof(talk->parts) / sizeof(talk->parts[0]));
        talk->parts[talk->count] = (struct sbx_buffer)SBX_BUFFER(MIB);
        if (talk->take) {
                talk->parts[talk->count++] = *part;
                *part = (struct sbx_buffer){0};
                return 0;
        }
        return sbx_buffer_append(&talk->parts[talk->count++], part->data, part->size);
}

static int save(struct talk *talk, uint64_t max_bytes, const char *known, json_t **ret_told) {
        const struct sbx_guest_portable request = {
                .max_bytes = max_bytes, .known_digest = known, .data = talk, .part = keep};
        struct sbx_call call = {.struct_size = sizeof(call),
                                .cancel_fd = -1,
                                .deadline_ns = sbx_clock_deadline_ms(talk->script.open ? 100 : 20000)};

        start(talk);
        return sbx_guest_save_portable(talk->guest, &request, &call, ret_told, &talk->err);
}

/* ---- what is good ---- */

static void parts_in_pieces(void **state) {
        for (int take = 0; take < 2; take++) {
                json_t *told = NULL;
                struct talk talk;

                begin(&talk);
                talk.take = take;
                talk.script.open = true;
                add(&talk, SBX_FRAME_STATE, "{\"part\":0,\"last\":false}", "ab", 2);
                add(&talk, SBX_FRAME_DISPLAY, "{\"mime\":\"text/plain\"}", "late", 4); /* of a thread: nothing to it */
                add(&talk, SBX_FRAME_STATE, "{\"part\":0,\"last\":true}", "c", 1);
                add(&talk, SBX_FRAME_STATE, "{\"part\":1,\"last\":true}", NULL, 0);
                add(&talk, SBX_FRAME_STATE, "{\"part\":2,\"last\":true}", "d", 1);
                add(&talk, SBX_FRAME_RESULT, GOOD, NULL, 0);
                assert_int_equal(save(&talk, 4, NULL, &told), 0);
                assert_int_equal(talk.count, 3);
                assert_int_equal(talk.parts[0].size, 3);
                assert_memory_equal(talk.parts[0].data, "abc", 3);
                assert_int_equal(talk.parts[1].size, 0);
                assert_memory_equal(talk.parts[2].data, "d", 1);
                assert_int_equal(json_integer_value(json_object_get(told, "variables")), 1);
                assert_string_equal(json_string_value(json_object_get(told, "digest")), "d1");
                assert_true(json_is_false(json_object_get(told, "unchanged")));
                assert_int_equal(json_array_size(sbx_guest_names(talk.guest)), 1);
                assert_true(sbx_guest_alive(talk.guest));
                json_decref(told);
                end(&talk);
        }
}

static void a_known_state_has_no_parts(void **state) {
        json_t *told = NULL;
        struct talk talk;

        begin(&talk);
        add(&talk, SBX_FRAME_RESULT, "{\"id\":1,\"end\":\"ok\",\"digest\":\"d1\",\"unchanged\":true}", NULL, 0);
        assert_int_equal(save(&talk, MIB, "d1", &told), 0);
        assert_true(json_is_true(json_object_get(told, "unchanged")));
        json_decref(told);
        end(&talk);
}

static void who_takes_the_parts_may_end_it(void **state) {
        json_t *told = NULL;
        struct talk talk;

        begin(&talk);
        talk.script.open = true;
        talk.answer = -ENOSPC;
        add(&talk, SBX_FRAME_STATE, "{\"part\":0,\"last\":true}", "a", 1);
        add(&talk, SBX_FRAME_STATE, "{\"part\":1,\"last\":true}", "b", 1);
        add(&talk, SBX_FRAME_RESULT, GOOD, NULL, 0);
        assert_int_equal(save(&talk, MIB, NULL, &told), -ENOSPC);
        assert_null(told);
        assert_true(sbx_guest_alive(talk.guest));
        end(&talk);
}

static void what_the_guest_refuses(void **state) {
        static const struct {
                const char *name;
                int code;
        } cases[] = {{"EFBIG", -EFBIG},
                     {"ETIMEDOUT", -ETIMEDOUT},
                     {"ENOMEM", -ENOMEM},
                     {"EBADMSG", -EBADMSG},
                     {"EPROTONOSUPPORT", -EPROTONOSUPPORT},
                     {"EBUSY", -EBUSY},
                     {"EOWNERDEAD", -EIO}};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *told = NULL;
                struct talk talk;
                char result[200];

                snprintf(
                        result, sizeof(result),
                        "{\"id\":1,\"end\":\"error\",\"error\":{\"type\":\"OSError\",\"message\":\"why\",\"errno\":\"%s\"}}",
                        cases[i].name);
                begin(&talk);
                talk.script.open = true;
                add(&talk, SBX_FRAME_RESULT, result, NULL, 0);
                assert_int_equal(save(&talk, MIB, NULL, &told), cases[i].code);
                assert_contains(talk.err.message, "why");
                assert_true(sbx_guest_alive(talk.guest));
                end(&talk);
        }
}

/* ---- what is not ---- */

struct lie {
        const char *state[2], *result; /* two frames of one byte each, and what follows */
        uint64_t max_bytes;
};

static void lies(void **state) {
        static const struct lie cases[] = {
                {{"{\"part\":1,\"last\":true}"}, GOOD, MIB},
                {{"{\"part\":-1,\"last\":true}"}, GOOD, MIB},
                {{"{\"part\":0}"}, GOOD, MIB},
                {{"{\"last\":true}"}, GOOD, MIB},
                {{"{\"part\":\"0\",\"last\":true}"}, GOOD, MIB},
                {{"{\"part\":0,\"last\":1}"}, GOOD, MIB},
                {{"[]"}, GOOD, MIB},
                {{""}, GOOD, MIB},
                {{"{\"part\":0,\"last\":true}", "{\"part\":0,\"last\":true}"}, GOOD, MIB},
                {{"{\"part\":0,\"last\":true}", "{\"part\":2,\"last\":true}"}, GOOD, MIB},
                {{"{\"part\":0,\"last\":true}", "{\"part\":1,\"last\":true}"}, GOOD, 1}, /* more than it may have */
                {{"{\"part\":0,\"last\":false}"}, GOOD, MIB},                            /* half a part */
                {{NULL}, GOOD, MIB},                                                     /* none */
                {{NULL}, "{\"id\":1,\"end\":\"ok\",\"digest\":\"d2\",\"unchanged\":true}", MIB},
                {{"{\"part\":0,\"last\":true}"}, "{\"id\":1,\"end\":\"ok\",\"digest\":\"d1\",\"unchanged\":true}", MIB},
                {{"{\"part\":0,\"last\":true}"}, "{\"id\":1,\"end\":\"ok\"}", MIB},
                {{"{\"part\":0,\"last\":true}"}, "{\"id\":1,\"end\":\"ok\",\"digest\":\"\"}", MIB},
                {{"{\"part\":0,\"last\":true}"}, "{\"id\":1,\"end\":\"ok\",\"digest\":\"a\\u0000b\"}", MIB},
                {{"{\"part\":0,\"last\":true}"}, "{\"id\":1,\"end\":\"ok\",\"digest\":\"a/../b\"}", MIB},
                {{"{\"part\":0,\"last\":true}"}, "{\"id\":1,\"end\":\"ok\",\"digest\":\"d\",\"variables\":-1}", MIB},
                {{"{\"part\":0,\"last\":true}"}, "{\"id\":1,\"end\":\"ok\",\"digest\":\"d\",\"unsaved\":{}}", MIB},
                {{"{\"part\":0,\"last\":true}"}, "{\"id\":1,\"end\":\"ok\",\"digest\":\"d\",\"unsaved\":[1]}", MIB},
                {{"{\"part\":0,\"last\":true}"},
                 "{\"id\":1,\"end\":\"ok\",\"digest\":\"d\",\"unsaved\":[{\"name\":\"n\",\"type\":1,\"reason\":\"\"}]}",
                 MIB},
                {{"{\"part\":0,\"last\":true}"}, "{\"id\":1,\"end\":\"ok\",\"digest\":\"d\",\"files\":[]}", MIB},
                {{"{\"part\":0,\"last\":true}"}, "{\"id\":1,\"end\":\"ok\",\"digest\":\"d\",\"names\":[1]}", MIB},
                {{"{\"part\":0,\"last\":true}"}, "{\"end\":\"ok\"}", MIB},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *told = NULL;
                struct talk talk;

                begin(&talk);
                for (size_t frame = 0; frame < 2 && cases[i].state[frame] != NULL; frame++)
                        add(&talk, SBX_FRAME_STATE, cases[i].state[frame], "x", 1);
                add(&talk, SBX_FRAME_RESULT, cases[i].result, NULL, 0);
                if (save(&talk, cases[i].max_bytes, "d1", &told) != -EPROTO)
                        fail_msg("case %zu: %s", i, talk.err.message);
                assert_contains(talk.err.message, "protocol");
                assert_null(told);
                assert_false(sbx_guest_alive(talk.guest));
                end(&talk);
        }
}

static void more_parts_than_there_may_be(void **state) {
        json_t *told = NULL;
        struct talk talk;
        char json[64];

        begin(&talk);
        talk.answer = -EIO; /* none is kept */
        for (unsigned part = 0; part <= SBX_GUEST_PARTS_MAX; part++) {
                snprintf(json, sizeof(json), "{\"part\":%u,\"last\":true}", part);
                add(&talk, SBX_FRAME_STATE, json, NULL, 0);
        }
        assert_int_equal(save(&talk, MIB, NULL, &told), -EPROTO);
        end(&talk);
}

static void a_guest_that_says_nothing(void **state) {
        json_t *told = NULL;
        struct talk talk;

        begin(&talk);
        talk.script.open = true;
        add(&talk, SBX_FRAME_STATE, "{\"part\":0,\"last\":false}", "ab", 2);
        assert_int_equal(save(&talk, MIB, NULL, &told), -ETIMEDOUT);
        assert_false(sbx_guest_alive(talk.guest));
        end(&talk);
}

/* What is long is cut, at a character; what is much is not listed. */
static void long_accounts(void **state) {
        struct sbx_buffer result = SBX_BUFFER(MIB);
        json_t *told = NULL, *list;
        struct talk talk;

        assert_return_code(sbx_buffer_append_text(&result, "{\"id\":1,\"end\":\"ok\",\"digest\":\"d\",\"unsaved\":["),
                           0);
        for (int i = 0; i < 300; i++)
                assert_return_code(sbx_buffer_printf(&result, "%s{\"name\":\"n%d\",\"type\":\"t\",\"reason\":\"%s\"}",
                                                     i > 0 ? "," : "", i, i == 0 ? "" : "r"),
                                   0);
        assert_return_code(sbx_buffer_append_text(&result, "]}"), 0);
        begin(&talk);
        add(&talk, SBX_FRAME_STATE, "{\"part\":0,\"last\":true}", "x", 1);
        add(&talk, SBX_FRAME_RESULT, result.data, NULL, 0);
        assert_int_equal(save(&talk, MIB, NULL, &told), 0);
        list = json_object_get(told, "unsaved");
        assert_int_equal(json_array_size(list), 200);
        json_decref(told);
        end(&talk);
        sbx_buffer_free(&result);
}

static void long_texts(void **state) {
        struct sbx_buffer result = SBX_BUFFER(MIB);
        json_t *told = NULL;
        const char *reason;
        struct talk talk;

        assert_return_code(sbx_buffer_append_text(&result, "{\"id\":1,\"end\":\"ok\",\"digest\":\"d\",\"unsaved\":[{"
                                                           "\"name\":\"n\",\"type\":\"t\",\"reason\":\"."),
                           0);
        for (int i = 0; i < 1000; i++)
                assert_return_code(sbx_buffer_append_text(&result, "\xe2\x82\xac"), 0);
        assert_return_code(sbx_buffer_append_text(&result, "\"}]}"), 0);
        begin(&talk);
        add(&talk, SBX_FRAME_STATE, "{\"part\":0,\"last\":true}", "x", 1);
        add(&talk, SBX_FRAME_RESULT, result.data, NULL, 0);
        assert_int_equal(save(&talk, MIB, NULL, &told), 0);
        reason = json_string_value(json_object_get(json_array_get(json_object_get(told, "unsaved"), 0), "reason"));
        assert_int_equal(strlen(reason), 1024);
        assert_string_equal(reason + 1024 - 3, "\xe2\x82\xac");
        json_decref(told);
        end(&talk);
        sbx_buffer_free(&result);
}

/* ---- restoring ---- */

static int restore(struct talk *talk, json_t **ret_told) {
        static char large[20 << 20]; /* more than one frame has */
        const struct sbx_bytes parts[] = {{"abc", 3}, {NULL, 0}, {large, sizeof(large)}};
        struct sbx_call call = {
                .struct_size = sizeof(call), .cancel_fd = -1, .deadline_ns = sbx_clock_deadline_ms(200)};

        start(talk);
        return sbx_guest_restore_portable(talk->guest, parts, 3, &call, ret_told, &talk->err);
}

static void restored(void **state) {
        json_t *told = NULL;
        struct talk talk;

        begin(&talk);
        talk.script.open = true;
        add(&talk, SBX_FRAME_RESULT,
            "{\"id\":1,\"end\":\"ok\",\"variables\":2,\"names\":[\"a\",\"b\"],"
            "\"missing\":[{\"name\":\"c\",\"type\":\"t\",\"reason\":\"r\"}]}",
            NULL, 0);
        assert_int_equal(restore(&talk, &told), 0);
        assert_int_equal(json_array_size(json_object_get(told, "missing")), 1);
        assert_int_equal(json_array_size(sbx_guest_names(talk.guest)), 2);
        json_decref(told);
        end(&talk);
}

static void a_guest_that_does_not_read(void **state) {
        json_t *told = NULL;
        struct talk talk;

        begin(&talk);
        talk.script.open = true;
        assert_int_equal(restore(&talk, &told), -ETIMEDOUT);
        assert_false(sbx_guest_alive(talk.guest));
        end(&talk);
}

static void lies_about_what_came_back(void **state) {
        static const char *const cases[] = {"{\"id\":1,\"end\":\"ok\",\"missing\":5}",
                                            "{\"id\":1,\"end\":\"ok\",\"names\":5}",
                                            "{\"id\":1,\"end\":\"ok\",\"variables\":\"x\"}", "{\"id\":1}", "x"};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *told = NULL;
                struct talk talk;

                begin(&talk);
                talk.script.open = true;
                add(&talk, SBX_FRAME_RESULT, cases[i], NULL, 0);
                assert_int_equal(restore(&talk, &told), -EPROTO);
                assert_false(sbx_guest_alive(talk.guest));
                end(&talk);
        }
}

static void workers_that_can_not(void **state) {
        const struct sbx_guest_portable request = {.max_bytes = MIB};
        struct talk talk = {.stream = SBX_BUFFER(MIB)};
        json_t *told = NULL;

        script_backend_init(&talk.script);
        talk.script.open = true;
        add(&talk, SBX_FRAME_READY,
            "{\"protocol\":1,\"runtime\":\"node\",\"version\":\"1\",\"features\":[1,\"files\"]}", NULL, 0);
        start(&talk);
        assert_false(sbx_guest_portable(talk.guest));
        assert_int_equal(sbx_guest_save_portable(talk.guest, &request, NULL, &told, &talk.err), -ENOTSUP);
        assert_contains(talk.err.message, "node");
        memset(&talk.err, 0, sizeof(talk.err));
        assert_int_equal(sbx_guest_restore_portable(talk.guest, NULL, 0, NULL, &told, &talk.err), -ENOTSUP);
        end(&talk);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(parts_in_pieces),
                cmocka_unit_test(a_known_state_has_no_parts),
                cmocka_unit_test(who_takes_the_parts_may_end_it),
                cmocka_unit_test(what_the_guest_refuses),
                cmocka_unit_test(lies),
                cmocka_unit_test(more_parts_than_there_may_be),
                cmocka_unit_test(a_guest_that_says_nothing),
                cmocka_unit_test(long_accounts),
                cmocka_unit_test(long_texts),
                cmocka_unit_test(restored),
                cmocka_unit_test(a_guest_that_does_not_read),
                cmocka_unit_test(lies_about_what_came_back),
                cmocka_unit_test(workers_that_can_not),
        };

        return cmocka_run_group_tests_name("guest portable", tests, NULL, NULL);
}
