/* SPDX-License-Identifier: Apache-2.0 */
/* Ignore files in git's format (gitignore(5)): one parsed file, and what it says of a path. Paths only: what is tracked
 * although a pattern names it counts as ignored here. */
#pragma once

#include <stdbool.h>

#include "util.h"

struct ignore_list;

enum ignore_verdict { IGNORE_UNDECIDED = 0, IGNORE_NO = 1, IGNORE_YES = 2 };

/* `text` is copied. `base`: the directory of the file, without a slash at its end, "" for the root; patterns with a
 * slash are relative to it. -ENOMEM; -EFBIG: more than 20,000 patterns. */
int ignore_parse(struct sbx_bytes text, const char *base, struct ignore_list **ret_list);
void ignore_free(struct ignore_list *list); /* NULL is fine */
/* The last pattern that matches decides. `path` is relative to the root, as `base` is; it must be below `base`. */
enum ignore_verdict ignore_check(const struct ignore_list *list, const char *path, bool directory);
