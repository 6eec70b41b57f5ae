/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that make up a call: the request it answers now, what it asks, and its life as a task. */
#pragma once

#include <stdatomic.h>

#include "answers.h"
#include "connection_private.h"

struct mcp_call;
struct mcp_task;

/* ---- exchange.c: one request of a client that is not answered yet ---- */

/* It is on its connection's list while it can still be answered or cancelled; whoever takes it off (the end, a
 * question to a modern client, a task, a cancel) decides what is sent, so that exactly one of them does. */
struct mcp_exchange {
        struct mcp_connection *connection; /* lives until the last reference to the exchange is gone */
        struct mcp_target target;          /* with references */
        struct mcp_id id, token;           /* `token` is empty: the client wants no progress */
        uint32_t capabilities;
        int log_level; /* of a modern request's _meta */
        atomic_uint refs;

        /* Under the connection's lock. */
        struct mcp_exchange *next, *previous;
        struct mcp_call *call; /* with a reference; NULL: a retry that has not found its call yet */
        bool listed;

        /* Of the thread that runs the call. */
        bool progress_sent;
        double progress;
        uint64_t progress_due_ns, log_due_ns;
        size_t log_lines_lost;
};

/* Puts a request on its connection's list. `call` may be NULL: see mcp_exchange_attach. -EINVAL (the progress token),
 * -EEXIST (a request of this id is under way), -EBUSY, -ECANCELED (the connection ends), -ENOMEM. */
int mcp_exchange_new(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_meta *meta,
                     const struct mcp_target *target, struct mcp_call *call, struct mcp_exchange **ret_exchange,
                     struct sbx_error *err);
struct mcp_exchange *mcp_exchange_ref(struct mcp_exchange *exchange);
void mcp_exchange_unref(struct mcp_exchange *exchange); /* NULL is fine */
/* Takes it off the list; whether the caller is the one who answers. NULL: false. */
bool mcp_exchange_claim(struct mcp_exchange *exchange);
/* False: it was cancelled meanwhile. */
bool mcp_exchange_attach(struct mcp_exchange *exchange, struct mcp_call *call);
bool mcp_exchange_is_open(struct mcp_exchange *exchange);

/* ---- call.c ---- */

#define MCP_DIGEST_SIZE 65 /* hexadecimal */

struct mcp_call {
        struct mcp_server *server;
        const struct mcp_call_how *how;
        uint32_t kind; /* enum sbx_request_kind */
        char *name, *principal;
        json_t *params;               /* a copy, if the method wants one: JSON values are not shared between threads */
        char digest[MCP_DIGEST_SIZE]; /* of kind, name and arguments, where it may wait for input */
        atomic_uint refs;             /* the submitter, `done`, exchanges, and who looks at it at the moment */

        pthread_mutex_t lock;          /* protects what follows; a connection's lock may be taken under it */
        struct mcp_exchange *exchange; /* with a reference; NULL: attached to no request */
        struct mcp_task *record;       /* the task that it has become */
        struct sbx_tool_task *task;    /* NULL until the host has taken it */
        uint32_t capabilities;         /* of the request that it was attached to last */
        uint32_t lacking;              /* SBX_CLIENT_* bits that a question needed and the client has not */
        bool cancelled, ended;
        json_t *answers; /* {key: result}, what the client has answered; NULL: nothing */
        json_t *pending; /* {key: request}, what it is asked for now; NULL: nothing */
        int wake_fd;     /* an eventfd, readable when the thread that asks shall look; -1: it never asked */

        /* inputs.c, under the lock of mcp_waiting. */
        struct mcp_call *waiting_next, *asking_next;
        bool waiting;
        uint64_t round; /* how often it has asked; makes the state of an earlier round void */
        uint64_t waiting_until_ns;
        char waiting_id[MCP_RANDOM_ID_SIZE];
};

const struct sbx_host *mcp_call_host(const struct mcp_call *call);
struct mcp_call *mcp_call_ref(struct mcp_call *call);
void mcp_call_unref(struct mcp_call *call);
/* Asks the host to end it, and wakes it if it asks. `done` comes all the same. */
void mcp_call_end(struct mcp_call *call);
void mcp_call_wake(struct mcp_call *call);
/* The request that it is attached to, with a reference; NULL: none. */
struct mcp_exchange *mcp_call_exchange(struct mcp_call *call);
/* Gives the request to the caller, who answers it or not; NULL: it has none, or it was cancelled. */
struct mcp_exchange *mcp_call_detach(struct mcp_call *call);

/* Answers a request that did not become a call, or attach to one. */
void mcp_call_refuse(const struct mcp_message *message, const struct mcp_target *target, int status,
                     const struct sbx_error *err);

/* ---- call_news.c, call_ask.c, tasks.c: functions of struct sbx_client; `data` is the call ---- */

void mcp_call_progress(void *data, double progress, double total, const char *message);
void mcp_call_log(void *data, const char *level, const char *logger, struct sbx_bytes value);
void mcp_call_close_stream(void *data, uint32_t retry_ms);
int mcp_call_ask(void *data, struct sbx_bytes requests, const struct sbx_call *call, struct sbx_output *ret_responses,
                 struct sbx_error *err);
int mcp_call_become_task(void *data);

/* ---- call_ask.c ---- */

/* Waits until the call is woken: 0. -ETIMEDOUT (until_ns of the host's clock), -ECANCELED (`call`), what poll says. */
int mcp_call_sleep(struct mcp_call *call, const struct sbx_call *limits, uint64_t until_ns);
/* What the client answers to pending questions, whatever it is: copies what is of the right form. Under call->lock.
 * -ENOMEM. */
int mcp_call_supply(struct mcp_call *call, const json_t *responses);
/* Asks the client of a legacy request, and waits: all of `pending` was answered (0), or not. */
int mcp_call_question(struct mcp_call *call, const struct sbx_call *limits, struct sbx_error *err);

/* ---- call_result.c: from what the host said to what the client is told ---- */

/* The method's result, an object in one line, that points into `result` or `storage`. -EINVAL: the host gave nonsense;
 * -EFBIG, -ENOMEM. */
int mcp_call_shape(const struct mcp_call *call, enum mcp_revision revision, struct sbx_bytes result,
                   struct mcp_text *storage, struct sbx_bytes *ret_result);
/* What a client is told of a failure. */
struct mcp_failure {
        int code; /* of JSON-RPC */
        char message[SBX_ERROR_MESSAGE_MAX + SBX_ERROR_HINT_MAX + 4];
        struct mcp_text data; /* a JSON object, or empty; to be freed */
};
void mcp_call_failure(const struct mcp_call *call, enum mcp_revision revision, int status, const struct sbx_error *err,
                      struct mcp_failure *ret_failure);
void mcp_failure_free(struct mcp_failure *failure);
#define MCP_RESULT_BYTES_MAX (256u << 20)
#define MCP_BAD_RESULT "the result is not a JSON object, or too large"
#define _cleanup_failure_ __attribute__((cleanup(mcp_failure_free)))
/* {"requiredCapabilities": ...} for SBX_CLIENT_* bits. */
void mcp_required_capabilities(uint32_t bits, struct mcp_text *text);
/* Answers an exchange that the caller has claimed. */
void mcp_call_answer(const struct mcp_call *call, const struct mcp_exchange *exchange, int status,
                     struct sbx_bytes result, const struct sbx_error *err);

/* ---- inputs.c: calls that wait for a modern client's input; and how many calls there are at all ---- */

void mcp_waiting_join(struct mcp_waiting *waiting);
void mcp_waiting_left(struct mcp_waiting *waiting);
/* A call is about to wait for its client, which keeps a thread of the host busy: -EBUSY, too many of its principal do.
 * Ended with mcp_waiting_dismiss. */
int mcp_waiting_admit(struct mcp_call *call, struct sbx_error *err);
void mcp_waiting_dismiss(struct mcp_call *call);
/* Answers the call's request with `input_required`, and waits for the one that brings the input: 0, and the call is
 * attached to that. */
int mcp_call_wait_input(struct mcp_call *call, const struct sbx_call *limits);
/* A request with a requestState: attaches the call that waits for it, or refuses. */
void mcp_call_retry(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_wish *wish,
                    const struct mcp_target *target, const char *digest, const json_t *state, const json_t *responses);

/* ---- tasks.c ---- */

/* Whether a tool can only be called as a task. */
bool mcp_tasks_requires(struct mcp_tasks *tasks, const char *tool);
/* Whether the principal can have one more. */
bool mcp_tasks_have_room(struct mcp_tasks *tasks, const char *principal);
/* A call that had become a task is gone. */
void mcp_tasks_left(struct mcp_tasks *tasks);
/* The end of a call that has become a task. */
void mcp_task_end(struct mcp_task *task, int status, struct sbx_bytes result, const struct sbx_error *err);
void mcp_task_message(struct mcp_task *task, const char *message);
/* Waits for tasks/update to bring what is pending. */
int mcp_task_wait_input(struct mcp_call *call, const struct sbx_call *limits);
