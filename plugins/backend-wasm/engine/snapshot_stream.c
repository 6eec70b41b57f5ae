/* SPDX-License-Identifier: Apache-2.0 */
/* Packs and unpacks what snapshots hold, piece by piece. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "snapshot_stream.h"

#define LEVEL 1 /* a session waits for it */

int snapshot_writer_new(int fd, uint64_t offset, uint64_t max, struct snapshot_writer **ret_writer) {
        struct snapshot_writer *writer = malloc(sizeof(*writer));

        if (writer == NULL)
                return -ENOMEM;
        writer->packer = ZSTD_createCCtx();
        if (writer->packer == NULL) {
                free(writer);
                return -ENOMEM;
        }
        ZSTD_CCtx_setParameter(writer->packer, ZSTD_c_compressionLevel, LEVEL);
        ZSTD_CCtx_setParameter(writer->packer, ZSTD_c_checksumFlag, 1);
        writer->fd = fd;
        writer->offset = offset;
        writer->max = max;
        writer->pending = 0;
        *ret_writer = writer;
        return 0;
}

void snapshot_writer_free(struct snapshot_writer *writer) {
        if (writer == NULL)
                return;
        ZSTD_freeCCtx(writer->packer);
        free(writer);
}

int snapshot_write_at(int fd, const void *data, size_t size, uint64_t offset) {
        size_t done = 0;

        while (done < size) {
                ssize_t count = pwrite(fd, (const uint8_t *)data + done, size - done, (off_t)(offset + done));

                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0)
                        return count < 0 ? -errno : -EIO;
                done += (size_t)count;
        }
        return 0;
}

static int write_out(struct snapshot_writer *writer, size_t size) {
        int r;

        if (writer->offset > writer->max || size > writer->max - writer->offset)
                return -EFBIG;
        r = snapshot_write_at(writer->fd, writer->out, size, writer->offset);
        if (r == 0)
                writer->offset += size;
        return r;
}

static int pack(struct snapshot_writer *writer, const void *data, size_t size, ZSTD_EndDirective directive) {
        ZSTD_inBuffer in = {data, size, 0};
        size_t left;

        do {
                ZSTD_outBuffer out = {writer->out, sizeof(writer->out), 0};
                int r;

                left = ZSTD_compressStream2(writer->packer, &out, &in, directive);
                if (ZSTD_isError(left))
                        return -ENOMEM;
                r = write_out(writer, out.pos);
                if (r < 0)
                        return r;
        } while (in.pos < in.size || (directive == ZSTD_e_end && left != 0));
        return 0;
}

static int flush(struct snapshot_writer *writer) {
        int r = pack(writer, writer->in, writer->pending, ZSTD_e_continue);

        writer->pending = 0;
        return r;
}

int snapshot_put(struct snapshot_writer *writer, const void *data, size_t size) {
        if (size > sizeof(writer->in) - writer->pending) {
                int r = flush(writer);

                if (r < 0)
                        return r;
        }
        if (size > sizeof(writer->in))
                return pack(writer, data, size, ZSTD_e_continue);
        if (size > 0)
                memcpy(writer->in + writer->pending, data, size);
        writer->pending += size;
        return 0;
}

int snapshot_put_u32(struct snapshot_writer *writer, uint32_t value) {
        return snapshot_put(writer, &value, sizeof(value));
}

int snapshot_put_u64(struct snapshot_writer *writer, uint64_t value) {
        return snapshot_put(writer, &value, sizeof(value));
}

int snapshot_writer_finish(struct snapshot_writer *writer) {
        int r = flush(writer);

        return r < 0 ? r : pack(writer, NULL, 0, ZSTD_e_end);
}

int snapshot_reader_new(const void *data, size_t size, struct snapshot_reader **ret_reader) {
        struct snapshot_reader *reader = malloc(sizeof(*reader));

        if (reader == NULL)
                return -ENOMEM;
        reader->unpacker = ZSTD_createDCtx();
        if (reader->unpacker == NULL) {
                free(reader);
                return -ENOMEM;
        }
        ZSTD_DCtx_setParameter(reader->unpacker, ZSTD_d_windowLogMax, SNAPSHOT_WINDOW_LOG_MAX);
        reader->in = (ZSTD_inBuffer){data, size, 0};
        reader->at = reader->end = 0;
        reader->complete = false;
        *ret_reader = reader;
        return 0;
}

void snapshot_reader_free(struct snapshot_reader *reader) {
        if (reader == NULL)
                return;
        ZSTD_freeDCtx(reader->unpacker);
        free(reader);
}

/* -EINVAL: damaged. No bytes at all: the end. */
static int fill(struct snapshot_reader *reader) {
        reader->at = reader->end = 0;
        while (reader->end == 0 && !reader->complete) {
                ZSTD_outBuffer out = {reader->out, sizeof(reader->out), 0};
                size_t before = reader->in.pos, left = ZSTD_decompressStream(reader->unpacker, &out, &reader->in);

                if (ZSTD_isError(left) || (out.pos == 0 && left != 0 && reader->in.pos == before))
                        return -EINVAL;
                reader->end = out.pos;
                reader->complete = left == 0;
        }
        return 0;
}

int snapshot_get(struct snapshot_reader *reader, void *data, size_t size) {
        uint8_t *to = data;

        while (size > 0) {
                size_t part = reader->end - reader->at;

                if (part == 0) {
                        if (fill(reader) < 0 || reader->end == 0)
                                return -EINVAL;
                        continue;
                }
                part = part < size ? part : size;
                memcpy(to, reader->out + reader->at, part);
                reader->at += part;
                to += part;
                size -= part;
        }
        return 0;
}

int snapshot_get_u32(struct snapshot_reader *reader, uint32_t *ret_value) {
        return snapshot_get(reader, ret_value, sizeof(*ret_value));
}

int snapshot_get_u64(struct snapshot_reader *reader, uint64_t *ret_value) {
        return snapshot_get(reader, ret_value, sizeof(*ret_value));
}

int snapshot_reader_finish(struct snapshot_reader *reader) {
        if (reader->at != reader->end || fill(reader) < 0 || reader->end != 0)
                return -EINVAL;
        return reader->complete && reader->in.pos == reader->in.size ? 0 : -EINVAL;
}
