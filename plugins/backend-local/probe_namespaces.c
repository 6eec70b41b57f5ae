/* SPDX-License-Identifier: Apache-2.0 */
/* Tries namespaces, mounts, the filter and Landlock in children that may be locked up for good. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "jail.h"
#include "probe_internal.h"
#include "seccomp_filter.h"
#include "syscalls.h"
#include "util.h"

#define NEW_ROOT "/tmp"

/* Runs a function of the jail and takes its message. */
static int take(int r, const struct sbx_error *err, char text[PROBE_TEXT_MAX]) {
        if (r < 0)
                snprintf(text, PROBE_TEXT_MAX, "%.*s", PROBE_TEXT_MAX - 1, err->message);
        return r;
}

static int drop_root(const struct local_options *options, char text[PROBE_TEXT_MAX]) {
        struct sbx_error err = {0};
        int r = jail_ids_drop_root(options->user, (gid_t)options->user, &err);

        if (r == 0)
                snprintf(text, PROBE_TEXT_MAX, "became uid %u", (unsigned)options->user);
        return take(r, &err, text);
}

static int new_user_namespace(const struct local_options *options, char text[PROBE_TEXT_MAX]) {
        return unshare(CLONE_NEWUSER) < 0 ? -errno : 0;
}

static int map_ids(uid_t uid, gid_t gid, char text[PROBE_TEXT_MAX]) {
        struct sbx_error err = {0};
        int r = jail_ids_map(uid, gid, &err);

        if (r == 0)
                snprintf(text, PROBE_TEXT_MAX, "uid %u is %u inside", (unsigned)uid, JAIL_INSIDE_ID);
        return take(r, &err, text);
}

/* What the ids are outside is known before the namespace is entered alone. */
static int user_namespace_and_map(const struct local_options *options, char text[PROBE_TEXT_MAX]) {
        uid_t uid = geteuid();
        gid_t gid = getegid();
        int r = new_user_namespace(options, text);

        return r < 0 ? r : map_ids(uid, gid, text);
}

static int new_namespace(int flag) {
        return unshare(flag) < 0 ? -errno : 0;
}
static int new_pid(const struct local_options *options, char text[PROBE_TEXT_MAX]) {
        return new_namespace(CLONE_NEWPID);
}
static int new_mount(const struct local_options *options, char text[PROBE_TEXT_MAX]) {
        return new_namespace(CLONE_NEWNS);
}
static int new_network(const struct local_options *options, char text[PROBE_TEXT_MAX]) {
        return new_namespace(CLONE_NEWNET);
}
static int new_ipc(const struct local_options *options, char text[PROBE_TEXT_MAX]) {
        return new_namespace(CLONE_NEWIPC);
}
static int new_uts(const struct local_options *options, char text[PROBE_TEXT_MAX]) {
        if (unshare(CLONE_NEWUTS) < 0)
                return -errno;
        return sethostname(JAIL_HOSTNAME, strlen(JAIL_HOSTNAME)) < 0 ? -errno : 0;
}
static int new_cgroup(const struct local_options *options, char text[PROBE_TEXT_MAX]) {
        return new_namespace(CLONE_NEWCGROUP);
}

static int mount_things(const struct local_options *options, char text[PROBE_TEXT_MAX]) {
        struct sbx_mount_attr attr = {.attr_set = SBX_MOUNT_ATTR_RDONLY | SBX_MOUNT_ATTR_NOSUID | SBX_MOUNT_ATTR_NODEV};
        _cleanup_close_ int fd = -1;

        snprintf(text, PROBE_TEXT_MAX, "making / private");
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return -errno;
        snprintf(text, PROBE_TEXT_MAX, "a read-only bind of /usr");
        fd = sys_open_tree(AT_FDCWD, "/usr", SBX_OPEN_TREE_CLONE | AT_RECURSIVE | O_CLOEXEC);
        if (fd < 0 || sys_mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr) < 0)
                return -errno;
        snprintf(text, PROBE_TEXT_MAX, "a tmpfs");
        if (mount("sbx-probe", NEW_ROOT, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") < 0 ||
            mkdir(NEW_ROOT "/usr", 0755) < 0 || mkdir(NEW_ROOT "/proc", 0555) < 0 ||
            sys_move_mount(fd, AT_FDCWD, NEW_ROOT "/usr") < 0)
                return -errno;
        snprintf(text, PROBE_TEXT_MAX, "tmpfs and a read-only bind");
        return 0;
}

static int mount_proc(const struct local_options *options, char text[PROBE_TEXT_MAX]) {
        snprintf(text, PROBE_TEXT_MAX, "its own /proc");
        return mount("proc", NEW_ROOT "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ? -errno : 0;
}

static int change_root(const struct local_options *options, char text[PROBE_TEXT_MAX]) {
        if (chdir(NEW_ROOT) < 0 || sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
                return -errno;
        snprintf(text, PROBE_TEXT_MAX, "the old root is gone");
        return access("/etc", F_OK) == 0 ? -EEXIST : 0;
}

#define INNER_STEPS                                                                                                  \
        {"pid namespace", new_pid, false}, {"mount namespace", new_mount, false},                                    \
                {"network namespace", new_network, false}, {"ipc namespace", new_ipc, false},                        \
                {"uts namespace", new_uts, false}, {"cgroup namespace", new_cgroup, false},                          \
                {"mounts", mount_things, false}, {"mount of /proc", mount_proc, true}

void probe_namespaces(struct probe *probe) {
        static const struct probe_step as_user[] = {
                {"user namespace, uid map", user_namespace_and_map, false},
                INNER_STEPS,
                {"pivot_root", change_root, false},
        };
        /* As the jail does it: the user namespace comes last, so that nothing inside has power over the others. */
        static const struct probe_step as_root[] = {
                {"unprivileged uid", drop_root, false},
                INNER_STEPS,
                {"pivot_root", change_root, false},
                {"user namespace, uid map", user_namespace_and_map, false},
        };

        if (geteuid() == 0)
                probe_run_steps(probe, as_root, sizeof(as_root) / sizeof(as_root[0]), probe_namespace_remedy);
        else
                probe_run_steps(probe, as_user, sizeof(as_user) / sizeof(as_user[0]), probe_namespace_remedy);
}

/* ---- seccomp and Landlock */

static int load_filter(const struct local_options *options, char text[PROBE_TEXT_MAX]) {
        const struct seccomp_facts facts = {.memory_counted = true, .own_tree = options->isolation == JAIL_NAMESPACES};
        struct jail_config config = {0};
        struct sock_filter *filter = NULL;
        struct sbx_error err = {0};
        int r, fd;

        r = seccomp_filter_compile(&facts, &filter, &config.filter_count, &err);
        if (r < 0)
                return take(r, &err, text);
        config.filter = filter;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        r = jail_seccomp_apply(&config, &err);
        if (r < 0)
                return take(r, &err, text);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        snprintf(text, PROBE_TEXT_MAX, "a filter of %zu instructions refuses an internet socket", config.filter_count);
        return fd < 0 && errno == EPERM ? 0 : -EBADE;
}

static int use_landlock(const struct local_options *options, char text[PROBE_TEXT_MAX]) {
        /* The rules for the host's own tree, which leave most of it out. */
        struct jail_config config = {.isolation = JAIL_LANDLOCK, .guests = "/usr"};
        struct sbx_error err = {0};
        int r, abi = 0;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        r = jail_landlock_apply(&config, "/tmp", &abi, &err);
        if (r < 0)
                return take(r, &err, text);
        snprintf(text, PROBE_TEXT_MAX, "ABI %d; it refuses a directory that may be read otherwise", abi);
        return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) < 0 && errno == EACCES ? 0 : -EBADE;
}

static const char *filter_remedy(int code, char *buffer, size_t size) {
        snprintf(buffer, size, "A kernel with CONFIG_SECCOMP_FILTER=y and a libseccomp from 2.5 on are needed");
        return buffer;
}

static const char *landlock_remedy(int code, char *buffer, size_t size) {
        snprintf(buffer, size, "%s",
                 code == -ENOTSUP ? "Boot Linux 5.13 or later with landlock among the security modules: add "
                                    "lsm=landlock,lockdown,yama,integrity,apparmor to the kernel's command line"
                                  : "A container's filter may refuse Landlock: docker run --security-opt "
                                    "seccomp=unconfined ...");
        return buffer;
}

void probe_filters(struct probe *probe) {
        static const struct probe_step filter = {"seccomp", load_filter, false};
        static const struct probe_step landlock = {"Landlock", use_landlock, false};

        probe_run_steps(probe, &filter, 1, filter_remedy);
        probe_run_steps(probe, &landlock, 1, landlock_remedy);
}
