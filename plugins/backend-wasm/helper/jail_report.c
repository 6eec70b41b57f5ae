/* SPDX-License-Identifier: Apache-2.0 */
/* The isolation report's layers, as JSON, and the last trial of them: a process locked down as a session is makes a
 * call that is in no list. */
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "jail.h"
#include "util.h"

/* Exit statuses of a trial. */
#define NOT_TRIED 2
#define COPIED 3

struct report {
        char text[8192];
        size_t size;
        bool too_long;
};

static void put(struct report *report, const char *text, size_t size) {
        if (size > sizeof(report->text) - report->size) {
                report->too_long = true;
                return;
        }
        memcpy(report->text + report->size, text, size);
        report->size += size;
}

static void put_string(struct report *report, const char *text) {
        put(report, "\"", 1);
        for (; *text != '\0'; text++) {
                if (*text == '"' || *text == '\\')
                        put(report, "\\", 1);
                put(report, (unsigned char)*text < 0x20 ? " " : text, 1);
        }
        put(report, "\"", 1);
}

static void add(struct report *report, const char *name, const char *state, const char *format, ...) SBX_PRINTF(4, 5);
static void add(struct report *report, const char *name, const char *state, const char *format, ...) {
        char detail[384];
        va_list args;

        va_start(args, format);
        vsnprintf(detail, sizeof(detail), format, args);
        va_end(args);
        put(report, report->size > 1 ? ",{\"name\":" : "{\"name\":", report->size > 1 ? 9 : 8);
        put_string(report, name);
        put(report, ",\"state\":", 9);
        put_string(report, state);
        put(report, ",\"detail\":", 10);
        put_string(report, detail);
        put(report, "}", 1);
}

static void add_namespaces(const struct jail *jail, struct report *report) {
        static const char *const names[] = {"mount namespace", "network namespace", "pid namespace",
                                            "ipc namespace",   "uts namespace",     "cgroup namespace"};
        const char *missing = jail->config->namespaces == 0 ? "off" : "absent";

        if (jail->user_namespace)
                add(report, "user namespace", "applied", "one user without rights");
        else
                add(report, "user namespace", jail->namespaces ? "absent" : missing, "%s", jail->namespaces_why);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (jail->namespaces)
                        add(report, names[i], "applied", "shared by the sessions of one zygote alone");
                else
                        add(report, names[i], missing, "%s", jail->namespaces_why);
        if (jail->namespaces)
                add(report, "root", "applied", "an empty, read-only file tree; tried");
        else
                add(report, "root", missing, "the host's tree, closed by %s",
                    jail->landlock_abi > 0 ? "landlock and seccomp" : "seccomp");
}

static void add_kernel(const struct jail *jail, bool processes_limited, struct report *report) {
        const struct helper_config *config = jail->config;
        int abi = jail->landlock_abi;

        if (jail->ids)
                add(report, "ids", "applied", "uid %u, gid %u, no other group", config->uid, config->gid);
        else if (config->drop != 0)
                add(report, "ids", "absent", "root's, without rights: the server has no CAP_SETUID and CAP_SETGID");
        else
                add(report, "ids", "absent", "those of the server, which is not root");
        add(report, "capabilities", "applied", "none; read back");
        add(report, "no_new_privs", "applied", "read back");
        if (abi > 0)
                add(report, "landlock", "applied", "ABI %d: no file%s%s; tried", abi, abi >= 4 ? ", no TCP" : "",
                    abi >= 6 ? ", abstract sockets and signals scoped" : "");
        else
                add(report, "landlock", "absent", "this kernel has none: Linux 5.13 with \"landlock\" in lsm= has");
        add(report, "seccomp", "applied", "allow-lists of %zu and %zu instructions, another call kills; tried",
            jail_seccomp_size(JAIL_FILTER_ZYGOTE), jail_seccomp_size(JAIL_FILTER_SESSION));
        add(report, "rlimits", "applied", "data, address space, files, file size, stack, core, locked memory, queues");
        if (processes_limited)
                add(report, "pids", "applied", "a session is one process and can make none; tried");
        else
                add(report, "pids", "absent",
                    "root's processes are not counted: seccomp lets a session make copies of itself");
        add(report, "cpu", "absent", "no share: a session is one thread and uses one processor at most");
        if (config->cpu_seconds > 0)
                add(report, "cpu time", "applied", "%u s of a session in all", config->cpu_seconds);
        else
                add(report, "cpu time", "off", "cpu_time = 0; the server limits the time of an execution");
}

/* Runs `attempt` in a process that is locked down as a session is. Its wait status, or a negative errno. */
static int try_in_session(const struct jail *jail, int (*attempt)(void), struct sbx_error *err) {
        int pidfd = -1, status = 0;
        pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &pidfd, 0, 0);

        if (pid == 0)
                _exit(jail_lock_session(jail) < 0 ? NOT_TRIED : attempt());
        if (pid < 0)
                return sbx_error_set(err, -EAGAIN, HELPER_ORIGIN, "raise the limit of processes (ulimit -u)",
                                     "can't make a process: %s", strerror(errno));
        close(pidfd);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return status;
}

static int attempt_socket(void) {
        return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 ? 1 : 0;
}

/* First what fails without killing. */
static int attempt_both(void) {
        pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT, 0, 0, 0, 0);

        if (pid == 0)
                _exit(0); /* the zygote finds it dead some time */
        return pid < 0 && errno == EAGAIN ? attempt_socket() : COPIED;
}

/* A call that is in no list kills by SIGSYS, and nothing else does. */
static int try_layers(const struct jail *jail, bool *ret_processes_limited, struct sbx_error *err) {
        int status = try_in_session(jail, attempt_both, err);

        *ret_processes_limited = status >= 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == COPIED);
        if (status >= 0 && !*ret_processes_limited)
                status = try_in_session(jail, attempt_socket, err);
        if (status < 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS))
                return status < 0 ? status : 0;
        return sbx_error_set(err, -ENOTSUP, HELPER_ORIGIN, "run `snipara-sandbox doctor`",
                             "layer \"seccomp\" does not hold: a call that is in no list %s",
                             WIFEXITED(status) && WEXITSTATUS(status) == NOT_TRIED ? "could not be tried"
                                                                                   : "did not kill");
}

int jail_report(const struct jail *jail, int fd, struct sbx_error *err) {
        struct report report = {.size = 0};
        bool processes_limited;
        int r = try_layers(jail, &processes_limited, err);

        if (r < 0)
                return r;
        put(&report, "[", 1);
        add(&report, "WebAssembly", "applied",
            "compiled ahead of time; memory bounded by a reservation of 8 GiB, indirect calls checked by type");
        add(&report, "process", "applied", "one for each session, forked from one that never runs a session's code");
        add_namespaces(jail, &report);
        add_kernel(jail, processes_limited, &report);
        put(&report, "]", 1);
        r = report.too_long ? -EFBIG : write_whole(fd, report.text, report.size);
        return r < 0 ? sbx_error_set(err, r, HELPER_ORIGIN, NULL, "can't write the report: %s", strerror(-r)) : 0;
}
