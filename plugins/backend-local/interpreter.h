/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the interpreter, and what of the machine it needs besides /usr. */
#pragma once

#include <stddef.h>

#include <snipara-sandbox/types.h>

struct interpreter {
        char *path;   /* as it is to be executed */
        char **paths; /* to be shown read-only; ends with NULL */
        char **links; /* symlinks to be repeated inside: path, content, path, content, ... */
};

/* `configured`: an absolute path, or NULL for the usual places. `extra` (ends with NULL) is the configured read-only
 * set, which comes first in `paths`. -ENOENT, -EINVAL (a script, not a program), -ENOMEM. */
int interpreter_find(const char *configured, const char *const *extra, struct interpreter *ret, struct sbx_error *err);
void interpreter_free(struct interpreter *interpreter);
