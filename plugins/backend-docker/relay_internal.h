/* SPDX-License-Identifier: Apache-2.0 */
/* Between the relay's files: relay.c has the thread, relay_line.c what it does for one line. */
#ifndef DOCKER_RELAY_INTERNAL_H
#define DOCKER_RELAY_INTERNAL_H

#include <stdatomic.h>

#include "relay_frames.h"
#include "relay_pending.h"

#define RELAY_CHUNK ((size_t)64 << 10)

struct relay {
        int epoll_fd, wake_fd;
        pthread_t thread;

        pthread_mutex_t lock; /* protects everything below, all lines and their streams */
        pthread_cond_t changed;
        struct relay_line *lines;
        bool stop;
        bool look;                        /* at all lines: one of them has `again`, `tell` or `released` */
        unsigned char chunk[RELAY_CHUNK]; /* for whoever holds the lock */
};

struct relay_line {
        struct relay *relay;
        struct relay_line *next;
        struct relay_end end;
        struct engine_stream *stream; /* NULL: it ended */
        struct engine_stream *input;  /* takes what the core sends; NULL: `stream` does */
        int control_fd;               /* our end; -1: the core's is closed, or the line is dead */
        int exit_fd;                  /* written to once: the line is dead */
        uint32_t stream_events, input_events, control_events; /* what epoll watches; 0: it does not */
        struct pending in, out;                               /* to the core; to the container */
        struct mux mux;
        struct frames from_guest, to_guest;
        size_t first_left;   /* bytes at the start of `out` that are no frames yet */
        bool waiting;        /* for the answer to a request */
        bool answered;       /* at least one of them */
        bool held;           /* nothing is taken from the core for now */
        bool core_gone;      /* it closed its end */
        bool input_lost;     /* `input` is over: not to be written to any more */
        bool ended;          /* the stream is over; what came with it is still on its way to the core */
        bool tell;           /* `ended` is to be called */
        bool again;          /* its turn was over before it was done */
        bool released, gone; /* to be taken out by the thread; it was */
        atomic_bool dead;
        struct tail words;
};

/* With the lock held. */
/* Moves what can be moved without waiting, and watches for the rest. */
void relay_line_pump(struct relay_line *line);
void relay_line_die(struct relay_line *line);
void relay_wake(struct relay *relay);

#endif
