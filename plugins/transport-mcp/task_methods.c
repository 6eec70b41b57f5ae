/* SPDX-License-Identifier: Apache-2.0 */
/* tasks/get, tasks/update and tasks/cancel: what a client does with a task, and how it is shown. */
#include <stdlib.h>
#include <time.h>

#include "tasks_private.h"

#define POLL_INTERVAL_MS 500
#define DETAIL_BYTES_MAX (MCP_TASK_PAYLOAD_MAX + (64u << 20)) /* a payload, or questions */

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* ISO 8601, in UTC, with milliseconds. */
static void write_time(const char *key, int64_t time_ms, struct mcp_text *text) {
        time_t seconds = (time_t)(time_ms / 1000);
        char date[64], line[128];
        struct tm parts;

        if (gmtime_r(&seconds, &parts) == NULL || strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts) == 0)
                snprintf(date, sizeof(date), "1970-01-01T00:00:00"); /* a record may say any time */
        snprintf(line, sizeof(line), ",\"%s\":\"%s.%03dZ\"", key, date, (int)(time_ms % 1000));
        mcp_text_append_literal(text, line);
}

void mcp_task_write_members(const struct mcp_task_record *record, struct mcp_text *text) {
        mcp_text_append_literal(text, "\"taskId\":\"");
        mcp_text_append_literal(text, record->id);
        mcp_text_append_literal(text, "\",\"status\":\"");
        mcp_text_append_literal(text, mcp_task_status_name(record->status));
        mcp_text_append_literal(text, "\"");
        if (record->message != NULL) {
                mcp_text_append_literal(text, ",\"statusMessage\":");
                mcp_text_append_string(text, record->message, strlen(record->message));
        }
        write_time("createdAt", record->created_ms, text);
        write_time("lastUpdatedAt", record->updated_ms, text);
        mcp_text_append_literal(text, ",\"ttlMs\":");
        mcp_text_append_int(text, record->ttl_ms);
        mcp_text_append_literal(text, ",\"pollIntervalMs\":");
        mcp_text_append_int(text, POLL_INTERVAL_MS);
}

void mcp_task_write(const struct mcp_task_record *record, const json_t *pending, struct mcp_text *text) {
        mcp_text_append_literal(text, "{");
        mcp_task_write_members(record, text);
        if (pending != NULL) {
                mcp_text_append_literal(text, ",\"inputRequests\":");
                mcp_text_append_json(text, pending);
        } else if (record->payload.size > 0) {
                mcp_text_append_literal(text, record->status == MCP_TASK_FAILED ? ",\"error\":" : ",\"result\":");
                mcp_text_append(text, record->payload.data, record->payload.size);
        }
        mcp_text_append_literal(text, "}");
}

void mcp_task_write_own(const struct mcp_task *task, struct mcp_text *text) {
        struct mcp_task_record record = task->record; /* what it points to is borrowed */
        const json_t *pending = NULL;

        if (!mcp_task_has_ended(record.status) && task->call != NULL && task->asks) {
                pthread_mutex_lock(&task->call->lock);
                if (json_object_size(task->call->pending) > 0) {
                        pending = task->call->pending;
                        record.status = MCP_TASK_INPUT_REQUIRED;
                }
                mcp_task_write(&record, pending, text);
                pthread_mutex_unlock(&task->call->lock);
        } else {
                mcp_task_write(&record, NULL, text);
        }
}

/* ---- all three ----------------------------------------------------------------------------------------- */

/* NULL: the request is answered. */
static const char *admit(const struct mcp_message *message, const struct mcp_meta *meta,
                         const struct mcp_target *target) {
        _cleanup_text_ struct mcp_text data = MCP_TEXT(1024);
        const json_t *id = json_object_get(message->params, "taskId");

        if ((meta->capabilities & SBX_CLIENT_TASKS) == 0) {
                mcp_required_capabilities(SBX_CLIENT_TASKS, &data);
                mcp_reply_error_data(target, &message->id, MCP_MISSING_CAPABILITY,
                                     "the client has not declared that it takes tasks",
                                     "Declare the extension io.modelcontextprotocol/tasks in the request's _meta",
                                     mcp_text_bytes(&data));
                return NULL;
        }
        if (!json_is_string(id)) {
                mcp_reply_error(target, &message->id, MCP_INVALID_PARAMS, "params.taskId must be a string", NULL);
                return NULL;
        }
        return json_string_value(id); /* one with a NUL in it is not known, as it is too short */
}

static void reply_unknown(const struct mcp_message *message, const struct mcp_target *target) {
        mcp_reply_error(target, &message->id, MCP_INVALID_PARAMS, "there is no such task", NULL);
}

static void reply_text(const struct mcp_message *message, const struct mcp_target *target,
                       const struct mcp_text *text) {
        if (text->error != 0)
                mcp_reply_error(target, &message->id, MCP_INTERNAL_ERROR, "no memory for the task", NULL);
        else
                mcp_reply_result(target, &message->id, mcp_text_bytes(text));
}

static void acknowledge(const struct mcp_message *message, const struct mcp_target *target) {
        mcp_reply_result(target, &message->id, MCP_LITERAL("{}"));
}

/* The record of a task that is not in the table, or whose payload is not: -ENOENT, too, when it is another's, or it has
 * expired. */
static int read_record(struct mcp_tasks *tasks, const char *principal, const char *id,
                       struct mcp_task_record *ret_record) {
        int r = mcp_task_store_read(tasks->store, id, true, ret_record);

        if (r < 0)
                return r;
        if (strcmp(ret_record->principal, principal) != 0 ||
            (mcp_task_has_ended(ret_record->status) && mcp_task_is_expired(ret_record, mcp_tasks_now_ms()))) {
                mcp_task_record_free(ret_record);
                return -ENOENT;
        }
        return 0;
}

/* Where a task is looked for first: false: the store can't be opened, so that there is none. */
static bool lock_tasks(struct mcp_tasks *tasks, const char *id) {
        if (!mcp_task_id_is_valid(id))
                return false;
        pthread_mutex_lock(&tasks->lock);
        if (mcp_tasks_open_store(tasks, NULL) == 0)
                return true;
        pthread_mutex_unlock(&tasks->lock);
        return false;
}

/* ---- tasks/get ----------------------------------------------------------------------------------------- */

/* 1: it is in the store. */
static int get_own(struct mcp_tasks *tasks, const char *principal, const char *id, struct mcp_text *text) {
        struct mcp_task *task;
        int r = 1;

        if (!lock_tasks(tasks, id))
                return -ENOENT;
        task = mcp_tasks_find(tasks, principal, id);
        /* An end is told when it is stored: a server that is killed before would take it back. */
        while (task != NULL && task->storing) {
                pthread_cond_wait(&tasks->left, &tasks->lock);
                task = mcp_tasks_find(tasks, principal, id);
        }
        if (task != NULL && (task->record.payload.size > 0 || task->record.status == MCP_TASK_CANCELLED ||
                             !mcp_task_has_ended(task->record.status))) {
                mcp_task_write_own(task, text);
                r = 0;
        }
        pthread_mutex_unlock(&tasks->lock);
        return r;
}

static int get_task(struct mcp_tasks *tasks, const char *principal, const char *id, struct mcp_text *text) {
        _cleanup_record_ struct mcp_task_record record = {.payload = MCP_TEXT(0)};
        int r = get_own(tasks, principal, id, text);

        if (r <= 0)
                return r;
        r = read_record(tasks, principal, id, &record);
        if (r < 0)
                return r;
        if (!mcp_task_has_ended(record.status) && !mcp_task_store_is_alive(tasks->store, record.server))
                mcp_task_give_up(&record);
        mcp_task_write(&record, NULL, text);
        return 0;
}

void mcp_tasks_get(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_meta *meta,
                   const struct mcp_target *target) {
        struct mcp_tasks *tasks = mcp_server_tasks(mcp_connection_server(connection));
        _cleanup_text_ struct mcp_text text = MCP_TEXT(DETAIL_BYTES_MAX);
        const char *id = admit(message, meta, target);

        if (id == NULL)
                return;
        if (get_task(tasks, mcp_connection_principal(connection), id, &text) < 0)
                reply_unknown(message, target);
        else
                reply_text(message, target, &text);
}

/* ---- tasks/update, tasks/cancel ------------------------------------------------------------------------ */

/* Whether there is such a task that is not in the table: another server's, or one that ended with its own. */
static bool is_elsewhere(struct mcp_tasks *tasks, const char *principal, const char *id, bool *ret_at_work) {
        _cleanup_record_ struct mcp_task_record record = {.payload = MCP_TEXT(0)};

        if (read_record(tasks, principal, id, &record) < 0)
                return false;
        *ret_at_work = !mcp_task_has_ended(record.status) && mcp_task_store_is_alive(tasks->store, record.server);
        return true;
}

static void answer_elsewhere(struct mcp_tasks *tasks, const char *principal, const char *id,
                             const struct mcp_message *message, const struct mcp_target *target) {
        bool at_work = false;

        if (!is_elsewhere(tasks, principal, id, &at_work))
                reply_unknown(message, target);
        else if (at_work)
                mcp_reply_error(target, &message->id, MCP_INTERNAL_ERROR,
                                "another server process works on this task, and this one can't reach it", NULL);
        else
                acknowledge(message, target); /* it has ended: nothing is left to do */
}

/* Gives a task what it asks for. False: it still asks for something, or did not ask. */
static bool supply(struct mcp_call *call, const json_t *responses) {
        bool asked, all;

        pthread_mutex_lock(&call->lock);
        asked = json_object_size(call->pending) > 0;
        (void)mcp_call_supply(call, responses); /* what does not fit, or finds no memory, stays asked for */
        all = asked && json_object_size(call->pending) == 0;
        if (all)
                mcp_call_wake(call);
        pthread_mutex_unlock(&call->lock);
        return all;
}

void mcp_tasks_update(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_meta *meta,
                      const struct mcp_target *target) {
        struct mcp_tasks *tasks = mcp_server_tasks(mcp_connection_server(connection));
        const char *principal = mcp_connection_principal(connection), *id = admit(message, meta, target);
        const json_t *responses = json_object_get(message->params, "inputResponses");
        struct mcp_task *task;

        if (id == NULL)
                return;
        if (!json_is_object(responses) || mcp_answers_too_many(responses)) {
                mcp_reply_error(target, &message->id, MCP_INVALID_PARAMS,
                                "params.inputResponses must be an object, of not too many or too large answers", NULL);
                return;
        }
        if (!lock_tasks(tasks, id)) {
                reply_unknown(message, target);
                return;
        }
        task = mcp_tasks_find(tasks, principal, id);
        if (task != NULL && task->call != NULL && !mcp_task_has_ended(task->record.status)) {
                (void)supply(task->call, responses); /* the thread that asked tells what follows */
                task->record.updated_ms = mcp_tasks_now_ms();
        }
        pthread_mutex_unlock(&tasks->lock);
        if (task != NULL)
                acknowledge(message, target);
        else
                answer_elsewhere(tasks, principal, id, message, target);
}

/* Whether there is such a task in the table; it is cancelled then. Gives the lock, which the caller holds, back. */
static bool cancel_own(struct mcp_tasks *tasks, const char *principal, const char *id) {
        struct mcp_task *task = mcp_tasks_find(tasks, principal, id);
        bool ends = task != NULL && mcp_task_begin_end(task, MCP_TASK_CANCELLED, "cancelled by the client");
        struct mcp_call *call = ends && task->call != NULL ? mcp_call_ref(task->call) : NULL;

        pthread_mutex_unlock(&tasks->lock);
        if (ends)
                mcp_task_store_end(task);
        if (call != NULL) {
                mcp_call_end(call);
                mcp_call_unref(call);
        }
        return task != NULL;
}

void mcp_tasks_cancel(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_meta *meta,
                      const struct mcp_target *target) {
        struct mcp_tasks *tasks = mcp_server_tasks(mcp_connection_server(connection));
        const char *principal = mcp_connection_principal(connection), *id = admit(message, meta, target);

        if (id == NULL)
                return;
        if (!lock_tasks(tasks, id))
                reply_unknown(message, target);
        else if (cancel_own(tasks, principal, id)) /* unlocks */
                acknowledge(message, target);
        else
                answer_elsewhere(tasks, principal, id, message, target);
}
