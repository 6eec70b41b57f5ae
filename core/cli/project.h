/* SPDX-License-Identifier: Apache-2.0 */
/* Writing files into a project directory: whole or not at all, and never through a symbolic link. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buffer.h"

/* 1: the file is there; 0: it is not; negative: a link, a directory or unreadable, the error says which. `ret_mode` may
 * be NULL. */
int sbx_cli_project_look(int dir_fd, const char *name, mode_t *ret_mode, struct sbx_error *err);
/* Puts `content` under `name`. -EEXIST when it is there and `replace` is not set. */
int sbx_cli_project_write(int dir_fd, const char *name, struct sbx_bytes content, mode_t mode, bool replace,
                          struct sbx_error *err);
