/* SPDX-License-Identifier: Apache-2.0 */
/* Shell-like patterns as git's wildmatch understands them, matched in time that is bounded by pattern times text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct glob;

/* With `pathname` a `/` is matched by a `/` or a `**` alone. A pattern that can't match anything (an open bracket, a
 * backslash at its end) compiles to one that doesn't. -ENOMEM. */
int glob_compile(const char *pattern, size_t size, bool pathname, struct glob **ret_glob);
void glob_free(struct glob *glob);
bool glob_match(const struct glob *glob, const char *text, size_t size);
