/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the table of seccomp_rules.c for this machine. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>

#include <snipara-sandbox/types.h>

/* What the table's conditions ask about the guests. */
struct seccomp_facts {
        bool memory_counted; /* a cgroup limits a guest's memory, so that it may have files in memory */
        bool own_tree; /* a guest's file tree is made of programs and of its own: nobody else's sockets can be in it */
};

/* A program for seccomp(2); `*ret` is freed with free(). Any thread. */
int seccomp_filter_compile(const struct seccomp_facts *facts, struct sock_filter **ret, size_t *ret_count,
                           struct sbx_error *err);
