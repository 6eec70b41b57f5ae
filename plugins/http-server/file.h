/* SPDX-License-Identifier: Apache-2.0 */
/* Reads small files that an operator configured. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include <snipara-sandbox/types.h>

/* The whole file, with a NUL behind it; the caller frees, after hs_wipe if it is secret. `secret`: must belong to the
 * user (or root) and be closed to everybody else. `what` names it in errors. -ENOENT, -EACCES, -EISDIR, -EFBIG,
 * -ENOMEM, -EIO. */
int hs_file_read(const char *path, const char *what, size_t max, bool secret, char **ret_text, size_t *ret_size,
                 struct stat *ret_st, struct sbx_error *err);
void hs_wipe(void *memory, size_t size); /* NULL is fine */
