/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the host: from a client's wish to one answer, or none if it was cancelled.
 *
 * A call has a reference for the submitter and one for `done`, in whichever order these finish, and one for each
 * exchange (a request of a client) that it is to answer; the last one releases the host's task. An exchange that it is
 * attached to has a reference in turn, until it is answered or `done` comes, which is always.
 */
#include "call_private.h"

#include <sha2.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ARGUMENTS_BYTES_MAX (256u << 20) /* the message itself has a smaller limit of its own */

const struct sbx_host *mcp_call_host(const struct mcp_call *call) {
        return mcp_server_settings(call->server)->host;
}

/* ---- references ---------------------------------------------------------------------------------------- */

struct mcp_call *mcp_call_ref(struct mcp_call *call) {
        atomic_fetch_add(&call->refs, 1);
        return call;
}

static void call_free(struct mcp_call *call) {
        if (call->task != NULL)
                mcp_call_host(call)->tool_release(mcp_call_host(call)->self, call->task);
        if (call->wake_fd >= 0)
                close(call->wake_fd);
        json_decref(call->answers);
        json_decref(call->pending);
        json_decref(call->params);
        pthread_mutex_destroy(&call->lock);
        free(call->name);
        free(call->principal);
        free(call);
}

void mcp_call_unref(struct mcp_call *call) {
        struct mcp_server *server = call->server;
        bool was_task;

        if (atomic_fetch_sub(&call->refs, 1) > 1)
                return;
        was_task = call->record != NULL;
        call_free(call);
        if (was_task)
                mcp_tasks_left(mcp_server_tasks(server));
        else
                mcp_waiting_left(mcp_server_waiting(server));
        /* The server may be gone from here on. */
}

static struct mcp_call *call_new(struct mcp_connection *connection, const struct mcp_wish *wish) {
        struct mcp_call *call = malloc(sizeof(*call));

        if (call == NULL)
                return NULL;
        *call = (struct mcp_call){
                .server = mcp_connection_server(connection),
                .how = wish->how,
                .kind = wish->kind,
                .name = strdup(wish->name != NULL ? wish->name : ""),
                .principal = strdup(mcp_connection_principal(connection)),
                .params = wish->how->keeps_params ? json_deep_copy(wish->params) : NULL,
                .capabilities = wish->meta->capabilities,
                .wake_fd = -1,
        };
        atomic_init(&call->refs, 1);
        pthread_mutex_init(&call->lock, NULL);
        mcp_waiting_join(mcp_server_waiting(call->server));
        if (call->name == NULL || call->principal == NULL ||
            (wish->how->keeps_params && wish->params != NULL && call->params == NULL)) {
                mcp_call_unref(call);
                return NULL;
        }
        return call;
}

/* ---- its request --------------------------------------------------------------------------------------- */

struct mcp_exchange *mcp_call_exchange(struct mcp_call *call) {
        struct mcp_exchange *exchange;

        pthread_mutex_lock(&call->lock);
        exchange = call->exchange != NULL ? mcp_exchange_ref(call->exchange) : NULL;
        pthread_mutex_unlock(&call->lock);
        return exchange;
}

struct mcp_exchange *mcp_call_detach(struct mcp_call *call) {
        struct mcp_exchange *exchange;

        pthread_mutex_lock(&call->lock);
        exchange = call->exchange;
        call->exchange = NULL;
        pthread_mutex_unlock(&call->lock);
        if (mcp_exchange_claim(exchange))
                return exchange;
        mcp_exchange_unref(exchange);
        return NULL;
}

void mcp_call_wake(struct mcp_call *call) {
        const uint64_t one = 1;

        if (call->wake_fd >= 0 && write(call->wake_fd, &one, sizeof(one)) < 0)
                return; /* it is readable already */
}

void mcp_call_end(struct mcp_call *call) {
        const struct sbx_host *host = mcp_call_host(call);
        struct sbx_tool_task *task;

        pthread_mutex_lock(&call->lock);
        /* Once; and when it is not there yet, the submitter will see that it is cancelled. */
        task = call->cancelled || call->ended ? NULL : call->task;
        call->cancelled = true;
        mcp_call_wake(call);
        pthread_mutex_unlock(&call->lock);
        if (task != NULL)
                host->tool_cancel(host->self, task);
}

/* ---- the end ------------------------------------------------------------------------------------------- */

static void finish(struct mcp_call *call, int status, struct sbx_bytes result, const struct sbx_error *err) {
        struct mcp_exchange *exchange;
        struct mcp_task *record;
        bool answers;

        pthread_mutex_lock(&call->lock);
        exchange = call->exchange;
        record = call->record;
        call->exchange = NULL;
        call->ended = true;
        pthread_mutex_unlock(&call->lock);
        answers = mcp_exchange_claim(exchange);
        if (record != NULL)
                mcp_task_end(record, status, result, err);
        else if (answers)
                mcp_call_answer(call, exchange, status, result, err);
        mcp_call_unref(call); /* first: who waits for the exchange's end may count on the call's, too */
        mcp_exchange_unref(exchange);
}

static void on_done(void *data, int status, struct sbx_bytes result, const struct sbx_error *err) {
        finish(data, status, result, err);
}

/* ---- the beginning ------------------------------------------------------------------------------------- */

/* What the host may ask of the client: nothing that the method has no way to. */
static uint32_t offered_capabilities(const struct mcp_call *call, enum mcp_revision revision) {
        uint32_t offered = call->capabilities;

        if (mcp_is_modern(revision) && !call->how->may_ask)
                offered &= SBX_CLIENT_TASKS;
        if (!mcp_is_modern(revision) || !call->how->may_task)
                offered &= ~SBX_CLIENT_TASKS;
        return offered;
}

static int submit_request(struct mcp_call *call, enum mcp_revision revision, struct sbx_bytes arguments,
                          struct sbx_tool_task **ret_task, struct sbx_error *err) {
        const struct sbx_host *host = mcp_call_host(call);
        const struct sbx_request request = {
                .struct_size = sizeof(request),
                .kind = call->kind,
                .name = call->name,
                .arguments = arguments,
                .principal = call->principal,
        };
        const struct sbx_client client = {
                .struct_size = sizeof(client),
                .capabilities = offered_capabilities(call, revision),
                .data = call,
                .progress = mcp_call_progress,
                .log = mcp_call_log,
                .ask = mcp_call_ask,
                .become_task = call->how->may_task ? mcp_call_become_task : NULL,
                .close_stream = mcp_call_close_stream,
        };
        const struct sbx_request_done done = {.data = call, .done = on_done};

        return host->request_submit(host->self, &request, &client, &done, ret_task, err);
}

/* Takes the reference `call`. */
static void submit(struct mcp_call *call, enum mcp_revision revision, struct sbx_bytes arguments) {
        const struct sbx_host *host = mcp_call_host(call);
        struct sbx_tool_task *task = NULL;
        struct sbx_error err = {0};
        bool cancelled;
        int r;

        mcp_call_ref(call); /* for `done` */
        r = submit_request(call, revision, arguments, &task, &err);
        if (r < 0) { /* there will be no `done` */
                finish(call, r == -EFBIG ? -EINVAL : r, (struct sbx_bytes){NULL, 0}, &err);
        } else {
                pthread_mutex_lock(&call->lock);
                call->task = task;
                cancelled = call->cancelled && !call->ended;
                pthread_mutex_unlock(&call->lock);
                if (cancelled)
                        host->tool_cancel(host->self, task);
        }
        mcp_call_unref(call);
}

void mcp_call_refuse(const struct mcp_message *message, const struct mcp_target *target, int status,
                     const struct sbx_error *err) {
        int code = MCP_INTERNAL_ERROR;

        if (status == -EEXIST)
                code = MCP_INVALID_REQUEST;
        else if (status == -EINVAL || status == -EFBIG)
                code = MCP_INVALID_PARAMS;
        else if (status == -EBUSY)
                code = MCP_BUSY;
        mcp_reply_error(target, &message->id, code, err->message, err->hint);
}

static int hash_dump(const char *data, size_t size, void *hash) {
        SHA256Update(hash, (const uint8_t *)data, size);
        return 0;
}

/* What a request that brings input is known by. The arguments are the same in any order of their keys. */
static int digest_wish(const struct mcp_wish *wish, char digest[MCP_DIGEST_SIZE]) {
        const char *name = wish->name != NULL ? wish->name : "";
        SHA2_CTX hash;

        SHA256Init(&hash);
        SHA256Update(&hash, (const uint8_t *)&wish->kind, sizeof(wish->kind));
        SHA256Update(&hash, (const uint8_t *)name, strlen(name) + 1);
        if (json_object_size(wish->arguments) > 0 &&
            json_dump_callback(wish->arguments, hash_dump, &hash, JSON_COMPACT | JSON_SORT_KEYS) < 0)
                return -ENOMEM;
        SHA256End(&hash, digest);
        return 0;
}

/* `responses` is what the request brought of its own accord; may be NULL. */
static void start_new(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_wish *wish,
                      const struct mcp_target *target, const char *digest, const json_t *responses) {
        _cleanup_text_ struct mcp_text arguments = MCP_TEXT(ARGUMENTS_BYTES_MAX);
        struct mcp_call *call = call_new(connection, wish);
        struct sbx_error err = {0};
        int r = call != NULL ? 0 : -ENOMEM;

        if (r == 0)
                r = wish->arguments != NULL ? mcp_text_append_json(&arguments, wish->arguments)
                                            : mcp_text_append_literal(&arguments, "{}");
        if (r == 0)
                memcpy(call->digest, digest, sizeof(call->digest));
        if (r == 0 && responses != NULL && (call->answers = json_deep_copy(responses)) == NULL)
                r = -ENOMEM;
        if (r < 0)
                sbx_error_set(&err, r, "transport-mcp", NULL, "no memory for the request");
        else
                r = mcp_exchange_new(connection, message, wish->meta, target, call, &call->exchange, &err);
        if (r < 0) {
                mcp_call_refuse(message, target, r, &err);
                if (call != NULL)
                        mcp_call_unref(call);
                return;
        }
        submit(call, target->revision, mcp_text_bytes(&arguments));
}

/* Whether the tool needs a client that takes tasks, and this one does not; then the request is answered. */
static bool refuse_task(struct mcp_connection *connection, const struct mcp_message *message,
                        const struct mcp_wish *wish, const struct mcp_target *target) {
        struct mcp_tasks *tasks = mcp_server_tasks(mcp_connection_server(connection));
        _cleanup_text_ struct mcp_text data = MCP_TEXT(1024);

        /* A legacy client gets the result itself: it knows nothing of tasks, and waits. */
        if (!wish->how->may_task || !mcp_is_modern(target->revision) || !mcp_tasks_requires(tasks, wish->name))
                return false;
        if ((wish->meta->capabilities & SBX_CLIENT_TASKS) == 0) {
                mcp_required_capabilities(SBX_CLIENT_TASKS, &data);
                mcp_reply_error_data(
                        target, &message->id, MCP_MISSING_CAPABILITY,
                        "this tool's work becomes a task, and the client has not declared that it takes any",
                        "Declare the extension io.modelcontextprotocol/tasks in the request's _meta",
                        mcp_text_bytes(&data));
                return true;
        }
        if (mcp_tasks_have_room(tasks, mcp_connection_principal(connection)))
                return false;
        mcp_reply_error(target, &message->id, MCP_BUSY, "too many tasks are at work already",
                        "Wait for some to end, cancel some, or raise tasks.max in the transport's options");
        return true;
}

static void start(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_wish *wish,
                  const struct mcp_target *target, const json_t *state, const json_t *responses) {
        char digest[MCP_DIGEST_SIZE] = "";

        if (mcp_is_modern(target->revision) && wish->how->may_ask && digest_wish(wish, digest) < 0)
                mcp_reply_error(target, &message->id, MCP_INTERNAL_ERROR, "out of memory", NULL);
        else if (state != NULL)
                mcp_call_retry(connection, message, wish, target, digest, state, responses);
        else
                start_new(connection, message, wish, target, digest, responses);
}

void mcp_call_start(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_wish *wish,
                    const struct mcp_target *target) {
        const json_t *responses = NULL, *state = NULL;

        if (mcp_is_modern(target->revision) && wish->how->may_ask) {
                responses = json_object_get(wish->params, "inputResponses");
                state = json_object_get(wish->params, "requestState");
        }
        if (responses != NULL && !json_is_object(responses))
                mcp_reply_error(target, &message->id, MCP_INVALID_PARAMS, "params.inputResponses must be an object",
                                NULL);
        else if (mcp_answers_too_many(responses))
                mcp_reply_error(target, &message->id, MCP_INVALID_PARAMS,
                                "params.inputResponses has too many answers, or too large ones", NULL);
        else if (state != NULL && !json_is_string(state))
                mcp_reply_error(target, &message->id, MCP_INVALID_PARAMS, "params.requestState must be a string", NULL);
        else if (!refuse_task(connection, message, wish, target))
                start(connection, message, wish, target, state, responses);
}
