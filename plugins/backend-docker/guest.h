/* SPDX-License-Identifier: Apache-2.0 */
/* A guest: a container of its own (scope session), or a worker in one that others are in as well. */
#ifndef DOCKER_GUEST_H
#define DOCKER_GUEST_H

#include "container_internal.h"
#include "image.h"
#include "relay.h"

#define GUEST_MARK_MAX 64

struct docker_guest {
        struct docker *docker;
        const struct docker_runtime *runtime;
        const struct payload *payload;
        char container[CONTAINER_ID_MAX]; /* "": none yet */
        char exec[CONTAINER_ID_MAX];      /* scopes agent and shared: its exec */
        char mark[GUEST_MARK_MAX];        /* and its processes' */
        struct relay_line *line;
        struct usage_source *usage;
        char *report;
        bool input_kept; /* its worker holds an end of its own input */
        int cancel_fd; /* readable once it is to be killed: ends what its errands ask of the engine */

        pthread_mutex_t kill_lock; /* one kill at a time; taken before `lock` */
        bool killed;               /* protected by it: nothing of the guest runs, or the reaper sees to it */

        pthread_mutex_t lock; /* protects what follows */
        pthread_cond_t changed;
        struct container_limits limits; /* in force */
        struct sbx_guest_usage last;    /* what was read most lately */
        bool final;                     /* its exit code is known */
        unsigned wanted;                /* errands to be run */
        bool running;                   /* the thread that runs them */
        bool closing;                   /* no new ones */
};

/* ---- guest_errand.c: what takes the engine's time while nobody waits for it, in a thread that ends when it is done */

enum { ERRAND_INTERRUPT = 1, ERRAND_REATTACH = 2 };
/* One of a kind at a time: another one asked for meanwhile is the same one. -EAGAIN: no thread to be had. */
int guest_errand(struct docker_guest *guest, unsigned errand);
/* Ends those under way and lets no new ones begin; returns when none is left. */
void guest_errands_end(struct docker_guest *guest);
/* relay_end.ended */
void guest_stream_ended(void *data, bool idle);

/* ---- guest.c */

static inline bool guest_has_container(const struct docker_guest *guest) {
        return guest->docker->options.scope == DOCKER_SCOPE_SESSION;
}
int guest_attach(struct docker_guest *guest, const struct sbx_call *call, struct engine_stream **ret_stream,
                 struct sbx_error *err);
int docker_guest_start(void *instance, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                       struct sbx_guest *ret_guest, struct sbx_error *err);
void docker_guest_close(void *instance, void *handle);

/* ---- guest_usage.c */

int docker_guest_usage(void *instance, void *handle, struct sbx_guest_usage *ret_usage, struct sbx_error *err);

#endif
