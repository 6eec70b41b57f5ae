/* SPDX-License-Identifier: Apache-2.0 */
/* Packed images to expanded ones: unpacks each section piece by piece, checks the hash, and writes the header last, so
 * that what was cut off is no image. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "image_layout.h"

#define PIECE_SIZE ((size_t)256 << 10)
#define HOLE_SIZE 4096u

struct expansion {
        int from_fd, to_fd;
        SHA2_CTX hash;
        ZSTD_DCtx *unpacker;
        uint8_t in[PIECE_SIZE], out[PIECE_SIZE];
};

int image_write_at(int fd, const void *data, size_t size, uint64_t offset) {
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

void image_hash_begin(SHA2_CTX *hash, const struct image_header *header) {
        struct image_header hashed = *header;

        hashed.form = 0;
        hashed.memory_packed = hashed.tree_packed = 0;
        memset(hashed.hash, 0, sizeof(hashed.hash));
        SHA256Init(hash);
        SHA256Update(hash, (const uint8_t *)&hashed, sizeof(hashed));
}

static bool is_zero(const uint8_t *data, size_t size) {
        return size == 0 || (data[0] == 0 && memcmp(data, data + 1, size - 1) == 0);
}

/* What is zero stays a hole. */
static int write_sparse(int fd, const uint8_t *data, size_t size, uint64_t offset) {
        for (size_t at = 0; at < size; at += HOLE_SIZE) {
                size_t part = size - at < HOLE_SIZE ? size - at : HOLE_SIZE;
                int r = is_zero(data + at, part) ? 0 : image_write_at(fd, data + at, part, offset + at);

                if (r < 0)
                        return r;
        }
        return 0;
}

static int damaged(char *message, size_t size, const char *section) {
        return image_refuse(message, size, "the image is damaged: its %s can't be unpacked", section);
}

/* One frame of `packed` bytes at `from` becomes exactly `unpacked` bytes at `to`. */
static int expand_section(struct expansion *expansion, const char *name, uint64_t from, uint64_t packed, uint64_t to,
                          uint64_t unpacked, char *message, size_t size) {
        size_t left = 1;

        ZSTD_DCtx_reset(expansion->unpacker, ZSTD_reset_session_only);
        while (packed > 0 && left != 0) {
                ZSTD_inBuffer in = {expansion->in, packed < PIECE_SIZE ? packed : PIECE_SIZE, 0};

                if (image_read_at(expansion->from_fd, expansion->in, in.size, from) < 0)
                        return damaged(message, size, name);
                from += in.size;
                packed -= in.size;
                do {
                        ZSTD_outBuffer out = {expansion->out, PIECE_SIZE, 0};
                        int r;

                        left = ZSTD_decompressStream(expansion->unpacker, &out, &in);
                        if (ZSTD_isError(left) || out.pos > unpacked)
                                return damaged(message, size, name);
                        SHA256Update(&expansion->hash, expansion->out, out.pos);
                        r = write_sparse(expansion->to_fd, expansion->out, out.pos, to);
                        if (r < 0) {
                                snprintf(message, size, "the expanded image can't be written: %s", strerror(-r));
                                return r;
                        }
                        to += out.pos;
                        unpacked -= out.pos;
                        if (left == 0 && in.pos < in.size)
                                return damaged(message, size, name);
                        if (out.pos < out.size)
                                break;
                } while (left != 0);
        }
        return packed == 0 && unpacked == 0 && left == 0 ? 0 : damaged(message, size, name);
}

/* And the hot runs before it, which are not packed, either. */
static int expand_manifest(struct expansion *expansion, const struct image_header *header, char *message, size_t size) {
        size_t length = (size_t)(image_manifest_offset(header) - IMAGE_HEADER_SIZE + header->manifest_size);
        char *manifest = malloc(length);
        int r;

        if (manifest == NULL)
                return damaged(message, size, "manifest");
        r = image_read_at(expansion->from_fd, manifest, length, IMAGE_HEADER_SIZE);
        if (r == 0) {
                SHA256Update(&expansion->hash, (const uint8_t *)manifest, length);
                r = image_write_at(expansion->to_fd, manifest, length, IMAGE_HEADER_SIZE);
        }
        free(manifest);
        if (r < 0)
                snprintf(message, size, "the image's manifest can't be copied: %s", strerror(-r));
        return r;
}

static int expand_sections(struct expansion *expansion, const struct image_header *header, char *message, size_t size) {
        uint64_t memory = image_manifest_offset(header) + header->manifest_size, to = image_memory_offset(header);
        int r = expand_manifest(expansion, header, message, size);

        if (r == 0)
                r = expand_section(expansion, "memory", memory, header->memory_packed, to, header->memory_size, message,
                                   size);
        if (r == 0)
                r = expand_section(expansion, "files", memory + header->memory_packed, header->tree_packed,
                                   to + header->memory_size, header->tree_size, message, size);
        return r;
}

static int finish(struct expansion *expansion, struct image_header *header, char *message, size_t size) {
        uint8_t hash[WASM_IMAGE_HASH_SIZE];
        uint64_t end = image_memory_offset(header) + header->memory_size + header->tree_size;
        int r;

        SHA256Final(hash, &expansion->hash);
        if (memcmp(hash, header->hash, sizeof(hash)) != 0)
                return image_refuse(message, size, "the image is damaged: its content is not what its hash says");
        header->form = IMAGE_EXPANDED;
        header->memory_packed = header->tree_packed = 0;
        r = ftruncate(expansion->to_fd, (off_t)end) < 0 ? -errno : 0;
        if (r == 0)
                r = image_write_at(expansion->to_fd, header, sizeof(*header), 0);
        if (r < 0)
                snprintf(message, size, "the expanded image can't be written: %s", strerror(-r));
        return r;
}

int image_expand(int from_fd, int to_fd, char *message, size_t size) {
        struct expansion *expansion;
        struct image_header header;
        int r = image_read_header(from_fd, &header, message, size);

        if (r < 0)
                return r;
        if (header.form != IMAGE_PACKED)
                return image_refuse(message, size, "the image is expanded already");
        expansion = malloc(sizeof(*expansion));
        if (expansion != NULL)
                expansion->unpacker = ZSTD_createDCtx();
        if (expansion == NULL || expansion->unpacker == NULL) {
                free(expansion);
                snprintf(message, size, "no memory to expand the image");
                return -ENOMEM;
        }
        expansion->from_fd = from_fd;
        expansion->to_fd = to_fd;
        image_hash_begin(&expansion->hash, &header);
        r = expand_sections(expansion, &header, message, size);
        if (r == 0)
                r = finish(expansion, &header, message, size);
        ZSTD_freeDCtx(expansion->unpacker);
        free(expansion);
        return r;
}

int image_open_path(const char *path, struct wasm_image *ret_image, char *message, size_t size) {
        int fd = open(path, O_RDONLY | O_CLOEXEC), expanded;
        struct image_header header;
        int r;

        if (fd < 0)
                return image_refuse(message, size, "%s can't be read: %s", path, strerror(errno));
        r = image_read_header(fd, &header, message, size);
        if (r == 0 && header.form == IMAGE_PACKED) {
                expanded = memfd_create("image", MFD_CLOEXEC);
                r = expanded < 0 ? image_refuse(message, size, "no memory for the image")
                                 : image_expand(fd, expanded, message, size);
                close(fd);
                fd = expanded;
        }
        if (r < 0) {
                if (fd >= 0)
                        close(fd);
                return r;
        }
        return image_open(fd, ret_image, message, size);
}
