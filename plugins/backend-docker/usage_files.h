/* SPDX-License-Identifier: Apache-2.0 */
/* The control group of a container on this host: its files, opened once. */
#ifndef DOCKER_USAGE_FILES_H
#define DOCKER_USAGE_FILES_H

#include <stdbool.h>

#include <snipara-sandbox/backend.h>

enum { USAGE_CPU = 0, USAGE_MEMORY, USAGE_PEAK, USAGE_OOM, USAGE_PIDS, USAGE_FILES };

struct usage_files {
        int fds[USAGE_FILES]; /* -1: there is none */
        bool unified;         /* version 2 */
};
/* Where /proc/PID/cgroup says, if that path holds the container's id: so no other process of that number is taken for
 * it. -ENOENT. */
int usage_files_open(const char *id, long pid, struct usage_files *ret_files);
void usage_files_close(struct usage_files *files);
/* -ENODEV: the group is gone. */
int usage_files_read(const struct usage_files *files, struct sbx_guest_usage *usage);

#endif
