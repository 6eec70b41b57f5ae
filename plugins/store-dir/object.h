/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a large blob, called by its id:
 *
 *      head    OBJECT_HEAD bytes: "sbxblob1", chunks u32, 0 u32, size u64, where the table begins u64
 *      chunks  sealed (sealing.h), bound to the id and their number, in any order
 *      table   for each chunk: hash, offset u64, sealed size u32
 *
 * The id is the hash of the size and of the table's hashes: a table that fits it is the right one, a chunk that fits
 * its hash as well. A file is written once and never changed. */
#pragma once

#include "store.h"

#define OBJECT_HEAD 32u
#define OBJECT_HEX (2 * SEALING_HASH_SIZE + 1)

struct object_id {
        uint8_t bytes[SEALING_HASH_SIZE];
};
void object_name(const uint8_t id[SEALING_HASH_SIZE], char ret_hex[OBJECT_HEX]);
bool object_is_name(const char *file);
void object_parse_name(const char *hex, struct object_id *ret_id); /* of one that is a name */

/* A file that is open for reading, whose table fits its id. */
struct object {
        int fd;
        uint64_t size, file_size;
        size_t chunk_count;
        uint8_t *table;
        uint8_t id[SEALING_HASH_SIZE];
};
/* -ENOENT; -EBADMSG: damaged, or something else; -ENOMEM, -errno. The chunks are not looked at. */
int object_open(const struct dir_store *store, int directory_fd, const char *hex, struct object *ret_object);
void object_close(struct object *object);
#define _cleanup_object_ _cleanup_(object_close)
#define OBJECT_NONE ((struct object){.fd = -1})

/* Into `take`, piece by piece, whose failure ends it. -EBADMSG. */
int object_read(const struct dir_store *store, const struct object *object, const struct sbx_call *call,
                int (*take)(void *data, struct sbx_bytes bytes), void *data, struct sbx_error *err);

/* Writes a new file from chunks that any thread may add, in any order. */
struct object_writer {
        const struct dir_store *store;
        const uint8_t *id;
        const uint8_t *hashes; /* of the chunks */
        struct sbx_bytes blob;
        uint8_t *table;
        int fd;
        uint64_t end;                   /* where the next chunk goes; atomic */
        char temporary[NAME_MAX_BYTES]; /* in tmp/; "": the file has no name yet */
};
int object_writer_open(const struct dir_store *store, const uint8_t *id, const uint8_t *hashes, struct sbx_bytes blob,
                       struct object_writer *ret_writer);
int object_writer_add(struct object_writer *writer, size_t chunk);
int object_writer_end(struct object_writer *writer);
/* Gives it its name in a directory where that is free. -EEXIST. */
int object_writer_link(const struct object_writer *writer, int directory_fd, const char *hex);
void object_writer_close(struct object_writer *writer); /* what has no name is gone */
