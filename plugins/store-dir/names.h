/* SPDX-License-Identifier: Apache-2.0 */
/* Names of blobs and leases, and what they are called on the disk. */
#pragma once

#include "util.h"

#define NAME_MAX_BYTES 255u

/* A name apart: the directory (what stands before the last '/', "" if there is none) and what comes behind it. */
struct name {
        char directory[NAME_MAX_BYTES + 1];
        char leaf[NAME_MAX_BYTES + 1];
};

/* -EINVAL: it is none by the rules of store.h. `what`: "blob", "lease", for the message. */
int name_check(const char *name, const char *what, struct sbx_error *err);
int name_split(const char *name, struct name *ret_name, struct sbx_error *err);

/* As one component of a path: ',' stands for '/', and "," alone for "". Always fits: a name has no ','. */
void name_encode(const char *name, char ret_file[NAME_MAX_BYTES + 1]);
bool name_decode(const char *file, char ret_name[NAME_MAX_BYTES + 1]); /* false: it is nobody's */
