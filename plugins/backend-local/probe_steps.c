/* SPDX-License-Identifier: Apache-2.0 */
/* Runs steps in a child process, which tells over a pipe how each went. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "probe_internal.h"
#include "util.h"

#define STEPS_NS (UINT64_C(10) * 1000000000)

struct outcome {
        int32_t step, code;
        char text[PROBE_TEXT_MAX];
};

/* In the child. Ends it. */
static _Noreturn void run_in_child(const struct probe *probe, const struct probe_step *steps, size_t count, int fd) {
        for (size_t i = 0; i < count; i++) {
                struct outcome outcome = {.step = (int32_t)i};

                if (steps[i].fork_before) {
                        pid_t pid = fork();

                        if (pid > 0) {
                                while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                                        ;
                                _exit(0);
                        }
                        outcome.code = pid < 0 ? -errno : 0;
                }
                if (outcome.code == 0)
                        outcome.code = steps[i].run(probe->options, outcome.text);
                if (write_whole(fd, &outcome, sizeof(outcome)) < 0 || outcome.code < 0)
                        break;
        }
        _exit(0);
}

/* False at the end, at the deadline, or when the caller cancelled. */
static bool next_outcome(const struct probe *probe, int fd, uint64_t deadline_ns, struct outcome *ret) {
        struct pollfd fds[2] = {{.fd = fd, .events = POLLIN},
                                {.fd = probe->call != NULL ? probe->call->cancel_fd : -1, .events = POLLIN}};
        uint64_t now = monotonic_ns();

        if (now >= deadline_ns || poll(fds, 2, (int)((deadline_ns - now) / 1000000) + 1) <= 0 || fds[1].revents != 0)
                return false;
        return read(fd, ret, sizeof(*ret)) == sizeof(*ret);
}

static void tell_outcome(struct probe *probe, const struct probe_step *step, struct outcome *outcome,
                         const char *(*remedy_of)(int code, char *buffer, size_t size)) {
        char buffer[1024];
        const char *remedy = NULL;

        outcome->text[sizeof(outcome->text) - 1] = '\0';
        if (outcome->code == 0) {
                probe_tell(probe, SBX_PROBE_OK, step->subject, NULL, "%s", outcome->text[0] != '\0' ? outcome->text : "works");
                return;
        }
        if (remedy_of != NULL)
                remedy = remedy_of(outcome->code, buffer, sizeof(buffer));
        probe_fail(probe, outcome->code, step->subject, remedy, "%s%s%s", outcome->text,
                   outcome->text[0] != '\0' ? ": " : "", strerror(-outcome->code));
}

void probe_run_steps(struct probe *probe, const struct probe_step *steps, size_t count,
                     const char *(*remedy_of)(int code, char *buffer, size_t size)) {
        uint64_t deadline = monotonic_ns() + STEPS_NS;
        struct outcome outcome;
        size_t seen = 0;
        int fds[2];
        pid_t pid;

        if (probe->call != NULL && probe->call->deadline_ns != 0 && probe->call->deadline_ns < deadline)
                deadline = probe->call->deadline_ns;
        if (pipe2(fds, O_CLOEXEC) < 0) {
                probe_fail(probe, -errno, steps[0].subject, NULL, "pipe: %s", strerror(errno));
                return;
        }
        pid = fork();
        if (pid == 0)
                run_in_child(probe, steps, count, fds[1]);
        close_fd(&fds[1]);
        while (pid > 0 && seen < count && next_outcome(probe, fds[0], deadline, &outcome)) {
                if (outcome.step < 0 || (size_t)outcome.step >= count)
                        break;
                tell_outcome(probe, &steps[outcome.step], &outcome, remedy_of);
                seen = outcome.code < 0 ? count : (size_t)outcome.step + 1;
        }
        if (seen < count)
                probe_fail(probe, -EIO, steps[seen].subject, NULL, "the process that tried it went away, or took too long");
        close_fd(&fds[0]);
        if (pid > 0) {
                kill(pid, SIGKILL);
                while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
}
