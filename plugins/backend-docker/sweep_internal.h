/* SPDX-License-Identifier: Apache-2.0 */
/* Between what is removed as a whole and what is ended in containers that others go on with. */
#ifndef DOCKER_SWEEP_INTERNAL_H
#define DOCKER_SWEEP_INTERNAL_H

#include "container.h"
#include "owner.h"
#include "sweep.h"

/* The round's call with the deadline of one request. */
void sweep_call(const struct sweep *sweep, struct sbx_call *ret_call);
/* Gone already is 0. */
int sweep_remove(const struct sweep *sweep, const char *id, struct sbx_error *err);

/* Ends the workers of dead owners in a container. `family`: its label `guest`. 0: none is left; 1: the container was
 * removed, because one did not let itself be ended and nobody else is in it. -ENOENT, -EBUSY: it is gone, or ends. */
int visit_container(const struct sweep *sweep, const char *id, const char *family, const char (*dead)[LOCKS_HASH_SIZE],
                    size_t dead_count, struct sbx_error *err);

#endif
