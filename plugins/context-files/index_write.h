/* SPDX-License-Identifier: Apache-2.0 */
/* Writes files and their sections into the database, in transactions of bounded size. For index.c. */
#pragma once

#include <sys/stat.h>

#include "database.h"

struct index_writer;

/* What is known of a file. */
struct index_row {
        int64_t id, size, mtime_ns, ctime_ns, inode;
        bool text;
        bool found; /* there is a row */
};

int index_writer_new(struct connection *connection, struct index_writer **ret_writer, struct sbx_error *err);
/* Rolls back what was not committed. */
void index_writer_free(struct index_writer *writer);

int index_find(struct index_writer *writer, const char *path, struct index_row *ret_row, struct sbx_error *err);
/* Marks the file as there, so that index_sweep leaves it. */
int index_seen(struct index_writer *writer, int64_t id, struct sbx_error *err);
/* Puts the file in place of what was there; `text` is NULL for what is not a text. Counts as seen. */
int index_put(struct index_writer *writer, const char *path, const struct stat *st, const struct sbx_bytes *text,
              struct sbx_error *err);
/* Takes out the files that were there when the writer was made and have not been seen since. */
int index_sweep(struct index_writer *writer, uint64_t *ret_removed, struct sbx_error *err);
/* Nothing, after a failure: index_writer_free rolls back. */
int index_commit(struct index_writer *writer, struct sbx_error *err);
