/* SPDX-License-Identifier: Apache-2.0 */
/* Running programs that prepare images. */
#include "program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "backend.h"
#include "util.h"

#define LINE_MAX_SIZE 256
#define VARIABLES_MAX 16

struct listener {
        const char *doing;
        const struct sbx_call *call;
        struct program_result *result;
        char line[LINE_MAX_SIZE];
        size_t length, tail;
};

/* ---- what it prints ---- */

static void keep_line(struct listener *listener) {
        char *tail = listener->result->tail, message[LINE_MAX_SIZE + 128];
        size_t needed = listener->length + 1;

        if (listener->length == 0)
                return;
        listener->line[listener->length] = '\0';
        while (listener->tail > 0 && listener->tail + needed >= PROGRAM_TAIL_MAX) {
                size_t first = strcspn(tail, "\n") + 1;

                if (first > listener->tail)
                        first = listener->tail;
                memmove(tail, tail + first, listener->tail - first + 1);
                listener->tail -= first;
        }
        memcpy(tail + listener->tail, listener->line, listener->length);
        tail[listener->tail + listener->length] = '\n';
        listener->tail += needed;
        tail[listener->tail] = '\0';
        snprintf(message, sizeof(message), "%s: %s", listener->doing, listener->line);
        sbx_call_progress(listener->call, message);
        listener->length = 0;
}

static void hear(struct listener *listener, const char *data, size_t size) {
        for (size_t i = 0; i < size; i++) {
                if (data[i] == '\n' || data[i] == '\r')
                        keep_line(listener);
                else if (listener->length + 1 < LINE_MAX_SIZE) /* terminals and error texts take ASCII at any rate */
                        listener->line[listener->length++] = data[i] >= 0x20 && data[i] < 0x7f ? data[i] : '?';
        }
}

static int listen_to(int fd, struct listener *listener) {
        for (;;) {
                char data[4096];
                int r = wait_fd(fd, POLLIN, listener->call, -1);
                ssize_t n = r == 0 ? read(fd, data, sizeof(data)) : 0;

                if (n < 0 && errno == EINTR)
                        continue;
                if (r < 0 || n <= 0) {
                        keep_line(listener);
                        return r;
                }
                hear(listener, data, (size_t)n);
        }
}

/* ---- the process ---- */

/* What such programs may need of the server's environment, and no more: no secret of it is theirs. */
static void make_environment(char *environment[VARIABLES_MAX]) {
        static const char *const names[] = {
                "HOME=",          "PATH=",          "TMPDIR=",     "LANG=",        "http_proxy=",
                "https_proxy=",   "no_proxy=",      "HTTP_PROXY=", "HTTPS_PROXY=", "NO_PROXY=",
                "SSL_CERT_FILE=", "PIP_INDEX_URL=", "PIP_CERT="};
        size_t count = 0;

        for (size_t i = 0; environ[i] != NULL; i++)
                for (size_t j = 0; j < sizeof(names) / sizeof(names[0]) && count + 1 < VARIABLES_MAX; j++)
                        if (strncmp(environ[i], names[j], strlen(names[j])) == 0)
                                environment[count++] = environ[i];
        environment[count] = NULL;
}

static int spawn_program(const char *const argv[], int output, pid_t *ret_pid) {
        char *environment[VARIABLES_MAX];
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t all, none;
        int r;

        make_environment(environment);
        sigfillset(&all);
        sigemptyset(&none);
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
        r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        if (r == 0)
                r = posix_spawn_file_actions_adddup2(&actions, output, 1);
        if (r == 0)
                r = posix_spawn_file_actions_adddup2(&actions, output, 2);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setpgroup(&attributes, 0); /* so that it ends with all that it starts */
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
        if (r == 0)
                r = posix_spawn(ret_pid, argv[0], &actions, &attributes, (char **)argv, environment);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
        return -r;
}

int program_run(const char *const argv[], const char *doing, const struct sbx_call *call,
                struct program_result *ret_result) {
        struct listener listener = {.doing = doing, .call = call, .result = ret_result};
        _cleanup_close_ int ours = -1, theirs = -1;
        int pair[2], status = 0, r;
        pid_t pid = -1;

        ret_result->tail[0] = '\0';
        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        ours = pair[0];
        theirs = pair[1];
        r = spawn_program(argv, theirs, &pid);
        close_fd(&theirs);
        if (r < 0)
                return r;
        r = listen_to(ours, &listener);
        if (r < 0)
                kill(-pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        ret_result->exit_code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
        return r;
}

char *program_find(const char *name) {
        static const char *const directories[] = {"/usr/bin", "/usr/local/bin", "/bin"};
        char *path = NULL;

        for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
                if (asprintf(&path, "%s/%s", directories[i], name) < 0)
                        return NULL;
                if (access(path, X_OK) == 0)
                        return path;
                free(path);
        }
        return NULL;
}
