/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what an MCP client can send: the input's lines go through decoding and dispatch, and every answer must be JSON
 * in one line. For libFuzzer (-Dfuzzers=true with clang); replay.c runs it on files. */
#include <jansson.h>
#include <stdlib.h>

#include "connection.h"
#include "fake_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_answer(void *data, const struct sbx_bytes *parts, size_t count, bool droppable) {
        struct mcp_text text = MCP_TEXT(256u << 20);
        json_t *answer;

        for (size_t i = 0; i < count; i++)
                mcp_text_append(&text, parts[i].data, parts[i].size);
        if (text.error != 0)
                return;
        answer = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        if (answer == NULL || memchr(text.data, '\n', text.size) != NULL)
                abort();
        json_decref(answer);
        mcp_text_free(&text);
}

/* Half the tools end at once, the others when the connection closes. */
static void receive_lines(struct mcp_connection *connection, struct sbx_host_state *fake, const uint8_t *data,
                          size_t size) {
        static const struct mcp_channel channel = {NULL, check_answer};

        while (size > 0) {
                const uint8_t *newline = memchr(data, '\n', size);
                size_t length = newline != NULL ? (size_t)(newline - data) : size;
                char *copy = malloc(length > 0 ? length : 1); /* so that reading beyond the line is seen */

                if (copy == NULL)
                        abort();
                memcpy(copy, data, length);
                fake->end_in_submit = length % 2 == 0;
                mcp_connection_receive(connection, (struct sbx_bytes){copy, length}, &channel);
                free(copy);
                length += newline != NULL;
                data += length;
                size -= length;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char initialize[] = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\","
                                         "\"params\":{\"protocolVersion\":\"2025-03-26\"}}";
        static const struct mcp_channel channel = {NULL, check_answer};
        struct mcp_connection *connection = NULL;
        struct sbx_host_state *fake = malloc(sizeof(*fake));
        struct mcp_settings settings;

        if (fake == NULL)
                abort();
        fake_host_init(fake);
        fake->end_on_cancel = true;
        settings = (struct mcp_settings){&fake->services, "", 8};
        if (mcp_connection_new(&settings, &connection, NULL) < 0)
                abort();
        if (size > 0 && data[0] != '!') /* an input that begins with '!' comes before the handshake */
                mcp_connection_receive(connection, (struct sbx_bytes){initialize, sizeof(initialize) - 1}, &channel);
        receive_lines(connection, fake, data, size);
        mcp_connection_cancel(connection);
        mcp_connection_wait(connection);
        mcp_connection_free(connection);
        fake_host_check(fake);
        fake_host_free(fake);
        free(fake);
        return 0;
}
