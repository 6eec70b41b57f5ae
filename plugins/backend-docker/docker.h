/* SPDX-License-Identifier: Apache-2.0 */
/* The instance of backend-docker: what its parts share. Data flows one way: options -> engine -> image -> container ->
 * guest; owner.c and scope.c keep the books of containers. */
#ifndef DOCKER_H
#define DOCKER_H

#include <pthread.h>
#include <stdbool.h>

#include <snipara-sandbox/backend.h>

#include "engine.h"
#include "options.h"

#define DOCKER_ORIGIN "backend-docker"

struct docker {
        const struct sbx_host *host;
        struct docker_options options; /* never change after open */
        char id[33];                   /* of this instance of this server: random, lower-case hex; the owner label */

        /* From start to stop; see each header for its locks. */
        struct engine *engine;
        struct payloads *payloads;
        struct relay *relay;
        struct owner *owner;
        struct images *images;
        struct scopes *scopes;

        pthread_mutex_t lock; /* protects what follows */
        uint64_t next_guest;  /* for names and marks */
};

SBX_PRINTF(3, 4) void docker_log(const struct docker *docker, int level, const char *format, ...);

/* guest.c */
extern const struct sbx_backend_ops docker_ops;
/* probe.c: what `doctor` shows: each place where an engine may be, the one that is used and why not the others, its
 * version, what it can isolate with, the images, and a container that is really run. */
int docker_probe(void *instance, const struct sbx_probe_events *events, const struct sbx_call *call);

#endif
