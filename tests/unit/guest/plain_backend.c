/* SPDX-License-Identifier: Apache-2.0 */
/* A backend for tests that isolates nothing. */
#include "plain_backend.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_FD 3

struct plain_guest {
        pid_t pid;
        int32_t exit_code;
};

static atomic_int last_pid;

int plain_backend_last_pid(void) {
        return atomic_load(&last_pid);
}

static const char *const worker_argv[] = {
        NULL,
        "-I",
        "-S",
        "-c",
        "import sys; sys.path.insert(0, sys.argv[1]); from sbx_guest import worker; worker.main()",
        SBX_TEST_GUESTS,
        NULL};

/* Only async-signal-safe calls: other threads of the test may hold locks. */
static void run_child(const struct plain_backend *backend, int control, int out, int err, const char *python) {
        const char *argv[16] = {NULL};
        const char *const *from = backend->argv != NULL ? backend->argv : worker_argv;
        static const char *const environment[] = {"PATH=/usr/bin:/bin", "SBX_CONTROL_FD=3", NULL};
        sigset_t none;
        int null;

        for (size_t i = 0; i < 15 && (i == 0 || from[i] != NULL); i++)
                argv[i] = from[i];
        if (argv[0] == NULL)
                argv[0] = python;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(out >= 0 ? out : null, 1);
        dup2(err >= 0 ? err : null, 2);
        dup2(control, CONTROL_FD);
        fcntl(CONTROL_FD, F_SETFD, 0);
        if (chdir("/tmp") == 0)
                execve(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)environment);
        _exit(127);
}

static int plain_start(void *state, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                       struct sbx_guest *ret_guest, struct sbx_error *err) {
        static const char report[] = "{\"backend\":\"plain\",\"isolation\":\"none\",\"layers\":[]}";
        struct plain_backend *backend = state;
        const char *python = getenv("SBX_TEST_PYTHON");
        int control[2] = {-1, -1}, out[2] = {-1, -1}, errors[2] = {-1, -1};
        struct plain_guest *guest;

        if (backend->needs_owner && spec->owner == NULL)
                return sbx_error_set(err, -ENODATA, "plain", NULL, "whose is it?");
        if (atomic_fetch_sub(&backend->fail, 1) > 0)
                return sbx_error_set(err, -EAGAIN, "plain", NULL, "told to fail");
        atomic_store(&backend->fail, 0);
        guest = calloc(1, sizeof(*guest));
        if (guest == NULL)
                return -ENOMEM;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) < 0 ||
            (!backend->framed && (pipe2(out, O_CLOEXEC) < 0 || pipe2(errors, O_CLOEXEC) < 0)))
                abort();
        guest->exit_code = INT32_MIN;
        guest->pid = fork();
        if (guest->pid == 0)
                run_child(backend, control[1], out[1], errors[1], python != NULL ? python : SBX_TEST_PYTHON);
        close(control[1]);
        if (!backend->framed) {
                close(out[1]);
                close(errors[1]);
        }
        atomic_store(&last_pid, guest->pid);
        atomic_fetch_add(&backend->started, 1);
        ret_guest->control_fd = control[0];
        ret_guest->stdout_fd = out[0];
        ret_guest->stderr_fd = errors[0];
        ret_guest->exit_fd = (int)syscall(SYS_pidfd_open, guest->pid, 0);
        ret_guest->handle = guest;
        ret_guest->report = (struct sbx_bytes){report, sizeof(report) - 1};
        return 0;
}

static int plain_interrupt(void *state, void *handle, struct sbx_error *err) {
        struct plain_backend *backend = state;
        struct plain_guest *guest = handle;

        atomic_fetch_add(&backend->interrupts, 1);
        if (!backend->deaf)
                kill(guest->pid, SIGINT);
        return 0;
}

static void reap(struct plain_guest *guest, int flags) {
        int status;

        if (guest->exit_code == INT32_MIN && waitpid(guest->pid, &status, flags) == guest->pid)
                guest->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void plain_kill(void *state, void *handle) {
        struct plain_guest *guest = handle;

        if (guest->exit_code == INT32_MIN)
                kill(guest->pid, SIGKILL);
        reap(guest, 0);
}

static int plain_usage(void *state, void *handle, struct sbx_guest_usage *ret_usage, struct sbx_error *err) {
        struct plain_backend *backend = state;
        struct plain_guest *guest = handle;
        struct timespec used = {0};
        clockid_t clock;

        if (guest->exit_code == INT32_MIN && clock_getcpuclockid(guest->pid, &clock) == 0 &&
            clock_gettime(clock, &used) == 0)
                ret_usage->cpu_ns = (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
        reap(guest, WNOHANG);
        ret_usage->exit_code = guest->exit_code;
        atomic_fetch_add(&backend->measured, 1);
        ret_usage->oom_killed = backend->oom && guest->exit_code != INT32_MIN;
        return 0;
}

static int plain_limit(void *state, void *handle, const struct sbx_limits *limits, struct sbx_error *err) {
        struct plain_backend *backend = state;

        atomic_fetch_add(&backend->limited, 1);
        return 0;
}

static void plain_close(void *state, void *handle) {
        struct plain_backend *backend = state;

        plain_kill(state, handle);
        free(handle);
        atomic_fetch_add(&backend->closed, 1);
}

void plain_backend_init(struct plain_backend *backend) {
        backend->ops = (struct sbx_backend_ops){
                .struct_size = sizeof(backend->ops),
                .guest_start = plain_start,
                .guest_interrupt = plain_interrupt,
                .guest_limit = plain_limit,
                .guest_kill = plain_kill,
                .guest_usage = plain_usage,
                .guest_close = plain_close,
        };
        backend->instance = (struct sbx_instance){.name = "plain", .state = backend, .ops = &backend->ops};
}
