/* SPDX-License-Identifier: Apache-2.0 */
/* Images: a guest's memory, globals and read-only files at the moment when it waits for its first session.
 *
 * Two forms of one content. Packed (NAME.sbximg): a header, the manifest, and the sections compressed by zstd; what is
 * built, shipped and hashed. Expanded: header, manifest, then sections at multiples of 4096, so that a session is a
 * private mapping of it; a cache of the packed form, made by image_expand. Numbers are little endian. image.c has the
 * layout. Everything in a file is checked before it is used: one that was cut or altered is refused. */
#pragma once

#include "host.h"
#include "vfs.h"

#define WASM_IMAGE_FORMAT 2
#define WASM_HOST_PAGE 4096u
#define WASM_IMAGE_HASH_SIZE 32 /* SHA-256 over manifest and sections: the image's identity */

/* Pages of 4096 bytes that a session writes to at once: found at bake time, and made its own in one go. */
struct wasm_hot_run {
        uint32_t first, count;
};

struct wasm_image {
        uint8_t hash[WASM_IMAGE_HASH_SIZE];
        char hash_text[2 * WASM_IMAGE_HASH_SIZE + 1];
        char module_sha256[65];
        const char *manifest; /* JSON object: {"name","runtime","version","module_sha256","sources":[{"name","version",
                                 "sha256","licence"}],"preload":[...],"packages":[...]}; NUL-terminated */
        size_t manifest_size;
        int fd; /* of the expanded form */
        uint64_t memory_offset;
        const uint8_t *memory; /* as it is in the image, mapped read-only */
        uint32_t memory_pages;
        uint32_t global_count;
        uint64_t globals[WASM_GLOBALS_MAX];
        uint32_t interrupt_count;
        struct wasm_interrupt_word interrupt[WASM_INTERRUPT_WORDS_MAX];
        const struct wasm_hot_run *hot; /* ascending, mapped */
        uint32_t hot_count;
        struct vfs_tree tree; /* read-only, mapped */
        /* private: the mapping */
        void *map;
        size_t map_size;
};

/* Texts of failures go to `message` (of `size` bytes), one line. */
int image_open(int fd, struct wasm_image *ret_image, char *message, size_t size); /* expanded form; takes `fd` over */
/* Of either form; what is packed is expanded into memory, which takes a second. */
int image_open_path(const char *path, struct wasm_image *ret_image, char *message, size_t size);
void image_close(struct wasm_image *image);
/* Reads the header and manifest of either form: *ret_manifest is malloc'ed. */
int image_describe(int fd, uint8_t ret_hash[WASM_IMAGE_HASH_SIZE], char **ret_manifest, char *message, size_t size);
/* Packed to expanded, checking the hash; `to_fd` is an empty file or memfd. */
int image_expand(int from_fd, int to_fd, char *message, size_t size);
/* The state of a baked instance and its tree, packed. */
int image_write(int to_fd, const struct wasm_instance *instance, const struct vfs_tree *tree, const char *manifest,
                const struct wasm_hot_run *hot, uint32_t hot_count, char *message, size_t size);
