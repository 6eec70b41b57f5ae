/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of the files: made when the first event comes, and not before. */
#pragma once

#include <stdbool.h>

#include "util.h"

struct jsonl_directory {
        const char *path; /* borrowed */
        int fd;           /* -1: not open yet */
        bool never_sync;  /* leave it to the kernel when things reach the disk */
        bool unsynced;    /* has files that a power cut would take */
};

/* Makes it, mode 0700, with its parents, if it is not there (any more). */
int jsonl_directory_open(struct jsonl_directory *directory, struct sbx_error *err);
int jsonl_directory_sync(struct jsonl_directory *directory, struct sbx_error *err);
void jsonl_directory_close(struct jsonl_directory *directory);
