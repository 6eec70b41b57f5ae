/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands `logs ...` share: the directory of trajectories, and reading their files. All that is in the files
 * is hostile: they may come from anywhere. docs/trajectory.md describes them. */
#pragma once

#include <time.h>

#include <jansson.h>

#include "base/buffer.h"
#include "cli/cli.h"

#define SBX_LOGS_ID_MAX 64u                   /* bytes of [A-Za-z0-9-] */
#define SBX_LOGS_LINE_MAX ((size_t)40 << 20)  /* what sink-jsonl writes is below 33 MiB */
#define SBX_LOGS_EVENTS_MAX ((size_t)1 << 20) /* of a file that is held in memory */

/* ---- logs_directory.c ---- */

struct sbx_logs_directory {
        char *path;
        int fd; /* -1: there is no such directory */
};
/* `path` NULL: where the configuration has trajectories written. An exit code; what is wrong has been told. */
int sbx_logs_directory_open(struct sbx_cli *cli, const char *path, struct sbx_logs_directory *ret_directory);
void sbx_logs_directory_close(struct sbx_logs_directory *directory);
#define _cleanup_logs_directory_ __attribute__((cleanup(sbx_logs_directory_close)))

struct sbx_logs_name {
        char id[SBX_LOGS_ID_MAX + 1];
        unsigned unique; /* so many of its characters, 8 at least, are enough to tell it from the others */
        struct timespec modified;
};
struct sbx_logs_names {
        struct sbx_logs_name *items; /* sorted by id */
        size_t count, capacity;
};
/* 0 or -errno. */
int sbx_logs_names_read(const struct sbx_logs_directory *directory, struct sbx_logs_names *ret_names,
                        struct sbx_error *err);
void sbx_logs_names_free(struct sbx_logs_names *names);
#define _cleanup_logs_names_ __attribute__((cleanup(sbx_logs_names_free)))

/* The trajectory that `text` is the id of, or the beginning of (4 characters at least, of one alone): opened, to be
 * closed. An exit code; what is wrong has been told. */
int sbx_logs_find(const struct sbx_cli *cli, const struct sbx_logs_directory *directory, const char *text,
                  char ret_id[SBX_LOGS_ID_MAX + 1], int *ret_fd);
/* A regular file, no symbolic link. -errno. */
int sbx_logs_file_open(const struct sbx_logs_directory *directory, const char *id, int *ret_fd, struct sbx_error *err);

/* ---- logs_file.c ---- */

struct sbx_logs_line {
        struct sbx_bytes text; /* without the newline; until the next line is read */
        uint64_t number;       /* from 1 */
        bool whole;            /* a newline was behind it */
        bool too_long;         /* `text` is its beginning */
};
struct sbx_logs_reader {
        int fd;
        struct sbx_buffer buffer;
        size_t begin; /* of the next line in it */
        uint64_t number;
        bool ended;
};
void sbx_logs_reader_init(struct sbx_logs_reader *reader, int fd); /* `fd` is borrowed */
void sbx_logs_reader_free(struct sbx_logs_reader *reader);
#define _cleanup_logs_reader_ __attribute__((cleanup(sbx_logs_reader_free)))
/* 1: a line; 0: the end; -errno. */
int sbx_logs_reader_next(struct sbx_logs_reader *reader, struct sbx_logs_line *ret_line, struct sbx_error *err);

/* The objects of the first and the last whole line, and of the second if `ret_second` is not NULL; nothing between them
 * is read. NULL: none, or no JSON object. 0 or -errno. */
int sbx_logs_ends_read(int fd, json_t **ret_first, json_t **ret_second, json_t **ret_last, struct sbx_error *err);

/* NULL: no JSON object. -ENOMEM is told as NULL too: a line that can't be held can't be shown. */
json_t *sbx_logs_parse(struct sbx_bytes text);
bool sbx_logs_is_metadata(const json_t *line);
const char *sbx_logs_text(const json_t *object, const char *key); /* "" if it is not there */
bool sbx_logs_is(const json_t *object, const char *key, const char *text);
/* A number that is there and not negative, else -1. */
double sbx_logs_number(const json_t *object, const char *key);

/* ---- logs_list.c ---- */

/* The recent ones, newest first; `count` 0: all. An exit code. */
int sbx_logs_list(const struct sbx_cli *cli, const struct sbx_logs_directory *directory, size_t count, bool json);
/* "2026-01-02 03:04:05" of here from RFC 3339; what is none stays as it is, cut. Returns `text`. */
#define SBX_LOGS_TIME_SIZE 32
const char *sbx_logs_time_text(const char *timestamp, char text[SBX_LOGS_TIME_SIZE]);

/* ---- logs_tree.c ---- */

/* All lines of a file: an array of objects. Lines that are none are counted. 0 or -errno. */
int sbx_logs_load(int fd, json_t **ret_lines, size_t *ret_bad, struct sbx_error *err);
/* For people. 0 or -errno. */
int sbx_logs_tree_show(const struct sbx_cli *cli, const char *id, const json_t *lines, bool full);

/* ---- the commands ---- */

extern const struct sbx_cli_command sbx_cli_logs, sbx_cli_logs_verify, sbx_cli_logs_replay;
