/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the files of the project. Never follows a link, leaves the tree or its file system, or opens what is no file.
 */
#pragma once

#include <sys/stat.h>

#include "rules.h"

struct walk_events {
        void *data;
        /* A regular file that is not excluded; `name` is its entry in the open directory. Negative ends the walk. */
        int (*file)(void *data, int directory_fd, const char *name, const char *path, const struct stat *st);
        /* Asked at each entry; negative ends the walk. */
        int (*stop)(void *data);
};

struct walk_limits {
        size_t entries_max; /* of all directories together */
};

struct walk_result {
        size_t entries, excluded, odd_names, unreadable;
        bool cut; /* a limit ended it, a directory is too deep, or an ignore file too large */
};

/* 0, also when a limit ended it; -ENOMEM, -EMFILE, -EIO and what the events answer. `rules` has entered nothing. */
int walk(int project_fd, struct rules *rules, const struct walk_limits *limits, const struct walk_events *events,
         struct walk_result *ret_result);
