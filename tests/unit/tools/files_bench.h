/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of file_read and file_list share: a directory, tools that may read a part of it, and what they say. */
#pragma once

#include "sessions.h"

#include "tools/files.h"
#include "tools/tools.h"

#define MIB ((size_t)1 << 20)

struct bench {
        char directory[64]; /* root/ is allowed, the rest is not */
        struct table table;
        struct sbx_tools *tools;
        json_t *result; /* of the last call */
        json_t *report; /* what it says */
        enum sbx_tool_caller caller;
};

const char *at(const struct bench *bench, const char *path);
void put(const struct bench *bench, const char *path, const void *data, size_t size);
void put_text(const struct bench *bench, const char *path, const char *text);
void make_directory(const struct bench *bench, const char *path);
void make_link(const struct bench *bench, const char *target, const char *path);
/* `more`: a second entry of allowed_paths, below the directory; NULL: none. */
void open_tools(struct bench *bench, const char *more);
void close_tools(struct bench *bench);
int setup(void **state);
int teardown(void **state);
/* Calls a tool; `report` is what its result says, as a program sees it. */
bool call(struct bench *bench, const char *tool, json_t *arguments);
const char *text_of(const struct bench *bench, const char *member);
json_int_t number_of(const struct bench *bench, const char *member);
bool is_true(const struct bench *bench, const char *member);
bool read_path(struct bench *bench, const char *path);
void assert_refused(struct bench *bench, const char *path);
