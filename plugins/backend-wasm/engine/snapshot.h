/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: what of an idle session differs from its image, byte for byte.
 *
 * A header (magic, version, the image's hash, sizes), then one zstd frame with checksum: globals, clocks, changed pages
 * of linear memory, the file system. Numbers are little endian; snapshot.c has the layout. A snapshot comes from a guest
 * and is hostile: it is read by the jailed process that it will become, everything in it is checked, and the worst that
 * a crafted one can do is to be a strange guest. */
#pragma once

#include "host.h"

#define SNAPSHOT_MAGIC "SBXWSNAP"
#define SNAPSHOT_VERSION 1
#define SNAPSHOT_HEADER_SIZE 128

/* What the server may look at without reading the rest. */
struct snapshot_facts {
        uint32_t version;
        uint8_t image_hash[32];
        uint64_t memory_size, packed_size;
};
/* -EINVAL: no snapshot; -EPROTONOSUPPORT: of another version. */
int snapshot_describe(const void *data, size_t size, struct snapshot_facts *ret_facts);

/* Of an instance that runs no guest code now. Writes to `fd` (a memfd or file), at most `max_bytes`: -EFBIG. */
int snapshot_save(struct wasm_instance *instance, int fd, uint64_t max_bytes, uint64_t *ret_size);
/* Into an instance that was just made of the same image: its host->vfs is replaced. -EINVAL: malformed,
 * -EXDEV: of another image, -EPROTONOSUPPORT, -ENOMEM/-EDQUOT: beyond the limits. Afterwards the instance is either
 * whole or must not be used. */
struct vfs_limits;
int snapshot_restore(struct wasm_instance *instance, const void *data, size_t size, const struct vfs_limits *limits,
                     char *message, size_t message_size);

/* ---- for the parts that write themselves ---- */
struct snapshot_writer;
struct snapshot_reader;
int snapshot_put(struct snapshot_writer *writer, const void *data, size_t size);
int snapshot_put_u32(struct snapshot_writer *writer, uint32_t value);
int snapshot_put_u64(struct snapshot_writer *writer, uint64_t value);
int snapshot_get(struct snapshot_reader *reader, void *data, size_t size); /* -EINVAL at the end of the data */
int snapshot_get_u32(struct snapshot_reader *reader, uint32_t *ret_value);
int snapshot_get_u64(struct snapshot_reader *reader, uint64_t *ret_value);
