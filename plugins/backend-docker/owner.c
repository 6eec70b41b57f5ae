/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of containers: its lock, its labels, and the process that removes its containers once it is dead. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "locks.h"
#include "owner.h"
#include "owner_internal.h"
#include "reaper.h"
#include "util.h"

#define FIRST_FREE_FD (REAPER_PIDFD + 1)
#define END_MARGIN_MS 5000 /* beyond one request, for a reaper to end */

struct owner {
        struct docker *docker;
        struct locks *locks;
        int lock_fd;
        int socket_fd; /* to the reaper */
        pid_t reaper;
};

static int no_memory(struct sbx_error *err) {
        return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
}

struct locks *owner_locks(const struct owner *owner) {
        return owner->locks;
}

/* ---- labels */

static int add_label(char **labels, size_t *count, const char *key, const char *value) {
        int r = asprintf(&labels[*count], OWNER_LABEL_PREFIX "%s=%s", key, value);

        if (r < 0) {
                labels[*count] = NULL;
                return -ENOMEM;
        }
        (*count)++;
        return 0;
}

const char *owner_scope_name(enum docker_scope scope) {
        static const char *const names[] = {"session", "agent", "shared"};

        return names[scope];
}

int owner_labels(const struct owner *owner, enum docker_scope scope, const char *guest, const char *key,
                 char **ret_labels[], struct sbx_error *err) {
        char **labels = calloc(OWNER_LABELS_MAX, sizeof(*labels));
        size_t count = 0;
        int r = labels == NULL ? -ENOMEM : 0;

        if (r == 0)
                r = add_label(labels, &count, "owner", owner->docker->id);
        if (r == 0)
                r = add_label(labels, &count, "host", locks_host(owner->locks));
        if (r == 0)
                r = add_label(labels, &count, "scope", owner_scope_name(scope));
        if (r == 0)
                r = add_label(labels, &count, "guest", guest != NULL ? guest : "");
        if (r == 0 && key != NULL)
                r = add_label(labels, &count, "key", key);
        if (r < 0) {
                owner_labels_free(labels);
                return no_memory(err);
        }
        *ret_labels = labels;
        return 0;
}

void owner_labels_free(char **labels) {
        for (char **label = labels; label != NULL && *label != NULL; label++)
                free(*label);
        free(labels);
}

/* ---- the reaper */

static int add_text(json_t *config, const char *name, const char *text) {
        return text == NULL ? 0 : json_object_set_new(config, name, json_string(text));
}

/* Paths and addresses, no key or password: what the reaper needs of those it reads itself. */
static json_t *describe(const struct owner *owner, const char *directory) {
        const struct docker *docker = owner->docker;
        const struct docker_options *options = &docker->options;
        const struct engine_info *info = engine_info(docker->engine);
        json_t *config = json_pack("{s:s, s:s, s:s, s:s, s:I}", "owner", docker->id, "directory", directory, "engine",
                                   info->place.address, "api_version", info->api_version, "timeout_ms",
                                   (json_int_t)options->timeout_ms);

        if (config == NULL)
                return NULL;
        if (add_text(config, "tls_ca", options->tls_ca) < 0 ||
            add_text(config, "tls_certificate", options->tls_certificate) < 0 ||
            add_text(config, "tls_key", options->tls_key) < 0) {
                json_decref(config);
                return NULL;
        }
        return config;
}

static int seal(const json_t *config) {
        _cleanup_free_ char *text = json_dumps(config, JSON_COMPACT);
        _cleanup_close_ int fd = memfd_create("sbx-docker-reaper", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        size_t size = text != NULL ? strlen(text) : 0;

        if (text == NULL || fd < 0)
                return text == NULL ? -ENOMEM : -errno;
        if (size > REAPER_CONFIG_MAX)
                return -E2BIG;
        if (write(fd, text, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) < 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
                return errno > 0 ? -errno : -EIO;
        return steal_fd(&fd);
}

/* What is handed on must not lie where it is handed to. */
static int move_up(int *fd) {
        int moved;

        if (*fd < 0 || *fd >= FIRST_FREE_FD)
                return 0;
        moved = fcntl(*fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        if (moved < 0)
                return -errno;
        close(*fd);
        *fd = moved;
        return 0;
}

/* Where Docker's own variables say where certificates are, the reaper must find the same ones. */
static const char *const variables[] = {"DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "HOME"};
#define VARIABLE_COUNT (sizeof(variables) / sizeof(variables[0]))

static int copy_environment(const struct docker *docker, char *environment[VARIABLE_COUNT + 1]) {
        size_t count = 0;

        for (size_t i = 0; i < VARIABLE_COUNT && docker->host->environment != NULL; i++) {
                const char *value = docker->host->environment(docker->host->self, variables[i]);

                if (value == NULL)
                        continue;
                if (asprintf(&environment[count], "%s=%s", variables[i], value) < 0) {
                        environment[count] = NULL;
                        return -ENOMEM;
                }
                count++;
        }
        return 0;
}

/* Nothing of the server's: its descriptors, its terminal, its signals, its standard error, which somebody may wait for
 * to be closed once the server is dead. */
static int spawn(const char *path, int socket_fd, int config_fd, int pidfd, char *const environment[], pid_t *ret_pid) {
        char *const argv[] = {(char *)REAPER_PROGRAM, NULL};
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t all, none;
        int r;

        sigfillset(&all);
        sigemptyset(&none);
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
        posix_spawn_file_actions_adddup2(&actions, 0, 1);
        posix_spawn_file_actions_adddup2(&actions, 0, 2);
        posix_spawn_file_actions_adddup2(&actions, socket_fd, REAPER_SOCKET_FD);
        posix_spawn_file_actions_adddup2(&actions, config_fd, REAPER_CONFIG_FD);
        if (pidfd >= 0)
                posix_spawn_file_actions_adddup2(&actions, pidfd, REAPER_PIDFD);
        else
                posix_spawn_file_actions_addclose(&actions, REAPER_PIDFD);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
        r = posix_spawn(ret_pid, path, &actions, &attributes, argv, environment);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
        return -r;
}

static int spawn_with(struct owner *owner, const char *path, int theirs, int config_fd) {
        _cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
        char *environment[VARIABLE_COUNT + 1] = {NULL};
        int r = copy_environment(owner->docker, environment);

        if (r == 0)
                r = move_up(&pidfd);
        if (r == 0)
                r = spawn(path, theirs, config_fd, pidfd, environment, &owner->reaper);
        for (size_t i = 0; environment[i] != NULL; i++)
                free(environment[i]);
        return r;
}

static int start_reaper(struct owner *owner, const char *directory, struct sbx_error *err) {
        const struct sbx_host *host = owner->docker->host;
        const char *libexec = host->directory(host->self, "libexec");
        _cleanup_json_ json_t *config = describe(owner, directory);
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int config_fd = -1, theirs = -1;
        int pair[2], r;

        if (config == NULL || asprintf(&path, "%s/" REAPER_PROGRAM, libexec != NULL ? libexec : "") < 0) {
                path = NULL;
                return no_memory(err);
        }
        r = config_fd = seal(config);
        if (r >= 0)
                r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ? -errno : 0;
        if (r == 0) {
                owner->socket_fd = pair[0];
                theirs = pair[1];
                r = move_up(&theirs);
        }
        if (r == 0)
                r = move_up(&config_fd);
        if (r == 0)
                r = spawn_with(owner, path, theirs, config_fd);
        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN,
                                     "reinstall the program; without this part of it containers would be left behind "
                                     "when the server is killed",
                                     "can't start %s: %s", path, strerror(-r));
        return 0;
}

/* Until the reaper closed its end, or time is over. */
static bool wait_for_end(int fd, uint64_t limit_ms) {
        uint64_t deadline = monotonic_ns() + limit_ms * UINT64_C(1000000);

        for (;;) {
                uint64_t now = monotonic_ns();
                struct pollfd entry = {.fd = fd, .events = POLLIN};
                int r = now >= deadline ? 0 : poll(&entry, 1, (int)((deadline - now) / UINT64_C(1000000)) + 1);

                if (r > 0)
                        return true;
                if (now >= deadline || (r < 0 && errno != EINTR))
                        return false;
        }
}

/* It is asked to remove what is left and to end. Returns its exit code; 1: it could not, or it is not known. */
static int end_reaper(struct owner *owner) {
        const uint64_t limit_ms = owner->docker->options.timeout_ms + END_MARGIN_MS;
        bool ended = false;
        int status = 0;
        pid_t r;

        if (owner->reaper <= 0)
                return 0; /* it never started: no container was made */
        if (send(owner->socket_fd, (const char[]){REAPER_END}, 1, MSG_NOSIGNAL) == 1)
                ended = wait_for_end(owner->socket_fd, limit_ms);
        /* A program that waits for all children took it from us, and the number may be another's by now. */
        if (!ended && waitid(P_PID, (id_t)owner->reaper, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) == 0)
                kill(owner->reaper, SIGKILL);
        do
                r = waitpid(owner->reaper, &status, 0);
        while (r < 0 && errno == EINTR);
        return ended && r > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

void owner_forsake(struct owner *owner, const char *name) {
        char message[REAPER_NAME_MAX + 1] = {REAPER_FORSAKE};
        size_t size = strlen(name);

        if (size >= REAPER_NAME_MAX)
                return;
        memcpy(message + 1, name, size);
        if (send(owner->socket_fd, message, size + 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
                docker_log(owner->docker, SBX_LOG_WARNING,
                           "container %s may come into being though nobody waits for it any more; it is removed at the "
                           "end of this server, or by the next start",
                           name);
}

/* ---- the owner */

int owner_new(struct docker *docker, const struct sbx_call *call, struct owner **ret_owner, struct sbx_error *err) {
        const struct sbx_host *host = docker->host;
        const char *directory = host->directory(host->self, "state");
        struct owner *owner;
        int r;

        (void)call;
        /* It outlives a restart of the machine, as stopped containers do; without a home there is the other one. */
        if (directory == NULL)
                directory = host->directory(host->self, "runtime");
        if (directory == NULL)
                return sbx_error_set(err, -ENOENT, DOCKER_ORIGIN, "set HOME, XDG_STATE_HOME or XDG_RUNTIME_DIR",
                                     "there is no directory for the locks that tell whose containers are whose");
        owner = calloc(1, sizeof(*owner));
        if (owner == NULL)
                return no_memory(err);
        owner->docker = docker;
        owner->lock_fd = owner->socket_fd = -1;
        r = locks_open(directory, &owner->locks, err);
        if (r == 0)
                r = locks_hold(owner->locks, docker->id, &owner->lock_fd, err);
        if (r == 0)
                r = start_reaper(owner, directory, err);
        if (r < 0) {
                owner_free(owner);
                return r;
        }
        *ret_owner = owner;
        return 0;
}

void owner_free(struct owner *owner) {
        int code;

        if (owner == NULL)
                return;
        code = end_reaper(owner);
        if (code != 0 && code != REAPER_GOES_ON)
                docker_log(owner->docker, SBX_LOG_WARNING,
                           "containers of this server may be left, because the engine does not answer; the next start "
                           "removes them");
        close_fd(&owner->socket_fd);
        close_fd(&owner->lock_fd);
        /* With the file, who starts next looks for what this one left. */
        if (code == 0 && owner->locks != NULL)
                locks_forget(owner->locks, owner->docker->id);
        locks_free(owner->locks);
        free(owner);
}
