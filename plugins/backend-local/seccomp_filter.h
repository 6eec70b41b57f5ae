/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the table of seccomp_rules.c for this machine. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>

#include <snipara-sandbox/types.h>

/* A program for seccomp(2); `*ret` is freed with free(). `memory_counted`: a cgroup limits the guest's memory, so that it
 * may have files in memory. Any thread. */
int seccomp_filter_compile(bool memory_counted, struct sock_filter **ret, size_t *ret_count, struct sbx_error *err);
