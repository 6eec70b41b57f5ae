/* SPDX-License-Identifier: Apache-2.0 */
/* The packed part of a snapshot: bytes into one zstd frame, and out of it again. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <zstd.h>

#include "snapshot.h"

#define SNAPSHOT_PIECE ((size_t)128 << 10)
#define SNAPSHOT_WINDOW_LOG_MAX 23 /* what unpacking may take: 8 MiB */

struct snapshot_writer {
        int fd;
        uint64_t offset, max; /* in the file */
        ZSTD_CCtx *packer;
        size_t pending;
        uint8_t in[SNAPSHOT_PIECE], out[SNAPSHOT_PIECE];
};

struct snapshot_reader {
        ZSTD_DCtx *unpacker;
        ZSTD_inBuffer in;
        size_t at, end; /* of `out` */
        bool complete;  /* the frame's end was seen, and its checksum holds */
        uint8_t out[SNAPSHOT_PIECE];
};

/* Packed bytes go to `fd` from `offset` on, up to `max`. -ENOMEM */
int snapshot_writer_new(int fd, uint64_t offset, uint64_t max, struct snapshot_writer **ret_writer);
/* Ends the frame. Where the file ends is in writer->offset. */
int snapshot_writer_finish(struct snapshot_writer *writer);
/* All of `size` bytes at `offset` of the file. */
int snapshot_write_at(int fd, const void *data, size_t size, uint64_t offset);
void snapshot_writer_free(struct snapshot_writer *writer);
int snapshot_reader_new(const void *data, size_t size, struct snapshot_reader **ret_reader);
/* -EINVAL: there is more, or the checksum does not hold. */
int snapshot_reader_finish(struct snapshot_reader *reader);
void snapshot_reader_free(struct snapshot_reader *reader);
