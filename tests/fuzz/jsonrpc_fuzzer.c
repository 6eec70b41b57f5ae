/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what an MCP client can send, in both eras: the input's lines go through decoding and dispatch, and every
 * answer must be JSON in one line. For libFuzzer (-Dfuzzers=true with clang); replay.c runs it on files.
 *
 * The first byte chooses the connection: '!' one that was not initialized, '?' one modern HTTP request after another,
 * else a legacy one that was. Some lines are the host's: "=JSON" what calls end with from then on, "#NAME" a change of
 * that resource, "#" one of all lists. */
#include <jansson.h>
#include <stdlib.h>

#include "connection.h"
#include "fake_host.h"
#include "subscriptions.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
        struct sbx_host_state fake;
        struct mcp_settings settings;
        struct mcp_server *server;
        struct mcp_connection *connection;
        char *result;
};

static void check_answer(void *data, const struct mcp_outgoing *message) {
        struct mcp_text text = MCP_TEXT(256u << 20);
        json_t *answer;

        for (size_t i = 0; i < message->count; i++)
                mcp_text_append(&text, message->parts[i].data, message->parts[i].size);
        if (text.error != 0)
                return;
        answer = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        if (answer == NULL || memchr(text.data, '\n', text.size) != NULL)
                abort();
        json_decref(answer);
        mcp_text_free(&text);
}

static struct mcp_channel channel = {.send = check_answer};

/* A host gives objects without a name twice, however it is written. */
static void set_result(struct world *world, const char *text) {
        json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

        if (json_is_object(value) && strstr(text, "\\u00") == NULL) {
                free(world->result);
                world->result = strdup(text);
                if (world->result == NULL)
                        abort();
                world->fake.submit_result = world->result;
        }
        json_decref(value);
}

static void change(struct world *world, const char *uri) {
        if (*uri != '\0') {
                fake_host_changed(&world->fake, SBX_CHANGE_RESOURCE, uri, NULL);
                return;
        }
        for (uint32_t kind = SBX_CHANGE_TOOLS; kind <= SBX_CHANGE_RESOURCES; kind++)
                fake_host_changed(&world->fake, kind, NULL, "");
}

/* Half the calls end at once, the others when the connection closes. `line` is exactly as long as it is, so that
 * reading beyond it is seen. */
static void take_line(struct world *world, const char *line, size_t size) {
        char *text;

        if (size == 0 || (*line != '=' && *line != '#')) {
                world->fake.end_in_submit = size % 2 == 0;
                mcp_connection_receive(world->connection, (struct sbx_bytes){line, size}, &channel);
                return;
        }
        text = strndup(line + 1, size - 1);
        if (text == NULL)
                abort();
        if (*line == '=')
                set_result(world, text);
        else
                change(world, text);
        free(text);
}

static void take_lines(struct world *world, const uint8_t *data, size_t size) {
        while (size > 0) {
                const uint8_t *newline = memchr(data, '\n', size);
                size_t length = newline != NULL ? (size_t)(newline - data) : size;
                char *copy = malloc(length > 0 ? length : 1);

                if (copy == NULL)
                        abort();
                memcpy(copy, data, length);
                take_line(world, copy, length);
                free(copy);
                length += newline != NULL;
                data += length;
                size -= length;
        }
}

static struct world *open_world(enum mcp_connection_kind kind) {
        struct world *world = calloc(1, sizeof(*world));

        if (world == NULL)
                abort();
        fake_host_init(&world->fake);
        world->fake.end_on_cancel = true;
        world->fake.prompts = "[{\"name\":\"p\",\"icons\":[],\"arguments\":[{\"name\":\"a\",\"title\":\"A\"}]},"
                              "{\"name\":\"q\"},{\"name\":\"r\"}]";
        world->settings = (struct mcp_settings){.host = &world->fake.services,
                                                .calls_max = 8,
                                                .tasks_max = 4,
                                                .task_ttl_ms = 1000,
                                                .waiting_max = 2,
                                                .input_timeout_ms = 1000,
                                                .page_size = 2};
        if (mcp_server_new(&world->settings, &world->server, NULL) < 0 ||
            mcp_connection_new(world->server, kind, "", &world->connection, NULL) < 0)
                abort();
        mcp_connection_set_channel(world->connection, &channel);
        return world;
}

static void close_world(struct world *world) {
        mcp_subscriptions_stop(mcp_server_subscriptions(world->server));
        mcp_connection_cancel(world->connection);
        mcp_connection_wait(world->connection);
        mcp_connection_free(world->connection);
        mcp_server_stop(world->server);
        mcp_server_free(world->server);
        fake_host_check(&world->fake);
        fake_host_free(&world->fake);
        free(world->result);
        free(world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char initialize[] = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\","
                                         "\"params\":{\"protocolVersion\":\"2025-03-26\"}}";
        char first = size > 0 ? (char)data[0] : ' ';
        struct world *world = open_world(first == '?' ? MCP_CONNECTION_REQUEST : MCP_CONNECTION_STREAM);

        if (first != '!' && first != '?')
                mcp_connection_receive(world->connection, (struct sbx_bytes){initialize, sizeof(initialize) - 1},
                                       &channel);
        else
                data++, size--;
        take_lines(world, data, size);
        close_world(world);
        return 0;
}
