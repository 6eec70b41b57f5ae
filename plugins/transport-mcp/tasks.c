/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that have become tasks (extension io.modelcontextprotocol/tasks): from a durable record, written before the
 * client hears of it, to an end that is kept for a while. */
#include "tasks_private.h"

#include <snipara-sandbox/utf8.h>
#include <stdlib.h>
#include <time.h>

#include "subscriptions.h"

#define TASKS_TOTAL_MAX 4096u
#define MESSAGE_INTERVAL_NS 1000000000ull /* between two messages of one task that listeners are told of */
#define DETAIL_BYTES_MAX (MCP_TASK_PAYLOAD_MAX + (1u << 20))

/* ---- the table ----------------------------------------------------------------------------------------- */

int64_t mcp_tasks_now_ms(void) {
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int mcp_tasks_new(struct mcp_server *server, struct mcp_tasks **ret_tasks, struct sbx_error *err) {
        struct mcp_tasks *tasks = malloc(sizeof(*tasks));
        int r;

        if (tasks == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for the server's tasks");
        *tasks = (struct mcp_tasks){.server = server};
        r = mcp_task_tools_new(mcp_server_settings(server)->host, &tasks->tools, err);
        if (r < 0) {
                free(tasks);
                return r;
        }
        mcp_random_id(tasks->id);
        pthread_mutex_init(&tasks->lock, NULL);
        pthread_cond_init(&tasks->left, NULL);
        *ret_tasks = tasks;
        return 0;
}

static void task_free(struct mcp_task *task) {
        mcp_task_record_free(&task->record);
        free(task);
}

void mcp_tasks_free(struct mcp_tasks *tasks) {
        if (tasks == NULL)
                return;
        for (struct mcp_task *task = tasks->tasks, *next; task != NULL; task = next) {
                next = task->next;
                task_free(task);
        }
        mcp_task_store_close(tasks->store);
        mcp_task_tools_free(tasks->tools);
        pthread_cond_destroy(&tasks->left);
        pthread_mutex_destroy(&tasks->lock);
        free(tasks);
}

bool mcp_tasks_requires(struct mcp_tasks *tasks, const char *tool) {
        return mcp_task_tools_require(tasks->tools, tool);
}

void mcp_tasks_left(struct mcp_tasks *tasks) {
        pthread_mutex_lock(&tasks->lock);
        tasks->alive--;
        pthread_cond_broadcast(&tasks->left);
        pthread_mutex_unlock(&tasks->lock);
}

bool mcp_task_is_expired(const struct mcp_task_record *record, int64_t now_ms) {
        return now_ms > record->created_ms + record->ttl_ms;
}

/* Neither worked on, nor in anybody's hands. */
static bool is_idle(const struct mcp_task *task) {
        return task->call == NULL && !task->busy;
}

static void drop(struct mcp_tasks *tasks, struct mcp_task *task) {
        struct mcp_task **at = &tasks->tasks;

        while (*at != task)
                at = &(*at)->next;
        *at = task->next;
        tasks->count--;
        mcp_task_store_remove(tasks->store, task->record.id);
        task_free(task);
}

struct mcp_task *mcp_tasks_find(struct mcp_tasks *tasks, const char *principal, const char *id) {
        for (struct mcp_task *task = tasks->tasks; task != NULL; task = task->next) {
                if (strcmp(task->record.id, id) != 0 || strcmp(task->record.principal, principal) != 0)
                        continue;
                if (!is_idle(task) || !mcp_task_is_expired(&task->record, mcp_tasks_now_ms()))
                        return task;
                drop(tasks, task);
                return NULL;
        }
        return NULL;
}

static void drop_expired(struct mcp_tasks *tasks) {
        int64_t now_ms = mcp_tasks_now_ms();

        for (struct mcp_task *task = tasks->tasks, *next; task != NULL; task = next) {
                next = task->next;
                if (is_idle(task) && mcp_task_is_expired(&task->record, now_ms))
                        drop(tasks, task);
        }
}

/* The number of a principal's tasks, and the oldest that could go (NULL: none). */
static size_t count_tasks(const struct mcp_tasks *tasks, const char *principal, struct mcp_task **ret_oldest) {
        size_t count = 0;

        *ret_oldest = NULL;
        for (struct mcp_task *task = tasks->tasks; task != NULL; task = task->next) {
                if (strcmp(task->record.principal, principal) != 0)
                        continue;
                count++;
                if (is_idle(task) &&
                    (*ret_oldest == NULL || task->record.created_ms <= (*ret_oldest)->record.created_ms))
                        *ret_oldest = task;
        }
        return count;
}

bool mcp_tasks_have_room(struct mcp_tasks *tasks, const char *principal) {
        size_t tasks_max = mcp_server_settings(tasks->server)->tasks_max;
        struct mcp_task *oldest;
        bool room;

        pthread_mutex_lock(&tasks->lock);
        room = count_tasks(tasks, principal, &oldest) < tasks_max || oldest != NULL;
        pthread_mutex_unlock(&tasks->lock);
        return room;
}

static bool make_room(struct mcp_tasks *tasks, const char *principal) {
        size_t tasks_max = mcp_server_settings(tasks->server)->tasks_max;
        struct mcp_task *oldest;

        drop_expired(tasks);
        while (count_tasks(tasks, principal, &oldest) >= tasks_max) {
                if (oldest == NULL)
                        return false;
                drop(tasks, oldest);
        }
        return tasks->count < TASKS_TOTAL_MAX;
}

void mcp_tasks_complain(struct mcp_tasks *tasks, const struct sbx_error *err) {
        const struct sbx_host *host = mcp_server_settings(tasks->server)->host;
        char line[SBX_ERROR_MESSAGE_MAX + SBX_ERROR_HINT_MAX + 4];

        snprintf(line, sizeof(line), "%s. %s", err->message, err->hint);
        host->log(host->self, SBX_LOG_WARNING, line);
}

/* ---- records of servers that are gone ------------------------------------------------------------------- */

void mcp_task_give_up(struct mcp_task_record *record) {
        char *message = strdup("the server ended while the task was at work");

        record->status = MCP_TASK_FAILED;
        record->updated_ms = mcp_tasks_now_ms();
        free(record->message);
        record->message = message; /* NULL: without a message, then */
        mcp_text_free(&record->payload);
        record->payload = (struct mcp_text)MCP_TEXT(1024);
        mcp_text_append_literal(&record->payload,
                                "{\"code\":-32603,\"message\":\"the server ended while the task was at "
                                "work; call the tool again\"}");
}

static void adopt(void *data, struct mcp_task_record *record) {
        struct mcp_tasks *tasks = data;
        struct mcp_task *task;

        if (mcp_task_store_is_alive(tasks->store, record->server))
                return; /* that server looks after it */
        if (mcp_task_is_expired(record, mcp_tasks_now_ms()) && mcp_task_has_ended(record->status)) {
                mcp_task_store_remove(tasks->store, record->id);
                return;
        }
        task = malloc(sizeof(*task));
        if (task == NULL)
                return; /* it can be read all the same */
        *task = (struct mcp_task){.tasks = tasks, .next = tasks->tasks, .record = *record, .revision = MCP_2026_07_28};
        *record = (struct mcp_task_record){.payload = MCP_TEXT(0)};
        if (!mcp_task_has_ended(task->record.status)) {
                mcp_task_give_up(&task->record);
                if (mcp_task_store_write(tasks->store, &task->record, NULL) == 0)
                        mcp_text_free(&task->record.payload);
        }
        tasks->tasks = task;
        tasks->count++;
}

int mcp_tasks_open_store(struct mcp_tasks *tasks, struct sbx_error *err) {
        struct sbx_error own = {0};
        int r;

        if (tasks->store != NULL)
                return 0;
        r = mcp_task_store_open(mcp_server_settings(tasks->server)->host, tasks->id, &tasks->store, &own);
        if (r == 0) {
                /* What can't be listed now can be read by its id all the same. */
                (void)mcp_task_store_scan(tasks->store, adopt, tasks);
                return 0;
        }
        if (!tasks->complained)
                mcp_tasks_complain(tasks, &own);
        tasks->complained = true;
        return sbx_error_set(err, r, "transport-mcp", own.hint, "%s", own.message);
}

/* ---- the beginning ------------------------------------------------------------------------------------- */

/* In the table, but nobody knows its id yet. NULL: there is no room, no memory or no place for records. */
static struct mcp_task *task_new(struct mcp_tasks *tasks, struct mcp_call *call, enum mcp_revision revision) {
        const struct mcp_settings *settings = mcp_server_settings(tasks->server);
        struct mcp_task *task = calloc(1, sizeof(*task));
        int64_t now_ms = mcp_tasks_now_ms();

        if (task == NULL)
                return NULL;
        task->record = (struct mcp_task_record){
                .status = MCP_TASK_WORKING,
                .created_ms = now_ms,
                .updated_ms = now_ms,
                .ttl_ms = (int64_t)settings->task_ttl_ms,
                .principal = strdup(call->principal),
                .payload = MCP_TEXT(MCP_TASK_PAYLOAD_MAX),
        };
        mcp_random_id(task->record.id);
        memcpy(task->record.server, tasks->id, sizeof(task->record.server));
        task->tasks = tasks;
        task->revision = revision;
        task->busy = true;
        pthread_mutex_lock(&tasks->lock);
        if (task->record.principal == NULL || tasks->stopping || mcp_tasks_open_store(tasks, NULL) < 0 ||
            !make_room(tasks, call->principal)) {
                pthread_mutex_unlock(&tasks->lock);
                task_free(task);
                return NULL;
        }
        task->next = tasks->tasks;
        tasks->tasks = task;
        tasks->count++;
        pthread_mutex_unlock(&tasks->lock);
        return task;
}

/* From here on the call is the task's, and ends with it. */
static void join(struct mcp_task *task, struct mcp_call *call) {
        struct mcp_tasks *tasks = task->tasks;
        bool stopping;

        pthread_mutex_lock(&tasks->lock);
        task->call = mcp_call_ref(call);
        task->busy = false;
        tasks->alive++;
        stopping = tasks->stopping;
        pthread_mutex_unlock(&tasks->lock);
        pthread_mutex_lock(&call->lock);
        call->record = task;
        pthread_mutex_unlock(&call->lock);
        mcp_waiting_left(mcp_server_waiting(call->server));
        if (stopping) /* mcp_tasks_stop did not see it */
                mcp_call_end(call);
}

static void forget(struct mcp_task *task) {
        struct mcp_tasks *tasks = task->tasks;

        pthread_mutex_lock(&tasks->lock);
        drop(tasks, task);
        pthread_mutex_unlock(&tasks->lock);
}

static void reply_created(const struct mcp_exchange *exchange, const struct mcp_task_record *record) {
        _cleanup_text_ struct mcp_text text = MCP_TEXT(16u << 10);

        mcp_text_append_literal(&text, "{\"resultType\":\"task\",");
        mcp_task_write_members(record, &text);
        mcp_text_append_literal(&text, "}");
        if (text.error == 0)
                mcp_reply_result(&exchange->target, &exchange->id, mcp_text_bytes(&text));
        else
                mcp_reply_error(&exchange->target, &exchange->id, MCP_INTERNAL_ERROR, "out of memory", NULL);
}

/* The revision of the request, if its client takes a task; else MCP_REVISION_NONE. */
static enum mcp_revision revision_for_task(struct mcp_call *call) {
        enum mcp_revision revision = MCP_REVISION_NONE;

        pthread_mutex_lock(&call->lock);
        if (call->record == NULL && call->exchange != NULL && !call->cancelled && call->how->may_task &&
            (call->capabilities & SBX_CLIENT_TASKS) != 0 && mcp_is_modern(call->exchange->target.revision))
                revision = call->exchange->target.revision;
        pthread_mutex_unlock(&call->lock);
        return revision;
}

int mcp_call_become_task(void *data) {
        struct mcp_call *call = data;
        struct mcp_tasks *tasks = mcp_server_tasks(call->server);
        enum mcp_revision revision = revision_for_task(call);
        struct mcp_exchange *exchange;
        struct sbx_error err = {0};
        struct mcp_task *task;

        if (revision == MCP_REVISION_NONE)
                return 0;
        task = task_new(tasks, call, revision);
        if (task == NULL)
                return 0;
        if (mcp_task_store_write(tasks->store, &task->record, &err) < 0) {
                mcp_tasks_complain(tasks, &err);
                forget(task);
                return 0;
        }
        exchange = mcp_call_detach(call);
        if (exchange == NULL) { /* it was cancelled meanwhile */
                forget(task);
                return 0;
        }
        join(task, call);
        reply_created(exchange, &task->record);
        mcp_exchange_unref(exchange);
        return 1;
}

/* ---- news ---------------------------------------------------------------------------------------------- */

void mcp_task_tell(struct mcp_task *task) {
        _cleanup_text_ struct mcp_text text = MCP_TEXT(DETAIL_BYTES_MAX);
        struct mcp_tasks *tasks = task->tasks;
        char id[MCP_RANDOM_ID_SIZE], *principal;

        pthread_mutex_lock(&tasks->lock);
        mcp_task_write_own(task, &text);
        memcpy(id, task->record.id, sizeof(id));
        principal = strdup(task->record.principal);
        pthread_mutex_unlock(&tasks->lock);
        if (text.error == 0 && principal != NULL)
                mcp_subscriptions_task(mcp_server_subscriptions(tasks->server), principal, id, mcp_text_bytes(&text));
        free(principal);
}

/* A copy that is UTF-8 and not too long; NULL: no memory. */
static char *copy_message(const char *message) {
        size_t size = strnlen(message, MCP_TASK_MESSAGE_MAX), length = 0;
        char *copy = malloc(size + 1);

        if (copy == NULL)
                return NULL;
        for (size_t i = 0, step; i<size; i += step> 0 ? step : 1) {
                step = sbx_utf8_length((const unsigned char *)message + i, size - i);
                if (step == 0)
                        copy[length++] = '?';
                for (size_t j = 0; j < step; j++)
                        copy[length++] = message[i + j];
        }
        copy[length] = '\0';
        return copy;
}

void mcp_task_set_message(struct mcp_task *task, const char *message) {
        char *copy = copy_message(message);

        if (copy == NULL)
                return;
        free(task->record.message);
        task->record.message = copy;
}

void mcp_task_message(struct mcp_task *task, const char *message) {
        const struct sbx_host *host = mcp_server_settings(task->tasks->server)->host;
        uint64_t now_ns = host->clock_ns(host->self);
        bool tell = false;

        pthread_mutex_lock(&task->tasks->lock);
        if (!mcp_task_has_ended(task->record.status)) {
                mcp_task_set_message(task, message);
                task->record.updated_ms = mcp_tasks_now_ms();
                tell = now_ns - task->told_ns >= MESSAGE_INTERVAL_NS;
                if (tell)
                        task->told_ns = now_ns;
        }
        pthread_mutex_unlock(&task->tasks->lock);
        if (tell)
                mcp_task_tell(task);
}

/* ---- questions ----------------------------------------------------------------------------------------- */

static void set_asks(struct mcp_task *task, bool asks) {
        pthread_mutex_lock(&task->tasks->lock);
        task->asks = asks;
        if (!mcp_task_has_ended(task->record.status))
                task->record.updated_ms = mcp_tasks_now_ms();
        pthread_mutex_unlock(&task->tasks->lock);
}

static int look(struct mcp_call *call) {
        int r;

        pthread_mutex_lock(&call->lock);
        r = call->cancelled ? -ECANCELED : json_object_size(call->pending) == 0;
        pthread_mutex_unlock(&call->lock);
        return r;
}

int mcp_task_wait_input(struct mcp_call *call, const struct sbx_call *limits) {
        const struct mcp_settings *settings = mcp_server_settings(call->server);
        uint64_t until_ns = settings->host->clock_ns(settings->host->self) + settings->input_timeout_ms * 1000000;
        struct mcp_task *task = call->record;
        int r;

        set_asks(task, true);
        mcp_task_tell(task);
        do {
                r = mcp_call_sleep(call, limits, until_ns);
                if (r == 0)
                        r = look(call);
        } while (r == 0);
        set_asks(task, false);
        if (r < 0)
                return r;
        mcp_task_tell(task);
        return 0;
}

/* ---- the end of the server ----------------------------------------------------------------------------- */

void mcp_tasks_stop(struct mcp_tasks *tasks) {
        struct mcp_task *task;
        struct mcp_call *call;

        pthread_mutex_lock(&tasks->lock);
        tasks->stopping = true;
        do {
                for (task = tasks->tasks; task != NULL && (task->call == NULL || task->told_end); task = task->next)
                        ;
                if (task != NULL) {
                        task->told_end = true;
                        call = mcp_call_ref(task->call);
                        pthread_mutex_unlock(&tasks->lock);
                        mcp_call_end(call);
                        mcp_call_unref(call);
                        pthread_mutex_lock(&tasks->lock);
                }
        } while (task != NULL);
        while (tasks->alive > 0)
                pthread_cond_wait(&tasks->left, &tasks->lock);
        pthread_mutex_unlock(&tasks->lock);
}
