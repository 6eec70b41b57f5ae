/* SPDX-License-Identifier: Apache-2.0 */
/* A client for tests. */
#include "client.h"

#include <poll.h>

static void record(void *data, const struct mcp_outgoing *message) {
        struct client *client = data;

        pthread_mutex_lock(&client->lock);
        for (size_t i = 0; i < message->count; i++)
                mcp_text_append(&client->sent, message->parts[i].data, message->parts[i].size);
        mcp_text_append(&client->sent, "\n", 1);
        pthread_mutex_unlock(&client->lock);
}

struct client *client_make(void) {
        struct client *client = calloc(1, sizeof(*client));

        assert_non_null(client);
        fake_host_init(&client->fake);
        client->settings = (struct mcp_settings){.host = &client->fake.services,
                                                 .calls_max = 4,
                                                 .tasks_max = 8,
                                                 .task_ttl_ms = 60000,
                                                 .waiting_max = 4,
                                                 .input_timeout_ms = 60000,
                                                 .page_size = 2};
        client->channel = (struct mcp_channel){.data = client, .send = record};
        client->sent = (struct mcp_text)MCP_TEXT(64 << 20);
        pthread_mutex_init(&client->lock, NULL);
        return client;
}

void client_open(struct client *client, enum mcp_connection_kind kind) {
        assert_int_equal(mcp_server_new(&client->settings, &client->server, NULL), 0);
        assert_int_equal(mcp_connection_new(client->server, kind, "somebody", &client->connection, NULL), 0);
        mcp_connection_set_channel(client->connection, &client->channel);
}

void client_close(struct client *client) {
        mcp_connection_cancel(client->connection);
        mcp_connection_wait(client->connection);
        mcp_connection_free(client->connection);
        mcp_server_stop(client->server);
        mcp_server_free(client->server);
        fake_host_check(&client->fake);
        fake_host_free(&client->fake);
        mcp_text_free(&client->sent);
        pthread_mutex_destroy(&client->lock);
        free(client);
}

int client_setup(void **test) {
        struct client *client = client_make();

        client_open(client, MCP_CONNECTION_STREAM);
        *test = client;
        return 0;
}

int client_teardown(void **test) {
        client_close(*test);
        return 0;
}

void client_receive(struct client *client, const char *text) {
        mcp_connection_receive(client->connection, text_bytes(text), &client->channel);
}

void client_initialize(struct client *client, const char *version) {
        char text[256];

        snprintf(text, sizeof(text),
                 J "\"id\":\"init\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"%s\"}}", version);
        client_receive(client, text);
        client_receive(client, J "\"method\":\"notifications/initialized\"}");
        mcp_text_append(&client->sent, "", 1);
        assert_non_null(strstr(client->sent.data, version));
        mcp_text_free(&client->sent);
}

void client_check_sent(struct client *client, const char *expected) {
        pthread_mutex_lock(&client->lock);
        mcp_text_append(&client->sent, "", 1);
        assert_string_equal(client->sent.data, expected);
        mcp_text_free(&client->sent);
        pthread_mutex_unlock(&client->lock);
}

void client_check_silent(struct client *client) {
        client_check_sent(client, "");
}

/* The first line of what was sent, without it from then on; NULL: there is none yet. */
static char *take_line(struct client *client) {
        const char *end;
        char *line = NULL;
        size_t size;

        pthread_mutex_lock(&client->lock);
        end = client->sent.size > 0 ? memchr(client->sent.data, '\n', client->sent.size) : NULL;
        if (end != NULL) {
                size = (size_t)(end - client->sent.data);
                line = strndup(client->sent.data, size);
                memmove(client->sent.data, end + 1, client->sent.size - size - 1);
                client->sent.size -= size + 1;
        }
        pthread_mutex_unlock(&client->lock);
        return line;
}

json_t *client_take(struct client *client) {
        char *line = NULL;
        json_t *message;

        for (int i = 0; i < 10000 && (line = take_line(client)) == NULL; i++)
                poll(NULL, 0, 1);
        if (line == NULL)
                fail_msg("nothing was sent");
        message = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        if (message == NULL)
                fail_msg("not a message: %s", line);
        free(line);
        return message;
}

void client_check_error(struct client *client, const char *id, int code, const char *words) {
        json_t *answer = client_take(client), *error = json_object_get(answer, "error");
        char *got = json_dumps(json_object_get(answer, "id"), JSON_ENCODE_ANY), *all = json_dumps(answer, 0);
        const char *message = json_string_value(json_object_get(error, "message"));

        assert_string_equal(got, id);
        assert_string_equal(json_string_value(json_object_get(answer, "jsonrpc")), "2.0");
        if (message == NULL || json_integer_value(json_object_get(error, "code")) != code ||
            strstr(message, words) == NULL)
                fail_msg("not %d \"%s\": %s", code, words, all);
        client_check_silent(client);
        free(got);
        free(all);
        json_decref(answer);
}
