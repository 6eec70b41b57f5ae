/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of the project are looked at: what git ignores is not, nor what looks like a secret. One thread. */
#pragma once

#include "util.h"

struct rules;

/* The built-in list, in the format of an ignore file; see README.md. Letter case does not matter in it. */
extern const char rules_default_exclude[];

/* `project`: absolute, without links. Reads the ignore files of the repository that the project is in or is part of,
 * above the project too. `exclude`: more patterns, each as in an ignore file (a "!" takes one of the built-in list
 * back). -ENOMEM; -EFBIG: an ignore file is larger than 1 MiB or has too many patterns. */
int rules_new(const char *project, const char *const *exclude, size_t exclude_count, struct rules **ret_rules);
void rules_free(struct rules *rules); /* NULL is fine */
/* Enters a directory (open, and its path in the project: "" for the project itself), and leaves it again. -ENOMEM,
 * -EFBIG; an ignore file that can't be read counts as none, as for git. */
int rules_enter(struct rules *rules, int directory_fd, const char *path);
void rules_leave(struct rules *rules);
/* Of an entry of the directory entered last. What is below an excluded directory is excluded: don't ask. */
bool rules_excluded(struct rules *rules, const char *path, bool directory);
