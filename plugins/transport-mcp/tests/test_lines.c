/* SPDX-License-Identifier: Apache-2.0 */
/* The line reader: lines cut anywhere, lines at and beyond the maximum, and what it keeps in memory. */
#include "test.h"

#include <pthread.h>
#include <unistd.h>

#include "lines.h"

/* Feeds `text` in pieces of `step` bytes, and writes down what comes out: "[line]", "!" for a line too long. */
static void split(const char *text, size_t step, size_t max, char *ret, size_t size) {
        struct mcp_lines lines = MCP_LINES(max);
        size_t length = strlen(text), used = 0;
        struct sbx_bytes line = {NULL, 0};
        enum mcp_line kind;
        int fds[2];

        ret[0] = '\0';
        assert_int_equal(pipe(fds), 0);
        for (size_t i = 0; i <= length; i += step) {
                size_t count = length - i < step ? length - i : step;

                assert_int_equal(write(fds[1], text + i, count), count);
                if (count == 0 || i + count == length) {
                        close(fds[1]);
                        fds[1] = -1;
                }
                while (mcp_lines_read(&lines, fds[0]) > 0) {
                        while ((kind = mcp_lines_next(&lines, &line)) != MCP_LINE_NONE)
                                used += (size_t)snprintf(ret + used, size - used,
                                                         kind == MCP_LINE_WHOLE ? "[%.*s]" : "!", (int)line.size,
                                                         (const char *)line.data);
                        if (fds[1] >= 0)
                                break;
                }
                if (fds[1] < 0)
                        break;
        }
        while ((kind = mcp_lines_rest(&lines, &line)) != MCP_LINE_NONE)
                used += (size_t)snprintf(ret + used, size - used, "(%.*s)", (int)line.size, (const char *)line.data);
        close(fds[0]);
        mcp_lines_free(&lines);
}

static void test_split(void **test) {
        static const struct {
                const char *text, *expected;
        } cases[] = {
                {"", ""},
                {"\n", "[]"},
                {"a\nbc\n", "[a][bc]"},
                {"a\nbc", "[a](bc)"},
                {"12345678\n", "[12345678]"}, /* the maximum */
                {"123456789\n", "!"},
                {"123456789", "!"},
                {"x\n123456789abcdefghijklmnop\ny\n", "[x]![y]"},
                {"123456789\n123456789\nz", "!!(z)"},
        };
        char got[256];

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                for (size_t step = 1; step < 12; step++) {
                        split(cases[i].text, step, 8, got, sizeof(got));
                        if (strcmp(got, cases[i].expected) != 0)
                                fail_msg("\"%s\" by %zu: \"%s\"", cases[i].text, step, got);
                }
}

struct flood {
        int fd;
        size_t size;
};

static void *write_flood(void *data) {
        struct flood *flood = data;
        char block[65536];
        size_t left = flood->size;

        memset(block, 'x', sizeof(block));
        while (left > 0) {
                ssize_t count = write(flood->fd, block, left < sizeof(block) ? left : sizeof(block));

                if (count <= 0)
                        abort();
                left -= (size_t)count;
        }
        if (write(flood->fd, "\nend\n", 5) != 5)
                abort();
        close(flood->fd);
        return NULL;
}

/* 64 MiB in one line with a maximum of 1 MiB: told once, never kept; the next line is whole. */
static void test_flood(void **test) {
        struct mcp_lines lines = MCP_LINES(1 << 20);
        struct sbx_bytes line = {NULL, 0};
        struct flood flood = {-1, (size_t)64 << 20};
        size_t too_long = 0, whole = 0, largest = 0;
        enum mcp_line kind;
        pthread_t thread;
        int fds[2];

        assert_int_equal(pipe(fds), 0);
        flood.fd = fds[1];
        assert_int_equal(pthread_create(&thread, NULL, write_flood, &flood), 0);
        while (mcp_lines_read(&lines, fds[0]) > 0) {
                while ((kind = mcp_lines_next(&lines, &line)) != MCP_LINE_NONE) {
                        too_long += kind == MCP_LINE_TOO_LONG;
                        whole += kind == MCP_LINE_WHOLE;
                }
                if (lines.capacity > largest)
                        largest = lines.capacity;
        }
        pthread_join(thread, NULL);
        assert_int_equal(too_long, 1);
        assert_int_equal(whole, 1);
        assert_true(largest <= (1 << 20) + 65536);
        close(fds[0]);
        mcp_lines_free(&lines);
}

/* A large line that is allowed comes whole, and its memory goes when it has been handled. */
static void test_shrinks(void **test) {
        struct mcp_lines lines = MCP_LINES((size_t)32 << 20);
        struct sbx_bytes line = {NULL, 0};
        struct flood flood = {-1, (size_t)32 << 20};
        pthread_t thread;
        int fds[2];

        assert_int_equal(pipe(fds), 0);
        flood.fd = fds[1];
        assert_int_equal(pthread_create(&thread, NULL, write_flood, &flood), 0);
        while (mcp_lines_next(&lines, &line) == MCP_LINE_NONE)
                assert_true(mcp_lines_read(&lines, fds[0]) > 0);
        assert_int_equal(line.size, flood.size);
        pthread_join(thread, NULL);
        while (mcp_lines_read(&lines, fds[0]) > 0)
                ;
        assert_int_equal(mcp_lines_next(&lines, &line), MCP_LINE_WHOLE);
        assert_int_equal(line.size, 3);
        assert_int_equal(mcp_lines_read(&lines, fds[0]), 0);
        assert_int_equal(lines.capacity, 65536);
        close(fds[0]);
        mcp_lines_free(&lines);
}

static void test_errors(void **test) {
        struct mcp_lines lines = MCP_LINES(100);

        assert_int_equal(mcp_lines_read(&lines, -1), -EBADF);
        mcp_lines_free(&lines);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_split),
                cmocka_unit_test(test_flood),
                cmocka_unit_test(test_shrinks),
                cmocka_unit_test(test_errors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
