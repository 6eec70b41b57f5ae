/* SPDX-License-Identifier: Apache-2.0 */
/* tools/call: from the request through the host's tool registry to one answer, or none if it was cancelled.
 *
 * A call is listed while it can still be answered or cancelled; whoever takes it off the list (the end, a cancel, a
 * failed submission) decides what is sent, so that exactly one of them does. It has a reference for the submitter and
 * one for `done`, in whichever order these finish; the last one releases the host's task.
 */
#include "connection_private.h"

#include <stdlib.h>

#define ARGUMENTS_BYTES_MAX (256u << 20) /* the message itself has a smaller limit of its own */
#define RESULT_BYTES_MAX (256u << 20)

/* At most 10 progress notifications a second for a call, after the first 20. */
#define PROGRESS_INTERVAL_NS (100u * 1000000u)
#define PROGRESS_BURST 20u

struct mcp_call {
        struct mcp_connection *connection;
        struct mcp_target target; /* holds a reference to its batch */
        struct mcp_id id, token;

        /* Under the connection's lock. */
        struct mcp_call *next, *previous;
        bool listed, ended; /* `ended`: `done` was called, or never will be */
        unsigned refs;
        struct sbx_tool_task *task; /* NULL until tool_submit has returned */

        /* Of the core's thread that runs the tool. */
        bool progress_sent;
        double progress;
        uint64_t progress_due_ns;
};

static const struct sbx_host *call_host(const struct mcp_call *call) {
        return call->connection->settings->host;
}

static void call_unref(struct mcp_call *call) {
        struct mcp_connection *connection = call->connection;
        unsigned refs;

        pthread_mutex_lock(&connection->lock);
        refs = --call->refs;
        pthread_mutex_unlock(&connection->lock);
        if (refs > 0)
                return;
        if (call->task != NULL)
                call_host(call)->tool_release(call_host(call)->self, call->task);
        mcp_batch_unref(call->target.batch);
        mcp_id_free(&call->id);
        mcp_id_free(&call->token);
        free(call);
        pthread_mutex_lock(&connection->lock);
        connection->calls_alive--;
        pthread_cond_broadcast(&connection->ended);
        pthread_mutex_unlock(&connection->lock); /* the connection may be gone from here on */
}

/* ---- the list; the caller holds the lock ---------------------------------------------------------------- */

static void list_add(struct mcp_connection *connection, struct mcp_call *call) {
        call->next = connection->calls;
        if (call->next != NULL)
                call->next->previous = call;
        connection->calls = call;
        connection->calls_count++;
        call->listed = true;
}

static bool list_remove(struct mcp_connection *connection, struct mcp_call *call) {
        if (!call->listed)
                return false;
        if (call->next != NULL)
                call->next->previous = call->previous;
        if (call->previous != NULL)
                call->previous->next = call->next;
        else
                connection->calls = call->next;
        connection->calls_count--;
        call->listed = false;
        return true;
}

static struct mcp_call *list_find(struct mcp_connection *connection, const struct mcp_id *id) {
        for (struct mcp_call *call = connection->calls; call != NULL; call = call->next)
                if (mcp_id_equal(&call->id, id))
                        return call;
        return NULL;
}

/* ---- the end ------------------------------------------------------------------------------------------- */

/* Notes the end; whether the caller is the one who answers. */
static bool claim(struct mcp_call *call) {
        bool claimed;

        pthread_mutex_lock(&call->connection->lock);
        call->ended = true;
        claimed = list_remove(call->connection, call);
        pthread_mutex_unlock(&call->connection->lock);
        return claimed;
}

static int code_of_status(int status) {
        switch (status) {
        case -ENOENT: /* no such tool */
        case -EINVAL: /* arguments that are no JSON object for the host */
        case -EFBIG:
                return MCP_INVALID_PARAMS;
        case -EAGAIN:
        case -EBUSY:
                return MCP_BUSY;
        default:
                return MCP_INTERNAL_ERROR;
        }
}

static void answer_failure(const struct mcp_call *call, int status, const struct sbx_error *err) {
        const char *message = err != NULL && err->message[0] != '\0' ? err->message : NULL;

        if (message == NULL)
                message = status == -ENOENT ? "no such tool" : "the tool could not be called";
        mcp_reply_error(&call->target, &call->id, code_of_status(status), message, err != NULL ? err->hint : NULL);
}

static void answer_result(struct mcp_call *call, struct sbx_bytes result) {
        _cleanup_text_ struct mcp_text storage = MCP_TEXT(RESULT_BYTES_MAX);
        struct sbx_bytes prepared;

        if (mcp_result_prepare(result, mcp_connection_revision(call->connection), &storage, &prepared) < 0)
                mcp_reply_error(&call->target, &call->id, MCP_INTERNAL_ERROR,
                                "the tool's result is not a JSON object, or too large", NULL);
        else
                mcp_reply_result(&call->target, &call->id, prepared);
}

static void on_done(void *data, int status, struct sbx_bytes result, const struct sbx_error *err) {
        struct mcp_call *call = data;

        if (claim(call)) {
                if (status == 0)
                        answer_result(call, result);
                else
                        answer_failure(call, status, err);
        }
        call_unref(call);
}

/* ---- progress ------------------------------------------------------------------------------------------ */

static bool progress_is_due(struct mcp_call *call) {
        uint64_t now = call_host(call)->clock_ns(call_host(call)->self);

        if (call->progress_due_ns < now)
                call->progress_due_ns = now;
        if (call->progress_due_ns - now >= (uint64_t)PROGRESS_BURST * PROGRESS_INTERVAL_NS)
                return false;
        call->progress_due_ns += PROGRESS_INTERVAL_NS;
        return true;
}

static void on_progress(void *data, double progress, double total, const char *message) {
        struct mcp_call *call = data;
        bool listed;

        pthread_mutex_lock(&call->connection->lock);
        listed = call->listed;
        pthread_mutex_unlock(&call->connection->lock);
        /* MCP: the value grows with every notification. The comparison also refuses NaN. */
        if (!listed || !(progress >= 0 && progress <= 1e300) || (call->progress_sent && progress <= call->progress))
                return;
        if (!progress_is_due(call))
                return;
        call->progress = progress;
        call->progress_sent = true;
        mcp_send_progress(call->target.channel, &call->token, progress, total, message);
}

/* ---- the beginning ------------------------------------------------------------------------------------- */

/* What a request asks for; borrowed from its params. */
struct wish {
        const char *name;
        const json_t *arguments; /* NULL: none given */
        const json_t *token;     /* NULL: none given */
};

static const char *decode_wish(const json_t *params, struct wish *ret) {
        const json_t *name = json_object_get(params, "name"), *meta = json_object_get(params, "_meta");

        *ret = (struct wish){json_string_value(name), json_object_get(params, "arguments"),
                             json_object_get(meta, "progressToken")};
        if (ret->name == NULL || json_string_length(name) == 0 || json_string_length(name) > MCP_METHOD_BYTES_MAX ||
            strlen(ret->name) != json_string_length(name))
                return "params.name must be the name of a tool, a string";
        if (ret->arguments != NULL && !json_is_object(ret->arguments))
                return "params.arguments must be an object";
        if (meta != NULL && !json_is_object(meta))
                return "params._meta must be an object";
        return NULL;
}

static int append_dump(const char *data, size_t size, void *text) {
        return mcp_text_append(text, data, size) < 0 ? -1 : 0;
}

static int encode_arguments(const json_t *arguments, struct mcp_text *text) {
        if (arguments == NULL)
                return mcp_text_append_literal(text, "{}");
        if (json_dump_callback(arguments, append_dump, text, JSON_COMPACT) < 0)
                return text->error != 0 ? text->error : -ENOMEM;
        return 0;
}

static int copy_id(const struct mcp_id *id, struct mcp_id *ret) {
        char *json = malloc(id->size);

        if (json == NULL)
                return -ENOMEM;
        memcpy(json, id->json, id->size);
        *ret = (struct mcp_id){json, id->size};
        return 0;
}

/* Puts the call on the list, if there is room; the problem goes to `err`. */
static int enlist(struct mcp_connection *connection, struct mcp_call *call, struct sbx_error *err) {
        int r = 0;

        pthread_mutex_lock(&connection->lock);
        if (connection->closing)
                r = sbx_error_set(err, -ECANCELED, "transport-mcp", NULL, "the connection is closing");
        else if (list_find(connection, &call->id) != NULL)
                r = sbx_error_set(err, -EEXIST, "transport-mcp", NULL, "a call with this id is under way already");
        else if (connection->calls_count >= connection->settings->calls_max)
                r = sbx_error_set(err, -EBUSY, "transport-mcp",
                                  "Wait for some to end, cancel some, or raise max_calls in the transport's options",
                                  "too many calls under way on this connection (at most %zu)",
                                  connection->settings->calls_max);
        else {
                list_add(connection, call);
                connection->calls_alive++;
        }
        pthread_mutex_unlock(&connection->lock);
        return r;
}

static int call_new(struct mcp_connection *connection, const struct mcp_id *id, const struct mcp_target *target,
                    const json_t *token, struct mcp_call **ret_call, struct sbx_error *err) {
        struct mcp_call *call = calloc(1, sizeof(*call));
        int r = -ENOMEM;

        if (call == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "out of memory");
        *call = (struct mcp_call){.connection = connection, .target = {target->channel, NULL}, .refs = 2};
        if (token != NULL)
                r = mcp_id_decode(token, &call->token);
        if (token != NULL && r == -EINVAL)
                sbx_error_set(err, r, "transport-mcp", NULL,
                              "params._meta.progressToken must be an integer, or a string of at most %d bytes",
                              MCP_ID_BYTES_MAX);
        else if ((token != NULL && r < 0) || (r = copy_id(id, &call->id)) < 0)
                sbx_error_set(err, r, "transport-mcp", NULL, "out of memory");
        else
                r = enlist(connection, call, err);
        if (r < 0) {
                mcp_id_free(&call->id);
                mcp_id_free(&call->token);
                free(call);
                return r;
        }
        if (target->batch != NULL)
                call->target.batch = mcp_batch_ref(target->batch);
        *ret_call = call;
        return 0;
}

static void submit(struct mcp_call *call, const char *name, struct sbx_bytes arguments) {
        const struct sbx_host *host = call_host(call);
        const struct sbx_tool_events events = {
                .struct_size = sizeof(events),
                .data = call,
                .progress = call->token.size > 0 ? on_progress : NULL,
                .done = on_done,
        };
        struct sbx_tool_task *task = NULL;
        struct sbx_error err = {0};
        bool cancelled;
        int r = host->tool_submit(host->self, name, arguments, call->connection->settings->principal, &events, &task,
                                  &err);

        if (r < 0) { /* there will be no `done` */
                if (claim(call))
                        answer_failure(call, r, &err);
                call_unref(call);
                call_unref(call);
                return;
        }
        pthread_mutex_lock(&call->connection->lock);
        call->task = task;
        cancelled = !call->listed && !call->ended;
        pthread_mutex_unlock(&call->connection->lock);
        if (cancelled)
                host->tool_cancel(host->self, task);
        call_unref(call);
}

void mcp_call_start(struct mcp_connection *connection, const struct mcp_message *message, const json_t *params,
                    const struct mcp_target *target) {
        _cleanup_text_ struct mcp_text arguments = MCP_TEXT(ARGUMENTS_BYTES_MAX);
        struct mcp_call *call = NULL;
        struct sbx_error err = {0};
        struct wish wish;
        const char *problem = decode_wish(params, &wish);
        int r;

        if (problem != NULL) {
                mcp_reply_error(target, &message->id, MCP_INVALID_PARAMS, problem, NULL);
                return;
        }
        r = encode_arguments(wish.arguments, &arguments);
        if (r < 0)
                sbx_error_set(&err, r, "transport-mcp", NULL, "no memory for the arguments");
        else
                r = call_new(connection, &message->id, target, wish.token, &call, &err);
        if (r < 0)
                mcp_reply_error(target, &message->id, r == -EEXIST ? MCP_INVALID_REQUEST : code_of_status(r),
                                err.message, err.hint);
        else
                submit(call, wish.name, mcp_text_bytes(&arguments));
}

/* ---- cancelling ---------------------------------------------------------------------------------------- */

/* Takes a call off the list, that of `id` or any, and asks the host to end it; `done` comes all the same, and says
 * nothing. False: there is none. */
static bool cancel_one(struct mcp_connection *connection, const struct mcp_id *id) {
        const struct sbx_host *host = connection->settings->host;
        struct sbx_tool_task *task;
        struct mcp_call *call;

        pthread_mutex_lock(&connection->lock);
        call = id != NULL ? list_find(connection, id) : connection->calls;
        if (call == NULL) {
                pthread_mutex_unlock(&connection->lock);
                return false;
        }
        list_remove(connection, call);
        call->refs++;
        task = call->task; /* NULL: the submitter will see that the call is off the list */
        pthread_mutex_unlock(&connection->lock);
        if (task != NULL)
                host->tool_cancel(host->self, task);
        call_unref(call);
        return true;
}

void mcp_call_cancel(struct mcp_connection *connection, const struct mcp_id *id) {
        (void)cancel_one(connection, id);
}

void mcp_call_cancel_all(struct mcp_connection *connection) {
        while (cancel_one(connection, NULL))
                ;
}
