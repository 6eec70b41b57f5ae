/* SPDX-License-Identifier: Apache-2.0 */
/* Bakes images: boots a guest's language once and writes what is then in its memory. */
#pragma once

#include "host.h"

struct vfs_tree_builder;

/* `sbx-wasm bake ...`: arguments after the program's name. An exit status; failures are told on stderr. `lock` jails
 * the process that it is called in, before guest code runs there: 0, or a negative errno and one line of text. */
int wasm_bake_main(int argc, char **argv, int (*lock)(char *message, size_t size));

/* The active data segments of a module go into a new instance's memory; code without data segments needs them. Also
 * checks that the module is the one that the code was made of. Texts of failures go to `message` (one line). -EINVAL */
int wasm_module_load(struct wasm_instance *instance, const uint8_t *module, size_t module_size, char *message,
                     size_t size);
/* All regular files below the host's directory `path`, which stands for "/", into the builder. Links and devices are
 * refused, so that nothing outside of it comes in. */
int wasm_bake_add_directory(struct vfs_tree_builder *builder, const char *path, char *message, size_t size);
