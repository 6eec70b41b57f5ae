/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the expanding and opening of backend-wasm's images. The first byte of the input chooses: 0: the rest is an
 * image file; else it is a header and what two sections hold, and sizes, checksums and the hash are made good here.
 * What opens is looked at. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "test.h"

#include "engine/image_layout.h"
#include "engine_help.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds) {
        if (!holds)
                abort();
}

/* As a file of the packed form: the tree is all of the input behind the header and one page of memory. */
static int pack(const uint8_t *data, size_t size) {
        static uint8_t memory[WASM_PAGE], packed[1 << 20];
        int fd = memfd_create("image", MFD_CLOEXEC);
        struct image_header header = {0};
        uint64_t at = IMAGE_HEADER_SIZE + 2;
        SHA2_CTX hash;

        must(fd >= 0);
        memcpy(&header, data, size < sizeof(header) ? size : sizeof(header));
        data += size < sizeof(header) ? size : sizeof(header);
        size -= size < sizeof(header) ? size : sizeof(header);
        memcpy(header.magic, IMAGE_MAGIC, sizeof(header.magic));
        header.format = WASM_IMAGE_FORMAT;
        header.form = IMAGE_PACKED;
        memcpy(header.module_sha256, TINY_CODE->module_sha256, sizeof(header.module_sha256));
        header.manifest_size = 2;
        header.memory_size = sizeof(memory);
        header.tree_size = size;
        header.memory_packed = ZSTD_compress(packed, sizeof(packed), memory, sizeof(memory), 1);
        must(pwrite(fd, "{}", 2, IMAGE_HEADER_SIZE) == 2);
        must(pwrite(fd, packed, header.memory_packed, (off_t)at) == (ssize_t)header.memory_packed);
        at += header.memory_packed;
        header.tree_packed = ZSTD_compress(packed, sizeof(packed), data, size, 1);
        must(!ZSTD_isError(header.tree_packed));
        must(pwrite(fd, packed, header.tree_packed, (off_t)at) == (ssize_t)header.tree_packed);
        image_hash_begin(&hash, &header);
        SHA256Update(&hash, (const uint8_t *)"{}", 2);
        SHA256Update(&hash, memory, sizeof(memory));
        SHA256Update(&hash, data, size);
        SHA256Final(header.hash, &hash);
        must(pwrite(fd, &header, sizeof(header), 0) == sizeof(header));
        return fd;
}

/* Every name in its directories, through the file system that sessions have. */
static void look_at(const struct wasm_image *image) {
        static const struct vfs_limits limits = {.bytes = 1 << 20, .entries = 10, .open_files = 10};
        static const char *const paths[] = {"usr", "usr/lib", "work", ".", "usr/lib/hello"};
        struct vfs *vfs;

        must(strlen(image->manifest) == image->manifest_size && strlen(image->hash_text) == 64);
        for (uint32_t i = 0; i < image->interrupt_count; i++)
                must(image->interrupt[i].address <= (uint64_t)image->memory_pages * WASM_PAGE - 4);
        must(vfs_new(&image->tree, &limits, &vfs) == 0);
        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
                struct vfs_at at = {.fd = VFS_ROOT_FD, .path = paths[i], .size = strlen(paths[i]), .follow = true};
                struct vfs_stat stat;

                (void)vfs_stat_at(vfs, &at, &stat);
        }
        vfs_free(vfs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char message[200] = "", *manifest = NULL;
        uint8_t hash[WASM_IMAGE_HASH_SIZE];
        struct wasm_image image;
        int from, to;

        if (size == 0 || size > 900000)
                return 0;
        from = data[0] == 0 ? help_memfd(data + 1, size - 1) : pack(data + 1, size - 1);
        to = memfd_create("expanded", MFD_CLOEXEC);
        must(to >= 0);
        if (image_describe(from, hash, &manifest, message, sizeof(message)) < 0)
                must(message[0] != '\0');
        free(manifest);
        message[0] = '\0';
        if (image_expand(from, to, message, sizeof(message)) < 0)
                must(message[0] != '\0');
        /* Also what is expanded already, or was left by a failure. */
        if (image_open(to, &image, message, sizeof(message)) == 0) {
                look_at(&image);
                image_close(&image);
        }
        if (image_open(from, &image, message, sizeof(message)) == 0) {
                look_at(&image);
                image_close(&image);
        }
        return 0;
}
