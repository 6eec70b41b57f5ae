/* SPDX-License-Identifier: Apache-2.0 */
/* The languages of sessions: Python always, Node and Bash where this machine has them. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "local.h"
#include "util.h"

#define VERSION_WAIT_MS 20000
#define ANSWER_MAX 256

static const char *const runtime_names[LOCAL_RUNTIME_COUNT] = {
        [LOCAL_PYTHON] = "python", [LOCAL_NODE] = "node", [LOCAL_BASH] = "bash"};
/* The oldest that the workers run on; 0: any. */
static const unsigned oldest[LOCAL_RUNTIME_COUNT] = {[LOCAL_NODE] = 18};

const char *runtime_program(const struct interpreter *interpreter, enum local_runtime runtime) {
        return runtime == LOCAL_PYTHON ? interpreter->path
               : runtime == LOCAL_NODE ? interpreter->node
                                       : interpreter->bash;
}

/* Reads to the end, for as long as the call and the limit allow. */
static int read_answer(int fd, const struct sbx_call *call, char answer[ANSWER_MAX]) {
        size_t used = 0;

        while (used + 1 < ANSWER_MAX) {
                int r = wait_fd(fd, POLLIN, call, VERSION_WAIT_MS);
                ssize_t n;

                if (r < 0)
                        return r;
                n = read(fd, answer + used, ANSWER_MAX - 1 - used);
                if (n == 0)
                        break;
                if (n < 0 && errno != EINTR)
                        return -errno;
                used += n > 0 ? (size_t)n : 0;
        }
        answer[used] = '\0';
        return 0;
}

/* The first number with a dot in it: "v22.11.0", "Python 3.11.2", "GNU bash, version 5.2.15(1)-release". */
static int find_number(const char *answer, char ret_version[VERSION_MAX]) {
        while (*answer != '\0') {
                size_t length;

                answer += strcspn(answer, "0123456789");
                length = strspn(answer, "0123456789.");
                if (memchr(answer, '.', length) != NULL && length < VERSION_MAX) {
                        memcpy(ret_version, answer, length);
                        ret_version[length] = '\0';
                        return 0;
                }
                answer += length;
        }
        return -EIO;
}

int runtime_ask_version(const char *program, const struct sbx_call *call, char ret_version[VERSION_MAX]) {
        char *const argv[] = {(char *)program, (char *)"--version", NULL};
        char *const environment[] = {NULL};
        posix_spawn_file_actions_t actions;
        char answer[ANSWER_MAX] = "";
        _cleanup_close_ int ours = -1;
        int fds[2], r;
        pid_t pid = -1;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        ours = fds[0];
        r = -posix_spawn_file_actions_init(&actions);
        if (r == 0) {
                r = -posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
                if (r == 0)
                        r = -posix_spawn(&pid, program, &actions, NULL, argv, environment);
                posix_spawn_file_actions_destroy(&actions);
        }
        close_fd(&fds[1]);
        if (r < 0)
                return r;
        r = read_answer(ours, call, answer);
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        return r < 0 ? r : find_number(answer, ret_version);
}

/* Asked once. */
static int version_of(struct local *local, enum local_runtime runtime, const struct sbx_call *call,
                      char ret_version[VERSION_MAX]) {
        const char *program = runtime_program(&local->interpreter, runtime);
        int r = program != NULL ? 0 : -ENOENT;

        pthread_mutex_lock(&local->versions_lock);
        if (r == 0 && local->versions[runtime][0] == '\0')
                r = runtime_ask_version(program, call, local->versions[runtime]);
        memcpy(ret_version, local->versions[runtime], VERSION_MAX);
        pthread_mutex_unlock(&local->versions_lock);
        return r;
}

/* "python 3.11.2, node 20.11.0, bash 5.2.15" */
static void list_runtimes(struct local *local, const struct sbx_call *call, char *text, size_t size) {
        size_t used = 0;

        text[0] = '\0';
        for (int i = 0; i < LOCAL_RUNTIME_COUNT && used < size; i++) {
                char version[VERSION_MAX];

                if (runtime_program(&local->interpreter, (enum local_runtime)i) == NULL)
                        continue;
                if (version_of(local, (enum local_runtime)i, call, version) < 0)
                        version[0] = '\0';
                used += (size_t)snprintf(text + used, size - used, "%s%s%s%s", used > 0 ? ", " : "", runtime_names[i],
                                         version[0] != '\0' ? " " : "", version);
        }
}

static int refuse(struct local *local, const char *runtime, const char *version, const struct sbx_call *call,
                  struct sbx_error *err) {
        char there[LOCAL_RUNTIME_COUNT * (VERSION_MAX + 16)];

        list_runtimes(local, call, there, sizeof(there));
        return sbx_error_set(err, -ENOENT, LOCAL_ORIGIN,
                             strcmp(runtime, "node") == 0 ? "install it (Debian: apt install nodejs), set the option "
                                                            "\"node\" of the backend, or use a backend with images "
                                                            "(docker)"
                                                          : "set the option \"python\" of the backend to another "
                                                            "interpreter, or use a backend with images (docker)",
                             "no runtime \"%s%s\" on this machine; there is %s", runtime,
                             version != NULL ? version : "", there);
}

/* Is 20.11.0 a "20", 3.11.2 a "3.11"? */
static bool is_version(const char *found, const char *wanted) {
        size_t length = strlen(wanted);

        return strncmp(found, wanted, length) == 0 && (found[length] == '\0' || found[length] == '.');
}

static unsigned major_version(const char *version) {
        unsigned major = 0;

        for (; *version >= '0' && *version <= '9' && major < 1000; version++)
                major = major * 10 + (unsigned)(*version - '0');
        return major;
}

int runtime_find(struct local *local, const char *runtime, const char *version, const struct sbx_call *call,
                 enum local_runtime *ret_runtime, struct sbx_error *err) {
        char found[VERSION_MAX];
        int r;

        if (runtime == NULL)
                runtime = runtime_names[LOCAL_PYTHON];
        for (int i = 0; i < LOCAL_RUNTIME_COUNT; i++) {
                enum local_runtime candidate = (enum local_runtime)i;

                if (strcmp(runtime, runtime_names[i]) != 0 || runtime_program(&local->interpreter, candidate) == NULL)
                        continue;
                if (version != NULL || oldest[i] > 0) {
                        r = version_of(local, candidate, call, found);
                        if (r == -ECANCELED || r == -ETIMEDOUT)
                                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "gave up asking %s for its version",
                                                     runtime_program(&local->interpreter, candidate));
                        if (r < 0 || (version != NULL && !is_version(found, version)) ||
                            major_version(found) < oldest[i])
                                break;
                }
                *ret_runtime = candidate;
                return 0;
        }
        return refuse(local, runtime, version, call, err);
}
