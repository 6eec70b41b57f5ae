/* SPDX-License-Identifier: Apache-2.0 */
/* The options of an instance. */
#pragma once

#include <snipara-sandbox/plugin.h>

#include "util.h"

struct files_options {
        const struct sbx_host *host;
        char *project;  /* absolute, without links */
        char *database; /* path of the database file */
        char *logs;     /* pattern of the directory of trajectories; NULL: it is not below the project */
        const char **exclude;
        size_t exclude_count;
        uint64_t file_bytes_max, total_bytes_max, files_max;
        uint64_t refresh_ns, wait_ns;
        uint64_t memories_max;
        bool memory; /* offer the memory tools */
};

extern const struct sbx_option files_option_table[];

/* Reads the options. -ENOENT: the project's directory is not there. */
int options_read(const struct sbx_host *host, struct files_options *ret_options, struct sbx_error *err);
/* Makes the directory of the database, unless the option names one. */
int options_make_directory(const struct files_options *options, struct sbx_error *err);
void options_free(struct files_options *options);
