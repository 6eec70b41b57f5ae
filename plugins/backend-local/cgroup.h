/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups of guests: memory without swap, processes, CPU; on cgroup v2 and v1.
 *
 * The manager finds once where this server's guests go: below this process's own cgroup (never elsewhere), or below
 * the directory that the configuration names. One cgroup holds one guest. A cgroup that was emptied is kept for reuse
 * (a few of them), because making and removing one costs more than resetting it.
 *
 * Names are "sbx-<server's pid>-<its start time>-<number>": a later server removes what a killed one left, and
 * touches nothing else.
 *
 * Threads: any thread may call anything on one manager; calls on one cgroup are the caller's to order, but
 * cgroup_usage, cgroup_limit and cgroup_kill may run in parallel with each other. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <snipara-sandbox/backend.h>

struct sbx_cgroup_manager;
struct sbx_cgroup;

/* 0: unlimited in cgroup_create, unchanged in cgroup_limit. */
struct cgroup_limits {
        uint64_t memory_bytes; /* of all processes together; swap counts as none */
        uint32_t pids_max;     /* processes and threads */
        uint32_t cpu_percent;  /* 100 is one CPU */
};

/* `mode`: "required" (fail when memory, pids and cpu can't all be limited), "auto" (take what there is; none is no
 * error) or "off" (never use cgroups). `base`: an existing directory of a cgroup v2 that was delegated to this
 * user, or NULL: this process's own cgroup. Moves this process into a leaf of its cgroup when v2 demands it.
 * The caller frees `*ret` with cgroup_manager_free, after every cgroup was released.
 * Errors: -EINVAL (mode, base), -ENOTSUP (required, and not to be had: the hint says what to type), -ENOMEM. */
int cgroup_manager_new(const char *mode, const char *base, struct sbx_cgroup_manager **ret, struct sbx_error *err);

/* Removes everything that the manager made, and goes back to the cgroup it came from. Accepts NULL. */
void cgroup_manager_free(struct sbx_cgroup_manager *m);

/* "v2", "v1" or "none". Constant string. */
const char *cgroup_manager_kind(const struct sbx_cgroup_manager *m);

/* A cgroup with these limits and no process in it. `label` appears in errors alone. With kind "none" it works and
 * limits nothing: ask cgroup_describe. Errors: -ENOTSUP, -EAGAIN (the kernel's own limit of cgroups), -ENOMEM. */
int cgroup_create(struct sbx_cgroup_manager *m, const char *label, const struct cgroup_limits *limits,
                  struct sbx_cgroup **ret, struct sbx_error *err);

/* Moves a process (all its threads) into it. Children that it starts afterwards are born there.
 * Errors: -ESRCH (no such process), -EPERM, -EACCES, ... of the write. */
int cgroup_attach(struct sbx_cgroup *c, pid_t pid, struct sbx_error *err);

/* Changes the limits that are not 0. */
int cgroup_limit(struct sbx_cgroup *c, const struct cgroup_limits *limits, struct sbx_error *err);

/* Fills cpu_ns, memory_peak_bytes, memory_bytes, pids and oom_killed, all since cgroup_create; what the kernel
 * doesn't tell is left as it was. Touches neither struct_size nor exit_code. */
int cgroup_usage(struct sbx_cgroup *c, struct sbx_guest_usage *usage);

/* Kills every process in it, again and again until none is left (at most two seconds). */
void cgroup_kill(struct sbx_cgroup *c);

/* Kills what is left, then keeps the clean cgroup for reuse, or removes it. `c` is gone. Accepts NULL. */
void cgroup_release(struct sbx_cgroup *c);

/* Tells `layer` what holds for a guest with these limits: names "memory", "pids", "cpu"; states "applied",
 * "unlimited" (the limit is 0) or "unavailable"; `detail` is one line for a person. */
void cgroup_describe(const struct sbx_cgroup_manager *m,
                     void (*layer)(void *data, const char *name, const char *state, const char *detail), void *data,
                     const struct cgroup_limits *limits);
