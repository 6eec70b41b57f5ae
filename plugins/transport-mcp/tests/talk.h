/* SPDX-License-Identifier: Apache-2.0 */
/* A client that talks to a server over a made-up host, whose tools do what their arguments say: `steps` is a list of
 *
 *      ["ask", {key: request}]        asks the client
 *      ["task"]                       becomes a task, if it can
 *      ["progress", 1, "message"]     ["log", "info", any]     ["close", 100]
 *      ["gate"]                       waits for talk_open_gate, or until it is cancelled
 *      ["cancelled"]                  waits until it is cancelled
 *      ["end", -71, "text"]           ends with a status that is not 0
 *      ["result", {...}]              ends with this result
 *
 * A tool that comes to the end of its steps gives a text of what came of them: "task=1;ask=0:{...};". */
#pragma once

#include <jansson.h>
#include <semaphore.h>

#include "connection.h"
#include "directory.h"
#include "fake_host.h"

#define TALK_TOOLS                                                                                                     \
        "[{\"name\":\"free\"},{\"name\":\"needy\",\"execution\":{\"taskSupport\":\"required\"}},"                      \
        "{\"name\":\"able\",\"execution\":{\"taskSupport\":\"optional\"}}]"

/* 0 while the thread is in code of the plugin: there allocations may be made to fail. */
extern _Thread_local int talk_exempt;

struct talk {
        struct sbx_host_state fake;
        struct test_directory state;
        struct mcp_settings settings;
        struct mcp_server *server;
        struct mcp_connection *connection;
        struct mcp_channel channel;
        sem_t gate, at_gate;  /* `at_gate`: how often a tool has come to one */
        pthread_mutex_t lock; /* protects what follows */
        pthread_cond_t came;
        json_t *received; /* messages that nobody has taken yet */
        size_t taken, closed_streams;
};

/* A server, and a connection that speaks both eras, of the principal "token:a". */
struct talk *talk_new(void);
/* Ends it all, and checks that nothing is left. */
void talk_free(struct talk *talk);
/* Ends the server and begins another, with the same state directory. */
void talk_restart(struct talk *talk);
/* Another client of the same server; `principal` NULL: the same principal. Ended with talk_disconnect. */
struct mcp_connection *talk_connect(struct talk *talk, const char *principal);
void talk_disconnect(struct talk *talk, struct mcp_connection *connection);

void talk_say(struct talk *talk, const char *text);
void talk_say_on(struct talk *talk, struct mcp_connection *connection, const char *text);
/* A modern request: `params` are its members without the braces, and without _meta; `capabilities` a JSON object. */
void talk_request(struct talk *talk, struct mcp_connection *connection, int id, const char *method, const char *params,
                  const char *capabilities);
/* A legacy handshake with these capabilities. */
void talk_initialize(struct talk *talk, const char *version, const char *capabilities);

/* Waits for the answer to a request and takes it, or fails the test after 10 s; the caller has the reference. */
json_t *talk_answer(struct talk *talk, int id);
/* The same, or an answer to a request whose id could not be read, or (if `method` is not NULL) that message. */
json_t *talk_any(struct talk *talk, int id, const char *method);
/* The same for a request or notification of the server. */
json_t *talk_heard(struct talk *talk, const char *method);
/* What came and nobody took, of that id or method (either may be 0 or NULL). */
size_t talk_pending(struct talk *talk, int id, const char *method);
void talk_open_gate(struct talk *talk);

/* A member of an answer, by its path: "result/content/0/text". NULL: there is none. */
json_t *talk_at(const json_t *message, const char *path);
/* Checks a member against JSON text, and says what it is otherwise. */
void talk_check(const json_t *message, const char *path, const char *expected);
/* Waits for an answer, checks one member of it, and drops it. */
void talk_check_answer(struct talk *talk, int id, const char *path, const char *expected);
