/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the engine's client that read what others wrote: heads and bodies of answers, streams of JSON, names. */
#include <stdlib.h>

#include "test.h"

#include "engine_internal.h"
#include "http_internal.h"

/* Every piece of an answer, in memory of just that size, so that a byte read beyond it is seen by the sanitizers. */
static int read_head(const char *text, size_t size, struct http_head *ret_head) {
        char *copy = malloc(size + (size == 0));
        int r;

        assert_non_null(copy);
        memcpy(copy, text, size);
        r = http_head_read(copy, size, ret_head);
        free(copy);
        return r;
}

static void test_heads(void **state) {
        static const struct {
                const char *text;
                int result;
                unsigned status;
                bool chunked;
                uint64_t length;
        } cases[] = {
                {"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\n\r\n", 1, 101, false, UINT64_MAX},
                {"HTTP/1.0 200\r\n\r\n", 1, 200, false, UINT64_MAX},
                {"HTTP/1.1 404 Not Found\r\ncontent-LENGTH: \t12 \r\n\r\n", 1, 404, false, 12},
                {"HTTP/1.1 500 x\r\nTransfer-Encoding:CHUNKED\r\n\r\n", 1, 500, true, UINT64_MAX},
                {"HTTP/1.1 200 x\r\nContent-Length: 4294967295\r\n\r\n", 1, 200, false, UINT32_MAX},
                {"HTTP/1.1 200 x\r\nContent-Length-X: z\r\nNo colon\r\n\r\n", 1, 200, false, UINT64_MAX},
                {"HTTP/1.1 200 x\r\nContent-Length:\r\n\r\n", -EPROTO, 0, false, 0},
                {"HTTP/1.1 200 x\r\nContent-Length: 0x10\r\n\r\n", -EPROTO, 0, false, 0},
                {"HTTP/1.1 200 x\r\nContent-Length: 99999999999999999999\r\n\r\n", -EPROTO, 0, false, 0},
                {"HTTP/1.1 200 x\r\nTransfer-Encoding: gzip\r\n\r\n", -EPROTO, 0, false, 0},
                {"HTTP/1.1 2000 x\r\n\r\n", -EPROTO, 0, false, 0},
                {"HTTP/1.1 600 x\r\n\r\n", -EPROTO, 0, false, 0},
                {"HTTP/1.1 099 x\r\n\r\n", -EPROTO, 0, false, 0},
                {"HTTP/1.1  20\r\n\r\n", -EPROTO, 0, false, 0},
                {"HTTP/2 200 x\r\n\r\n", -EPROTO, 0, false, 0},
                {"\r\n\r\n", -EPROTO, 0, false, 0},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                size_t size = strlen(cases[i].text);
                struct http_head head = {0};

                assert_int_equal(read_head(cases[i].text, size, &head), cases[i].result);
                if (cases[i].result < 0)
                        continue;
                assert_int_equal(head.status, cases[i].status);
                assert_int_equal(head.size, size);
                assert_int_equal(head.chunked, cases[i].chunked);
                assert_true(head.length == cases[i].length);
                for (size_t part = 0; part < size; part++)
                        assert_int_equal(read_head(cases[i].text, part, &head), 0);
        }
}

static void test_heads_without_end(void **state) {
        char *text = malloc(HTTP_HEAD_MAX);
        struct http_head head;

        assert_non_null(text);
        memset(text, 'x', HTTP_HEAD_MAX);
        assert_int_equal(http_head_read(text, HTTP_HEAD_MAX - 1, &head), 0);
        assert_int_equal(http_head_read(text, HTTP_HEAD_MAX, &head), -EPROTO);
        free(text);
}

/* Whole or not, what came of the body so far is there, and it is never more. */
static void test_bodies(void **state) {
        static const struct {
                struct http_head head;
                const char *text, *body;
                bool whole;
        } cases[] = {
                {{.length = 5}, "hello", "hello", true},
                {{.length = 5}, "hello, and more", "hello", true},
                {{.length = 5}, "hell", "hell", false},
                {{.length = 0}, "", "", true},
                {{.length = UINT64_MAX}, "until the end", "until the end", false},
                {{.chunked = true}, "5\r\nhello\r\n1;name=value\r\n!\r\n0\r\n\r\n", "hello!", true},
                {{.chunked = true}, "0\r\n", "", true},
                {{.chunked = true}, "A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n", "0123456789", true},
                {{.chunked = true}, "5\r\nhel", "hel", false},
                {{.chunked = true}, "5\r\nhello", "hello", false},
                {{.chunked = true}, "5\r\nhello\r", "hello", false},
                {{.chunked = true}, "5\r\nhello\r\n", "hello", false},
                {{.chunked = true}, "5\r\nhello\r\n5", "hello", false},
                {{.chunked = true}, "FFFFFFFF\r\nhello", "hello", false},
                {{.chunked = true}, "FFFFFFFFFFFFFFFF\r\nhello", "", false},
                {{.chunked = true}, "-1\r\nhello", "", false},
                {{.chunked = true}, "\r\nhello", "", false},
                {{.chunked = true}, "zz\r\nhello", "", false},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                size_t size = strlen(cases[i].text), taken = SIZE_MAX;
                char *in = malloc(size + 1), *out = malloc(size + 1);

                assert_non_null(in);
                assert_non_null(out);
                memcpy(in, cases[i].text, size);
                in = realloc(in, size + (size == 0));
                out = realloc(out, size + (size == 0));
                assert_int_equal(http_body_read(&cases[i].head, in, size, out, &taken), cases[i].whole);
                assert_int_equal(taken, strlen(cases[i].body));
                assert_memory_equal(out, cases[i].body, taken);
                free(in);
                free(out);
        }
}

struct heard {
        unsigned count, stop_after;
        char text[256];
};

static int hear(void *data, const json_t *item) {
        struct heard *heard = data;
        char *text = json_dumps(item, JSON_COMPACT | JSON_SORT_KEYS);

        assert_non_null(text);
        assert_true(strlen(heard->text) + strlen(text) < sizeof(heard->text));
        memcpy(heard->text + strlen(heard->text), text, strlen(text) + 1);
        free(text);
        return ++heard->count == heard->stop_after ? -EXDEV : 0;
}

static int feed(struct engine_items *items, const char *text, size_t size, size_t step) {
        int r = 0;

        for (size_t at = 0; r == 0 && at < size; at += step)
                r = engine_items_take(items, (struct sbx_bytes){text + at, size - at < step ? size - at : step});
        return r;
}

static void test_items(void **state) {
        static const char text[] = " {\"a\":\"}\\\\\\\"{[\"}\r\n{}\n{\"b\":[[],{\"c\":[1]}]}";

        for (size_t step = 1; step <= sizeof(text); step++) {
                struct heard heard = {.count = 0};
                struct engine_items items = {.item = hear, .data = &heard};

                assert_int_equal(feed(&items, text, sizeof(text) - 1, step), 0);
                assert_true(engine_items_whole(&items));
                assert_int_equal(heard.count, 3);
                assert_string_equal(heard.text, "{\"a\":\"}\\\\\\\"{[\"}{}{\"b\":[[],{\"c\":[1]}]}");
                engine_items_clear(&items);
        }
}

static void test_items_that_are_none(void **state) {
        static const char *const bad[] = {"[]", "x",       "\"a\"",       "1", "}", "{}]", "{\"a\":1,\"a\":2}",
                                          "{]", "{\"a\"}", "{\"\xff\":1}"};

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct heard heard = {.count = 0};
                struct engine_items items = {.item = hear, .data = &heard};

                assert_int_equal(feed(&items, bad[i], strlen(bad[i]), 1), -EPROTO);
                assert_int_equal(items.stopped, 0);
                engine_items_clear(&items);
        }
}

static void test_items_have_a_maximum(void **state) {
        static const char begin[] = "{\"a\":\"", blank[] = "                                ";
        struct heard heard = {.count = 0};
        struct engine_items items = {.item = hear, .data = &heard};
        size_t fed = 0;
        int r = feed(&items, begin, sizeof(begin) - 1, 1);

        for (; r == 0 && fed <= 2 * ENGINE_ITEM_MAX; fed += sizeof(blank) - 1)
                r = feed(&items, blank, sizeof(blank) - 1, sizeof(blank) - 1);
        assert_int_equal(r, -EFBIG);
        assert_true(fed <= ENGINE_ITEM_MAX);
        assert_true(items.capacity <= ENGINE_ITEM_MAX);
        assert_false(engine_items_whole(&items));
        engine_items_clear(&items);
}

static void test_whoever_listens_may_stop(void **state) {
        struct heard heard = {.stop_after = 2};
        struct engine_items items = {.item = hear, .data = &heard};

        assert_int_equal(feed(&items, "{}{}{}", 6, 6), -EXDEV);
        assert_int_equal(items.stopped, -EXDEV);
        assert_int_equal(heard.count, 2);
        engine_items_clear(&items);
}

static void test_escape(void **state) {
        char text[32] = "/images/";

        assert_int_equal(engine_escape(text, sizeof(text), "a/b:c~\xc3\xa9?"), 0);
        assert_string_equal(text, "/images/a%2Fb%3Ac~%C3%A9%3F");
        for (size_t size = 1; size < 12; size++) {
                char *small = calloc(1, size);

                assert_non_null(small);
                assert_int_equal(engine_escape(small, size, "a/b/c/de"),
                                 size > strlen("a%2Fb%2Fc%2Fde") ? 0 : -ENAMETOOLONG);
                assert_true(strlen(small) < size);
                free(small);
        }
}

static void test_bounds(void **state) {
        const struct engine engine = {.timeout_ms = 1000};
        const struct sbx_call near = {.struct_size = sizeof(near), .cancel_fd = 7, .deadline_ns = 5};
        struct sbx_call far = {.struct_size = sizeof(far), .cancel_fd = -1};
        struct sbx_call bound = engine_bound(&engine, NULL, 0);
        uint64_t now = monotonic_ns();

        assert_int_equal(bound.cancel_fd, -1);
        assert_true(bound.deadline_ns > now - ENGINE_NS_PER_MS * 1000 &&
                    bound.deadline_ns <= now + ENGINE_NS_PER_MS * 1000);
        bound = engine_bound(&engine, &near, 0);
        assert_int_equal(bound.cancel_fd, 7);
        assert_true(bound.deadline_ns == 5);
        assert_true(engine_bound(&engine, &near, UINT64_MAX).deadline_ns == 5);
        assert_true(engine_bound(&engine, NULL, UINT64_MAX).deadline_ns == 0);
        assert_true(engine_bound(&engine, NULL, UINT64_MAX - 1).deadline_ns == 0); /* beyond all clocks */
        far.deadline_ns = now + 3600 * UINT64_C(1000000000);
        assert_true(engine_bound(&engine, &far, 0).deadline_ns < far.deadline_ns);
        assert_true(engine_bound(&engine, &far, UINT64_MAX).deadline_ns == far.deadline_ns);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_heads),
                cmocka_unit_test(test_heads_without_end),
                cmocka_unit_test(test_bodies),
                cmocka_unit_test(test_items),
                cmocka_unit_test(test_items_that_are_none),
                cmocka_unit_test(test_items_have_a_maximum),
                cmocka_unit_test(test_whoever_listens_may_stop),
                cmocka_unit_test(test_escape),
                cmocka_unit_test(test_bounds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
