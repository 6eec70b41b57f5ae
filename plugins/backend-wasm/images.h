/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that know of images. */
#pragma once

#include "backend.h"

/* ---- runtimes.c */

const char *runtime_name(size_t index); /* below RUNTIME_COUNT */
/* The image as it was installed, without packages of the configuration. */
int runtime_installed(struct backend *backend, size_t index, struct guest_image **ret_image, struct sbx_error *err);
/* What was built may have changed which image guests are made of. */
void runtimes_forget(struct backend *backend);

/* ---- prepare.c */

/* A file, or a directory with all that is below it; links are removed, not followed. */
void images_remove_tree(const char *path);
/* Where the image of `base` with the configuration's packages is, or would be; malloc'ed. */
int prepared_path(const struct backend *backend, const struct guest_image *base, char **ret_path,
                  struct sbx_error *err);
