/* SPDX-License-Identifier: Apache-2.0 */
/* The build context of a prepared image: the project's files as a tar archive, and a hash of those that matter. The
 * same files give the same bytes. Nothing is followed, and nothing leaves the project's file system. */
#ifndef DOCKER_CONTEXT_H
#define DOCKER_CONTEXT_H

#include <stdbool.h>

#include <snipara-sandbox/types.h>
#include <sys/types.h>
#include <sha2.h>

#define CONTEXT_BYTES_MAX ((size_t)256 << 20) /* of the archive */
#define CONTEXT_FILE_MAX ((int64_t)16 << 20)  /* larger files are left out, or an error where all are needed */
#define CONTEXT_FILES_MAX 100000u
#define CONTEXT_DEPTH_MAX 48u
#define CONTEXT_PREFIX "project/" /* of all names in the archive but the build file's */

enum context_what {
        CONTEXT_NOTHING = 0, /* the build file alone */
        CONTEXT_DECLARED,    /* all files; those that say what is to be installed make the hash */
        CONTEXT_WHOLE,       /* all files, and all make the hash */
};

struct context {
        void *tar; /* NULL: only the hash was asked for */
        size_t tar_size;
        size_t files, left_out; /* left_out: larger than CONTEXT_FILE_MAX */
        char hash[SHA256_DIGEST_STRING_LENGTH];
};
/* `build_file` becomes "Dockerfile". `call` may be NULL. -ENOENT, -EACCES (the directory), -EFBIG, -ECANCELED,
 * -ETIMEDOUT. */
int context_make(const char *directory, enum context_what what, struct sbx_bytes build_file, bool archive,
                 const struct sbx_call *call, struct context *ret_context, struct sbx_error *err);
void context_clear(struct context *context);

/* context_rules.c */

/* Version control, virtual environments, caches, dependencies of other languages, secrets: never part of a context.
 * `beginning`: the first bytes of a file, for keys that only their content gives away; empty: not read yet. */
bool context_leaves_out(const char *name, bool directory);
bool context_is_key(const char *name, struct sbx_bytes beginning);
/* Whether the file at `path` (below the project) says what is to be installed. */
bool context_declares(const char *path);

#endif
