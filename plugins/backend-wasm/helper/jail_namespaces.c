/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces of the helper's own, an empty file tree, and the process that stays outside to wait. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "jail.h"
#include "util.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWPID | CLONE_NEWCGROUP)

/* A tmpfs with room for nothing, read-only, and all of the host's tree gone. Names the step that failed. */
static int become_rootless(const char **ret_step) {
        static const char *const places[] = {"/tmp", "/mnt", "/var", "/opt"};
        const char *place = NULL;

        *ret_step = "private mounts";
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return -errno;
        *ret_step = "mounting a tmpfs";
        for (size_t i = 0; place == NULL && i < sizeof(places) / sizeof(places[0]); i++)
                if (mount("sbx-root", places[i], "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                          "mode=0555,size=4k,nr_inodes=2") == 0)
                        place = places[i];
        if (place == NULL)
                return -errno;
        *ret_step = "pivot_root";
        if (chdir(place) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
                return -errno;
        *ret_step = "a read-only root";
        return mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0
                       ? -errno
                       : 0;
}

/* In the new namespaces. */
static int settle(bool user_namespace, uid_t uid, gid_t gid, const char **ret_step) {
        int r = 0;

        /* Goes with the process that waits. */
        *ret_step = "prctl";
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
                return -errno;
        *ret_step = "the map of ids";
        if (user_namespace)
                r = jail_ids_map(uid, gid);
        *ret_step = "sethostname";
        if (r == 0 && (sethostname("sandbox", 7) < 0 || setdomainname("", 0) < 0))
                r = -errno;
        return r < 0 ? r : become_rootless(ret_step);
}

/* What the new process tells of itself. */
struct settled {
        int code;
        char step[64];
};

/* The process that was started: its end is the zygote's, and the other way round. */
static _Noreturn void keep(pid_t zygote) {
        int status = 0;

        syscall(SYS_close_range, 0, ~0u, 0);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || jail_ids_drop_capabilities(NULL) < 0 ||
            jail_seccomp_apply(JAIL_FILTER_KEEPER) < 0)
                _exit(1); /* the zygote dies with it */
        while (waitpid(zygote, &status, 0) < 0 && errno == EINTR)
                ;
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* 1: in the new namespaces. 0: in the caller, and `jail` says why they can't be had. */
static int try_clone(struct jail *jail, bool user_namespace) {
        struct settled settled = {0};
        uid_t uid = geteuid();
        gid_t gid = getegid();
        const char *step = "clone";
        int fds[2];
        pid_t pid;
        ssize_t n;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        pid = (pid_t)syscall(SYS_clone, NAMESPACES | SIGCHLD | (user_namespace ? CLONE_NEWUSER : 0), 0, 0, 0, 0);
        if (pid == 0) {
                close(fds[0]);
                settled.code = settle(user_namespace, uid, gid, &step);
                copy_text(settled.step, sizeof(settled.step), step);
                if (write_whole(fds[1], &settled, sizeof(settled)) < 0 || settled.code < 0)
                        _exit(1);
                close(fds[1]);
                return 1;
        }
        settled.code = pid < 0 ? -errno : 0;
        copy_text(settled.step, sizeof(settled.step), step);
        close(fds[1]);
        do
                n = pid < 0 ? 0 : read(fds[0], &settled, sizeof(settled));
        while (n < 0 && errno == EINTR);
        close(fds[0]);
        if (pid > 0 && n == sizeof(settled) && settled.code == 0)
                keep(pid);
        if (pid > 0 && n != sizeof(settled))
                settled.code = -EIO;
        while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        snprintf(jail->namespaces_why, sizeof(jail->namespaces_why), "%s: %s", settled.step, strerror(-settled.code));
        return 0;
}

int jail_namespaces_enter(struct jail *jail, struct sbx_error *err) {
        int r;

        if (jail->config->namespaces == 0) {
                snprintf(jail->namespaces_why, sizeof(jail->namespaces_why), "namespaces = \"off\"");
                return 0;
        }
        /* What changed its ids may not write its own map otherwise: its files in /proc belong to root. */
        if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
                return sbx_error_set(err, -errno, HELPER_ORIGIN, NULL, "PR_SET_DUMPABLE: %s", strerror(errno));
        r = try_clone(jail, true);
        jail->user_namespace = r == 1;
        if (r == 0 && jail_ids_may_administer())
                r = try_clone(jail, false);
        jail->namespaces = r == 1;
        if (r < 0)
                return sbx_error_set(err, r, HELPER_ORIGIN, NULL, "pipe: %s", strerror(-r));
        if (r == 0 && jail->config->namespaces == 2)
                return sbx_error_set(
                        err, -ENOTSUP, HELPER_ORIGIN,
                        "unprivileged user namespaces are off here (sysctl user.max_user_namespaces or "
                        "kernel.unprivileged_userns_clone, AppArmor, or a container without the right), or "
                        "set namespaces = \"auto\"",
                        "layer \"namespaces\": %s", jail->namespaces_why);
        return 0;
}
