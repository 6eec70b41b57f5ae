/* SPDX-License-Identifier: Apache-2.0 */
/* A guest locks itself down, layer after layer, then looks whether they hold, and says so. */
#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <linux/capability.h>
#include <linux/seccomp.h>

#include "jail.h"
#include "util.h"

static const char *const namespace_layers[JAIL_NAMESPACE_COUNT] = {
        "user namespace", "pid namespace", "mount namespace",  "network namespace",
        "ipc namespace",  "uts namespace", "cgroup namespace",
};

static int broken(const char *layer, const char *why, struct sbx_error *err) {
        return sbx_error_set(err, -ENOTSUP, LOCAL_ORIGIN, "run `snipara-sandbox doctor`, and report this",
                             "layer \"%s\" was set up but does not hold: %s", layer, why);
}

static int check_namespaces(const struct jail_guest *guest, struct jail_report *report, struct sbx_error *err) {
        struct jail_namespaces read;
        uint64_t mine[JAIL_NAMESPACE_COUNT], others[JAIL_NAMESPACE_COUNT], server[JAIL_NAMESPACE_COUNT];
        int r = jail_namespaces_read(&read);

        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "/proc/self/ns: %s", strerror(-r));
        static_assert(sizeof(read) == sizeof(mine), "one number for each namespace");
        memcpy(mine, &read, sizeof(mine));
        memcpy(others, guest->others, sizeof(others));
        memcpy(server, &guest->config->server, sizeof(server));
        for (size_t i = 0; i < JAIL_NAMESPACE_COUNT; i++) {
                if (mine[i] == others[i] || mine[i] == server[i])
                        return broken(namespace_layers[i], "it is shared", err);
                jail_report_add(report, namespace_layers[i], "applied", "its own, %" PRIu64, mine[i]);
        }
        return 0;
}

static int check_root(const struct jail_guest *guest, struct jail_report *report, struct sbx_error *err) {
        static const char *const modes[] = {"none: a tmpfs of its own", "read-only", "writable"};
        struct statvfs root, usr;

        if (getpid() != 1)
                return broken("pid namespace", "its first process is another", err);
        if (statvfs("/", &root) < 0 || statvfs("/usr", &usr) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "statvfs: %s", strerror(errno));
        if ((root.f_flag & ST_RDONLY) == 0 || (usr.f_flag & ST_RDONLY) == 0 || (usr.f_flag & ST_NOSUID) == 0)
                return broken("root", "it can be written to", err);
        jail_report_add(report, "root", "applied", "tmpfs, read-only binds of programs and libraries");
        jail_report_add(report, "proc", "applied", "its own, processes only");
        jail_report_add(report, "tmp", "applied", "/tmp and /dev/shm of its own, %" PRIu64 " MiB each",
                        guest->config->tmp_bytes >> 20);
        if (guest->config->workspace == JAIL_WORKSPACE_NONE)
                jail_report_add(report, "workspace", "applied", "%s, %" PRIu64 " MiB", modes[0],
                                guest->config->workspace_bytes >> 20);
        else
                jail_report_add(report, "workspace", "applied", "%s, %s", modes[guest->config->workspace],
                                guest->config->workspace_path);
        return 0;
}

static int check_ids(const struct jail_guest *guest, struct jail_report *report, struct sbx_error *err) {
        uid_t real, effective, saved;
        gid_t group;
        int groups;

        if (getresuid(&real, &effective, &saved) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "getresuid: %s", strerror(errno));
        group = getegid();
        groups = getgroups(0, NULL);
        if (real == 0 || effective != real || saved != real || group == 0)
                return broken("ids", "it is root", err);
        if (guest->config->isolation == JAIL_NAMESPACES && real != JAIL_INSIDE_ID)
                return broken("ids", "its uid is not mapped", err);
        jail_report_add(report, "ids", "applied",
                        "uid %u and gid %u inside, %" PRIu64 " and %" PRIu64 " outside; %d other groups",
                        (unsigned)real, (unsigned)group, guest->config->id, guest->config->gid, groups);
        if (!jail_ids_powerless())
                return broken("capabilities", "some are left", err);
        if (guest->config->isolation == JAIL_NAMESPACES && prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0) != 0)
                return broken("capabilities", "some may be had again", err);
        jail_report_add(report, "capabilities", "applied", "none in any set");
        if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
                return broken("no_new_privs", "it is not set", err);
        jail_report_add(report, "no_new_privs", "applied", "read back");
        return 0;
}

static int check_seccomp(const struct jail_guest *guest, struct jail_report *report, struct sbx_error *err) {
        int fd;

        if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER)
                return broken("seccomp", "the kernel says that there is no filter", err);
        if (unshare(CLONE_NEWUSER) == 0 || errno != EPERM)
                return broken("seccomp", "a new user namespace could be made", err);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 || errno != EPERM)
                return broken("seccomp", "an internet socket could be made", err);
        jail_report_add(report, "seccomp", "applied", "deny by default, %zu instructions; tried",
                        guest->config->filter_count);
        return 0;
}

static int check_landlock(const struct jail_guest *guest, int abi, struct jail_report *report, struct sbx_error *err) {
        const char *witness = guest->config->isolation == JAIL_NAMESPACES ? JAIL_WITNESS : "/etc/passwd";
        int fd = open(witness, O_RDONLY | O_CLOEXEC);

        if (fd >= 0 || errno != EACCES)
                return broken("landlock", "a file outside the rules could be read, or is not there to try", err);
        jail_report_add(report, "landlock", "applied", "ABI %d: files%s%s; tried", abi, abi >= 4 ? ", no TCP" : "",
                        abi >= 6 ? ", abstract sockets and signals scoped" : "");
        return 0;
}

/* What a guest on the host's own file tree and in the host's namespaces does without. */
static void report_absent(const struct jail_guest *guest, struct jail_report *report, const char *why) {
        for (size_t i = 0; i < JAIL_NAMESPACE_COUNT; i++)
                jail_report_add(report, namespace_layers[i], "off", "%s", why);
        jail_report_add(report, "root", "off", "%s: the host's file tree", why);
        jail_report_add(report, "proc", "off", "%s: the host's", why);
        jail_report_add(report, "tmp", "absent", "a directory of its own, as large as the host's disk: %s",
                        guest->scratch);
        if (guest->config->workspace != JAIL_WORKSPACE_NONE)
                jail_report_add(report, "workspace", "applied", "%s, %s",
                                guest->config->workspace == JAIL_WORKSPACE_RO ? "read-only" : "writable",
                                guest->config->workspace_path);
}

static int set_no_new_privs(struct sbx_error *err) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "layer \"no_new_privs\": %s", strerror(errno));
        return 0;
}

static int apply_namespaces(const struct jail_guest *guest, int *ret_abi, struct sbx_error *err) {
        int r;

        /* Only now, in its own cgroup: that is what the new namespace will show as "/". */
        if (unshare(CLONE_NEWCGROUP) < 0)
                return sbx_error_set(err, -ENOTSUP, LOCAL_ORIGIN, "a kernel with cgroup namespaces is needed",
                                     "layer \"cgroup namespace\": %s", strerror(errno));
        r = jail_mounts_private(guest->config, err);
        if (r == 0)
                r = jail_limits_apply(guest->config, guest->memory_bytes, guest->pids_max, err);
        if (r == 0)
                r = set_no_new_privs(err);
        if (r == 0)
                r = jail_landlock_apply(guest->config, NULL, ret_abi, err);
        if (r == 0)
                r = jail_ids_drop_capabilities(err);
        return r == 0 ? jail_seccomp_apply(guest->config, err) : r;
}

static int lock_down_namespaces(const struct jail_guest *guest, struct jail_report *report, struct sbx_error *err) {
        int abi = 0, r = apply_namespaces(guest, &abi, err);

        if (r == 0)
                r = check_namespaces(guest, report, err);
        if (r == 0)
                r = check_root(guest, report, err);
        if (r == 0)
                r = check_ids(guest, report, err);
        if (r == 0)
                r = check_landlock(guest, abi, report, err);
        return r == 0 ? check_seccomp(guest, report, err) : r;
}

static int enter_directory(const struct jail_guest *guest, struct sbx_error *err) {
        bool own = guest->config->workspace == JAIL_WORKSPACE_NONE;

        return jail_mounts_enter(guest->config, own ? guest->scratch : guest->config->workspace_path, err);
}

static int lock_down_landlock(const struct jail_guest *guest, struct jail_report *report, struct sbx_error *err) {
        int abi = 0, r = enter_directory(guest, err);

        if (r == 0)
                r = jail_limits_apply(guest->config, guest->memory_bytes, guest->pids_max, err);
        if (r == 0)
                r = set_no_new_privs(err);
        if (r == 0)
                r = jail_landlock_apply(guest->config, guest->scratch, &abi, err);
        if (r == 0)
                r = jail_ids_drop_capabilities(err);
        if (r == 0)
                r = jail_seccomp_apply(guest->config, err);
        if (r < 0)
                return r;
        report_absent(guest, report, "isolation = \"landlock\"");
        r = check_ids(guest, report, err);
        if (r == 0)
                r = check_landlock(guest, abi, report, err);
        if (r == 0)
                r = check_seccomp(guest, report, err);
        if (abi < 6)
                jail_report_add(report, "signals", "absent",
                                "it may signal processes of its uid: Linux 6.12 prevents it");
        return r;
}

static int lock_down_none(const struct jail_guest *guest, struct jail_report *report, struct sbx_error *err) {
        int r = enter_directory(guest, err);

        if (r == 0)
                r = jail_limits_apply(guest->config, guest->memory_bytes, guest->pids_max, err);
        if (r == 0)
                r = set_no_new_privs(err);
        if (r == 0)
                r = jail_ids_drop_capabilities(err);
        if (r < 0)
                return r;
        report_absent(guest, report, "isolation = \"none\"");
        r = check_ids(guest, report, err);
        jail_report_add(report, "landlock", "off", "isolation = \"none\"");
        jail_report_add(report, "seccomp", "off", "isolation = \"none\"");
        return r;
}

int jail_guest_lock_down(const struct jail_guest *guest, struct jail_report *report, struct sbx_error *err) {
        int r;

        switch (guest->config->isolation) {
        case JAIL_NAMESPACES:
                r = lock_down_namespaces(guest, report, err);
                break;
        case JAIL_LANDLOCK:
                r = lock_down_landlock(guest, report, err);
                break;
        case JAIL_NONE:
                r = lock_down_none(guest, report, err);
                break;
        default:
                return sbx_error_set(err, -EINVAL, LOCAL_ORIGIN, NULL, "unknown isolation");
        }
        if (r == 0)
                jail_report_add(report, "rlimits", "applied", "%s",
                                guest->config->memory_wall != 0 ? "core, files, locked memory, processes; memory too"
                                                                : "core, files, locked memory, processes");
        return r;
}
