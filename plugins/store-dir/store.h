/* SPDX-License-Identifier: Apache-2.0 */
/* An instance of the plugin, and its directory on the disk:
 *
 *      store, store.copy       its identity (sealing.h), twice
 *      names/DIRECTORY/        for each directory of names (names.h: as one component):
 *              index           which names there are, and the small blobs themselves (index.h)
 *              index.old       the one that is on the disk for sure, until the newest is (sync.h)
 *              ID              a large blob, 64 hexadecimal digits (object.h)
 *      objects/ID              the same files again (hard links), for other directories that want the same contents
 *      leases/LEASE            who may write what (lease.c)
 *      locks/NN                taken while a directory of names is changed (lock.h)
 *      tmp/, trash/            what is being written, what is being removed
 *
 * Everything is made with mode 0700 or 0600, opened below the descriptor of its directory, and refused if it is not
 * this user's or not what it has to be (files.h). */
#pragma once

#include <snipara-sandbox/store.h>

#include <sealing.h>

#include "names.h"
#include "util.h"

#define LOCKS 64u

struct sync_queue; /* sync.c */

struct dir_store {
        const struct sbx_host *host;
        char *path;
        const char *key_file; /* NULL: not encrypted */
        uint64_t quota_bytes; /* 0: none */
        uint64_t blob_max_bytes;
        int level; /* of zstd, 0: never */

        pthread_mutex_t mutex; /* of the fields down to `opened` */
        struct sealing sealing;
        int root_fd, names_fd, objects_fd, leases_fd, locks_fd, tmp_fd, trash_fd;
        bool opened;

        struct sync_queue *queue;

        pthread_mutex_t usage_mutex; /* of the next three */
        uint64_t used_bytes, measured_ns;
        bool measured;
};

/* Before every operation. Opens the directory at the first call; with `create` it is made if it is not there, without,
 * -ENOENT (and `err` is not set: whoever reads finds nothing there). */
int store_ready(struct dir_store *store, bool create, struct sbx_error *err);
void store_close(struct dir_store *store);

void store_log(const struct dir_store *store, int level, const char *format, ...) SBX_PRINTF(3, 4);
/* "can't <what> <directory>/<file>: <reason>"; `file` NULL: the directory. Returns `code`. */
int store_error(const struct dir_store *store, int code, const char *what, const char *directory, const char *file,
                struct sbx_error *err);
