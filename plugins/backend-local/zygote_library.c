/* SPDX-License-Identifier: Apache-2.0 */
/* sbx-local-zygote.so, loaded by the interpreter through ctypes: serves the server's requests until it goes away.
 * One thread; the interpreter's lock is held throughout, as no other thread exists that could want it. */
#include <dirent.h>
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cgroup.h"
#include "scratch.h"
#include "syscalls.h"
#include "util.h"
#include "zygote_image.h"

#define IDLE_MS 20 /* without a request: time to import modules */
#define PAUSE_MS 1 /* the same: time to make namespaces */
#define SERVE_SETTLE (-1)

#define EXPORT __attribute__((visibility("default")))
EXPORT struct zygote *sbx_zygote_open(void);
EXPORT const char *sbx_zygote_preload(const struct zygote *zygote);
EXPORT int sbx_zygote_serve(struct zygote *zygote);
EXPORT void sbx_zygote_settle(struct zygote *zygote, const char *failure);
EXPORT const char *sbx_zygote_scratch(const struct zygote *zygote);
EXPORT const char *sbx_zygote_node(const struct zygote *zygote);
EXPORT unsigned sbx_zygote_runtime(const struct zygote *zygote);
EXPORT uint64_t sbx_zygote_memory(const struct zygote *zygote);
EXPORT void sbx_zygote_end(void);

/* A request and its descriptors. 1; 0: the server is gone; negative errno. */
static int receive(struct zygote_request *request, struct zygote_spawn *spawn) {
        struct iovec iov = {request, sizeof(*request)};
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int) * ZYGOTE_FDS_MAX)];
        } control;
        struct msghdr message = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
        ssize_t n;

        do
                n = recvmsg(ZYGOTE_SOCKET_FD, &message, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n <= 0)
                return n < 0 ? -errno : 0;
        spawn->request = request;
        spawn->fd_count = 0;
        spawn->image_fd = -1;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c))
                if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
                        spawn->fd_count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
                        memcpy(spawn->fds, CMSG_DATA(c), (size_t)spawn->fd_count * sizeof(int));
                }
        request->scratch[sizeof(request->scratch) - 1] = '\0';
        if (request->has_image != 0 && spawn->fd_count > ZYGOTE_SPAWN_FDS)
                spawn->image_fd = spawn->fds[--spawn->fd_count];
        return n == sizeof(*request) && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 ? 1 : -EBADMSG;
}

static struct zygote_guest *find_guest(struct zygote *zygote, uint64_t id) {
        for (size_t i = 0; i < zygote->guest_count; i++)
                if (zygote->guests[i].id == id)
                        return &zygote->guests[i];
        return NULL;
}

static int add_guest(struct zygote *zygote) {
        struct zygote_guest *larger;

        if (zygote->guest_count < zygote->guest_capacity)
                return 0;
        larger = realloc(zygote->guests, (zygote->guest_capacity * 2 + 16) * sizeof(*larger));
        if (larger == NULL)
                return -ENOMEM;
        zygote->guests = larger;
        zygote->guest_capacity = zygote->guest_capacity * 2 + 16;
        return 0;
}

static void reap_guest(struct zygote_guest *guest) {
        int status;
        pid_t pid;

        if (guest->reaped)
                return;
        do
                pid = waitpid(guest->pid, &status, 0);
        while (pid < 0 && errno == EINTR);
        guest->reaped = true;
        guest->code = pid < 0 ? INT32_MIN : WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* 0: this is the guest. */
static int handle_spawn(struct zygote *zygote, const struct zygote_spawn *spawn) {
        struct zygote_reply reply = {.type = ZYGOTE_SPAWNED, .id = spawn->request->id};
        struct sbx_error err = {0};
        int pidfd = -1, r = add_guest(zygote);
        pid_t pid = -1;

        if (zygote->broken.code != 0) {
                zygote_reply_failure(spawn->request->id, &zygote->broken);
                return 1;
        }
        if (r < 0 || spawn->fd_count < ZYGOTE_SPAWN_FDS ||
            (spawn->request->cgroup_kind == CGROUP_ENTRY_CLONE && spawn->fd_count != ZYGOTE_SPAWN_FDS + 1))
                r = sbx_error_set(&err, r < 0 ? r : -EBADMSG, LOCAL_ORIGIN, NULL, "the zygote refuses the request");
        else
                r = zygote_clone(zygote, spawn, &pid, &pidfd, &err);
        if (r == 0)
                return 0;
        if (r < 0) {
                zygote_reply_failure(spawn->request->id, &err);
                return 1;
        }
        zygote->spawned = true;
        zygote->guests[zygote->guest_count++] = (struct zygote_guest){
                .id = spawn->request->id,
                .pid = pid,
                .scratch = spawn->request->scratch[0] != '\0' ? strdup(spawn->request->scratch) : NULL,
        };
        zygote_reply_send(&reply, pidfd);
        close(pidfd);
        return 1;
}

static void handle_status(struct zygote *zygote, const struct zygote_request *request, bool orphans) {
        struct zygote_reply reply = {.type = ZYGOTE_EXITED, .id = request->id, .code = INT32_MIN};
        struct zygote_guest *guest = find_guest(zygote, request->id);

        if (guest != NULL) {
                reap_guest(guest);
                reply.code = guest->code;
        }
        if (orphans)
                zygote_kill_orphans(zygote);
        zygote_reply_send(&reply, -1);
}

static void handle_release(struct zygote *zygote, uint64_t id) {
        struct zygote_guest *guest = find_guest(zygote, id);

        if (guest == NULL)
                return;
        reap_guest(guest);
        free(guest->scratch);
        *guest = zygote->guests[--zygote->guest_count];
}

/* The server is gone. In a pid namespace the kernel ends the guests with us. */
static _Noreturn void end(struct zygote *zygote) {
        if (zygote->config.isolation != JAIL_NAMESPACES) {
                for (size_t i = 0; i < zygote->guest_count; i++)
                        if (!zygote->guests[i].reaped)
                                kill(zygote->guests[i].pid, SIGKILL);
                for (size_t i = 0; i < zygote->guest_count; i++)
                        reap_guest(&zygote->guests[i]);
                zygote_kill_orphans(zygote);
                for (size_t i = 0; i < zygote->guest_count; i++)
                        if (zygote->guests[i].scratch != NULL)
                                scratch_remove(zygote->guests[i].scratch);
        }
        _exit(0);
}

/* In a guest: what the zygote knew is not its business. */
static void forget(struct zygote *zygote) {
        if (zygote->guests != NULL)
                memset(zygote->guests, 0, zygote->guest_capacity * sizeof(*zygote->guests));
        zygote->guest_count = 0;
}

/* The program outlives the message. */
static int take_filter(struct zygote *zygote, int fd, struct sbx_error *err) {
        struct sock_filter *program = NULL;
        struct stat st;
        int r = fstat(fd, &st) < 0 ? -errno : 0;

        if (r == 0 && (st.st_size <= 0 || st.st_size > (off_t)(BPF_MAXINSNS * sizeof(*program)) ||
                       (size_t)st.st_size % sizeof(*program) != 0))
                r = -EBADMSG;
        if (r == 0 && (program = malloc((size_t)st.st_size)) == NULL)
                r = -ENOMEM;
        if (r == 0 && pread(fd, program, (size_t)st.st_size, 0) != st.st_size)
                r = -EIO;
        if (r < 0) {
                free(program);
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "layer \"seccomp\": can't read the filter: %s",
                                     strerror(-r));
        }
        zygote->config.filter = program;
        zygote->config.filter_count = (size_t)st.st_size / sizeof(*program);
        return 0;
}

static int wait_for_filter(struct zygote *zygote, struct sbx_error *err) {
        struct zygote_request request = {0};
        struct zygote_spawn spawn = {.fd_count = 0};
        int r;

        if (zygote->config.isolation == JAIL_NONE)
                return 0;
        r = receive(&request, &spawn);
        if (r == 0)
                _exit(0);
        if (r < 0 || request.type != ZYGOTE_FILTER || spawn.fd_count != 1)
                return sbx_error_set(err, -EBADMSG, LOCAL_ORIGIN, NULL, "layer \"seccomp\": no filter came");
        r = take_filter(zygote, spawn.fds[0], err);
        close(spawn.fds[0]);
        return r;
}

/* Threads don't survive a clone, and their locks would stay taken. */
static int count_threads(void) {
        DIR *tasks = opendir("/proc/self/task");
        struct dirent *entry;
        int count = 0;

        if (tasks == NULL)
                return 1;
        while ((entry = readdir(tasks)) != NULL)
                count += entry->d_name[0] != '.';
        closedir(tasks);
        return count;
}

static int check_threads(struct sbx_error *err) {
        int threads = count_threads();

        if (threads == 1)
                return 0;
        return sbx_error_set(err, -EINVAL, LOCAL_ORIGIN, "take the module that does so out of \"preload\"",
                             "importing the modules of \"preload\" started %d threads, which no guest would have",
                             threads - 1);
}

static int begin(struct zygote *zygote, struct sbx_error *err) {
        struct zygote_reply reply = {.type = ZYGOTE_READY};

        if (check_threads(err) < 0)
                return err->code;
        if (zygote->tid_address == NULL)
                return sbx_error_set(err, -ENOTSUP, LOCAL_ORIGIN, "a kernel with CONFIG_CHECKPOINT_RESTORE is needed",
                                     "this kernel does not tell where a thread's id is kept (PR_GET_TID_ADDRESS)");
        if (wait_for_filter(zygote, err) < 0)
                return err->code;
        zygote_reply_send(&reply, -1);
        zygote->announced = true;
        return 0;
}

static bool is_idle(int for_ms) {
        struct pollfd fd = {.fd = ZYGOTE_SOCKET_FD, .events = POLLIN};

        return poll(&fd, 1, for_ms) == 0;
}

static bool next_is_spawn(void) {
        struct zygote_request request;

        return recv(ZYGOTE_SOCKET_FD, &request, sizeof(request), MSG_PEEK) == sizeof(request) &&
               request.type == ZYGOTE_SPAWN;
}

/* The first guest does not wait for the modules of `preload`: a program that runs one piece of code is done sooner
 * without them. The second one does, unless there was time before. */
static bool should_settle(const struct zygote *zygote) {
        return !zygote->settled && (is_idle(IDLE_MS) || (zygote->spawned && next_is_spawn()));
}

/* Not at once after a clone, when the guest needs the processor more. A failure comes back when a guest is asked for.
 */
static void prepare_next(struct zygote *zygote) {
        if (!zygote->fresh && is_idle(PAUSE_MS))
                (void)zygote_freshen(zygote, NULL);
}

/* Serves until the server is gone (then it exits). Returns a guest's control descriptor in that guest, locked down; and
 * in the zygote SERVE_SETTLE, when it is time to import modules, call sbx_zygote_settle, and come back. */
int sbx_zygote_serve(struct zygote *zygote) {
        struct sbx_error err = {0};

        if (!zygote->announced && begin(zygote, &err) < 0) {
                zygote_reply_failure(0, &err);
                _exit(1);
        }
        for (;;) {
                struct zygote_request request = {0};
                struct zygote_spawn spawn = {.fd_count = 0};
                int r;

                prepare_next(zygote);
                if (should_settle(zygote))
                        return SERVE_SETTLE;
                r = receive(&request, &spawn);
                if (r <= 0)
                        end(zygote);
                if (request.type == ZYGOTE_SPAWN && handle_spawn(zygote, &spawn) == 0) {
                        forget(zygote);
                        if (spawn.image_fd >= 0)
                                zygote_become(
                                        &(struct guest_fds){GUEST_CONTROL_FD, 1, 2, GUEST_COPIES_FD, GUEST_IMAGE_FD});
                        return GUEST_CONTROL_FD;
                }
                if (request.type == ZYGOTE_STATUS || request.type == ZYGOTE_REAP)
                        handle_status(zygote, &request, request.type == ZYGOTE_REAP);
                if (request.type == ZYGOTE_RELEASE)
                        handle_release(zygote, request.id);
                for (int i = 0; i < spawn.fd_count; i++)
                        close(spawn.fds[i]);
                if (spawn.image_fd >= 0)
                        close(spawn.image_fd);
        }
}

/* The modules of `preload` were imported; or not, for the reason given. Guests that live are not touched by that. */
void sbx_zygote_settle(struct zygote *zygote, const char *failure) {
        zygote->settled = true;
        if (failure != NULL)
                sbx_error_set(&zygote->broken, -EINVAL, LOCAL_ORIGIN,
                              "take the module out of \"preload\", or install it for the interpreter", "preload: %s",
                              failure);
        else
                check_threads(&zygote->broken);
}

static char *join(const char *const *items) {
        size_t size = 1;
        char *text, *at;

        for (size_t i = 0; items != NULL && items[i] != NULL; i++)
                size += strlen(items[i]) + 1;
        text = at = malloc(size);
        for (size_t i = 0; text != NULL && items != NULL && items[i] != NULL; i++) {
                size_t length = strlen(items[i]);

                if (at != text)
                        *at++ = ',';
                memcpy(at, items[i], length);
                at += length;
        }
        if (text != NULL)
                *at = '\0';
        return text;
}

static int set_up(struct zygote *zygote, struct sbx_error *err) {
        int r = jail_config_read(ZYGOTE_CONFIG_FD, &zygote->config);

        close(ZYGOTE_CONFIG_FD);
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, "reinstall the program: its parts don't fit each other",
                                     "can't read the jail's configuration: %s", strerror(-r));
        /* Nobody may look into it but root: the next guests come from here. */
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        r = jail_namespaces_read(&zygote->current);
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "/proc/self/ns: %s", strerror(-r));
        /* The launcher made them for the zygote alone. */
        zygote->fresh = true;
        zygote->used = zygote->current;
        zygote->used.network = zygote->used.ipc = zygote->used.uts = 0;
        if (prctl(PR_GET_TID_ADDRESS, &zygote->tid_address, 0, 0, 0) < 0)
                zygote->tid_address = NULL;
        if (syscall(SYS_get_robust_list, 0, &zygote->robust_list, &zygote->robust_list_size) < 0)
                zygote->robust_list = NULL;
        zygote->before_fork = (void (*)(void))dlsym(RTLD_DEFAULT, "PyOS_BeforeFork");
        zygote->after_fork_parent = (void (*)(void))dlsym(RTLD_DEFAULT, "PyOS_AfterFork_Parent");
        zygote->after_fork_child = (void (*)(void))dlsym(RTLD_DEFAULT, "PyOS_AfterFork_Child");
        if (zygote->before_fork == NULL || zygote->after_fork_parent == NULL || zygote->after_fork_child == NULL)
                return sbx_error_set(err, -ENOTSUP, LOCAL_ORIGIN, "set the option \"python\" to a CPython 3.9 or later",
                                     "the interpreter has no fork hooks (PyOS_BeforeFork)");
        zygote->preload = join(zygote->config.preload);
        return zygote->preload != NULL ? 0 : sbx_error_set(err, -ENOMEM, LOCAL_ORIGIN, NULL, "out of memory");
}

/* Reads the configuration. A failure goes to the server, and ends the process. */
struct zygote *sbx_zygote_open(void) {
        struct zygote *zygote = calloc(1, sizeof(*zygote));
        struct sbx_error err = {0};

        if (zygote == NULL || set_up(zygote, &err) < 0) {
                sbx_error_set(&err, -ENOMEM, LOCAL_ORIGIN, NULL, "out of memory");
                zygote_reply_failure(0, &err);
                _exit(1);
        }
        return zygote;
}

const char *sbx_zygote_preload(const struct zygote *zygote) {
        return zygote->preload;
}

/* In a guest: its directory, or NULL when it has a file tree of its own. */
const char *sbx_zygote_scratch(const struct zygote *zygote) {
        return zygote->scratch[0] != '\0' ? zygote->scratch : NULL;
}

/* The program of sessions of Node; NULL: there is none. */
const char *sbx_zygote_node(const struct zygote *zygote) {
        return zygote->config.node;
}

/* In a guest: what it is to become (enum local_runtime), and its memory limit in bytes. */
unsigned sbx_zygote_runtime(const struct zygote *zygote) {
        return zygote->runtime;
}

uint64_t sbx_zygote_memory(const struct zygote *zygote) {
        return zygote->memory_bytes;
}

/* In a guest whose server closed the stream. Does not return, and runs nothing: threads and exit handlers of a
 * session's code could hold it up. */
void sbx_zygote_end(void) {
        _exit(0);
}
