/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of one execution, for execute.c and the files that take its frames. */
#pragma once

#include "guest/channel.h"

#define SBX_EXECUTION_HEAD_MAX ((size_t)256 << 10)
#define SBX_EXECUTION_ANSWER_MAX ((size_t)4 << 20)
#define SBX_EXECUTION_REPLY_MAX ((size_t)17 << 20)

struct sbx_guest_run {
        struct sbx_guest_process *guest;
        const struct sbx_guest_execution *request;
        struct sbx_exchange exchange;
        struct sbx_capture captures[2];
        struct sbx_buffer head;
        struct sbx_result *result;
        json_t *answer;
        int64_t id;
        size_t display_bytes;
        unsigned stale;
        uint64_t started_ns;
        uint64_t answered_ns;        /* the time that the host took to answer the code's calls */
        const struct sbx_call *call; /* the caller's; NULL: none */
        struct sbx_guest_usage before, after;
};

/* calls.c: a call that the code makes back. 0; -EPROTO, -ENOMEM. */
int sbx_guest_take_call(struct sbx_guest_run *run, const struct sbx_frame *frame, struct sbx_error *err);
/* The execution's own deadline, which moves on by the time that answering took, or the caller's, which does not. */
void sbx_guest_set_deadline(struct sbx_guest_run *run);
