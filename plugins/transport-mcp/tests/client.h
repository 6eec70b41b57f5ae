/* SPDX-License-Identifier: Apache-2.0 */
/* A client for tests: a server over the fake host, one connection to it, and all that was sent, one message a line. */
#pragma once

#include "test.h"

#include <jansson.h>

#include "connection.h"
#include "fake_host.h"

struct client {
        struct sbx_host_state fake;
        struct mcp_settings settings;
        struct mcp_server *server;
        struct mcp_connection *connection;
        struct mcp_channel channel;
        pthread_mutex_t lock; /* protects `sent` */
        struct mcp_text sent;
};

/* cmocka's: a STREAM connection of "somebody", at most 4 calls at once, 2 items a page. */
int client_setup(void **test);
int client_teardown(void **test);
/* The same by hand, for a test that wants other settings or another kind of connection: make, change, open. */
struct client *client_make(void);
void client_open(struct client *client, enum mcp_connection_kind kind);
void client_close(struct client *client);

void client_receive(struct client *client, const char *text);
/* `initialize` and `notifications/initialized`; the answer is passed over. */
void client_initialize(struct client *client, const char *version);

/* What was sent since the last check, all of it. */
void client_check_sent(struct client *client, const char *expected);
/* ... one answer with that id and error code, and a message that has `words`. */
void client_check_error(struct client *client, const char *id, int code, const char *words);
/* ... one message, parsed; the caller's. Waits for it, up to 10 s. */
json_t *client_take(struct client *client);
/* Nothing was sent. After something that a thread would send, wait for what it sends last instead. */
void client_check_silent(struct client *client);

#define J "{\"jsonrpc\":\"2.0\","
#define CALL(id, more) J "\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"" more "}}"
/* A legacy request, and a modern one; `params` begins with a comma, or is empty. */
#define REQUEST(id, method, params) J "\"id\":" id ",\"method\":\"" method "\",\"params\":{" params "}}"
#define META(capabilities)                                                                                             \
        "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                       \
        "\"io.modelcontextprotocol/clientCapabilities\":{" capabilities "}}"
#define MODERN(id, method, params) J "\"id\":" id ",\"method\":\"" method "\",\"params\":{" META("") params "}}"
/* What stands in every modern result. */
#define COMPLETE "\"resultType\":\"complete\","
#define SERVER                                                                                                         \
        "\"io.modelcontextprotocol/serverInfo\":{\"name\":\"SniparaSandbox\",\"title\":\"Snipara Sandbox\","           \
        "\"version\":\"" SBX_VERSION "\"}"
