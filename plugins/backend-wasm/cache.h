/* SPDX-License-Identifier: Apache-2.0 */
/* The directory in which images are kept: expanded ones (HASH.expanded), and those with packages baked in
 * (RUNTIME-KEY.sbximg). */
#pragma once

#include "backend.h"

#define CACHE_EXPANDED ".expanded"
#define CACHE_PACKED ".sbximg"
#define CACHE_TEMPORARY ".new-"

/* malloc'ed. -ENOENT: there is no place for one, -ENOMEM. */
int cache_directory_path(const struct backend *backend, char **ret_path);
/* Made if need be. -EPERM: it is not this user's alone. */
int cache_directory_open(const struct backend *backend, int *ret_fd, struct sbx_error *err);
