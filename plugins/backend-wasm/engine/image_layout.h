/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of images, for the files that read and write them.
 *
 *   packed:   header (4096 bytes), hot runs, manifest, memory (a zstd frame), tree (a zstd frame)
 *   expanded: header (4096 bytes), hot runs, manifest and a NUL, up to a multiple of 4096; memory; tree
 *
 * The hash is over what both have: the header without `form`, `hash` and packed sizes, hot runs and manifest, memory
 * and tree as they are unpacked. Little endian, as every host that the engine is built for. */
#pragma once

#include <sha2.h>

#include "image.h"

#define IMAGE_MAGIC "SBXWIMAG"
#define IMAGE_HEADER_SIZE 4096u
#define IMAGE_MANIFEST_MAX ((uint64_t)1 << 20)
#define IMAGE_MEMORY_MAX ((uint64_t)1 << 30)
#define IMAGE_HOT_MAX 8192u
#define IMAGE_TREE_MAX ((uint64_t)1 << 30)

enum image_form { IMAGE_PACKED = 1, IMAGE_EXPANDED = 2 };

struct image_header {
        uint8_t magic[8];
        uint32_t format; /* WASM_IMAGE_FORMAT */
        uint32_t form;
        uint8_t hash[WASM_IMAGE_HASH_SIZE];
        char module_sha256[64];
        uint64_t manifest_size, memory_size, tree_size;
        uint64_t memory_packed, tree_packed; /* 0 where it is expanded */
        uint32_t global_count, interrupt_count, hot_count, reserved;
        uint64_t globals[WASM_GLOBALS_MAX];
        struct wasm_interrupt_word interrupt[WASM_INTERRUPT_WORDS_MAX];
};
_Static_assert(sizeof(struct image_header) == 168 + 8 * WASM_GLOBALS_MAX + 8 * WASM_INTERRUPT_WORDS_MAX,
               "no padding in what is written");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "images are little endian");

/* One line of text; returns -EINVAL. */
int image_refuse(char *message, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Reads a header of either form and checks it, and that the file is as long as it says. */
int image_read_header(int fd, struct image_header *ret_header, char *message, size_t size);
uint64_t image_manifest_offset(const struct image_header *header); /* in both forms */
uint64_t image_memory_offset(const struct image_header *header);   /* in the expanded form */
/* All of `size` bytes at `offset`; -ENODATA: the file ends. */
int image_read_at(int fd, void *data, size_t size, uint64_t offset);
int image_write_at(int fd, const void *data, size_t size, uint64_t offset);
/* Begins the hash with the header. */
void image_hash_begin(SHA2_CTX *hash, const struct image_header *header);
