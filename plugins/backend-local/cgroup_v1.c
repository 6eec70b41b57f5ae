/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup v1: a hierarchy for memory, one for pids, one for cpu, one for cpuacct, some of them joined. Formats and file
 * names: Documentation/admin-guide/cgroup-v1/ and Documentation/scheduler/sched-bwc.rst of Linux. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "cgroup_internal.h"

#define CPU_PERIOD_US 100000u
/* What may stay charged to a cgroup that is used again: per-CPU stocks and slabs, not somebody's page cache. */
#define RESIDUE_MAX_BYTES (2u << 20)

static const char MEMORY_LIMIT[] = "memory.limit_in_bytes", MEMORY_SWAP_LIMIT[] = "memory.memsw.limit_in_bytes";

static const struct cgroup_tree *tree(const struct sbx_cgroup *c, unsigned controller) {
        return cgroup_tree_of(c->manager, controller);
}

static int write_limit(struct sbx_cgroup *c, unsigned controller, const char *file, const char *text) {
        return cgroup_write_text(tree(c, controller)->fd, cgroup_path(c, file).text, text);
}

static int read_number(struct sbx_cgroup *c, unsigned controller, const char *file, uint64_t *ret) {
        return cgroup_read_u64(tree(c, controller)->fd, cgroup_path(c, file).text, ret);
}

static void inspect(struct sbx_cgroup_manager *m, struct sbx_cgroup *c) {
        static const struct {
                unsigned controller;
                const char *file, *missing;
        } wanted[] = {
                {CGROUP_MEMORY, MEMORY_LIMIT, "the kernel's memory controller has no limits"},
                {CGROUP_PIDS, "pids.max", "the kernel's pids controller has no limits"},
                {CGROUP_CPU, "cpu.cfs_quota_us", "the kernel has no CPU quotas (CONFIG_CFS_BANDWIDTH)"},
        };

        for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
                const struct cgroup_tree *t = cgroup_tree_of(m, wanted[i].controller);

                if (t != NULL && cgroup_exists(c, t, wanted[i].file))
                        continue;
                if (t != NULL)
                        snprintf(m->reason, sizeof(m->reason), "%s", wanted[i].missing);
                m->controllers &= ~wanted[i].controller;
        }
        m->reusable = true;
        m->swap_limited = (m->controllers & CGROUP_MEMORY) != 0 &&
                          cgroup_exists(c, cgroup_tree_of(m, CGROUP_MEMORY), MEMORY_SWAP_LIMIT);
}

/* Linux 4.13 and later; without it an out-of-memory kill shows as a killed guest. */
static int oom_kills(struct sbx_cgroup *c, uint64_t *ret) {
        return cgroup_read_key(tree(c, CGROUP_MEMORY)->fd, cgroup_path(c, "memory.oom_control").text, "oom_kill", ret);
}

static int reset_memory(struct sbx_cgroup *c) {
        uint64_t usage = 0;
        int r = read_number(c, CGROUP_MEMORY, "memory.usage_in_bytes", &usage);

        if (r < 0)
                return r;
        if (usage > RESIDUE_MAX_BYTES)
                return -EBUSY;
        r = write_limit(c, CGROUP_MEMORY, "memory.max_usage_in_bytes", "0");
        if (r < 0)
                return r;
        r = oom_kills(c, &c->oom_kills_before);
        return r == -ENODATA ? 0 : r;
}

static int reset(struct sbx_cgroup *c) {
        unsigned controllers = c->manager->controllers;
        uint64_t pids = 0;
        int r = 0;

        if ((controllers & CGROUP_PIDS) != 0) {
                r = read_number(c, CGROUP_PIDS, "pids.current", &pids);
                if (r == 0 && pids != 0)
                        r = -EBUSY; /* dead, but its parent has not waited for it yet */
        }
        if (r == 0 && (controllers & CGROUP_MEMORY) != 0)
                r = reset_memory(c);
        if (r == 0 && (controllers & CGROUP_ACCOUNT) != 0)
                r = read_number(c, CGROUP_ACCOUNT, "cpuacct.usage", &c->cpu_ns_before);
        return r;
}

/* The limit of memory and swap together is never below that of memory alone: it goes first on the way up, and last
 * on the way down. */
static int limit_memory(struct sbx_cgroup *c, uint64_t bytes, const char **ret_file) {
        bool up = bytes == 0 || (c->limits.memory_bytes != 0 && bytes > c->limits.memory_bytes);
        char text[24] = "-1";
        const char *files[2] = {up ? MEMORY_SWAP_LIMIT : MEMORY_LIMIT, up ? MEMORY_LIMIT : MEMORY_SWAP_LIMIT};

        if (bytes != 0)
                snprintf(text, sizeof(text), "%" PRIu64, bytes);
        for (int i = 0; i < 2; i++) {
                int r;

                if (files[i] == MEMORY_SWAP_LIMIT && !c->manager->swap_limited)
                        continue;
                *ret_file = files[i];
                if ((r = write_limit(c, CGROUP_MEMORY, files[i], text)) < 0)
                        return r;
        }
        c->limits.memory_bytes = bytes;
        return 0;
}

static int limit_cpu(struct sbx_cgroup *c, uint32_t percent, const char **ret_file) {
        char text[24] = "-1";
        int r;

        *ret_file = "cpu.cfs_quota_us";
        if (percent != 0)
                snprintf(text, sizeof(text), "%" PRIu64, (uint64_t)percent * (CPU_PERIOD_US / 100));
        r = write_limit(c, CGROUP_CPU, *ret_file, text);
        if (r == 0)
                c->limits.cpu_percent = percent;
        return r;
}

static int limit_pids(struct sbx_cgroup *c, uint32_t pids, const char **ret_file) {
        char text[16] = "max";
        int r;

        *ret_file = "pids.max";
        if (pids != 0)
                snprintf(text, sizeof(text), "%" PRIu32, pids);
        r = write_limit(c, CGROUP_PIDS, *ret_file, text);
        if (r == 0)
                c->limits.pids_max = pids;
        return r;
}

static int limit(struct sbx_cgroup *c, const struct cgroup_limits *limits, const char **ret_file) {
        unsigned controllers = c->manager->controllers;
        int r = 0;

        if ((controllers & CGROUP_MEMORY) != 0 && limits->memory_bytes != c->limits.memory_bytes)
                r = limit_memory(c, limits->memory_bytes, ret_file);
        if (r == 0 && (controllers & CGROUP_PIDS) != 0 && limits->pids_max != c->limits.pids_max)
                r = limit_pids(c, limits->pids_max, ret_file);
        if (r == 0 && (controllers & CGROUP_CPU) != 0 && limits->cpu_percent != c->limits.cpu_percent)
                r = limit_cpu(c, limits->cpu_percent, ret_file);
        return r;
}

static void usage(struct sbx_cgroup *c, struct sbx_guest_usage *usage) {
        unsigned controllers = c->manager->controllers;
        uint64_t value;

        if ((controllers & CGROUP_ACCOUNT) != 0 && read_number(c, CGROUP_ACCOUNT, "cpuacct.usage", &value) == 0)
                usage->cpu_ns = value - c->cpu_ns_before;
        if ((controllers & CGROUP_PIDS) != 0 && read_number(c, CGROUP_PIDS, "pids.current", &value) == 0)
                usage->pids = (uint32_t)value;
        if ((controllers & CGROUP_MEMORY) == 0)
                return;
        if (read_number(c, CGROUP_MEMORY, "memory.max_usage_in_bytes", &value) == 0)
                usage->memory_peak_bytes = value;
        if (read_number(c, CGROUP_MEMORY, "memory.usage_in_bytes", &value) == 0)
                usage->memory_bytes = value;
        if (oom_kills(c, &value) == 0)
                usage->oom_killed = value > c->oom_kills_before;
}

static void reclaim(struct sbx_cgroup *c) {
        if ((c->manager->controllers & CGROUP_MEMORY) != 0)
                write_limit(c, CGROUP_MEMORY, "memory.force_empty", "0");
}

static const struct cgroup_ops v1_ops = {
        .kind = "v1",
        .entry_kind = CGROUP_ENTRY_TASKS,
        .entry_file = "tasks",
        .inspect = inspect,
        .reset = reset,
        .limit = limit,
        .usage = usage,
        .oom_kills = oom_kills,
        .reclaim = reclaim,
};

/* Joins a controller to the tree at `path`, opening it if it is new. */
static int add_controller(struct sbx_cgroup_manager *m, const char *path, unsigned controller) {
        int fd;

        for (int i = 0; i < m->tree_count; i++)
                if (strcmp(m->trees[i].path, path) == 0) {
                        m->trees[i].controllers |= controller;
                        m->controllers |= controller;
                        return 0;
                }
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : cgroup_add_tree(m, fd, path, controller);
}

int cgroup_v1_find(struct sbx_cgroup_manager *m) {
        static const struct {
                const char *name;
                unsigned controller;
        } wanted[CGROUP_ENTRY_MAX] = {
                {"memory", CGROUP_MEMORY}, {"pids", CGROUP_PIDS}, {"cpu", CGROUP_CPU}, {"cpuacct", CGROUP_ACCOUNT}};

        for (int i = 0; i < CGROUP_ENTRY_MAX; i++) {
                char *path = NULL;
                int r = cgroup_own_directory(wanted[i].name, &path);

                if (r == 0)
                        r = add_controller(m, path, wanted[i].controller);
                free(path);
                if (r == -ENOMEM)
                        return r;
                if (r < 0 && (wanted[i].controller & CGROUP_LIMITS) != 0)
                        snprintf(m->reason, sizeof(m->reason), "no hierarchy of the %s controller is mounted here",
                                 wanted[i].name);
        }
        snprintf(m->remedy, sizeof(m->remedy),
                 "cgroup v1 can be used by root alone: run as root, or boot with systemd.unified_cgroup_hierarchy=1 and "
                 "type: systemd-run --user --scope -p Delegate=yes snipara-sandbox");
        if ((m->controllers & CGROUP_LIMITS) == 0)
                return -ENOTSUP;
        m->ops = &v1_ops;
        return 0;
}
