/* SPDX-License-Identifier: Apache-2.0 */
/* Whose containers are whose. Every container has the labels
 *      org.snipara.sandbox.owner=<id>        of the server's instance (docker.id)
 *      org.snipara.sandbox.host=<hash>       of the directory of locks, machine-id and uid
 *      org.snipara.sandbox.scope=session|agent|shared
 *      org.snipara.sandbox.guest=<label>
 * The owner holds a lock (locks.h) for as long as it lives. Two things remove what a dead
 * one left, and nothing else's: a small process of its own (sbx-docker-reaper) that notices within a moment that its
 * server is gone, and, should that be gone as well, the next start: containers of the same host label whose owner's
 * lock is free. */
#ifndef DOCKER_OWNER_H
#define DOCKER_OWNER_H

#include "docker.h"

#define OWNER_LABEL_PREFIX "org.snipara.sandbox."
#define OWNER_LABELS_MAX 6

struct owner;
/* Locks, reaps what dead servers left, starts the reaper. */
int owner_new(struct docker *docker, const struct sbx_call *call, struct owner **ret_owner, struct sbx_error *err);
/* Removes all containers of scope session that are left of this owner, and lets the lock and the reaper go. */
void owner_free(struct owner *owner);
/* "key=value" strings, NULL-terminated, for a container; freed by owner_labels_free. */
int owner_labels(const struct owner *owner, enum docker_scope scope, const char *guest, const char *key,
                 char **ret_labels[], struct sbx_error *err);
void owner_labels_free(char **labels);
/* Its making was given up, or how it went could not be learned, or it could not be removed: the container of this owner
 * with that name, or id, is removed as soon as there is one and the engine does it. Returns at once. */
void owner_forsake(struct owner *owner, const char *name);

#endif
