/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup v2: one hierarchy, in which this process may make cgroups where it was delegated to it. Rules and file names:
 * Documentation/admin-guide/cgroup-v2.rst of Linux; delegation: systemd's docs/CGROUP_DELEGATION.md. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cgroup_internal.h"

#define CPU_PERIOD_US 100000u
#define CONTROL_LIST_MAX 4096
#define RESIDUE_MAX_BYTES (2u << 20) /* see cgroup_v1.c */

static const struct {
        const char *name, *limit_file;
        unsigned bit;
} controllers[] = {
        {"memory", "memory.max", CGROUP_MEMORY}, {"pids", "pids.max", CGROUP_PIDS}, {"cpu", "cpu.max", CGROUP_CPU}};
#define CONTROLLER_COUNT (sizeof(controllers) / sizeof(controllers[0]))

static int tree_fd(const struct sbx_cgroup *c) {
        return c->manager->trees[0].fd;
}

/* ---- one cgroup */

static int open_peak(struct sbx_cgroup *c) {
        return openat(tree_fd(c), cgroup_path(c, "memory.peak").text, O_RDWR | O_CLOEXEC);
}

static void inspect(struct sbx_cgroup_manager *m, struct sbx_cgroup *c) {
        const struct cgroup_tree *tree = &m->trees[0];
        int peak_fd;

        for (size_t i = 0; i < CONTROLLER_COUNT; i++) {
                if ((m->controllers & controllers[i].bit) == 0 || cgroup_exists(c, tree, controllers[i].limit_file))
                        continue;
                snprintf(m->reason, sizeof(m->reason), "the kernel has no %s", controllers[i].limit_file);
                m->controllers &= ~controllers[i].bit;
        }
        m->swap_limited = (m->controllers & CGROUP_MEMORY) != 0 && cgroup_exists(c, tree, "memory.swap.max");
        m->reusable = true;
        if ((m->controllers & CGROUP_MEMORY) == 0 || !cgroup_exists(c, tree, "memory.peak"))
                return;
        /* Before Linux 6.12 the peak can't be reset (and can't be opened for writing). */
        peak_fd = open_peak(c);
        m->reusable = peak_fd >= 0;
        if (peak_fd >= 0)
                close(peak_fd);
}

static int oom_kills(struct sbx_cgroup *c, uint64_t *ret) {
        return cgroup_read_key(tree_fd(c), cgroup_path(c, "memory.events").text, "oom_kill", ret);
}

static int reset_memory(struct sbx_cgroup *c) {
        uint64_t usage = 0;
        int r = cgroup_read_u64(tree_fd(c), cgroup_path(c, "memory.current").text, &usage);

        if (r < 0)
                return r;
        if (usage > RESIDUE_MAX_BYTES)
                return -EBUSY;
        if (c->peak_fd < 0 && (c->peak_fd = open_peak(c)) < 0 && errno != ENOENT)
                return -errno;
        if (c->peak_fd >= 0 && write(c->peak_fd, "0", 1) != 1)
                return -EIO;
        return oom_kills(c, &c->oom_kills_before);
}

static int read_cpu_ns(struct sbx_cgroup *c, uint64_t *ret) {
        uint64_t us = 0;
        int r = cgroup_read_key(tree_fd(c), cgroup_path(c, "cpu.stat").text, "usage_usec", &us);

        if (r == 0)
                *ret = us * 1000;
        return r;
}

static int reset(struct sbx_cgroup *c) {
        unsigned present = c->manager->controllers;
        uint64_t pids = 0;
        int r = read_cpu_ns(c, &c->cpu_ns_before);

        if (r == 0 && (present & CGROUP_PIDS) != 0) {
                r = cgroup_read_u64(tree_fd(c), cgroup_path(c, "pids.current").text, &pids);
                if (r == 0 && pids != 0)
                        r = -EBUSY;
        }
        if (r == 0 && (present & CGROUP_MEMORY) != 0)
                r = reset_memory(c);
        return r;
}

static int write_limit(struct sbx_cgroup *c, const char *file, uint64_t value, const char *suffix,
                       const char **ret_file) {
        char text[48];

        *ret_file = file;
        if (value == 0)
                snprintf(text, sizeof(text), "max%s", suffix);
        else
                snprintf(text, sizeof(text), "%" PRIu64 "%s", value, suffix);
        return cgroup_write_text(tree_fd(c), cgroup_path(c, file).text, text);
}

static int limit_memory(struct sbx_cgroup *c, uint64_t bytes, const char **ret_file) {
        int r = write_limit(c, "memory.max", bytes, "", ret_file);

        if (r < 0)
                return r;
        c->limits.memory_bytes = bytes;
        if (!c->manager->swap_limited)
                return 0;
        *ret_file = "memory.swap.max";
        return cgroup_write_text(tree_fd(c), cgroup_path(c, *ret_file).text, bytes != 0 ? "0" : "max");
}

static int limit(struct sbx_cgroup *c, const struct cgroup_limits *limits, const char **ret_file) {
        unsigned present = c->manager->controllers;
        int r = 0;

        if ((present & CGROUP_MEMORY) != 0 && limits->memory_bytes != c->limits.memory_bytes)
                r = limit_memory(c, limits->memory_bytes, ret_file);
        if (r == 0 && (present & CGROUP_PIDS) != 0 && limits->pids_max != c->limits.pids_max) {
                r = write_limit(c, "pids.max", limits->pids_max, "", ret_file);
                if (r == 0)
                        c->limits.pids_max = limits->pids_max;
        }
        if (r == 0 && (present & CGROUP_CPU) != 0 && limits->cpu_percent != c->limits.cpu_percent) {
                r = write_limit(c, "cpu.max", (uint64_t)limits->cpu_percent * (CPU_PERIOD_US / 100), " 100000",
                                ret_file);
                if (r == 0)
                        c->limits.cpu_percent = limits->cpu_percent;
        }
        return r;
}

static int read_peak(struct sbx_cgroup *c, uint64_t *ret) {
        char text[24];
        ssize_t n;

        if (c->peak_fd < 0)
                return cgroup_read_u64(tree_fd(c), cgroup_path(c, "memory.peak").text, ret);
        n = pread(c->peak_fd, text, sizeof(text) - 1, 0);
        if (n <= 0)
                return n < 0 ? -errno : -EIO;
        text[n] = '\0';
        return cgroup_parse_u64(text, ret, NULL) ? 0 : -EINVAL;
}

static void usage(struct sbx_cgroup *c, struct sbx_guest_usage *usage) {
        unsigned present = c->manager->controllers;
        uint64_t value;

        if (read_cpu_ns(c, &value) == 0)
                usage->cpu_ns = value - c->cpu_ns_before;
        if ((present & CGROUP_PIDS) != 0 &&
            cgroup_read_u64(tree_fd(c), cgroup_path(c, "pids.current").text, &value) == 0)
                usage->pids = (uint32_t)value;
        if ((present & CGROUP_MEMORY) == 0)
                return;
        if (read_peak(c, &value) == 0)
                usage->memory_peak_bytes = value;
        if (cgroup_read_u64(tree_fd(c), cgroup_path(c, "memory.current").text, &value) == 0)
                usage->memory_bytes = value;
        if (oom_kills(c, &value) == 0)
                usage->oom_killed = value > c->oom_kills_before;
}

static void reclaim(struct sbx_cgroup *c) {
        uint64_t usage = 0;

        if ((c->manager->controllers & CGROUP_MEMORY) != 0 &&
            cgroup_read_u64(tree_fd(c), cgroup_path(c, "memory.current").text, &usage) == 0 && usage > 0)
                cgroup_write_u64(tree_fd(c), cgroup_path(c, "memory.reclaim").text, usage);
}

/* ---- where guests go */

/* The leaf that this process moves to, so that the cgroup it came from holds no process: only then may its children
 * have controllers (the rule of no internal processes). */
static void leaf_name(const struct sbx_cgroup_manager *m, char name[static CGROUP_NAME_MAX]) {
        snprintf(name, CGROUP_NAME_MAX, "%s-host", m->owner);
}

static int move_to_leaf(struct sbx_cgroup_manager *m, int fd) {
        char name[CGROUP_NAME_MAX];
        int leaf, r;

        leaf_name(m, name);
        if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST)
                return -errno;
        leaf = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = leaf < 0 ? -errno : cgroup_write_text(leaf, "cgroup.procs", "0");
        if (leaf >= 0)
                close(leaf);
        if (r < 0)
                unlinkat(fd, name, AT_REMOVEDIR);
        else
                m->moved = true;
        return r;
}

static void move_back(struct sbx_cgroup_manager *m, int fd) {
        char name[CGROUP_NAME_MAX];

        leaf_name(m, name);
        if (cgroup_write_text(fd, "cgroup.procs", "0") == 0 && unlinkat(fd, name, AT_REMOVEDIR) == 0)
                m->moved = false;
}

/* Enables or disables a controller for the children of `fd`. */
static int switch_controller(int fd, char sign, const char *name) {
        char text[16];

        snprintf(text, sizeof(text), "%c%s", sign, name);
        return cgroup_write_text(fd, "cgroup.subtree_control", text);
}

static void disable_all(struct sbx_cgroup_manager *m, int fd) {
        for (size_t i = 0; i < CONTROLLER_COUNT; i++)
                if ((m->enabled & controllers[i].bit) != 0 && switch_controller(fd, '-', controllers[i].name) == 0)
                        m->enabled &= ~controllers[i].bit;
}

static int enable(struct sbx_cgroup_manager *m, int fd, size_t i) {
        int r = switch_controller(fd, '+', controllers[i].name);

        if (r == -EBUSY && !m->moved) {
                r = move_to_leaf(m, fd);
                if (r == 0)
                        r = switch_controller(fd, '+', controllers[i].name);
        }
        if (r == 0)
                m->enabled |= controllers[i].bit;
        return r;
}

/* Enables at `fd` what it has of the controllers wanted. `*ret_usable`: those that its children get. The first error, if
 * that is none of them. */
static int prepare(struct sbx_cgroup_manager *m, int fd, unsigned *ret_usable) {
        char *available = NULL, *enabled = NULL;
        unsigned usable = 0;
        size_t size;
        int r, first = -ENODEV; /* no controller is available */

        r = cgroup_read_text(fd, "cgroup.controllers", CONTROL_LIST_MAX, &available, &size);
        if (r == 0)
                r = cgroup_read_text(fd, "cgroup.subtree_control", CONTROL_LIST_MAX, &enabled, &size);
        for (size_t i = 0; r == 0 && i < CONTROLLER_COUNT; i++) {
                int code;

                if (!cgroup_has_word(available, ' ', controllers[i].name))
                        continue;
                code = cgroup_has_word(enabled, ' ', controllers[i].name) ? 0 : enable(m, fd, i);
                if (code == 0)
                        usable |= controllers[i].bit;
                if (code == 0 && m->moved)
                        m->enabled |= controllers[i].bit; /* perhaps by another instance; the last one disables */
                else if (first == -ENODEV)
                        first = code;
        }
        free(available);
        free(enabled);
        if (r == 0 && usable == 0) {
                if (m->moved)
                        move_back(m, fd);
                r = first;
        }
        if (r == 0)
                *ret_usable = usable;
        return r;
}

static int open_directory(const char *path) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct statfs fs;

        if (fd < 0)
                return -errno;
        if (fstatfs(fd, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
                return fd;
        close(fd);
        return -EINVAL;
}

/* Takes `path` for the guests' parent; rights are proven by making a cgroup there, not just by what it says. */
static int try_directory(struct sbx_cgroup_manager *m, const char *path) {
        unsigned usable = 0;
        int fd = open_directory(path), r;

        if (fd < 0)
                return fd;
        if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0)
                r = -errno;
        else
                r = prepare(m, fd, &usable);
        if (r < 0) {
                close(fd);
                return r;
        }
        return cgroup_add_tree(m, fd, path, usable | CGROUP_ACCOUNT);
}

/* The directory of this process's own cgroup; when that is the leaf of another instance in this process, its parent. */
static int own_directory(struct sbx_cgroup_manager *m, char **ret) {
        char name[CGROUP_NAME_MAX], *path = NULL, *last;
        int r = cgroup_own_directory(NULL, &path);

        if (r < 0)
                return r;
        leaf_name(m, name);
        last = strrchr(path, '/');
        if (last != NULL && last != path && strcmp(last + 1, name) == 0) {
                *last = '\0';
                m->moved = true;
        }
        *ret = path;
        return 0;
}

static bool others_remain(const struct sbx_cgroup_manager *m) {
        uint64_t count = 0;

        return cgroup_read_key(m->trees[0].fd, "cgroup.stat", "nr_descendants", &count) < 0 ||
               count > (m->moved ? 1u : 0u);
}

/* Another instance in this process, or another server, may have guests beside ours: then things stay as they are. */
static void leave(struct sbx_cgroup_manager *m) {
        int fd = m->trees[0].fd;

        if (others_remain(m))
                return;
        disable_all(m, fd);
        if (m->moved)
                move_back(m, fd);
}

static const struct cgroup_ops v2_ops = {
        .kind = "v2",
        .entry_kind = CGROUP_ENTRY_CLONE,
        .entry_file = NULL,
        .kill_file = "cgroup.kill",
        .inspect = inspect,
        .reset = reset,
        .limit = limit,
        .usage = usage,
        .oom_kills = oom_kills,
        .reclaim = reclaim,
        .leave = leave,
};

/* Says in words why `path` can't be used, and what to type. */
static void explain(struct sbx_cgroup_manager *m, const char *path, int code, int scope_code) {
        bool container = access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
        const char *scope = geteuid() == 0 ? "systemd-run --scope -p Delegate=yes snipara-sandbox"
                                           : "systemd-run --user --scope -p Delegate=yes snipara-sandbox";

        if (code == -ENODEV)
                snprintf(m->reason, sizeof(m->reason), "cgroup %s has none of the controllers memory, pids, cpu", path);
        else if (code == -EBUSY)
                snprintf(m->reason, sizeof(m->reason), "other processes than this one are in cgroup %s", path);
        else if (code == -EROFS)
                snprintf(m->reason, sizeof(m->reason), "cgroup %s is mounted read-only", path);
        else
                snprintf(m->reason, sizeof(m->reason), "cgroup %s is not delegated to this user (%s)", path,
                         strerror(-code));
        if (container)
                snprintf(m->remedy, sizeof(m->remedy),
                         "In a container: give it a cgroup of its own that it may write to (podman run --cgroupns=private "
                         "--security-opt unmask=/sys/fs/cgroup ..., docker run --privileged --cgroupns=private ...) and "
                         "start snipara-sandbox as its first process");
        else if (code == -ENODEV && geteuid() != 0)
                snprintf(m->remedy, sizeof(m->remedy),
                         "As root, write \"[Service]\\nDelegate=memory pids cpu\" to "
                         "/etc/systemd/system/user@.service.d/delegate.conf, log in anew, and start with: %s", scope);
        else
                snprintf(m->remedy, sizeof(m->remedy), "Start it in a cgroup of its own: %s%s", scope,
                         scope_code == -EPROTO ? " (systemd refused to make one when asked just now)" : "");
}

static int enter_scope(struct sbx_cgroup_manager *m) {
        char unit[CGROUP_NAME_MAX + 32];

        snprintf(unit, sizeof(unit), "snipara-sandbox-%s.scope", m->owner);
        return cgroup_enter_scope(unit);
}

int cgroup_v2_find(struct sbx_cgroup_manager *m, const char *base) {
        char *path = NULL;
        int r = 0, scope_code = 0;

        if (base != NULL)
                path = strdup(base);
        else if ((r = own_directory(m, &path)) == -ENOENT) {
                snprintf(m->reason, sizeof(m->reason), "no cgroup file system is mounted");
                snprintf(m->remedy, sizeof(m->remedy), "As root: mount -t cgroup2 none /sys/fs/cgroup");
                return -ENOTSUP;
        } else if (r < 0)
                return r;
        if (path == NULL)
                return -ENOMEM;
        r = try_directory(m, path);
        if (r < 0 && r != -ENOMEM && base == NULL && (scope_code = enter_scope(m)) == 0) {
                free(path);
                path = NULL;
                r = own_directory(m, &path);
                if (r == 0)
                        r = try_directory(m, path);
        }
        if (r < 0 && r != -ENOMEM) {
                explain(m, path != NULL ? path : "?", r, scope_code);
                r = -ENOTSUP;
        }
        free(path);
        if (r == 0)
                m->ops = &v2_ops;
        return r;
}
