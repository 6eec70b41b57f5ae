/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that start helper processes and speak with them. */
#pragma once

#include "helper.h"

struct helper {
        atomic_uint references;
        struct backend *backend;
        pthread_mutex_t lock; /* one question at a time: protects what follows, except `dead` */
        int socket, pidfd;
        int log; /* what the program printed before it was ready */
        bool ready, ended;
        char *layers;     /* once it is ready */
        atomic_bool dead; /* of no use any more, but perhaps not reaped yet */
};

/* ---- helper_start.c */

/* A started program that is not ready yet. */
int helper_new(struct backend *backend, const struct guest_image *image, const struct sbx_call *call,
               struct helper **ret_helper, struct sbx_error *err);
