/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a bake share. */
#pragma once

#include "bake.h"
#include "image.h"
#include "vfs.h"

#define BAKE_ADD_MAX 16
#define BAKE_HOT_MAX 2048
#define BAKE_MTIME_NS (INT64_C(1672531200) * 1000000000) /* of all files: images don't tell when they were made */

struct bake {
        const char *code_path, *module_path, *image_path, *tree_path, *preload_path, *manifest_path, *out_path;
        const char *add[BAKE_ADD_MAX];
        unsigned add_count;
        /* read before guest code runs */
        const struct wasm_code *code;
        struct wasm_image image; /* that it starts from; fd < 0: none */
        uint8_t *module, *manifest, *tree_data;
        size_t module_size, manifest_size;
        struct vfs_tree tree;
        char out_name[4096]; /* until it is whole */
        int out_fd;
        /* while it runs */
        struct wasm_status status;
        struct wasm_host host;
        struct wasm_instance *instance;
        int rehearsal[2]; /* a socket pair: the host's end, the guest's */
        struct wasm_hot_run hot[BAKE_HOT_MAX];
        uint32_t hot_count;
        char message[512];
};

/* One line into bake->message; -EINVAL. */
int bake_refuse(struct bake *bake, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An instance of the code, with the files that the image will have. */
int bake_make_instance(struct bake *bake);
/* Boots it, or goes on where the image was, up to where a session begins. */
int bake_run_guest(struct bake *bake);
/* Notes which pages a first execution writes to; memory stays as it was. */
int bake_rehearse(struct bake *bake);
