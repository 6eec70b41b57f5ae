/* SPDX-License-Identifier: Apache-2.0 */
/* Containers: what the engine is asked for, and what it then says that it did. */
#ifndef DOCKER_CONTAINER_H
#define DOCKER_CONTAINER_H

#include "docker.h"
#include "payload.h"

#define CONTAINER_ID_MAX 65

struct container_wish {
        const struct docker_runtime *runtime;
        const struct payload *payload;
        const char *image; /* id, as image.c gave it */
        const char *name;  /* "snipara-sandbox-<owner>-<label>" */
        const char *mark;  /* scope session: NULL */
        struct sbx_limits limits;
        bool keeper;               /* process 1 is the keeper, workers are added by exec */
        const char *const *labels; /* "key=value", those of owner.c */
};

/* POST /containers/create. The error of a missing image, a refused option, a full disk says what to do. */
int container_create(struct docker *docker, const struct container_wish *wish, const struct sbx_call *call,
                     char ret_id[CONTAINER_ID_MAX], struct sbx_error *err);
/* What a refusal to start or attach a container means; `r` and `cause` are the engine's. Returns the code. */
int container_explain(const struct docker *docker, int r, const char *what, const struct sbx_error *cause,
                      struct sbx_error *err);
int container_start(struct docker *docker, const char *id, const struct sbx_call *call, struct sbx_error *err);
/* DELETE, force, with its volumes; gone already is 0. */
int container_remove(struct docker *docker, const char *id, struct sbx_error *err);
int container_signal(struct docker *docker, const char *id, const char *signal, const struct sbx_call *call,
                     struct sbx_error *err);

struct container_state {
        bool exists, running, oom_killed;
        int exit_code; /* INT32_MIN: unknown */
        long pid;      /* of process 1 on the engine's host; 0: unknown */
};
int container_inspect(struct docker *docker, const char *id, const struct sbx_call *call,
                      struct container_state *ret_state, json_t **ret_all, struct sbx_error *err);

/* report.c: the isolation report from what inspect says of the running container (never from the wish), and what the
 * engine says of itself: docs/isolation-report.md. A layer that was asked for and that inspect does not show is an
 * error
 * (-ENOTSUP): nothing runs in it. The text is the caller's. */
int container_report(struct docker *docker, const struct container_wish *wish, const json_t *inspected,
                     char **ret_report, struct sbx_error *err);

/* usage.c: from the control group if the engine is on this host and its files can be read (found through
 * /proc/PID/cgroup, believed only if the path holds the container's id), else from the engine's statistics. */
struct usage_source;
int usage_source_new(struct docker *docker, const char *id, long pid, struct usage_source **ret_source);
void usage_source_free(struct usage_source *source);
int usage_read(struct usage_source *source, struct sbx_guest_usage *ret_usage, struct sbx_error *err);

#endif
