/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation in which each allocation in turn fails: no crash, no leak, and every request is answered or the server
 * says that it has no memory. Linked with wrapped malloc, calloc and realloc; jansson is told to use the same. */
#include "test.h"

#include <jansson.h>

#include "connection.h"
#include "fake_host.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static long failing = -1; /* how many allocations succeed before one fails; negative: all do */
static bool failed;

static bool fail_now(void) {
        if (failing < 0 || failing-- > 0)
                return false;
        failed = true;
        return true;
}

void *__wrap_malloc(size_t size) {
        return fail_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
        return fail_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
        return fail_now() ? NULL : __real_realloc(old, size);
}

struct count {
        size_t responses, bytes;
};

static void count_response(void *data, const struct sbx_bytes *parts, size_t count, bool droppable) {
        struct count *sent = data;

        sent->responses += !droppable;
        for (size_t i = 0; i < count; i++)
                sent->bytes += parts[i].size;
}

#define J "{\"jsonrpc\":\"2.0\","

static const char *const lines[] = {
        J "\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-03-26\"}}",
        J "\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-03-26\"}}",
        J "\"id\":2,\"method\":\"tools/list\"}",
        J "\"id\":\"three\",\"method\":\"tools/call\",\"params\":{\"name\":\"echo\",\"arguments\":{\"a\":[1,2,3]},"
          "\"_meta\":{\"progressToken\":\"t\"}}}",
        J "\"id\":4,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"}}",
        J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":4}}",
        J "\"id\":5,\"method\":\"unknown\",\"method\":\"unknown\"}",
        "rubbish",
        "[" J "\"id\":6,\"method\":\"ping\"}," J "\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"}}]",
};

static void end_all(struct sbx_host_state *fake) {
        static const char link[] = "{\"content\":[{\"type\":\"resource_link\",\"uri\":\"u\",\"name\":\"n\"}]}";

        for (size_t i = 0; i < fake->task_count; i++) {
                if (fake->tasks[i].events.progress != NULL)
                        fake_host_progress(fake, i, 1, 2, "message");
                fake_host_end(fake, i, 0, link);
        }
}

/* Returns whether an allocation failed. */
static bool converse(long allocations, struct count *sent) {
        struct mcp_connection *connection = NULL;
        struct sbx_host_state fake;
        struct mcp_settings settings = {&fake.services, "", 8};
        const struct mcp_channel channel = {sent, count_response};

        fake_host_init(&fake);
        failed = false;
        failing = allocations;
        if (mcp_connection_new(&settings, &connection, NULL) == 0) {
                for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
                        mcp_connection_receive(connection, text_bytes(lines[i]), &channel);
                end_all(&fake);
                mcp_connection_wait(connection);
        }
        failing = -1;
        mcp_connection_free(connection);
        fake_host_check(&fake);
        fake_host_free(&fake);
        return failed;
}

static void test_sweep(void **test) {
        struct count all = {0, 0}, some;
        long allocations = 0;

        assert_false(converse(-1, &all));
        assert_int_equal(all.responses, 7);
        do
                some = (struct count){0, 0};
        while (converse(allocations++, &some) && allocations < 10000);
        assert_int_equal(some.responses, all.responses); /* the last round had all the memory it asked for */
        assert_int_equal(some.bytes, all.bytes);
        assert_in_range(allocations, 50, 9999);
}

/* One failure costs at most the message that it hits. */
static void test_goes_on(void **test) {
        struct count sent;

        for (long i = 2; i < 200; i++) {
                sent = (struct count){0, 0};
                (void)converse(i, &sent);
                assert_in_range(sent.responses, 5, 9);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sweep),
                cmocka_unit_test(test_goes_on),
        };

        json_set_alloc_funcs(__wrap_malloc, free);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
