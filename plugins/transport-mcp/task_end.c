/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a task: once, whoever brings it about; durable, and then told. */
#include <stdlib.h>

#include "tasks_private.h"

#define GRACE_MS (5 * 60 * 1000) /* an end is kept for that long at least, if the time to live is not shorter */

bool mcp_task_begin_end(struct mcp_task *task, enum mcp_task_status status, const char *message) {
        struct mcp_task_record *record = &task->record;
        int64_t now_ms = mcp_tasks_now_ms(), grace_ms = record->ttl_ms < GRACE_MS ? record->ttl_ms : GRACE_MS;

        if (mcp_task_has_ended(record->status))
                return false;
        record->status = status;
        record->updated_ms = now_ms;
        if (record->ttl_ms < now_ms - record->created_ms + grace_ms)
                record->ttl_ms = now_ms - record->created_ms + grace_ms;
        if (message != NULL)
                mcp_task_set_message(task, message);
        task->busy = task->storing = true;
        return true;
}

void mcp_task_store_end(struct mcp_task *task) {
        struct mcp_tasks *tasks = task->tasks;
        struct sbx_error err = {0};
        int r = mcp_task_store_write(tasks->store, &task->record, &err);

        if (r < 0)
                mcp_tasks_complain(tasks, &err); /* it is told from memory, as long as the server lives */
        pthread_mutex_lock(&tasks->lock);
        task->storing = false;
        pthread_cond_broadcast(&tasks->left);
        pthread_mutex_unlock(&tasks->lock);
        mcp_task_tell(task);
        pthread_mutex_lock(&tasks->lock);
        if (r == 0)
                mcp_text_free(&task->record.payload);
        task->busy = false;
        pthread_cond_broadcast(&tasks->left);
        pthread_mutex_unlock(&tasks->lock);
}

static int write_result(const struct mcp_task *task, struct mcp_call *call, struct sbx_bytes result,
                        struct mcp_text *payload) {
        _cleanup_text_ struct mcp_text storage = MCP_TEXT(MCP_RESULT_BYTES_MAX);
        struct sbx_bytes shaped;
        int r = mcp_call_shape(call, task->revision, result, &storage, &shaped);

        if (r < 0)
                return r;
        /* Every result of a modern revision says its type. */
        if (memmem(shaped.data, shaped.size, "\"resultType\"", strlen("\"resultType\"")) != NULL)
                return mcp_text_append(payload, shaped.data, shaped.size);
        mcp_text_append_literal(payload, "{\"resultType\":\"complete\"");
        mcp_text_append_literal(payload, shaped.size > 2 ? "," : "");
        return mcp_text_append(payload, (const char *)shaped.data + 1, shaped.size - 1);
}

static void write_error(int code, const char *message, const struct mcp_text *data, struct mcp_text *payload) {
        mcp_text_append_literal(payload, "{\"code\":");
        mcp_text_append_int(payload, code);
        mcp_text_append_literal(payload, ",\"message\":");
        mcp_text_append_string(payload, message, strlen(message));
        if (data != NULL && data->size > 0) {
                mcp_text_append_literal(payload, ",\"data\":");
                mcp_text_append(payload, data->data, data->size);
        }
        mcp_text_append_literal(payload, "}");
}

static enum mcp_task_status write_payload(const struct mcp_task *task, struct mcp_call *call, int status,
                                          struct sbx_bytes result, const struct sbx_error *err, bool stopping,
                                          struct mcp_text *payload) {
        _cleanup_failure_ struct mcp_failure failure = {0};

        if (status == 0 && write_result(task, call, result, payload) == 0)
                return MCP_TASK_COMPLETED;
        mcp_text_free(payload);
        if (status == 0) {
                write_error(MCP_INTERNAL_ERROR, MCP_BAD_RESULT, NULL, payload);
        } else if (stopping) {
                write_error(MCP_INTERNAL_ERROR, "the server ended while the task was at work; call the tool again",
                            NULL, payload);
        } else {
                mcp_call_failure(call, task->revision, status, err, &failure);
                write_error(failure.code, failure.message, &failure.data, payload);
        }
        return MCP_TASK_FAILED;
}

void mcp_task_end(struct mcp_task *task, int status, struct sbx_bytes result, const struct sbx_error *err) {
        struct mcp_text payload = MCP_TEXT(MCP_TASK_PAYLOAD_MAX);
        struct mcp_tasks *tasks = task->tasks;
        struct mcp_call *call;
        enum mcp_task_status state;
        bool stopping, ends;

        pthread_mutex_lock(&tasks->lock);
        call = task->call;
        stopping = tasks->stopping;
        pthread_mutex_unlock(&tasks->lock);
        state = write_payload(task, call, status, result, err, stopping, &payload);
        pthread_mutex_lock(&tasks->lock);
        ends = mcp_task_begin_end(task, state, NULL);
        if (ends) {
                mcp_text_free(&task->record.payload);
                task->record.payload = payload;
                payload = (struct mcp_text)MCP_TEXT(0);
        }
        task->call = NULL;
        pthread_mutex_unlock(&tasks->lock);
        mcp_text_free(&payload);
        if (ends)
                mcp_task_store_end(task);
        mcp_call_unref(call);
}
