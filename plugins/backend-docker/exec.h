/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are added to a running container: https://docs.docker.com/engine/api/v1.41/#tag/Exec . They run as the
 * container's user, in its directory, with its limits and rights. */
#ifndef DOCKER_EXEC_H
#define DOCKER_EXEC_H

#include "container.h"

struct exec_wish {
        const char *container;        /* its id */
        const char *const *argv;      /* NULL-terminated */
        const char *const *arguments; /* more of them; may be NULL */
        const char *const *variables; /* "NAME=value" beside those of the container; may be NULL */
        bool input;                   /* its standard input is the stream's */
};

/* -ENOENT: the container is gone; -EBUSY: it does not run. */
int exec_create(struct engine *engine, const struct exec_wish *wish, const struct sbx_call *call,
                char ret_id[CONTAINER_ID_MAX], struct sbx_error *err);
/* Starts it. The stream ends when it does, and its input when the stream is freed. */
int exec_open(struct engine *engine, const char *id, const struct sbx_call *call, struct engine_stream **ret_stream,
              struct sbx_error *err);
/* The exit code of one that has ended, INT32_MIN for one that runs. */
int exec_look(struct engine *engine, const char *id, const struct sbx_call *call, int *ret_code, struct sbx_error *err);
/* Runs one to its end; what it says is thrown away. The call must have a deadline. */
int exec_run(struct engine *engine, const struct exec_wish *wish, const struct sbx_call *call, int *ret_code,
             struct sbx_error *err);

#endif
