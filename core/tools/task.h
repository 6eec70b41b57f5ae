/* SPDX-License-Identifier: Apache-2.0 */
/* A submitted call of a tool: what services.c makes and threads.c runs. */
#pragma once

#include "tools/state.h"

struct sbx_tool_task {
        /* Never change. */
        struct sbx_tools *tools;
        const struct sbx_tool_entry *entry; /* NULL: refused */
        struct sbx_tool_events events;
        char *principal;
        char *lane; /* NULL: none */
        uint64_t lane_hash;
        int cancel_fd; /* eventfd */
        int refused;   /* 0, or the negative errno that `done` gets, with `problem` */
        struct sbx_call call;
        struct sbx_tool_context told, context; /* `context` is `told`, through `beat` */
        struct sbx_beat beat;                  /* from the queue to the end; zeroes when refused */

        /* Protected by the lock of the threads. */
        struct sbx_tool_task *previous, *next; /* queued or running */
        bool cancelled;

        /* Belong to the thread that runs it. */
        json_t *arguments;
        struct sbx_error problem;

        unsigned references; /* atomic: who submitted it, and the queue */
};

/* Puts it at the end of the queue, which takes a reference over. -EBUSY, -ESHUTDOWN, -EAGAIN: the reference stays. */
int sbx_tool_task_queue(struct sbx_tool_task *task, struct sbx_error *err);
void sbx_tool_task_cancel(struct sbx_tool_task *task);
void sbx_tool_task_unref(struct sbx_tool_task *task);
