/* SPDX-License-Identifier: Apache-2.0 */
/* The server's side of the zygote: starts it through the launcher, asks it for guests, notices its death. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "jail.h"
#include "local.h"
#include "seccomp_filter.h"
#include "syscalls.h"
#include "util.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

#define READY_LIMIT_MS 60000 /* importing what "preload" names */
#define FILTER_DELAY_MS 4
#define ANSWER_LIMIT_MS 20000
#define END_LIMIT_MS 5000
#define LOG_MAX 4096
#define LOCK_SLICE_NS 20000000 /* how often a call that waits for another's question looks whether it has ended */
#define FIRST_FREE_FD 10       /* beyond those that the launcher gets */

struct zygote_process {
        atomic_uint references;
        struct local *local;
        pthread_mutex_t lock; /* one question at a time: protects what follows, except `dead` */
        int socket;
        int pidfd; /* -1 until the launcher told */
        pid_t launcher;
        int log; /* what the interpreter printed */
        bool has_filter, ready, ended;
        atomic_bool dead; /* of no use any more, but perhaps not reaped yet */
};

struct zygote_process *zygote_ref(struct zygote_process *zygote) {
        atomic_fetch_add(&zygote->references, 1);
        return zygote;
}

/* Waits for a child without minding whether the program reaps its children itself. */
static void reap(idtype_t type, id_t id) {
        siginfo_t info;

        while (waitid(type, id, &info, WEXITED) < 0 && errno == EINTR)
                ;
}

/* When it returns the zygote is dead; with a pid namespace, so is everything below it. */
static void end_process(struct zygote_process *zygote) {
        bool has_namespace = zygote->local->options.isolation == JAIL_NAMESPACES;

        if (zygote->ended)
                return;
        /* End of file: it ends by itself, and without a pid namespace ends its guests first. One that never came up has
         * none. */
        close_fd(&zygote->socket);
        if (zygote->pidfd < 0) {
                kill(zygote->launcher, SIGKILL);
                reap(P_PID, (id_t)zygote->launcher);
        } else {
                if (has_namespace || !zygote->ready || wait_fd(zygote->pidfd, POLLIN, NULL, END_LIMIT_MS) < 0)
                        sys_pidfd_send_signal(zygote->pidfd, SIGKILL);
                reap((idtype_t)P_PIDFD, (id_t)zygote->pidfd);
        }
        zygote->dead = zygote->ended = true;
}

void zygote_unref(struct zygote_process *zygote) {
        if (zygote == NULL || atomic_fetch_sub(&zygote->references, 1) > 1)
                return;
        end_process(zygote);
        close_fd(&zygote->pidfd);
        close_fd(&zygote->socket);
        close_fd(&zygote->log);
        pthread_mutex_destroy(&zygote->lock);
        free(zygote);
}

/* ---- messages */

static int send_request(struct zygote_process *zygote, const struct zygote_request *request, const int *fds,
                        int fd_count) {
        struct iovec iov = {(void *)request, sizeof(*request)};
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int) * ZYGOTE_FDS_MAX)];
        } control = {0};
        struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
        ssize_t n;

        if (fd_count > 0) {
                message.msg_control = &control;
                message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)fd_count);
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)fd_count);
                memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * (size_t)fd_count);
        }
        do
                n = sendmsg(zygote->socket, &message, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n < 0 ? (errno == ECONNRESET ? -EPIPE : -errno) : 0;
}

/* One answer and its descriptor, -1 if none. -EPIPE: the zygote is gone. */
static int receive_reply(struct zygote_process *zygote, const struct sbx_call *call, int limit_ms,
                         struct zygote_reply *ret, int *ret_fd) {
        struct iovec iov = {ret, sizeof(*ret)};
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control;
        struct msghdr message = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
        struct cmsghdr *c;
        ssize_t n;
        int r = wait_fd(zygote->socket, POLLIN, call, limit_ms);

        if (r < 0)
                return r;
        do
                n = recvmsg(zygote->socket, &message, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
                return -EPIPE;
        if (n < 0)
                return -errno;
        *ret_fd = -1;
        c = CMSG_FIRSTHDR(&message);
        if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
            c->cmsg_len >= CMSG_LEN(sizeof(int)))
                memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
        if (n != sizeof(*ret)) {
                close_fd(ret_fd);
                return -EBADMSG;
        }
        ret->text[sizeof(ret->text) - 1] = ret->hint[sizeof(ret->hint) - 1] = '\0';
        return 0;
}

/* ---- starting */

static char *read_log(struct zygote_process *zygote, char text[LOG_MAX]) {
        ssize_t n = read(zygote->log, text, LOG_MAX - 1);

        text[n > 0 ? n : 0] = '\0';
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
                text[--n] = '\0';
        return text;
}

/* The last line of a traceback says most. */
static const char *last_line(const char *text) {
        const char *line = strrchr(text, '\n');

        return line != NULL ? line + 1 : text;
}

static int explain_death(struct zygote_process *zygote, struct sbx_error *err) {
        char text[LOG_MAX];

        read_log(zygote, text);
        if (text[0] != '\0')
                local_log(zygote->local, SBX_LOG_DEBUG, text);
        return sbx_error_set(err, -EIO, LOCAL_ORIGIN,
                             "look at the options \"python\", \"preload\" and \"read_only_paths\", and at what "
                             "`snipara-sandbox doctor` says",
                             "the interpreter %s ended before it was ready%s%s", zygote->local->interpreter.path,
                             text[0] != '\0' ? ": " : "", last_line(text));
}

static int answer_failure(const struct zygote_reply *reply, struct sbx_error *err) {
        return sbx_error_set(err, reply->code < 0 ? reply->code : -EIO, LOCAL_ORIGIN, reply->hint, "%s", reply->text);
}

/* Compiled while the interpreter starts, which is a little later than the jail: each of them has a processor then. */
static int send_filter(struct zygote_process *zygote, struct sbx_error *err) {
        const struct local_options *options = &zygote->local->options;
        const struct seccomp_facts facts = {
                .memory_counted = zygote->local->memory_counted,
                .own_tree = options->isolation == JAIL_NAMESPACES && options->workspace == JAIL_WORKSPACE_NONE &&
                            options->read_only[0] == NULL,
        };
        struct zygote_request request = {.type = ZYGOTE_FILTER};
        _cleanup_free_ struct sock_filter *program = NULL;
        _cleanup_close_ int fd = -1;
        size_t count = 0;
        int r = seccomp_filter_compile(&facts, &program, &count, err);

        if (r < 0)
                return r;
        fd = memfd_create("sbx-filter", MFD_CLOEXEC);
        r = fd < 0 ? -errno : write_whole(fd, program, count * sizeof(*program));
        if (r == 0)
                r = send_request(zygote, &request, &fd, 1);
        zygote->has_filter = true;
        /* A launcher that failed meanwhile says why in its answer. */
        return r < 0 && r != -EPIPE ? sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "zygote: %s", strerror(-r)) : 0;
}

static int accept_reply(struct zygote_process *zygote, const struct zygote_reply *reply, int fd,
                        struct sbx_error *err) {
        if (reply->type == ZYGOTE_STARTED && zygote->pidfd < 0) {
                zygote->pidfd = steal_fd(&fd);
                if (zygote->local->options.isolation == JAIL_NAMESPACES)
                        reap(P_PID, (id_t)zygote->launcher);
        }
        close_fd(&fd);
        if (reply->type == ZYGOTE_FAILED) {
                zygote->dead = true;
                return answer_failure(reply, err);
        }
        zygote->ready = reply->type == ZYGOTE_READY;
        return 0;
}

static int no_reply(struct zygote_process *zygote, int code, struct sbx_error *err) {
        if (code == -ETIMEDOUT || code == -ECANCELED)
                return sbx_error_set(err, code, LOCAL_ORIGIN, "take slow modules out of \"preload\"",
                                     code == -ECANCELED ? "cancelled while the interpreter started"
                                                        : "the interpreter was not ready in time");
        zygote->dead = true;
        return code == -EPIPE ? explain_death(zygote, err)
                              : sbx_error_set(err, code, LOCAL_ORIGIN, NULL, "zygote: %s", strerror(-code));
}

/* Who holds the lock may wait for an interpreter that never comes up: a call that ends meanwhile does not wait with it.
 */
static int lock_for(pthread_mutex_t *lock, const struct sbx_call *call) {
        int r = pthread_mutex_trylock(lock);

        while (r == EBUSY || r == ETIMEDOUT) {
                struct timespec until;
                int state = call_state(call);

                if (state < 0)
                        return state;
                clock_gettime(CLOCK_REALTIME, &until);
                until.tv_nsec += LOCK_SLICE_NS;
                until.tv_sec += until.tv_nsec / 1000000000;
                until.tv_nsec %= 1000000000;
                r = pthread_mutex_timedlock(lock, &until);
        }
        return -r;
}

/* The same, with the failure told. */
static int lock_or_fail(pthread_mutex_t *lock, const struct sbx_call *call, struct sbx_error *err) {
        int r = lock_for(lock, call);

        if (r == 0)
                return 0;
        return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "gave up waiting for the interpreter: %s",
                             r == -ECANCELED   ? "the call was cancelled"
                             : r == -ETIMEDOUT ? "its time is over"
                                               : strerror(-r));
}

enum phase { PHASE_STARTED, PHASE_READY };

/* Through the launcher's and the interpreter's start. Called with the lock held. */
static int await(struct zygote_process *zygote, enum phase phase, const struct sbx_call *call, struct sbx_error *err) {
        int r = 0;

        while (r == 0 && !zygote->ready && (phase == PHASE_READY || zygote->pidfd < 0)) {
                bool filter_is_due = phase == PHASE_READY && !zygote->has_filter;
                struct zygote_reply reply;
                int fd = -1;

                r = receive_reply(zygote, call, filter_is_due ? FILTER_DELAY_MS : READY_LIMIT_MS, &reply, &fd);
                if (r == 0)
                        r = accept_reply(zygote, &reply, fd, err);
                else if (r == -ETIMEDOUT && filter_is_due && call_state(call) == 0)
                        r = send_filter(zygote, err);
                else
                        r = no_reply(zygote, r, err);
        }
        return r;
}

static int make_config(const struct local *local, int *ret_fd, struct sbx_error *err) {
        const struct local_options *options = &local->options;
        struct sbx_host_state *self = local->host.self;
        struct jail_config config = {
                .isolation = options->isolation,
                .drop = local->drop,
                .id = local->uid,
                .gid = local->gid,
                .workspace = options->workspace,
                .tmp_bytes = options->tmp_bytes,
                .workspace_bytes = options->workspace_bytes,
                .cpu_percent = options->cpu_percent,
                .memory_wall = !local->memory_counted,
                .pids_wall = !local->pids_counted,
                .python = local->interpreter.path,
                .node = local->interpreter.node,
                .helpers = local->host.directory(self, "libexec"),
                .guests = local->host.directory(self, "guests"),
                .workspace_path = options->workspace == JAIL_WORKSPACE_NONE ? NULL : options->workspace_path,
                .preload = options->preload,
                .read_only = (const char **)local->interpreter.paths,
                .links = (const char **)local->interpreter.links,
        };
        int r = jail_namespaces_read(&config.server);

        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, "mount /proc", "/proc/self/ns: %s", strerror(-r));
        if (config.helpers == NULL || config.guests == NULL)
                return sbx_error_set(err, -ENOENT, LOCAL_ORIGIN, "reinstall the program",
                                     "the directories of helper programs or guest workers are missing");
        r = jail_config_write(&config, ret_fd);
        return r < 0 ? sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "can't write the jail's configuration: %s",
                                     strerror(-r))
                     : 0;
}

/* Away from the numbers that the launcher's own get. */
static int move_up(int *fd) {
        int moved = fcntl(*fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);

        if (moved < 0)
                return -errno;
        close(*fd);
        *fd = moved;
        return 0;
}

static int spawn_launcher(const char *path, int socket_fd, int config_fd, int log_fd, pid_t *ret_pid) {
        static char *const no_environment[] = {NULL};
        char *const argv[] = {(char *)LOCAL_LAUNCHER, NULL};
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t all, none;
        int r;

        sigfillset(&all);
        sigemptyset(&none);
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, log_fd, 1);
        posix_spawn_file_actions_adddup2(&actions, log_fd, 2);
        posix_spawn_file_actions_adddup2(&actions, socket_fd, ZYGOTE_SOCKET_FD);
        posix_spawn_file_actions_adddup2(&actions, config_fd, ZYGOTE_CONFIG_FD);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setsigmask(&attributes, &none);
        /* A session of its own: the terminal's signals are not for it. */
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
        r = posix_spawn(ret_pid, path, &actions, &attributes, argv, no_environment);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
        return -r;
}

struct launch {
        int ours, theirs, config, log_read, log_write;
};

static void close_launch(struct launch *launch) {
        close_fd(&launch->ours);
        close_fd(&launch->theirs);
        close_fd(&launch->config);
        close_fd(&launch->log_read);
        close_fd(&launch->log_write);
}

static int open_launch(const struct local *local, struct launch *launch, struct sbx_error *err) {
        int pair[2], log[2], r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "socketpair: %s", strerror(errno));
        launch->ours = pair[0];
        launch->theirs = pair[1];
        if (pipe2(log, O_CLOEXEC | O_NONBLOCK) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "pipe: %s", strerror(errno));
        launch->log_read = log[0];
        launch->log_write = log[1];
        r = make_config(local, &launch->config, err);
        if (r == 0 && (r = move_up(&launch->theirs)) == 0 && (r = move_up(&launch->config)) == 0)
                r = move_up(&launch->log_write);
        return r < 0 ? sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "descriptors: %s", strerror(-r)) : 0;
}

static int new_process(struct local *local, struct zygote_process **ret, struct sbx_error *err) {
        __attribute__((cleanup(close_launch))) struct launch launch = {-1, -1, -1, -1, -1};
        struct zygote_process *zygote = NULL;
        char path[4096];
        pid_t pid = -1;
        int r = open_launch(local, &launch, err);

        if (r < 0)
                return r;
        snprintf(path, sizeof(path), "%s/%s", local->host.directory(local->host.self, "libexec"), LOCAL_LAUNCHER);
        zygote = calloc(1, sizeof(*zygote));
        if (zygote == NULL)
                return sbx_error_set(err, -ENOMEM, LOCAL_ORIGIN, NULL, "out of memory");
        r = spawn_launcher(path, launch.theirs, launch.config, launch.log_write, &pid);
        if (r < 0) {
                free(zygote);
                return sbx_error_set(err, r, LOCAL_ORIGIN, "reinstall the program", "can't start %s: %s", path,
                                     strerror(-r));
        }
        atomic_init(&zygote->references, 1);
        pthread_mutex_init(&zygote->lock, NULL);
        zygote->local = local;
        zygote->launcher = pid;
        zygote->has_filter = local->options.isolation == JAIL_NONE; /* it gets none */
        zygote->pidfd = -1;
        zygote->socket = steal_fd(&launch.ours);
        zygote->log = steal_fd(&launch.log_read);
        *ret = zygote;
        return 0;
}

/* Called with local->lock held. */
static int launch_locked(struct local *local, const struct sbx_call *call, struct sbx_error *err) {
        struct zygote_process *zygote = NULL;
        int r;

        if (local->zygote != NULL && !local->zygote->dead)
                return 0;
        zygote_unref(steal_pointer(local->zygote));
        r = new_process(local, &zygote, err);
        if (r < 0)
                return r;
        r = await(zygote, PHASE_STARTED, call, err);
        if (r < 0) {
                zygote_unref(zygote);
                return r;
        }
        local->zygote = zygote;
        return 0;
}

int zygote_launch(struct local *local, const struct sbx_call *call, struct sbx_error *err) {
        int r = lock_or_fail(&local->lock, call, err);

        if (r < 0)
                return r;
        r = local->started ? launch_locked(local, call, err)
                           : sbx_error_set(err, -ECANCELED, LOCAL_ORIGIN, NULL, "this backend was stopped");
        pthread_mutex_unlock(&local->lock);
        return r;
}

int zygote_get(struct local *local, const struct sbx_call *call, struct zygote_process **ret, struct sbx_error *err) {
        struct zygote_process *zygote = NULL;
        int r = lock_or_fail(&local->lock, call, err);

        if (r < 0)
                return r;
        r = local->started ? launch_locked(local, call, err)
                           : sbx_error_set(err, -ECANCELED, LOCAL_ORIGIN, NULL, "this backend was stopped");
        if (r == 0)
                zygote = zygote_ref(local->zygote);
        pthread_mutex_unlock(&local->lock);
        if (r < 0)
                return r;
        r = lock_or_fail(&zygote->lock, call, err);
        if (r == 0) {
                r = await(zygote, PHASE_READY, call, err);
                pthread_mutex_unlock(&zygote->lock);
        }
        if (r < 0) {
                zygote_unref(zygote);
                return r;
        }
        *ret = zygote;
        return 0;
}

void zygote_shut_down(struct local *local) {
        struct zygote_process *zygote;

        pthread_mutex_lock(&local->lock);
        zygote = steal_pointer(local->zygote);
        local->started = false;
        pthread_mutex_unlock(&local->lock);
        if (zygote == NULL)
                return;
        pthread_mutex_lock(&zygote->lock);
        end_process(zygote);
        pthread_mutex_unlock(&zygote->lock);
        zygote_unref(zygote);
}

/* ---- guests */

static int ask(struct zygote_process *zygote, const struct zygote_request *request, const int *fds, int fd_count,
               const struct sbx_call *call, struct zygote_reply *ret, int *ret_fd) {
        int r = zygote->dead ? -EPIPE : send_request(zygote, request, fds, fd_count);

        while (r == 0) {
                r = receive_reply(zygote, call, ANSWER_LIMIT_MS, ret, ret_fd);
                /* An answer that somebody gave up waiting for: its guest ends by itself, as nobody reads its report. */
                if (r == 0 && ret->id == request->id)
                        return 0;
                if (r == 0)
                        close_fd(ret_fd);
        }
        if (r == -EPIPE)
                zygote->dead = true;
        return r;
}

int zygote_spawn(struct zygote_process *zygote, const struct zygote_request *request, const int *fds, int fd_count,
                 const struct sbx_call *call, int *ret_pidfd, struct sbx_error *err) {
        struct zygote_reply reply;
        int fd = -1, r = lock_or_fail(&zygote->lock, call, err);

        if (r < 0)
                return r;
        r = ask(zygote, request, fds, fd_count, call, &reply, &fd);
        pthread_mutex_unlock(&zygote->lock);
        if (r == -EPIPE)
                return r;
        if (r == -ECANCELED || r == -ETIMEDOUT)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "gave up starting a guest: %s",
                                     r == -ECANCELED ? "the call was cancelled" : "its time is over");
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "the zygote did not answer: %s", strerror(-r));
        if (reply.type != ZYGOTE_SPAWNED || fd < 0) {
                close_fd(&fd);
                return answer_failure(&reply, err);
        }
        *ret_pidfd = fd;
        return 0;
}

int zygote_exit_code(struct zygote_process *zygote, uint64_t id, bool reap_others) {
        struct zygote_request request = {.type = reap_others ? ZYGOTE_REAP : ZYGOTE_STATUS, .id = id};
        struct zygote_reply reply = {.code = INT32_MIN};
        int fd = -1, r;

        pthread_mutex_lock(&zygote->lock);
        r = ask(zygote, &request, NULL, 0, NULL, &reply, &fd);
        pthread_mutex_unlock(&zygote->lock);
        close_fd(&fd);
        return r < 0 || reply.type != ZYGOTE_EXITED ? INT32_MIN : reply.code;
}

void zygote_release(struct zygote_process *zygote, uint64_t id) {
        struct zygote_request request = {.type = ZYGOTE_RELEASE, .id = id};

        pthread_mutex_lock(&zygote->lock);
        if (!zygote->dead && send_request(zygote, &request, NULL, 0) == -EPIPE)
                zygote->dead = true;
        pthread_mutex_unlock(&zygote->lock);
}
