/* SPDX-License-Identifier: Apache-2.0 */
/* One request to a guest and all that happens until its result: one loop that sends, receives frames and output, and
 * watches the deadline, the CPU time, the cancel descriptor and the guest's life. Nothing in it blocks or grows without
 * bound, whatever the guest does. */
#pragma once

#include "guest/process.h"

/* What was written to one of the guest's standard streams. */
struct sbx_capture {
        struct sbx_buffer text; /* its maximum is the cap */
        uint64_t dropped;
};

enum sbx_stop { SBX_STOP_NONE = 0, SBX_STOP_TIMEOUT, SBX_STOP_CPU, SBX_STOP_CANCELLED };

struct sbx_exchange {
        struct sbx_bytes head, blob; /* the request: an encoded head, and what follows it */
        struct sbx_buffer reply;     /* a frame that answers one of the guest's; empty when all of it is out */
        uint64_t deadline_ns;        /* 0: none */
        uint64_t cpu_limit_ns;       /* 0: none; beyond `cpu_start_ns` */
        uint64_t cpu_start_ns;
        uint64_t grace_ns;
        int cancel_fd;                /* -1: none */
        size_t frame_max;             /* the largest frame that this request may bring */
        struct sbx_capture *captures; /* of fds 1 and 2; NULL: output is dropped */
        const struct sbx_output_events *events;
        /* Takes a frame. 0: go on; 1: this was the result; negative: the guest broke the protocol, or no memory. */
        int (*take)(struct sbx_exchange *exchange, const struct sbx_frame *frame, struct sbx_error *err);
        /* All of the request is out: what follows it, as a new `head` and `blob` (and `sent` of 0). 1: there is more;
         * 0: that was it. NULL: nothing follows. */
        int (*refill)(struct sbx_exchange *exchange, struct sbx_error *err);
        void *data;

        enum sbx_stop stop; /* why the guest was interrupted */
        bool began;         /* at least one byte of the request was sent */
        bool heard;         /* something has been received since */
        bool unread;        /* the guest closed its stream before it had read the request, so nothing of it was done */
        bool reply_is_cut;  /* a part of the reply is out, and the rest is not */
        size_t sent;
        uint64_t kill_at_ns, next_interrupt_ns, next_cpu_check_ns;
};

/* Did nothing of the request happen, so that another guest may be asked? After -EPIPE. */
static inline bool sbx_channel_untouched(const struct sbx_exchange *exchange) {
        return !exchange->began || (exchange->unread && exchange->stop == SBX_STOP_NONE);
}

/* 0: the result came, and what had been written until then was read. -EPIPE: the guest closed its stream or died;
 * -EPROTO: it broke the protocol; -ETIMEDOUT: it did not stop within the grace period (`stop` tells why it should
 * have); -ENOMEM, -errno of poll(). After a negative return the guest is of no use any more. */
int sbx_channel_run(struct sbx_guest_process *guest, struct sbx_exchange *exchange, struct sbx_error *err);
/* Keeps what fits below the cap, counts the rest, and tells the events. `fd` is 1 or 2. */
int sbx_channel_output(struct sbx_exchange *exchange, int fd, struct sbx_bytes bytes, struct sbx_error *err);
/* For `take` after it did something that took time: stops the execution if a limit was reached or it was cancelled
 * meanwhile, so that `stop` tells the truth. */
void sbx_channel_check(struct sbx_guest_process *guest, struct sbx_exchange *exchange);
