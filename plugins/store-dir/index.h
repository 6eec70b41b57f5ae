/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a directory of names: which blobs there are, and the small ones themselves. In a file:
 *
 *      head    INDEX_HEAD bytes: "sbxindex", version u32, chunks of the table u32, its sizes raw u64 and sealed u64,
 * bytes of the blobs u64, generation u64, hash of all that, of the directory's name and of the table table   sealed in
 * chunks, each with its size (u32) before it; raw, for each name in their order: size of the name u16, kind u8 (0: in
 * here, 1: a file of its own), name, id, size u64, sealed size u64, offset u64 blobs   sealed chunks (sealing.h), one
 * for each table and head again, so that both have to be damaged before the names are lost
 *
 * Numbers are little-endian. A file is written once, and replaced as a whole. */
#pragma once

#include <sealing.h>

#include "util.h"

#define INDEX_VERSION 1u
#define INDEX_HEAD 80u
#define INDEX_TABLE_MAX ((size_t)64 << 20)
#define INDEX_BLOBS_MAX ((size_t)256 << 20)
#define INDEX_FILE_MAX (2 * (INDEX_TABLE_MAX + ((size_t)1 << 20)) + INDEX_BLOBS_MAX)

struct index_entry {
        char *leaf; /* what stands behind the directory */
        uint8_t id[SEALING_HASH_SIZE];
        uint64_t size, sealed_size;
        bool removed;        /* until it is settled */
        bool is_object;      /* a file of its own; else: */
        const uint8_t *blob; /* sealed, inside `file` of the index or of who made it */
};

struct index {
        uint64_t generation; /* grows with every change; 0: there is none yet */
        struct index_entry *entries;
        size_t count, capacity;
        size_t settled;    /* so many are sorted by name; the others are new */
        struct bytes file; /* what it was read from */
};

void index_clear(struct index *index);
#define _cleanup_index_ _cleanup_(index_clear)

/* From the bytes of a file, which it takes over. -EBADMSG: damaged, or another directory's; -EPROTONOSUPPORT: of a
 * newer version; -ENOMEM. */
int index_parse(const struct sealing *sealing, const char *directory, struct bytes *file, struct index *ret_index);
/* The bytes of a file. -EFBIG: too many names. */
int index_build(const struct sealing *sealing, const char *directory, const struct index *index,
                struct bytes *ret_file);

struct index_entry *index_find(const struct index *index, const char *leaf); /* of those that are settled */
/* Puts an entry in, in place of one of that name; `entry->leaf` is copied. New ones are found, and removed ones gone,
 * once they are settled: many changes at once cost no more than sorting them. */
int index_put(struct index *index, const struct index_entry *entry);
bool index_remove(struct index *index, const char *leaf); /* false: it was not there */
void index_settle(struct index *index);

/* What a small blob holds, compared with its id; `ret_raw` has room for its size. -EBADMSG. */
int entry_unseal(const struct sealing *sealing, const struct index_entry *entry, uint8_t *ret_raw);
/* Seals a small blob, of which `entry` has the id, into `ret_sealed`, which has room for SEALING_OVERHEAD bytes more.
 */
int entry_seal(const struct sealing *sealing, int level, const uint8_t id[SEALING_HASH_SIZE], struct sbx_bytes blob,
               uint8_t *ret_sealed, size_t *ret_size);

/* Which large blobs an index names. */
struct index_objects {
        uint8_t (*ids)[SEALING_HASH_SIZE]; /* sorted */
        size_t count;
};
int index_objects(const struct index *index, struct index_objects *ret_objects); /* -ENOMEM */
bool index_objects_has(const struct index_objects *objects, const uint8_t id[SEALING_HASH_SIZE]);
void index_objects_clear(struct index_objects *objects);
#define _cleanup_objects_ _cleanup_(index_objects_clear)
