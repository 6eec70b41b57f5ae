/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the journal: lines that tell whether they are whole, and the file that they are in. */
#pragma once

#include "agent/journal.h"
#include "base/buffer.h"

#define SBX_JOURNAL_ORIGIN "journal"
#define SBX_JOURNAL_VERSION 1

/* ---- journal_line.c: {"sha256":"<of all that follows the comma>",<members>} ---- */

/* Appends the line of the members with its newline. -EFBIG, -EINVAL (could not be read back), -ENOMEM. */
int sbx_journal_line_encode(const json_t *members, struct sbx_buffer *out, struct sbx_error *err);
/* The members of a line without its newline. -EBADMSG: it is not what was written. */
int sbx_journal_line_decode(struct sbx_bytes line, size_t number, json_t **ret_members, struct sbx_error *err);

/* ---- journal_file.c ---- */

struct sbx_journal_file {
        int fd; /* -1: none */
        uint64_t size;
        bool broken; /* a write failed, and what it left could not be cut off */
};
/* "ID.jsonl" of a valid id; false: it is none. */
#define SBX_JOURNAL_NAME_SIZE 48
bool sbx_journal_file_name(const char *run_id, char ret_name[SBX_JOURNAL_NAME_SIZE]);
bool sbx_journal_id_valid(const char *run_id); /* 8-4-4-4-12 lower-case hexadecimal digits */
/* Both lock. The directory is made if need be. */
int sbx_journal_file_create(const char *directory, const char *run_id, struct sbx_journal_file *ret_file,
                            struct sbx_error *err);
int sbx_journal_file_open(const char *directory, const char *run_id, struct sbx_journal_file *ret_file,
                          struct sbx_error *err);
/* Passes each whole line with its number, from 1; then cuts off what is after the last one. */
int sbx_journal_file_read(struct sbx_journal_file *file,
                          int (*each)(void *data, size_t number, struct sbx_bytes line, struct sbx_error *err),
                          void *data, struct sbx_error *err);
int sbx_journal_file_append(struct sbx_journal_file *file, struct sbx_bytes line, struct sbx_error *err);
int sbx_journal_file_sync(struct sbx_journal_file *file, struct sbx_error *err);
void sbx_journal_file_close(struct sbx_journal_file *file);

/* ---- journal_list.c ---- */

void sbx_journal_prune(const char *directory, const struct sbx_logger *logger);
