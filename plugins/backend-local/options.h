/* SPDX-License-Identifier: Apache-2.0 */
/* The options of this plugin, read once. */
#pragma once

#include <sys/types.h>

#include <snipara-sandbox/plugin.h>

#include "jail_config.h"

struct local_options {
        enum jail_isolation isolation;
        const char *isolation_name;
        const char *python, *node;         /* NULL: search */
        const char **preload, **read_only; /* end with NULL; owned */
        enum jail_workspace workspace;
        const char *workspace_path;
        uint64_t tmp_bytes, workspace_bytes, memory_bytes, memory_max_bytes;
        uint32_t pids_max, cpu_percent;
        const char *cgroup, *cgroup_base;
        uid_t user;
};

extern const struct sbx_option local_option_table[];

/* Strings are the host's, until close(). -EINVAL when options contradict each other. */
int local_options_read(const struct sbx_host *host, struct local_options *ret, struct sbx_error *err);
void local_options_free(struct local_options *options);
