/* SPDX-License-Identifier: Apache-2.0 */
/* Credential helpers: docker-credential-NAME, asked as Docker asks them
 * (https://github.com/docker/docker-credential-helpers: the server's address in, JSON out). No shell. */
#include <ctype.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "image_internal.h"
#include "util.h"

#define ANSWER_MAX 65536
#define HELPER_TIME_NS (UINT64_C(30) * 1000000000)
#define NAME_MAX_BYTES 64

extern char **environ;

static bool name_ok(const char *name) {
        size_t length = strlen(name);

        for (size_t i = 0; i < length; i++)
                if (!isalnum((unsigned char)name[i]) && strchr("-_.", name[i]) == NULL)
                        return false;
        return length > 0 && length <= NAME_MAX_BYTES;
}

/* Starts the program with its standard input and output on the two descriptors, its errors nowhere, and no signal
 * blocked or ignored that this process does. */
static int spawn_helper(char *program, int input, int output, pid_t *ret_pid) {
        char get[] = "get", *argv[] = {program, get, NULL};
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t none, all;
        int r;

        sigemptyset(&none);
        sigfillset(&all);
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
        r = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
        if (r == 0)
                r = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
        if (r == 0)
                r = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        if (r == 0)
                r = posix_spawnattr_setsigmask(&attributes, &none);
        if (r == 0)
                r = posix_spawnattr_setsigdefault(&attributes, &all);
        if (r == 0)
                r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        if (r == 0)
                r = posix_spawnp(ret_pid, program, &actions, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
        return -r;
}

/* Until the end of its output. -ETIMEDOUT, -EFBIG, -EIO. */
static int read_answer(int fd, char *answer, size_t *ret_size) {
        uint64_t deadline = monotonic_ns() + HELPER_TIME_NS;
        size_t size = 0;

        for (;;) {
                struct pollfd ready = {.fd = fd, .events = POLLIN};
                uint64_t now = monotonic_ns();
                ssize_t n;

                if (now >= deadline)
                        return -ETIMEDOUT;
                if (poll(&ready, 1, (int)((deadline - now) / 1000000) + 1) <= 0)
                        continue;
                n = read(fd, answer + size, ANSWER_MAX - size);
                if (n == 0)
                        break;
                if (n < 0 && errno != EINTR)
                        return -EIO;
                size += n > 0 ? (size_t)n : 0;
                if (size == ANSWER_MAX)
                        return -EFBIG;
        }
        *ret_size = size;
        return 0;
}

static int wait_for(pid_t pid, int *ret_status) {
        pid_t r;

        do
                r = waitpid(pid, ret_status, 0);
        while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : 0;
}

/* A memfd, so that a helper that does not read can't block us. */
static int input_of(const char *server) {
        _cleanup_close_ int fd = memfd_create("server", MFD_CLOEXEC);
        size_t size = strlen(server);

        if (fd < 0 || pwrite(fd, server, size, 0) != (ssize_t)size)
                return fd < 0 ? -errno : -EIO;
        return steal_fd(&fd);
}

static int run_helper(char *program, const char *server, char *answer, size_t *ret_size, int *ret_status) {
        _cleanup_close_ int input = input_of(server), from = -1, to = -1;
        int pipes[2], r;
        pid_t pid;

        if (input < 0)
                return input;
        if (pipe2(pipes, O_CLOEXEC) < 0)
                return -errno;
        from = pipes[0];
        to = pipes[1];
        r = spawn_helper(program, input, to, &pid);
        close_fd(&to);
        if (r < 0)
                return r;
        r = read_answer(from, answer, ret_size);
        if (r < 0)
                kill(pid, SIGKILL);
        if (wait_for(pid, ret_status) < 0) /* somebody else waits for all children: the answer alone tells */
                *ret_status = 0;
        return r;
}

int credential_helper_get(const char *name, const char *server, char **ret_json, size_t *ret_size,
                          struct sbx_error *err) {
        char program[NAME_MAX_BYTES + 32], *answer;
        size_t size = 0;
        int status = 0, r;

        if (!name_ok(name))
                return sbx_error_set(err, -EINVAL, DOCKER_ORIGIN,
                                     "Mend credsStore or credHelpers of Docker's config.json.",
                                     "Docker's configuration names a credential helper that can't be one");
        snprintf(program, sizeof(program), "docker-credential-%s", name);
        answer = calloc(1, ANSWER_MAX + 1);
        if (answer == NULL)
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        r = run_helper(program, server, answer, &size, &status);
        if (r == 0 && status == 0) {
                *ret_json = answer;
                *ret_size = size;
                return 0;
        }
        explicit_bzero(answer, ANSWER_MAX);
        free(answer);
        if (r == 0) { /* as helpers say that they know none; what else it may mean, the registry will tell */
                *ret_json = NULL;
                *ret_size = 0;
                return 0;
        }
        return sbx_error_set(err, r, DOCKER_ORIGIN,
                             "Install it, or take credsStore and credHelpers out of Docker's config.json.",
                             "%s did not answer: %s", program, strerror(-r));
}
