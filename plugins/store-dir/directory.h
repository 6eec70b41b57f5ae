/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of names on the disk: its index and the large blobs that it names. */
#pragma once

#include "index.h"
#include "object.h"
#include "store.h"

#define INDEX_FILE "index"
#define INDEX_OLD "index.old"

struct directory {
        struct dir_store *store;
        const char *name; /* borrowed */
        char file[NAME_MAX_BYTES + 1];
        int fd;
        bool made; /* just now */
};
void directory_close(struct directory *directory);
#define _cleanup_directory_ _cleanup_(directory_close)
#define DIRECTORY_NONE ((struct directory){.fd = -1})

/* -ENOENT: it is not there, and `err` is not set. */
int directory_find(struct dir_store *store, const char *name, bool create, struct directory *ret_directory,
                   struct sbx_error *err);
/* The newest index; where that did not survive a loss of power, the last one that is on the disk for sure, and the log
 * tells. -ENOENT: there is none, `err` is not set; -EBADMSG, -EPROTONOSUPPORT. Needs no lock. */
int directory_load(const struct directory *directory, struct index *ret_index, struct sbx_error *err);
/* Puts an index in place of the one that is there; atomic, not yet durable. Under the lock. `*ret_size`: of the file.
 */
int directory_save(const struct directory *directory, const struct index *index, uint64_t *ret_size,
                   struct sbx_error *err);
/* Removes files that neither the index nor the old one needs. Under the lock. What can't be removed stays until the
 * next time. */
void directory_sweep(const struct directory *directory);
/* Removes all of it, atomically. Under the lock. */
int directory_drop(const struct directory *directory, struct sbx_error *err);
/* Removes what directory_drop, or a process that was killed in it, has left in trash/. */
int directory_empty_trash(struct dir_store *store, const char *file);

/* Removes the file of a large blob, and from objects/ if nobody else has it. */
void directory_unlink_object(const struct dir_store *store, int fd, const char *hex);
