/* SPDX-License-Identifier: Apache-2.0 */
/* A submitted request, most often the call of a tool: what services.c makes and threads.c runs. */
#pragma once

#include "tools/state.h"

#define SBX_TOOL_REQUEST_MAX ((size_t)1 << 20) /* bytes of arguments of what is no tool call */

struct sbx_tool_task {
        /* Never change. */
        struct sbx_tools *tools;
        uint32_t kind;                      /* enum sbx_request_kind */
        const struct sbx_tool_entry *entry; /* of a tool call that was not refused */
        char *name;                         /* of another request; may be NULL */
        struct sbx_client client;           /* without struct_size: there is none */
        struct sbx_request_done done;
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
        uint64_t begun_ns;                     /* running */
        bool cancelled;

        /* Belong to the thread that runs it. */
        json_t *arguments;       /* of a tool call */
        char *request_arguments; /* of another request: JSON text */
        size_t request_arguments_size;
        struct sbx_error problem;

        unsigned references; /* atomic: who submitted it, and the queue */
};

/* Puts it at the end of the queue, which takes a reference over. -EBUSY, -ESHUTDOWN, -EAGAIN: the reference stays. */
int sbx_tool_task_queue(struct sbx_tool_task *task, struct sbx_error *err);
void sbx_tool_task_cancel(struct sbx_tool_task *task);
void sbx_tool_task_unref(struct sbx_tool_task *task);

/* ---- services.c ---- */

/* Before it is queued: it waits for those of its principal that named the same value. -ENOMEM. */
int sbx_tool_task_set_lane(struct sbx_tool_task *task, const char *argument, const char *value);

/* ---- requests.c ---- */

/* The arguments of a request that is no tool call; one that can't be answered is refused. -ENOMEM. */
int sbx_tool_task_prepare_request(struct sbx_tool_task *task, struct sbx_bytes arguments, struct sbx_error *err);
int sbx_tool_task_answer(struct sbx_tool_task *task, struct sbx_buffer *out_json, struct sbx_error *err);
