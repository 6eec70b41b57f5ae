/* SPDX-License-Identifier: Apache-2.0 */
/* A request that the host answers, from its beginning to its one answer: progress, log lines, questions to the client
 * in both eras, cancelling, and its life as a task.
 *
 * A call begins attached to the request that asked for it. When it asks a modern client for input, that request is
 * answered with `input_required`, and the call waits, attached to nothing, until another request brings its signed
 * `requestState` back; so nothing is run twice. When it becomes a task, its request is answered with the task, and the
 * call goes on attached to that. */
#pragma once

#include "connection.h"

struct mcp_call;
struct mcp_call_end;

/* What a method wants of the host. Borrowed until mcp_call_start returns, but for `how`. */
struct mcp_wish {
        uint32_t kind; /* enum sbx_request_kind */
        const char *name;
        const json_t *arguments; /* object; NULL: none */
        const json_t *params;    /* of the request: progressToken, inputResponses and requestState are in it */
        const struct mcp_meta *meta;
        const struct mcp_call_how *how;
};

/* How a method's answer is made from what the host said; constant, one for each method. */
struct mcp_call_how {
        /* The result of the method, in one line, from the host's: in `ret_result`, which points into `result` or
         * `storage`. `cookie` is the wish's. -EINVAL: the host gave nonsense; -EFBIG, -ENOMEM. NULL: as it is. */
        int (*shape)(const struct mcp_call_end *end, struct sbx_bytes result, struct mcp_text *storage,
                     struct sbx_bytes *ret_result);
        bool may_ask;   /* input_required is an answer that the method may have: tools/call, prompts/get, resources/read
                         */
        bool may_task;  /* tools/call */
        bool cacheable; /* a modern result gets ttlMs and cacheScope */
        bool keeps_params; /* shape() looks at the request's params, which are copied for it */
};
/* What shape() may look at. */
struct mcp_call_end {
        enum mcp_revision revision;
        const char *name, *principal;
        struct mcp_server *server;
        const json_t *params; /* NULL, unless the call keeps them */
};

/* Answers on `target`, sooner or later, unless it is cancelled. */
void mcp_call_start(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_wish *wish,
                    const struct mcp_target *target);
/* notifications/cancelled: cancels the call of that request; none: nothing happens. */
void mcp_call_cancel(struct mcp_connection *connection, const struct mcp_id *id);
void mcp_call_cancel_all(struct mcp_connection *connection);
/* A response of the client, to a question of a call (legacy). An unknown id is passed over. */
void mcp_call_respond(struct mcp_connection *connection, const struct mcp_message *message);

/* ---- tasks.c: methods of the extension io.modelcontextprotocol/tasks ---- */

void mcp_tasks_get(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_meta *meta,
                   const struct mcp_target *target);
void mcp_tasks_update(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_meta *meta,
                      const struct mcp_target *target);
void mcp_tasks_cancel(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_meta *meta,
                      const struct mcp_target *target);
