/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that make containers and those that say what became of it. */
#ifndef DOCKER_CONTAINER_INTERNAL_H
#define DOCKER_CONTAINER_INTERNAL_H

#include "container.h"

/* Limits as the container gets them: what was asked for, else the options, never beyond memory_max. */
struct container_limits {
        uint64_t memory_bytes;
        int64_t nano_cpus; /* 0: none */
        uint32_t pids;
};
struct container_limits container_limits_of(const struct docker_options *options, const struct sbx_limits *asked);

bool engine_is_podman(const struct engine_info *info);
/* The directory that is mounted; NULL: none. */
const char *container_workspace(const struct docker *docker);
/* Does this container get the engine's init as process 1? */
/* Must its worker keep its input, because the engine closes it when a stream breaks? */
bool guest_input_is_kept(const struct docker *docker, const struct container_wish *wish);
bool container_has_init(const struct docker *docker, const struct container_wish *wish);

/* container_config.c: the body of POST /containers/create. `volumes`: paths that the image declares as volumes, an
 * object with them as keys, or NULL. */
int container_config(struct docker *docker, const struct container_wish *wish, const json_t *volumes,
                     json_t **ret_config, struct sbx_error *err);

#endif
