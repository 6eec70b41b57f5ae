/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes larger than a session: one container for all sessions of an owner (agent), or for all (shared). Workers are
 * added to it by exec; what they install and write stays in it while it lives, and sessions in it can see each other:
 * the report says so. It ends itself (its process 1 is the keeper of payload.h) `ttl` after the last worker left, also
 * when no server is there any more; a server that comes back before that finds it by its name and goes on with it. */
#ifndef DOCKER_SCOPE_H
#define DOCKER_SCOPE_H

#include "container.h"

/* Before the mark, in a worker's environment, and in its last argument: there the engine shows it again, so that code in
 * the worker can't hide whose it is. */
#define SCOPE_MARK "SBX_MARK="

struct scopes;
int scopes_new(struct docker *docker, struct scopes **ret_scopes, struct sbx_error *err);
void scopes_free(struct scopes *scopes);
/* The running container for the owner and runtime; made if there is none. */
int scope_container(struct scopes *scopes, const struct docker_runtime *runtime, const struct payload *payload,
                    const char *image, const char *owner, const struct sbx_call *call, char ret_id[CONTAINER_ID_MAX],
                    struct sbx_error *err);
/* A worker in it: an exec with SBX_MARK=mark, its stream. */
int scope_worker(struct scopes *scopes, const char *container_id, const struct payload *payload, const char *mark,
                 const struct sbx_call *call, struct engine_stream **ret_stream, char ret_exec_id[CONTAINER_ID_MAX],
                 struct sbx_error *err);
/* Signals (2: interrupt the worker alone, 9: all its processes). */
int scope_signal(struct scopes *scopes, const char *container_id, const struct payload *payload, const char *mark,
                 int signal, struct sbx_error *err);
/* Ends the worker of the mark and all that it started; when it returns 0 they are dead. Where they can't be ended one by
 * one (a fork bomb that leaves no room, a process that hides), the container is removed. */
int scope_kill(struct scopes *scopes, const char *container_id, const struct payload *payload, const char *mark,
               const char *exec_id, struct sbx_error *err);

#endif
