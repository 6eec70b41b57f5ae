/* SPDX-License-Identifier: Apache-2.0 */
/* A file of lines with a maximum size, which always ends in a whole line. One thread at a time for each. */
#pragma once

#include <snipara-sandbox/types.h>

struct event_file {
        const char *path; /* borrowed */
        uint64_t max_bytes;
        uint64_t size; /* of the file, all of it whole lines */
        int fd;        /* -1: not open */
};

void event_file_init(struct event_file *file, const char *path, uint64_t max_bytes);
/* -EBUSY: another process or instance appends to it; -EINVAL: not a regular file; -errno. */
int event_file_open(struct event_file *file, struct sbx_error *err);
/* Appends the line. -EINVAL: more than one line; -EFBIG: it would pass the maximum; -errno (the file is as before). */
int event_file_append(struct event_file *file, struct sbx_bytes line, struct sbx_error *err);
int event_file_flush(struct event_file *file, struct sbx_error *err); /* when it returns 0 the lines are on the disk */
void event_file_close(struct event_file *file);                       /* closed already is fine */
