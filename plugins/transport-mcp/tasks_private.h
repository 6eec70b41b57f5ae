/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of tasks: the table of those that this server looks after. */
#pragma once

#include "call_private.h"
#include "task_store.h"
#include "task_tools.h"

/* One that this server works on, or that ended and whose record it keeps. */
struct mcp_task {
        struct mcp_tasks *tasks;
        struct mcp_task *next;
        struct mcp_task_record record; /* its payload is here only while it is not in the store */
        enum mcp_revision revision;
        struct mcp_call *call; /* with a reference; NULL: it has ended */
        bool busy;             /* its record is being written, or it is about to be known */
        bool storing;          /* it has ended, and its record does not say so yet */
        bool asks;             /* see call->pending */
        bool told_end;         /* by mcp_tasks_stop */
        uint64_t told_ns;      /* when a message was told last */
};

struct mcp_tasks {
        struct mcp_server *server;
        struct mcp_task_tools *tools;
        char id[MCP_RANDOM_ID_SIZE]; /* of the server, in records */

        pthread_mutex_t lock; /* protects what follows; a call's lock may be taken under it */
        pthread_cond_t left;
        struct mcp_task_store *store; /* NULL until something is asked of tasks */
        struct mcp_task *tasks;       /* the newest first */
        size_t count;
        size_t alive; /* calls that have become tasks, and are not freed yet */
        bool stopping, complained;
};

int64_t mcp_tasks_now_ms(void);
bool mcp_task_is_expired(const struct mcp_task_record *record, int64_t now_ms);
/* Opens the store if that was not done; the caller holds the lock. */
int mcp_tasks_open_store(struct mcp_tasks *tasks, struct sbx_error *err);
/* NULL: there is none for this principal. The caller holds the lock. */
struct mcp_task *mcp_tasks_find(struct mcp_tasks *tasks, const char *principal, const char *id);
/* Into the log; never to a client. */
void mcp_tasks_complain(struct mcp_tasks *tasks, const struct sbx_error *err);
/* The caller holds the lock. */
void mcp_task_set_message(struct mcp_task *task, const char *message);
/* Tells who listens what has become of it. */
void mcp_task_tell(struct mcp_task *task);

/* Nobody works on it any more: makes a failure of it. */
void mcp_task_give_up(struct mcp_task_record *record);

/* ---- task_end.c ---- */

/* Gives it its end, unless it has one: true, and the caller passes it to mcp_task_store_end when the lock, which it
 * holds, is free. */
bool mcp_task_begin_end(struct mcp_task *task, enum mcp_task_status status, const char *message);
/* Makes the end durable, and tells who listens. */
void mcp_task_store_end(struct mcp_task *task);

/* ---- task_methods.c ---- */

/* The members that every shape of a task has, without the braces. */
void mcp_task_write_members(const struct mcp_task_record *record, struct mcp_text *text);
/* DetailedTask, from the members and the payload of an ended one; `pending` is what is asked, NULL: nothing. */
void mcp_task_write(const struct mcp_task_record *record, const json_t *pending, struct mcp_text *text);
/* The same of a task of ours, whose payload, if it is in the store, is left out. The caller holds the lock. */
void mcp_task_write_own(const struct mcp_task *task, struct mcp_text *text);
