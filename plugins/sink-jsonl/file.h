/* SPDX-License-Identifier: Apache-2.0 */
/* The file of one trajectory: locked while it is open, whole lines only, each chained to the one before. One thread at
 * a time for each. */
#pragma once

#include "directory.h"
#include "record.h"
#include "scan.h"

struct jsonl_file {
        struct jsonl_directory *directory; /* borrowed */
        char name[JSONL_ID_MAX + sizeof(".jsonl")];
        int fd;
        struct jsonl_state state;
        bool was_there; /* at the first event of this life: a note tells that the run goes on */
        bool unsynced;
        bool torn;     /* half a line is at its end and could not be taken back: it has to be opened again */
        uint64_t lost; /* events that could not be written, not yet told in the file */
};

/* Opens or makes `id`.jsonl. What is behind its last whole line is cut off. -EBUSY: another process has it; -ELOOP: a
 * symbolic link; -EPERM: it is not the user's own; -EINVAL: no regular file; -errno. */
int jsonl_file_open(struct jsonl_directory *directory, const char *id, struct jsonl_file **ret_file,
                    struct sbx_error *err);
/* Adds the event, unless the file has it already. -ENOSPC and what else the disk says: the file is as before. */
int jsonl_file_add(struct jsonl_file *file, const struct jsonl_record *record, struct sbx_error *err);
int jsonl_file_sync(struct jsonl_file *file, struct sbx_error *err); /* when it returns 0 the lines are on the disk */
void jsonl_file_free(struct jsonl_file *file);
/* Somebody has removed the file, or put another in its place, or it is torn. */
bool jsonl_file_is_lost(const struct jsonl_file *file);
