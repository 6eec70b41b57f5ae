/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation in which each allocation in turn fails: no crash, no leak, and every request is answered or the server
 * says that it has no memory. Linked with wrapped malloc, calloc and realloc; jansson is told to use the same. */
#include "client.h"
#include "failing_alloc.h"
#include "subscriptions.h"

static long failing = -1; /* how many allocations succeed before one fails; negative: all do */
static bool failed;

static bool fail_now(void) {
        if (failing < 0 || failing-- > 0)
                return false;
        failed = true;
        return true;
}

struct count {
        size_t responses, bytes;
};

static void count_response(void *data, const struct mcp_outgoing *message) {
        struct count *sent = data;

        sent->responses += message->kind == MCP_OUT_RESPONSE;
        for (size_t i = 0; i < message->count; i++)
                sent->bytes += message->parts[i].size;
}

static const char *const lines[] = {
        MODERN("0", "server/discover", ""),
        MODERN("1", "tools/list", ""),
        MODERN("2", "tools/call", ",\"name\":\"echo\",\"arguments\":{\"a\":[1,2,3]}"),
        MODERN("3", "subscriptions/listen",
               ",\"notifications\":{\"resourceSubscriptions\":[\"a\",\"b\"],\"toolsListChanged\":true}"),
        MODERN("4", "nothing", ""),
        J "\"id\":4,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
          "\"io.modelcontextprotocol/protocolVersion\":\"2\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
        J "\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-03-26\"}}",
        J "\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-03-26\"}}",
        REQUEST("2", "tools/list", ""),
        REQUEST("2", "prompts/list", ""),
        REQUEST("\"three\"", "tools/call",
                "\"name\":\"echo\",\"arguments\":{\"a\":[1,2,3]},\"_meta\":{\"progressToken\":\"t\"}"),
        CALL("4", ""),
        J "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":4}}",
        REQUEST("5", "resources/subscribe", "\"uri\":\"u\""),
        REQUEST("6", "completion/complete",
                "\"ref\":{\"type\":\"ref/prompt\",\"name\":\"p\"},\"argument\":{\"name\":\"a\",\"value\":\"\"}"),
        J "\"id\":5,\"method\":\"unknown\",\"method\":\"unknown\"}",
        "rubbish",
        "[" J "\"id\":6,\"method\":\"ping\"}," CALL("7", "") "]",
};
/* All requests but the cancelled call and the subscription, which has its end. The batch is one. */
#define RESPONSES (sizeof(lines) / sizeof(lines[0]) - 2)

static void end_all(struct sbx_host_state *fake) {
        static const char link[] = "{\"content\":[{\"type\":\"resource_link\",\"uri\":\"u\",\"name\":\"n\"}]}";

        for (size_t i = 0; i < fake->task_count; i++) {
                fake_host_progress(fake, i, 1, 2, "message");
                fake_host_end(fake, i, 0, link);
        }
}

static void converse_on(struct mcp_connection *connection, struct mcp_server *server, struct sbx_host_state *fake,
                        struct mcp_channel *channel) {
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
                mcp_connection_receive(connection, text_bytes(lines[i]), channel);
        end_all(fake);
        mcp_subscriptions_stop(mcp_server_subscriptions(server));
        mcp_connection_cancel(connection);
        mcp_connection_wait(connection);
}

/* Returns whether an allocation failed. */
static bool converse(long allocations, struct count *sent) {
        struct mcp_channel channel = {.data = sent, .send = count_response};
        struct client *client = client_make();
        struct mcp_connection *connection = NULL;

        client->settings.calls_max = 8;
        failed = false;
        failing = allocations;
        if (mcp_server_new(&client->settings, &client->server, NULL) == 0 &&
            mcp_connection_new(client->server, MCP_CONNECTION_STREAM, "", &connection, NULL) == 0)
                converse_on(connection, client->server, &client->fake, &channel);
        failing = -1;
        mcp_connection_free(connection);
        if (client->server != NULL)
                mcp_server_stop(client->server);
        mcp_server_free(client->server);
        fake_host_check(&client->fake);
        fake_host_free(&client->fake);
        pthread_mutex_destroy(&client->lock);
        free(client);
        return failed;
}

static void test_sweep(void **test) {
        struct count all = {0, 0}, some;
        long allocations = 0;

        assert_false(converse(-1, &all));
        assert_int_equal(all.responses, RESPONSES);
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

        for (long i = 20; i < 400; i++) {
                sent = (struct count){0, 0};
                (void)converse(i, &sent);
                assert_in_range(sent.responses, RESPONSES - 2, RESPONSES + 2);
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
