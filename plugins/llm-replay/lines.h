/* SPDX-License-Identifier: Apache-2.0 */
/* A file of JSON lines, read one after another; everything in it is bounded before it is parsed. One thread. */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include <snipara-sandbox/types.h>

#define REPLAY_LINE_MAX ((size_t)64 << 20) /* an event has 32 MiB at most (sink.h), and a sink adds to it */

struct replay_lines {
        const char *path; /* borrowed, for errors */
        int fd;
        char *buffer;
        size_t begin, end, capacity;
        uint64_t total, total_max; /* bytes */
        uint64_t number;           /* of the line that was read last, from 1 */
        bool ended;
};

/* A regular file of at most `max_bytes`. -ENOENT, -EACCES, -EINVAL (no regular file), -EFBIG. */
int replay_lines_open(const char *path, uint64_t max_bytes, struct replay_lines *ret_lines, struct sbx_error *err);
void replay_lines_close(struct replay_lines *lines);
/* The next line that is not empty: 1 and an object, 0 at the end. A last line without a newline that can't be read is
 * what a killed process leaves: it counts as the end. -EBADMSG: a line is no JSON object; -EFBIG; -EIO; -ENOMEM. */
int replay_lines_next(struct replay_lines *lines, json_t **ret_object, struct sbx_error *err);

/* JSON with at most 64 levels and a million values, duplicate keys refused: NULL and why; -ENOMEM or -EBADMSG. */
int replay_json_parse(struct sbx_bytes text, json_t **ret_object, const char **ret_problem);
