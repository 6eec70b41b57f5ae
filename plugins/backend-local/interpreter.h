/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the interpreters, and what of the machine they need besides /usr. */
#pragma once

#include <stddef.h>

#include <snipara-sandbox/types.h>

struct interpreter {
        char *path;   /* Python, as it is to be executed */
        char *node;   /* the same of Node; NULL: there is none */
        char *bash;   /* and of Bash */
        char **paths; /* to be shown read-only; ends with NULL */
        char **links; /* symlinks to be repeated inside: path, content, path, content, ... */
};

/* `python`, `node`: an absolute path, or NULL for the usual places. Node and Bash need not be there, unless a path of Node
 * is given. `extra` (ends with NULL) is the configured read-only set, which comes first in `paths`. -ENOENT, -EINVAL (a
 * script, not a program), -ENOMEM. */
int interpreter_find(const char *python, const char *node, const char *const *extra, struct interpreter *ret,
                     struct sbx_error *err);
void interpreter_free(struct interpreter *interpreter);
