/* SPDX-License-Identifier: Apache-2.0 */
/* The tools file_read and file_list: which files of the host they reach, and what the files share. What a path of a
 * model or of code means is decided by the kernel, beneath directories that the configuration names. */
#pragma once

#include <stdbool.h>

#include "tools/builtin.h"

#define SBX_FILES_ORIGIN "tools"
#define SBX_FILES_PATH_MAX 4096u
#define SBX_FILES_TEXT_BUDGET (30000u - 1024u) /* characters of JSON: what a text block may have, and some room */
#define SBX_FILES_CODE_BUDGET                                                                                          \
        (((size_t)16 << 20) - 65536u) /* bytes of JSON: what a call of code may bring, likewise                        \
                                       */

/* Data of both tools. Never changes. */
struct sbx_files {
        char *directory; /* of the project, absolute: relative paths begin here */
        char **roots;    /* absolute, without "." and ".."; directories, or single files */
        size_t count;
        const struct sbx_config *config; /* whose files hold keys, whatever they are called */
};
int sbx_files_new(const struct sbx_config *config, struct sbx_files **ret_files, struct sbx_error *err);
void sbx_files_free(void *files);

/* ---- files_open.c ---- */

/* A path within an allowed one. */
struct sbx_file_place {
        const struct sbx_files *files;
        const char *root;  /* borrowed from the files */
        char *path;        /* absolute, without "." and ".." */
        const char *below; /* its part beneath root; "": root itself */
};
void sbx_file_place_clear(struct sbx_file_place *place);
/* By its text alone. -EACCES: it is in no allowed one; -EINVAL. */
int sbx_files_locate(const struct sbx_files *files, const char *path, struct sbx_file_place *ret_place,
                     struct sbx_error *err);
/* A descriptor (O_PATH) of what the place is, never of anything that is not beneath its root, nor of a secret. -ENOENT,
 * -EACCES, -errno. */
int sbx_files_look(const struct sbx_file_place *place, int *ret_fd, struct sbx_error *err);
/* Whether a descriptor is of the directory of logs (log_dir), or of what is in it: runs of all principals tell what they
 * were asked there. Not if `root`, an allowed path, is in it. */
bool sbx_files_is_log(const struct sbx_files *files, const char *root, int fd);
/* Opens for reading what `looked_at` (of sbx_files_look) is, if that is of the type (S_IFREG, S_IFDIR). Nothing else is
 * ever opened: the open of a device can have effects, that of a FIFO can wait. */
int sbx_files_open(const struct sbx_file_place *place, int looked_at, unsigned type, int *ret_fd,
                   struct sbx_error *err);
/* For kernels before 5.6, and sandboxes that do not know openat2: one component after another, and no symbolic link.
 * The descriptor or -errno. */
int sbx_files_walk_beneath(int directory_fd, const char *below, int flags);

/* ---- files_names.c: pure functions ---- */

/* One component of a pattern against one name: `*`, `?` and `[...]`, in time proportional to both lengths at most
 * multiplied, whatever the pattern. */
bool sbx_files_match(const char *pattern, size_t pattern_size, const char *name);
/* Keys, passwords and the like, by the names that programs give them (docs/tools.md). `below` is a relative path. */
bool sbx_files_is_secret(const char *below);
/* Characters (`in_bytes`: bytes) that a valid text takes inside of a JSON string. */
size_t sbx_files_json_cost(struct sbx_bytes text, bool in_bytes);

/* ---- the tools ---- */

SBX_BUILTIN(sbx_builtin_file_read);  /* files_read.c */
SBX_BUILTIN(sbx_builtin_file_list); /* files_list.c */
/* `report`, whose reference it takes, as the result: structured for code, else as JSON text. NULL: -ENOMEM. */
int sbx_files_result(const struct sbx_tool_context *context, json_t *report, const char *summary, json_t **ret_result,
                     struct sbx_error *err);
/* An error result, with {"error": message, `member`: `empty`}; takes the reference of `empty`. Always 0 or -ENOMEM. */
int sbx_files_failure(const struct sbx_error *problem, const char *member, json_t *empty, json_t **ret_result,
                      struct sbx_error *err);
/* 0, -ECANCELED or -ETIMEDOUT. */
int sbx_files_may_go_on(const struct sbx_call *call, struct sbx_error *err);
/* Adds both to the registry; what else is called list_files must be there already. */
int sbx_files_add_tools(struct sbx_tools *tools, const struct sbx_config *config, struct sbx_error *err);
