/* SPDX-License-Identifier: Apache-2.0 */
/* Writes packed images of baked instances. The same state gives the same bytes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "image_layout.h"

#define LEVEL 12 /* 19 saves 8 % more and takes ten times as long */

struct section {
        const uint8_t *data;
        size_t size;
        void *packed;
        size_t packed_size;
};

static int pack(struct section *section) {
        ZSTD_CCtx *packer = ZSTD_createCCtx();
        size_t bound = ZSTD_compressBound(section->size), r;

        section->packed = malloc(bound);
        if (packer == NULL || section->packed == NULL) {
                ZSTD_freeCCtx(packer);
                return -ENOMEM;
        }
        ZSTD_CCtx_setParameter(packer, ZSTD_c_compressionLevel, LEVEL);
        ZSTD_CCtx_setParameter(packer, ZSTD_c_checksumFlag, 1);
        ZSTD_CCtx_setParameter(packer, ZSTD_c_enableLongDistanceMatching, 1);
        r = ZSTD_compress2(packer, section->packed, bound, section->data, section->size);
        ZSTD_freeCCtx(packer);
        if (ZSTD_isError(r))
                return -ENOMEM;
        section->packed_size = r;
        return 0;
}

static int write_file(int fd, const struct image_header *header, const struct wasm_hot_run *hot, const char *manifest,
                      const struct section *memory, const struct section *tree) {
        static const uint8_t padding[IMAGE_HEADER_SIZE];
        uint64_t at = image_manifest_offset(header);
        int r = image_write_at(fd, padding, sizeof(padding), 0);

        if (r == 0)
                r = image_write_at(fd, hot, header->hot_count * sizeof(*hot), IMAGE_HEADER_SIZE);

        if (r == 0)
                r = image_write_at(fd, manifest, header->manifest_size, at);
        at += header->manifest_size;
        if (r == 0)
                r = image_write_at(fd, memory->packed, memory->packed_size, at);
        at += memory->packed_size;
        if (r == 0)
                r = image_write_at(fd, tree->packed, tree->packed_size, at);
        return r < 0 ? r : image_write_at(fd, header, sizeof(*header), 0);
}

static void fill_header(struct image_header *header, const struct wasm_instance *instance, const struct section *memory,
                        const struct section *tree, const struct wasm_hot_run *hot, const char *manifest) {
        const struct wasm_host *host = instance->host;
        SHA2_CTX hash;

        memcpy(header->magic, IMAGE_MAGIC, sizeof(header->magic));
        header->format = WASM_IMAGE_FORMAT;
        header->form = IMAGE_PACKED;
        memcpy(header->module_sha256, host->code->module_sha256, sizeof(header->module_sha256));
        header->manifest_size = strlen(manifest);
        header->memory_size = memory->size;
        header->tree_size = tree->size;
        header->memory_packed = memory->packed_size;
        header->tree_packed = tree->packed_size;
        header->global_count = host->code->global_count;
        memcpy(header->globals, instance->globals, header->global_count * sizeof(header->globals[0]));
        header->interrupt_count = host->interrupt_count;
        memcpy(header->interrupt, host->interrupt, host->interrupt_count * sizeof(host->interrupt[0]));
        image_hash_begin(&hash, header);
        SHA256Update(&hash, (const uint8_t *)hot, header->hot_count * sizeof(*hot));
        SHA256Update(&hash, (const uint8_t *)manifest, header->manifest_size);
        SHA256Update(&hash, memory->data, memory->size);
        SHA256Update(&hash, tree->data, tree->size);
        SHA256Final(header->hash, &hash);
}

/* A copy, without what earlier calls left on the guest's stack: it grows downwards to byte 0, and below its pointer
 * nothing is alive. */
static uint8_t *copy_memory(const struct wasm_instance *instance) {
        uint64_t dead = wasm_dead_stack(instance);
        uint8_t *memory = calloc(1, instance->size);

        if (memory != NULL)
                memcpy(memory + dead, instance->memory + dead, instance->size - dead);
        return memory;
}

int image_write(int to_fd, const struct wasm_instance *instance, const struct vfs_tree *tree, const char *manifest,
                const struct wasm_hot_run *hot, uint32_t hot_count, char *message, size_t size) {
        struct section memory = {.size = instance->size}, files = {.data = tree->data, .size = tree->size};
        struct image_header header = {.hot_count = hot_count < IMAGE_HOT_MAX ? hot_count : IMAGE_HOT_MAX};
        uint8_t *copy;
        int r = -ENOMEM;

        if (manifest[0] == '\0' || strlen(manifest) > IMAGE_MANIFEST_MAX)
                return image_refuse(message, size, "the manifest is empty, or larger than %llu bytes",
                                    (unsigned long long)IMAGE_MANIFEST_MAX);
        if (memory.size == 0 || memory.size > IMAGE_MEMORY_MAX || files.size == 0 || files.size > IMAGE_TREE_MAX)
                return image_refuse(message, size, "the image's memory (%zu bytes) or files (%zu bytes) are too large",
                                    memory.size, files.size);
        memory.data = copy = copy_memory(instance);
        if (copy != NULL)
                r = pack(&memory);
        if (r == 0)
                r = pack(&files);
        if (r == 0) {
                fill_header(&header, instance, &memory, &files, hot, manifest);
                r = write_file(to_fd, &header, hot, manifest, &memory, &files);
        }
        if (r < 0)
                snprintf(message, size, "the image can't be written: %s", strerror(-r));
        free(memory.packed);
        free(files.packed);
        free(copy);
        return r;
}
