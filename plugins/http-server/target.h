/* SPDX-License-Identifier: Apache-2.0 */
/* The target of a request, "/path?query": checked strictly, decoded once. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HS_PARAMETERS_MAX 32

struct hs_parameter {
        const char *name, *value;
};

struct hs_target {
        char *copy;       /* what the pointers below point into */
        const char *path; /* decoded; no empty segment, no "." and "..", no '/' at the end but of "/" itself */
        struct hs_parameter parameters[HS_PARAMETERS_MAX];
        size_t count;
};

/* -EINVAL: not in origin form ("/..."), characters that have to be encoded, an encoding that is broken, a path that
 * somebody else may read differently (an encoded dot, slash, backslash or NUL; empty segments, "." or ".."), or too
 * many parameters. -ENOMEM. */
int hs_target_parse(const char *text, size_t size, struct hs_target *ret_target);
void hs_target_free(struct hs_target *target);
const char *hs_target_query(const struct hs_target *target, const char *name); /* the first; NULL: not there */
