/* SPDX-License-Identifier: Apache-2.0 */
/* The zygote clones itself into a guest. */
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "cgroup.h"
#include "syscalls.h"
#include "util.h"
#include "zygote_internal.h"

#define MOVED_FDS_START 16

/* Control groups of version 1: a process enters by itself, while it has one thread and did nothing yet. */
static int enter_cgroup(const struct zygote_spawn *spawn, struct sbx_error *err) {
        if (spawn->request->cgroup_kind != CGROUP_ENTRY_TASKS)
                return 0;
        for (int i = ZYGOTE_SPAWN_FDS; i < spawn->fd_count; i++) {
                int r = write_whole(spawn->fds[i], "0", 1);

                if (r < 0)
                        return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "layer \"cgroup\": can't enter it: %s",
                                             strerror(-r));
        }
        return 0;
}

/* 0: /dev/null, as in the zygote; 1, 2: pipes; 3: control; 4: report; 5: copies; 6: image. Nothing else stays open. */
static int arrange_fds(const struct zygote_spawn *spawn, struct sbx_error *err) {
        static const int targets[ZYGOTE_SPAWN_FDS] = {GUEST_CONTROL_FD, 1, 2, GUEST_REPORT_FD, GUEST_COPIES_FD};
        int moved[ZYGOTE_SPAWN_FDS], moved_image;

        for (int i = 0; i < ZYGOTE_SPAWN_FDS; i++) {
                moved[i] = fcntl(spawn->fds[i], F_DUPFD_CLOEXEC, MOVED_FDS_START);
                if (moved[i] < 0)
                        return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "descriptors: %s", strerror(errno));
        }
        for (int i = 0; i < ZYGOTE_SPAWN_FDS; i++)
                if (dup3(moved[i], targets[i], targets[i] > 2 ? O_CLOEXEC : 0) < 0)
                        return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "descriptors: %s", strerror(errno));
        if (spawn->image_fd >= 0) {
                moved_image = fcntl(spawn->image_fd, F_DUPFD_CLOEXEC, MOVED_FDS_START);
                if (moved_image < 0 || dup3(moved_image, GUEST_IMAGE_FD, O_CLOEXEC) < 0)
                        return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "descriptors: %s", strerror(errno));
        }
        if (sys_close_range(spawn->image_fd >= 0 ? GUEST_IMAGE_FD + 1 : GUEST_IMAGE_FD, ~0u) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, "Linux 5.13 or later is needed", "close_range: %s",
                                     strerror(errno));
        return 0;
}

static int become_guest(struct zygote *zygote, const struct zygote_spawn *spawn, struct jail_report *report,
                        struct sbx_error *err) {
        bool jailed = zygote->config.isolation == JAIL_NAMESPACES;
        struct jail_guest guest = {
                .config = &zygote->config,
                .others = &zygote->used,
                .memory_bytes = spawn->request->memory_bytes,
                .pids_max = spawn->request->pids_max,
                .scratch = spawn->request->scratch,
        };
        int r = enter_cgroup(spawn, err);

        /* Through the zygote's /proc, which the guest's own will hide. */
        if (r == 0 && jailed)
                r = jail_ids_map(JAIL_INSIDE_ID, JAIL_INSIDE_ID, err);
        if (r == 0)
                r = arrange_fds(spawn, err);
        if (r < 0)
                return r;
        if (setsid() < 0 && errno != EPERM)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "setsid: %s", strerror(errno));
        /* Without a pid namespace: what it leaves behind comes to it, later to the zygote; with the zygote it goes. */
        if (!jailed && (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0))
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "prctl: %s", strerror(errno));
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        return jail_guest_lock_down(&guest, report, err);
}

/* In the guest: returns locked down, or not at all. */
static void run_guest(struct zygote *zygote, const struct zygote_spawn *spawn) {
        struct jail_report report = {.size = 0};
        struct sbx_error err = {0};
        int report_fd = fcntl(spawn->fds[3], F_DUPFD_CLOEXEC, GUEST_REPORT_FD); /* until it has its place */
        int r;

        if (zygote->robust_list != NULL)
                syscall(SYS_set_robust_list, zygote->robust_list, zygote->robust_list_size);
        r = become_guest(zygote, spawn, &report, &err);
        if (r == 0)
                r = jail_report_send(&report, GUEST_REPORT_FD);
        if (r < 0) {
                sbx_error_set(&err, r, LOCAL_ORIGIN, NULL, "can't send the report: %s", strerror(-r));
                jail_report_send_failure(fcntl(GUEST_REPORT_FD, F_GETFD) >= 0 ? GUEST_REPORT_FD : report_fd, &err);
                _exit(1);
        }
        close(GUEST_REPORT_FD);
        if (spawn->image_fd < 0) /* else the original's were called */
                zygote->after_fork_child();
        zygote->runtime = spawn->request->runtime;
        zygote->memory_bytes = spawn->request->memory_bytes;
        prctl(PR_GET_NAME, zygote->name, 0, 0, 0);
        memcpy(zygote->scratch, spawn->request->scratch, sizeof(zygote->scratch));
}

int zygote_freshen(struct zygote *zygote, struct sbx_error *err) {
        int r;

        if (zygote->fresh || zygote->config.isolation != JAIL_NAMESPACES)
                return 0;
        if (unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
                return sbx_error_set(err, errno == ENOSPC ? -EAGAIN : -ENOTSUP, LOCAL_ORIGIN,
                                     errno == ENOSPC
                                             ? "too many guests at once: lower max_sessions, or raise the sysctls "
                                               "user.max_*_namespaces"
                                             : "run `snipara-sandbox doctor`",
                                     "layer \"namespaces\" (network, ipc, uts): %s", strerror(errno));
        r = jail_namespaces_read(&zygote->current);
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "/proc/self/ns: %s", strerror(-r));
        zygote->fresh = true;
        return 0;
}

int zygote_clone(struct zygote *zygote, const struct zygote_spawn *spawn, pid_t *ret_pid, int *ret_pidfd,
                 struct sbx_error *err) {
        struct sbx_clone_args args = {.flags = CLONE_PIDFD, .exit_signal = SIGCHLD};
        int pidfd = -1, code;
        pid_t pid;

        code = zygote_freshen(zygote, err);
        if (code < 0)
                return code;
        args.pidfd = (uint64_t)(uintptr_t)&pidfd;
        if (zygote->config.isolation == JAIL_NAMESPACES)
                args.flags |= CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS;
        if (spawn->request->cgroup_kind == CGROUP_ENTRY_CLONE) {
                args.flags |= SBX_CLONE_INTO_CGROUP;
                args.cgroup = (uint64_t)spawn->fds[ZYGOTE_SPAWN_FDS];
        }
        /* The C library's idea of the thread's id must be the child's, as it is after fork(3). */
        args.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
        args.child_tid = (uint64_t)(uintptr_t)zygote->tid_address;
        zygote->before_fork();
        pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
        if (pid == 0) {
                run_guest(zygote, spawn);
                return 0;
        }
        code = errno;
        zygote->after_fork_parent();
        if (pid < 0)
                return sbx_error_set(err, code == EPERM || code == ENOSYS || code == EINVAL ? -ENOTSUP : -EAGAIN,
                                     LOCAL_ORIGIN,
                                     code == ENOSPC || code == EAGAIN
                                             ? "too many guests at once: lower max_sessions, or raise the sysctls "
                                               "user.max_*_namespaces and the user's process limit"
                                             : "run `snipara-sandbox doctor`",
                                     "can't clone a guest into its namespaces: %s", strerror(code));
        zygote->fresh = false;
        zygote->used.network = zygote->current.network;
        zygote->used.ipc = zygote->current.ipc;
        zygote->used.uts = zygote->current.uts;
        *ret_pid = pid;
        *ret_pidfd = pidfd;
        return 1;
}
