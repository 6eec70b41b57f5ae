/* SPDX-License-Identifier: Apache-2.0 */
/* file_read: results and limits. */
#include "files_bench.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static void test_read(void **state) {
        struct bench *bench = *state;

        put_text(bench, "root/a.txt", "one\ntwo\nthree\nfour");
        assert_true(read_path(bench, at(bench, "root/a.txt")));
        assert_string_equal(text_of(bench, "content"), "one\ntwo\nthree\nfour");
        assert_string_equal(text_of(bench, "path"), at(bench, "root/a.txt"));
        assert_int_equal(number_of(bench, "start_line"), 1);
        assert_int_equal(number_of(bench, "end_line"), 4);
        assert_int_equal(number_of(bench, "total_lines"), 4);
        assert_false(is_true(bench, "truncated"));
        assert_null(json_object_get(bench->report, "line_cut"));
        assert_int_equal(json_object_size(bench->report), 6);
}

static void test_read_lines(void **state) {
        static const struct {
                int start, end, most; /* 0: left out */
                const char *content;
                int first, last;
                bool truncated;
        } cases[] = {
                {2, 3, 0, "2\n3\n", 2, 3, true},  {0, 0, 2, "1\n2\n", 1, 2, true},   {4, 0, 0, "4\n5\n", 4, 5, false},
                {-5, 2, 0, "1\n2\n", 1, 2, true}, {2, 100, 2, "2\n3\n", 2, 3, true}, {9, 0, 0, "", 9, 8, false},
                {4, 2, 0, "", 4, 3, true},        {5, 5, 0, "5\n", 5, 5, false},
        };
        struct bench *bench = *state;

        put_text(bench, "root/n", "1\n2\n3\n4\n5\n");
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *arguments = json_pack("{s:s}", "path", at(bench, "root/n"));

                if (cases[i].start != 0)
                        json_object_set_new(arguments, "start_line", json_integer(cases[i].start));
                if (cases[i].end != 0)
                        json_object_set_new(arguments, "end_line", json_integer(cases[i].end));
                if (cases[i].most != 0)
                        json_object_set_new(arguments, "max_lines", json_integer(cases[i].most));
                assert_true(call(bench, "file_read", arguments));
                assert_string_equal(text_of(bench, "content"), cases[i].content);
                assert_int_equal(number_of(bench, "start_line"), cases[i].first);
                assert_int_equal(number_of(bench, "end_line"), cases[i].last);
                assert_int_equal(number_of(bench, "total_lines"), 5);
                assert_int_equal(is_true(bench, "truncated"), cases[i].truncated);
        }
        assert_true(call(bench, "file_read",
                         json_pack("{s:s, s:I, s:I}", "path", at(bench, "root/n"), "start_line", (json_int_t)INT64_MAX,
                                   "end_line", (json_int_t)INT64_MIN)));
}

static void test_read_bytes_of_any_kind(void **state) {
        struct bench *bench = *state;

        put(bench, "root/b",
            "a\xff"
            "b\0c\r\n\xe2\x82\xac\xe2\x82",
            12);
        assert_true(read_path(bench, at(bench, "root/b")));
        assert_int_equal(json_string_length(json_object_get(bench->report, "content")), 15);
        assert_memory_equal(text_of(bench, "content"),
                            "a\xef\xbf\xbd"
                            "b\0c\r\n\xe2\x82\xac\xef\xbf\xbd",
                            15);
        put(bench, "root/empty", "", 0);
        assert_true(read_path(bench, at(bench, "root/empty")));
        assert_int_equal(number_of(bench, "total_lines"), 0);
        assert_int_equal(number_of(bench, "end_line"), 0);
        assert_false(is_true(bench, "truncated"));
}

/* What a model gets is whole JSON, whatever is in the file. */
static void test_read_within_the_text(void **state) {
        static const char *const units[] = {"x", "\"", "\n", "\x01", "\xe2\x82\xac", "\xff", "aaa\n"};
        struct bench *bench = *state;

        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
                size_t size = strlen(units[i]), count = 300000 / size;
                char *data = malloc(count * size);
                const char *text;

                assert_non_null(data);
                for (size_t j = 0; j < count; j++)
                        memcpy(data + j * size, units[i], size);
                put(bench, "root/big", data, count * size);
                free(data);
                assert_true(call(bench, "file_read",
                                 json_pack("{s:s, s:i}", "path", at(bench, "root/big"), "max_lines", 1000000)));
                assert_true(is_true(bench, "truncated"));
                assert_true(json_string_length(json_object_get(bench->report, "content")) > 4000);
                text = json_string_value(
                        json_object_get(json_array_get(json_object_get(bench->result, "content"), 0), "text"));
                assert_null(strstr(text, "[cut:"));
                /* A line that does not fit whole is there in part only if it is the first one. */
                assert_int_equal(is_true(bench, "line_cut"), strchr(units[i], '\n') == NULL);
        }
        bench->caller = SBX_CALLER_CODE;
        assert_true(
                call(bench, "file_read", json_pack("{s:s, s:i}", "path", at(bench, "root/big"), "max_lines", 1000000)));
        assert_int_equal(json_string_length(json_object_get(bench->report, "content")), 300000);
        assert_false(is_true(bench, "truncated"));
}

/* Code takes a whole data file: 10 MB of lines in one result, and a larger one in pieces. */
static void test_read_for_code(void **state) {
        struct bench *bench = *state;
        size_t size = 24 * MIB, seen = 0;
        char *data = malloc(size);
        json_int_t line = 1;

        assert_non_null(data);
        for (size_t i = 0; i < size; i++)
                data[i] = i % 64 == 63 ? '\n' : i % 64 == 5 ? '"' : 'a';
        put(bench, "root/data.csv", data, 10 * MIB);
        bench->caller = SBX_CALLER_CODE;
        assert_true(call(bench, "file_read",
                         json_pack("{s:s, s:i}", "path", at(bench, "root/data.csv"), "max_lines", 1000000)));
        assert_int_equal(json_string_length(json_object_get(bench->report, "content")), 10 * MIB);
        assert_memory_equal(text_of(bench, "content"), data, 10 * MIB);
        assert_string_equal(json_string_value(json_object_get(
                                    json_array_get(json_object_get(bench->result, "content"), 0), "text")),
                            "lines 1 to 163840 of 163840");
        put(bench, "root/data.csv", data, size);
        do {
                size_t length;

                assert_true(call(bench, "file_read",
                                 json_pack("{s:s, s:i, s:I}", "path", at(bench, "root/data.csv"), "max_lines", 1000000,
                                           "start_line", line)));
                length = json_string_length(json_object_get(bench->report, "content"));
                assert_true(length <= 16 * MIB && length > 0);
                assert_memory_equal(text_of(bench, "content"), data + seen, length);
                seen += length;
                line = number_of(bench, "end_line") + 1;
        } while (is_true(bench, "truncated"));
        assert_int_equal(seen, size);
        free(data);
}

static void test_read_failures(void **state) {
        struct bench *bench = *state;
        int fd;

        assert_false(read_path(bench, at(bench, "root/none")));
        assert_contains(text_of(bench, "error"), "File not found");
        assert_true(json_is_null(json_object_get(bench->report, "content")));
        make_directory(bench, "root/d");
        assert_false(read_path(bench, at(bench, "root/d")));
        assert_contains(text_of(bench, "error"), "Not a file");
        put_text(bench, "root/f", "x");
        assert_false(read_path(bench, at(bench, "root/f/g")));
        assert_contains(text_of(bench, "error"), "not found");
        fd = open(at(bench, "root/huge"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(ftruncate(fd, ((off_t)1 << 30) + 1), 0); /* a hole: no space, all zeroes */
        close(fd);
        assert_false(read_path(bench, at(bench, "root/huge")));
        assert_contains(text_of(bench, "error"), "too large");
        /* Opening one of these would wait, or have effects. */
        assert_int_equal(mkfifo(at(bench, "root/fifo"), 0600), 0);
        assert_false(read_path(bench, at(bench, "root/fifo")));
        assert_contains(text_of(bench, "error"), "Not a file");
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        {
                struct sockaddr_un address = {.sun_family = AF_UNIX};

                snprintf(address.sun_path, sizeof(address.sun_path), "%s", at(bench, "root/socket"));
                assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        }
        assert_false(read_path(bench, at(bench, "root/socket")));
        close(fd);
}

static void test_a_cancelled_read(void **state) {
        struct bench *bench = *state;
        struct sbx_call call_that_ended = {.struct_size = sizeof(call_that_ended), .cancel_fd = -1, .deadline_ns = 1};
        struct sbx_tool_context context = {.principal = "", .caller = SBX_CALLER_MODEL, .call = &call_that_ended};
        struct sbx_buffer out = SBX_BUFFER(MIB);
        char arguments[256];

        put_text(bench, "root/a", "x\n");
        snprintf(arguments, sizeof(arguments), "{\"path\":\"%s\"}", at(bench, "root/a"));
        assert_int_equal(sbx_tools_call(bench->tools, "file_read", (struct sbx_bytes){arguments, strlen(arguments)},
                                        &context, &out, NULL),
                         0);
        assert_contains(out.data, "longer than it may");
        sbx_buffer_free(&out);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_read, setup, teardown),
                cmocka_unit_test_setup_teardown(test_read_lines, setup, teardown),
                cmocka_unit_test_setup_teardown(test_read_bytes_of_any_kind, setup, teardown),
                cmocka_unit_test_setup_teardown(test_read_within_the_text, setup, teardown),
                cmocka_unit_test_setup_teardown(test_read_for_code, setup, teardown),
                cmocka_unit_test_setup_teardown(test_read_failures, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_cancelled_read, setup, teardown),
        };

        return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
