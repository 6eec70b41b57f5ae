/* SPDX-License-Identifier: Apache-2.0 */
/* Who lives: a directory with a lock file for each instance of a server, held for as long as it lives.
 *      <directory>/docker/identity           random, made once, 0600
 *      <directory>/docker/<host>/<id>.lock   <host>: hash of identity, machine-id and uid
 * Whoever knows <host> knows this very directory, so one who finds a lock free there knows that its owner is dead: also
 * where machines share an engine, a home directory, or an image with the same machine-id. */
#ifndef DOCKER_LOCKS_H
#define DOCKER_LOCKS_H

#include <stdbool.h>

#include <snipara-sandbox/types.h>

#define LOCKS_HASH_SIZE 33 /* 128 bits in lower-case hex, and NUL */
#define LOCKS_MAX 256      /* dead owners that are looked at in one go */

enum lock_state {
        LOCK_MISSING = 0, /* nothing is known of the owner: somebody removed the file */
        LOCK_FREE,        /* the owner is dead */
        LOCK_HELD,
};

struct locks;
int locks_open(const char *directory, struct locks **ret_locks, struct sbx_error *err);
void locks_free(struct locks *locks);
const char *locks_host(const struct locks *locks);

/* The lock of `id`, made and held: the file is whole before anybody can find it free. Closing the descriptor lets it
 * go. */
int locks_hold(struct locks *locks, const char *id, int *ret_fd, struct sbx_error *err);
enum lock_state locks_look(const struct locks *locks, const char *id);
/* Removes the file unless somebody holds it. */
void locks_forget(const struct locks *locks, const char *id);
/* The ids whose locks are free, at most LOCKS_MAX; to be freed with free(). */
int locks_dead(const struct locks *locks, char (**ret_ids)[LOCKS_HASH_SIZE], size_t *ret_count);

bool locks_is_id(const char *text); /* 32 digits of lower-case hex */
/* Hash of parts (of any bytes) under the directory's identity, which nobody else knows: it tells equal from different,
 * and nothing of what was hashed. */
struct locks_part {
        const void *data;
        size_t size;
};
void locks_hash(const struct locks *locks, const struct locks_part *parts, size_t count, char ret[LOCKS_HASH_SIZE]);

#endif
