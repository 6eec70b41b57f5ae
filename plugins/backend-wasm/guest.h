/* SPDX-License-Identifier: Apache-2.0 */
/* A guest as the server sees it; between the files of the backend's operations. */
#pragma once

#include "helper.h"

struct wasm_status;

struct guest {
        struct backend *backend;
        struct helper *helper;
        const struct guest_image *image;
        uint64_t id;
        int pidfd;                  /* -1: not started */
        int command;                /* the command socket */
        struct wasm_status *status; /* shared with the guest, which may write anything into it */
        char *report;

        pthread_mutex_t command_lock; /* one command at a time */

        pthread_mutex_t lock; /* protects what follows */
        enum { GUEST_CLOCK_UNKNOWN, GUEST_CLOCK_NONE, GUEST_CLOCK_FOUND } clock;
        clockid_t clock_id; /* of its processor time */
        uint64_t cpu_ns;    /* when it was last read */
        int exit_code;      /* INT32_MIN: not asked for yet */
};

/* Our ends of what a guest is given, and the guest's. */
#define GUEST_STREAMS 3 /* control, command, status page: in protocol.h's order */
struct guest_streams {
        int ours[GUEST_STREAMS], theirs[GUEST_STREAMS]; /* of the status page only theirs */
};

/* ---- guest.c */

bool guest_is_dead(const struct guest *guest);
uint64_t guest_memory_limit(const struct backend *backend, const struct sbx_limits *limits);
/* An empty one of `image`, to be started; guest_close frees it. NULL: out of memory. */
struct guest *guest_new(struct backend *backend, const struct guest_image *image);
int guest_streams_open(struct guest *guest, uint64_t memory_bytes, struct guest_streams *streams,
                       struct sbx_error *err);
void guest_streams_close(struct guest_streams *streams);
/* Hands a guest that runs over to the host. */
int guest_hand_over(struct guest *guest, uint64_t memory_bytes, struct guest_streams *streams,
                    struct sbx_guest *ret_guest, struct sbx_error *err);
/* Starts a guest of `image`; `state_fd` >= 0: a snapshot to begin with. */
int guest_start_with(struct backend *backend, struct guest_image *image, const struct sbx_guest_spec *spec,
                     int state_fd, const struct sbx_call *call, struct sbx_guest *ret_guest, struct sbx_error *err);

/* ---- usage.c */

/* Reads what it has used of the processor, as long as it lives. */
void guest_read_cpu(struct guest *guest);

/* ---- snapshots.c */

/* Until a guest that was started with a snapshot has taken it in, or says why not. */
int snapshot_await(struct guest *guest, int command, const struct sbx_call *call, struct sbx_error *err);
