/* SPDX-License-Identifier: Apache-2.0 */
/* The open files of a sink, at most JSONL_OPEN_MAX: the one that was not used for longest makes room. One thread at a
 * time. */
#pragma once

#include "file.h"

#define JSONL_OPEN_MAX 64u

struct jsonl_files {
        struct jsonl_directory directory;
        struct jsonl_file *open[JSONL_OPEN_MAX]; /* the last used first */
        size_t count;
};

/* `path` is borrowed. With `never_sync`, all that syncs does nothing. */
void jsonl_files_init(struct jsonl_files *files, const char *path, bool never_sync);
/* The file of that id, opened if it is not. */
int jsonl_files_get(struct jsonl_files *files, const char *id, struct jsonl_file **ret_file, struct sbx_error *err);
/* Syncs and closes the file that was last used. */
int jsonl_files_close_last(struct jsonl_files *files, struct sbx_error *err);
/* All of them. The first failure is returned; the others are synced all the same. */
int jsonl_files_sync(struct jsonl_files *files, struct sbx_error *err);
void jsonl_files_close(struct jsonl_files *files); /* closed already is fine */
