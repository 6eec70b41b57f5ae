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
 * Slow: the kernel waits for an RCU grace period, 5 to 10 ms, unless it moved another process just before. A new
 * process gets in for under 0.1 ms through cgroup_entry_open.
 * Errors: -ESRCH (no such process), -EPERM, -EACCES, ... of the write. */
int cgroup_attach(struct sbx_cgroup *c, pid_t pid, struct sbx_error *err);

/* The fast way in, for a process that is being made, perhaps by another process (the zygote, which gets the
 * descriptors over its socket). They refer to control files of the host: close them before any foreign code runs.
 *   CGROUP_ENTRY_NONE   nothing to do (kind "none")
 *   CGROUP_ENTRY_CLONE  v2: fds[0] is the value of clone_args.cgroup, with CLONE_INTO_CGROUP (clone3; Linux 5.7)
 *   CGROUP_ENTRY_TASKS  v1: the new process, still of one thread, writes "0" (one byte) to each of `count` fds, first
 *                       of all that it does; whatever its uid. A failed or short write means: not admitted. */
enum cgroup_entry_kind { CGROUP_ENTRY_NONE = 0, CGROUP_ENTRY_CLONE = 1, CGROUP_ENTRY_TASKS = 2 };
#define CGROUP_ENTRY_MAX 4
struct cgroup_entry {
        enum cgroup_entry_kind kind;
        int count; /* of fds */
        int fds[CGROUP_ENTRY_MAX];
};
int cgroup_entry_open(struct sbx_cgroup *c, struct cgroup_entry *ret, struct sbx_error *err);
void cgroup_entry_close(struct cgroup_entry *entry);

/* Lets processes of `uid` (host's numbering) start guests by CGROUP_ENTRY_CLONE: needed when the process that clones
 * is not of this process's own uid. Once, before cgroup_create. Nothing to do on v1. */
int cgroup_manager_admit(struct sbx_cgroup_manager *m, uid_t uid, struct sbx_error *err);

/* Changes the limits that are not 0. */
int cgroup_limit(struct sbx_cgroup *c, const struct cgroup_limits *limits, struct sbx_error *err);

/* Fills cpu_ns, memory_peak_bytes, memory_bytes, pids and oom_killed, all since cgroup_create; what the kernel
 * doesn't tell is left as it was. Touches neither struct_size nor exit_code. */
int cgroup_usage(struct sbx_cgroup *c, struct sbx_guest_usage *usage);

/* What the memory limit killed so far counts no more: cgroup_usage tells of what comes. */
void cgroup_forgive(struct sbx_cgroup *c);

/* The processes in it, as this process sees them; freed with free(). -ENOTSUP: kind "none". -ENOMEM, errors of the
 * file. */
int cgroup_pids(const struct sbx_cgroup *c, pid_t **ret_pids, size_t *ret_count);

/* Kills every process in it, again and again until none is left (at most two seconds). */
void cgroup_kill(struct sbx_cgroup *c);

/* Kills what is left, then keeps the clean cgroup for reuse, or removes it. `c` is gone. Accepts NULL. */
void cgroup_release(struct sbx_cgroup *c);

/* Tells `layer` what holds for a guest with these limits: names "memory", "pids", "cpu"; states "applied",
 * "unlimited" (the limit is 0) or "unavailable"; `detail` is one line for a person. */
void cgroup_describe(const struct sbx_cgroup_manager *m,
                     void (*layer)(void *data, const char *name, const char *state, const char *detail), void *data,
                     const struct cgroup_limits *limits);
