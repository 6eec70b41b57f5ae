/* SPDX-License-Identifier: Apache-2.0 */
/* sbx-local-launcher: builds the jail, gives up what rights it has, and becomes the zygote's interpreter.
 *
 * The server starts it with descriptor 3 (socket), 4 (configuration), no environment and no argument. It answers with
 * the zygote's pidfd, or with what went wrong. The zygote is the server's child, not the launcher's: nothing stays. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "jail.h"
#include "protocol.h"
#include "syscalls.h"
#include "util.h"

static int fail(const struct sbx_error *err) {
        zygote_reply_failure(0, err);
        return 1;
}

/* The interpreter's environment, and so that of every guest: built from nothing. One thread for numeric libraries,
 * because a zygote that has several can't be cloned. */
static char *const guest_environment[] = {
        "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "HOME=/tmp",
        "LANG=C.UTF-8",
        "USER=sandbox",
        "LOGNAME=sandbox",
        "MPLBACKEND=Agg",
        "OPENBLAS_NUM_THREADS=1",
        "OMP_NUM_THREADS=1",
        "MKL_NUM_THREADS=1",
        "PYTHONDONTWRITEBYTECODE=1",
        NULL,
};

static int become_interpreter(const struct jail_config *config, struct sbx_error *err) {
        bool jailed = config->isolation == JAIL_NAMESPACES;
        char script[4096], library[4096], guests[4096];
        char *argv[] = {(char *)config->python, "-I", "-B", script, library, guests, NULL};

        if (jailed) {
                snprintf(script, sizeof(script), "%s", JAIL_SCRIPT);
                snprintf(library, sizeof(library), "%s", JAIL_LIBRARY);
                snprintf(guests, sizeof(guests), "%s/python", JAIL_GUESTS);
        } else if (snprintf(script, sizeof(script), "%s/%s", config->helpers, LOCAL_ZYGOTE_SCRIPT) >=
                           (int)sizeof(script) ||
                   snprintf(library, sizeof(library), "%s/%s", config->helpers, LOCAL_ZYGOTE_LIBRARY) >=
                           (int)sizeof(library) ||
                   snprintf(guests, sizeof(guests), "%s/python", config->guests) >= (int)sizeof(guests))
                return sbx_error_set(err, -ENAMETOOLONG, LOCAL_ORIGIN, NULL, "the installation's path is too long");
        execve(config->python, argv, guest_environment);
        return sbx_error_set(err, -errno, LOCAL_ORIGIN,
                             errno == EACCES ? "it must be readable and executable for the uid that guests run as "
                                               "(option \"user\")"
                                             : "set the option \"python\" to an interpreter; what it needs outside its "
                                               "own directory goes into read_only_paths",
                             "can't execute the interpreter %s: %s", config->python, strerror(errno));
}

/* What is open must not lead back to a mount of the host, not even a device. */
static int reopen_null(struct sbx_error *err) {
        _cleanup_close_ int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        if (fd < 0 || dup2(fd, STDIN_FILENO) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "layer \"root\": /dev/null: %s", strerror(errno));
        return 0;
}

/* Process 1 of the pid namespace: waits for the zygote, and the kernel ends all else with it. The zygote is another one
 * because guests are process 1 of theirs: so they see another pid than it did, and what notices a fork by that
 * (OpenSSL's random numbers, tempfile) does so in them. */
static _Noreturn void wait_for_zygote(pid_t zygote) {
        pid_t pid;

        sys_close_range(0, ~0u);
        (void)jail_ids_drop_capabilities(NULL);
        do
                pid = waitpid(-1, NULL, 0);
        while (pid != zygote && !(pid < 0 && errno == ECHILD));
        _exit(0);
}

static int build_and_become(const struct jail_config *config, bool privileged, int userns_fd, struct sbx_error *err) {
        int r = jail_root_build(config, userns_fd, err);
        pid_t pid;

        if (r < 0)
                return r;
        r = reopen_null(err);
        if (r < 0)
                return r;
        if (sethostname(JAIL_HOSTNAME, strlen(JAIL_HOSTNAME)) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "layer \"uts namespace\": sethostname: %s",
                                     strerror(errno));
        /* Root's namespaces belong to the user namespace that it came from; from here on there is no power over them.
         */
        if (privileged)
                r = jail_ids_enter_user_namespace((uid_t)config->id, (gid_t)config->gid, err);
        if (r == 0)
                r = jail_ids_keep_for_zygote(err);
        if (r < 0)
                return r;
        pid = fork();
        if (pid > 0)
                wait_for_zygote(pid);
        if (pid < 0)
                return sbx_error_set(err, -EAGAIN, LOCAL_ORIGIN, "raise the limit of processes", "fork: %s",
                                     strerror(errno));
        return become_interpreter(config, err);
}

/* The zygote is in of a pid namespace: when it dies, so do all guests. CLONE_PARENT makes it the server's child. */
static int start_jailed(const struct jail_config *config, struct sbx_error *err) {
        struct zygote_reply reply = {.type = ZYGOTE_STARTED};
        struct sbx_clone_args args = {.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                                               CLONE_PARENT | CLONE_PIDFD};
        int r = 0, pidfd = -1, userns_fd = -1;
        bool privileged;
        pid_t pid;

        if (config->drop != 0)
                r = jail_ids_drop_root((uid_t)config->id, (gid_t)config->gid, err);
        if (r < 0)
                return r;
        /* Root's rights, where it has them, build the jail; else those of a user namespace, as for everybody. */
        privileged = config->drop != 0 && jail_ids_may_administer();
        if (privileged)
                r = jail_root_idmap(config, &userns_fd, err);
        else
                r = jail_ids_enter_user_namespace((uid_t)config->id, (gid_t)config->gid, err);
        if (r < 0)
                return r;
        args.pidfd = (uint64_t)(uintptr_t)&pidfd;
        pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
        if (pid < 0)
                return sbx_error_set(err, -ENOTSUP, LOCAL_ORIGIN,
                                     errno == ENOSPC ? "raise the sysctls user.max_*_namespaces"
                                                     : "the right to make namespaces is missing (a container without "
                                                       "it, AppArmor, or a kernel built without them): run "
                                                       "`snipara-sandbox doctor`",
                                     "layer \"namespaces\" (pid, mount, network, ipc, uts): %s", strerror(errno));
        if (pid == 0) {
                r = build_and_become(config, privileged, userns_fd, err);
                return r < 0 ? r : -EIO;
        }
        zygote_reply_send(&reply, pidfd);
        return 0;
}

static int start_unjailed(const struct jail_config *config, struct sbx_error *err) {
        struct zygote_reply reply = {.type = ZYGOTE_STARTED};
        _cleanup_close_ int pidfd = -1;
        int r = 0;

        if (config->drop != 0)
                r = jail_ids_drop_root((uid_t)config->id, (gid_t)config->gid, err);
        if (r == 0)
                r = jail_ids_drop_capabilities(err);
        if (r < 0)
                return r;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "prctl: %s", strerror(errno));
        pidfd = sys_pidfd_open(getpid());
        if (pidfd < 0)
                return sbx_error_set(err, -ENOTSUP, LOCAL_ORIGIN, "Linux 5.13 or later is needed", "pidfd_open: %s",
                                     strerror(errno));
        zygote_reply_send(&reply, pidfd);
        return become_interpreter(config, err);
}

int main(void) {
        struct jail_config config;
        struct sbx_error err = {0};
        struct stat st;
        int r;

        if (fstat(ZYGOTE_SOCKET_FD, &st) < 0 || !S_ISSOCK(st.st_mode)) {
                fprintf(stderr, "sbx-local-launcher: a part of snipara-sandbox, which starts it by itself\n");
                return 2;
        }
        /* Core dumps of the zygote would hold whatever the modules that it imported read. */
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        sys_close_range(ZYGOTE_CONFIG_FD + 1, ~0u);
        umask(022);
        r = jail_config_read(ZYGOTE_CONFIG_FD, &config);
        if (r < 0) {
                sbx_error_set(&err, r, LOCAL_ORIGIN, "reinstall the program: its parts don't fit each other",
                              "can't read the jail's configuration: %s", strerror(-r));
                return fail(&err);
        }
        r = config.isolation == JAIL_NAMESPACES ? start_jailed(&config, &err) : start_unjailed(&config, &err);
        return r < 0 ? fail(&err) : 0;
}
