/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events, cut at every place. */
#include "test.h"

#include "sse.h"

struct heard {
        struct llm_text text; /* "name=data;" for each event */
        int answer;
};

static int hear(void *user, const char *name, struct llm_text *data) {
        struct heard *heard = user;

        llm_text_printf(&heard->text, "%s=", name);
        llm_text_append(&heard->text, data->data, data->size);
        llm_text_literal(&heard->text, ";");
        return heard->answer;
}

/* The same whatever pieces it comes in. */
static void expect(struct sbx_bytes stream, const char *events) {
        for (size_t piece = 1; piece <= stream.size; piece++) {
                struct heard heard = {.text = LLM_TEXT(1 << 16)};
                struct llm_sse sse;

                llm_sse_init(&sse, hear, &heard);
                for (size_t at = 0; at < stream.size; at += piece) {
                        size_t size = stream.size - at < piece ? stream.size - at : piece;

                        assert_int_equal(llm_sse_feed(&sse, (struct sbx_bytes){(const char *)stream.data + at, size}),
                                         0);
                }
                assert_int_equal(llm_sse_finish(&sse), 0);
                assert_string_equal(heard.text.size > 0 ? heard.text.data : "", events);
                llm_text_free(&heard.text);
                llm_sse_free(&sse);
        }
}

static void test_events(void **state) {
        expect(BYTES("data: one\n\ndata:two\n\n"), "=one;=two;");
        expect(BYTES("data: one\r\n\r\ndata: two\r\n\r\n"), "=one;=two;");
        expect(BYTES("data: one\r\rdata: two\r\r"), "=one;=two;");
        expect(BYTES("event: a\ndata: x\n\ndata: y\n\n"), "a=x;=y;");
        expect(BYTES("data: x\ndata:  y\ndata\n\n"), "=x\n y\n;");
        expect(BYTES(": comment\n\n:\nid: 3\nretry: 5\nodd: z\ndata: x\n\n"), "=x;");
        expect(BYTES("\xEF\xBB\xBF"
                     "data: x\n\n"),
               "=x;");
        expect(BYTES("event: nothing\n\n\n\n"), "");
        expect(BYTES("data: a:b: c\n\n"), "=a:b: c;");
}

static void test_the_end(void **state) {
        expect(BYTES("data: x\n"), "=x;"); /* only the empty line is missing */
        expect(BYTES("data: x\n\ndata: hal"), "=x;");
        expect(BYTES("data: x\n\ndata: [DONE]"), "=x;=[DONE];");
        expect(BYTES("\n"), "");
}

static void test_names_that_are_too_long(void **state) {
        char stream[256] = "event: ";

        memset(stream + 7, 'n', 100);
        memcpy(stream + 107, "\ndata: x\n\n", 11);
        expect((struct sbx_bytes){stream, strlen(stream)}, "=x;");
}

static void test_limits(void **state) {
        struct heard heard = {.text = LLM_TEXT(64)};
        char *piece = test_calloc(1, 1 << 20);
        struct llm_sse sse;
        int r = 0;

        memset(piece, 'x', 1 << 20);
        llm_sse_init(&sse, hear, &heard);
        for (int i = 0; i < 32 && r == 0; i++)
                r = llm_sse_feed(&sse, (struct sbx_bytes){piece, 1 << 20});
        assert_int_equal(r, -EFBIG); /* one line */
        llm_sse_free(&sse);

        llm_sse_init(&sse, hear, &heard);
        memcpy(piece, "data: ", 6);
        piece[(1 << 20) - 1] = '\n';
        for (int i = 0, done = 0; i < 32 && !done; i++) {
                r = llm_sse_feed(&sse, (struct sbx_bytes){piece, 1 << 20});
                done = r < 0;
        }
        assert_int_equal(r, -EFBIG); /* many lines of one event */
        llm_sse_free(&sse);
        test_free(piece);
        llm_text_free(&heard.text);
}

static void test_an_event_that_is_refused(void **state) {
        struct heard heard = {.text = LLM_TEXT(64), .answer = -EBADMSG};
        struct llm_sse sse;

        llm_sse_init(&sse, hear, &heard);
        assert_int_equal(llm_sse_feed(&sse, BYTES("data: x\n\ndata: y\n\n")), -EBADMSG);
        assert_string_equal(heard.text.data, "=x;");
        llm_sse_free(&sse);
        llm_text_free(&heard.text);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_events),
                cmocka_unit_test(test_the_end),
                cmocka_unit_test(test_names_that_are_too_long),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_an_event_that_is_refused),
        };

        return cmocka_run_group_tests_name("sse", tests, NULL, NULL);
}
