/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of what an image is to be built of. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIGEST_TEXT 65

/* Is it a file or directory, and not a name? */
bool package_is_path(const char *package);
/* Of an image's hash and packages; of files and directories, relative ones below `project`, their content. The list
 * ends with NULL. On failure *ret_failed is the package that it is about: -ENOENT, -EACCES, -EFBIG (more than 256 MiB
 * or 20,000 files). */
int digest_packages(const uint8_t *base, size_t base_size, const char *const packages[], const char *project,
                    char ret_text[DIGEST_TEXT], const char **ret_failed);
