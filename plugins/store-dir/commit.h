/* SPDX-License-Identifier: Apache-2.0 */
/* A commit in two halves: what takes long (hashing, compressing, writing large blobs) without a lock, and what has to
 * be one thing (the lease, the index) under one. */
#pragma once

#include "directory.h"

/* One change, made ready. */
struct pending {
        const struct sbx_store_change *change;
        const char *leaf;
        bool removes, is_object, reused;
        uint8_t id[SEALING_HASH_SIZE];
        uint8_t *hashes; /* of its chunks */
        size_t chunk_count;
        struct bytes sealed;         /* of a small one */
        struct object_writer writer; /* of a large one that is new */
        uint64_t sealed_size;
};
struct prepared {
        struct dir_store *store;
        struct pending *items;
        size_t count;
        bool large_only; /* the index is big enough: even small blobs get files of their own */
};
void prepared_clear(struct prepared *prepared);
#define _cleanup_prepared_ _cleanup_(prepared_clear)

/* Hashes what is kept, seals small blobs, writes the large ones that the store does not have. `prepared` has the
 * changes and their leaves. */
int commit_prepare(struct prepared *prepared, const struct sbx_call *call, struct sbx_error *err);
/* A large blob that was there when it was prepared, and is not any more: writes it after all. */
int commit_write_again(struct pending *item, struct dir_store *store, const struct sbx_call *call,
                       struct sbx_error *err);

int store_commit(struct dir_store *store, const struct sbx_store_change *changes, size_t count, const char *lease,
                 uint64_t token, uint32_t flags, const struct sbx_call *call, struct sbx_error *err);
/* One name, durably. -ENOENT. */
int store_remove(struct dir_store *store, const char *name, const struct sbx_call *call, struct sbx_error *err);
