/* SPDX-License-Identifier: Apache-2.0 */
/* What the host decides once and the launcher and the zygote carry out: written to a sealed memfd, so that neither the
 * command line nor the environment holds anything, and read back by them. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jail_isolation { JAIL_NAMESPACES = 1, JAIL_LANDLOCK = 2, JAIL_NONE = 3 };
enum jail_workspace { JAIL_WORKSPACE_NONE = 0, JAIL_WORKSPACE_RO = 1, JAIL_WORKSPACE_RW = 2 };

/* Numbers. JAIL_INSIDE_ID is what a guest sees as its own uid and gid. */
#define JAIL_INSIDE_ID 65534u

/* Inode numbers of the namespaces that a process is in. */
struct jail_namespaces {
        uint64_t user, pid, mount, network, ipc, uts, cgroup;
};
#define JAIL_NAMESPACE_COUNT 7

struct jail_config {
        struct jail_namespaces server; /* the server's own, that no guest may be in */
        uint64_t isolation;            /* enum jail_isolation */
        uint64_t drop;                 /* 1: the server is root; everything below it runs as `id` instead */
        uint64_t id;                   /* the server's own numbering: uid and gid of guests */
        uint64_t gid;
        uint64_t workspace; /* enum jail_workspace */
        uint64_t tmp_bytes, workspace_bytes;
        uint64_t cpu_percent;
        uint64_t memory_wall; /* 1: no cgroup limits memory, so rlimits must */
        uint64_t pids_wall;   /* 1: no cgroup limits processes, so rlimits must */

        /* Strings; those of a list end with NULL. Paths are absolute, in the server's numbering of the file tree. */
        const char *python;         /* what to execute, not resolved: a virtual environment is found by its path */
        const char *node;           /* the same for sessions of Node; NULL: there is none */
        const char *helpers;        /* directory of the zygote's library and script */
        const char *guests;         /* directory of guest workers */
        const char *workspace_path; /* NULL unless ro or rw */
        const char **preload;       /* modules */
        const char **read_only;     /* directories and files of the read-only set, beyond the built-in ones */
        const char **links; /* symlinks to repeat inside, so that the interpreter is found by its path: each path is
                             * followed by what it points to */

        /* For guests; NULL: none. Not written: it comes later (ZYGOTE_FILTER), compiled while the interpreter starts.
         */
        const struct sock_filter *filter;
        size_t filter_count;

        void *storage; /* what the strings point into, when read back */
};

int jail_namespaces_read(struct jail_namespaces *ret);

/* Writes it to a sealed memfd (O_CLOEXEC). */
int jail_config_write(const struct jail_config *config, int *ret_fd);
/* Reads it back; `*ret` is zeroed first. -EBADMSG: not what jail_config_write of this version makes. */
int jail_config_read(int fd, struct jail_config *ret);
void jail_config_free(struct jail_config *config); /* one that was read back */
