/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of a container's first process, where it can be seen from here. */
#ifndef DOCKER_REPORT_SEEN_H
#define DOCKER_REPORT_SEEN_H

#include <stdbool.h>
#include <stdint.h>

struct seen {
        bool status; /* /proc/PID/status was read, and it is the container's */
        bool no_new_privs, no_capabilities;
        int seccomp; /* 2: a filter */
        uint32_t uid;
        bool ids; /* /proc/PID/uid_map too */
        bool own_user_namespace;
};
/* Believed only if the process's control group holds the container's id. */
void seen_read(const char *id, long pid, struct seen *ret_seen);

#endif
