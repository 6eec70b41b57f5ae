/* SPDX-License-Identifier: Apache-2.0 */
/* The zygote: loads code and image, goes to jail, then forks a session for each request of the server. */
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include "util.h"
#include "zygote.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

struct zygote {
        struct helper_config config;
        struct jail jail;
        struct wasm_image image;
        struct wasm_host host;
        struct session session; /* what each fork begins with */
        struct children children;
        int deaths; /* signalfd */
};

static void fail(const struct sbx_error *err) {
        struct zygote_message message = {.type = ZYGOTE_FAILED, .code = err->code};

        copy_text(message.text, sizeof(message.text), err->message);
        copy_text(message.hint, sizeof(message.hint), err->hint);
        (void)helper_send(HELPER_SOCKET_FD, &message, sizeof(message), -1);
}

/* ---- coming up */

static int read_config(struct zygote *zygote, struct sbx_error *err) {
        ssize_t n = pread(HELPER_CONFIG_FD, &zygote->config, sizeof(zygote->config), 0);

        if (n != sizeof(zygote->config) || zygote->config.struct_size != sizeof(zygote->config))
                return sbx_error_set(err, -EINVAL, HELPER_ORIGIN, "reinstall the program",
                                     "sbx-wasm and the plugin are not of one version");
        zygote->jail.config = &zygote->config;
        return 0;
}

static int load(struct zygote *zygote, struct sbx_error *err) {
        char path[32], message[256];
        int r, flags = fcntl(HELPER_IMAGE_FD, F_GETFL);

        /* All sessions map it: what could be written through the descriptor could be made writable in one of them. */
        if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY)
                return sbx_error_set(err, -EINVAL, HELPER_ORIGIN, "reinstall the program",
                                     "the image's descriptor must be open for reading alone");
        snprintf(path, sizeof(path), "/proc/self/fd/%d", HELPER_CODE_FD);
        r = wasm_code_load(path, &zygote->session.code, message, sizeof(message));
        if (r == 0)
                r = image_open(HELPER_IMAGE_FD, &zygote->image, message, sizeof(message));
        return r < 0 ? sbx_error_set(err, r, HELPER_ORIGIN, "reinstall the program", "%s", message) : 0;
}

static int make_instance(struct zygote *zygote, struct sbx_error *err) {
        struct session *session = &zygote->session;
        struct wasm_host *host = &zygote->host;
        int r;

        session->jail = &zygote->jail;
        session->limits = (struct vfs_limits){.bytes = zygote->config.files_max,
                                              .entries = zygote->config.file_entries_max,
                                              .open_files = zygote->config.open_files_max};
        /* The place of each session's status page. */
        host->status = mmap(NULL, STATUS_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        host->memory_limit = zygote->config.memory_max;
        r = host->status == MAP_FAILED ? -ENOMEM : vfs_new(&zygote->image.tree, &session->limits, &host->vfs);
        if (r == 0)
                r = wasm_instance_new(session->code, &zygote->image, host, &session->instance);
        if (r == 0)
                r = wasm_signals_install(session->instance);
        /* A small session stays small: a page that it touches is not one of two megabytes. */
        if (r == 0 && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) < 0 && errno != EINVAL)
                r = -errno;
        zygote->jail.image_bytes = (uint64_t)zygote->image.memory_pages * WASM_PAGE;
        /* Everything of it is mapped. */
        close_fd(&zygote->image.fd);
        return r < 0 ? sbx_error_set(err, r, HELPER_ORIGIN,
                                     r == -EINVAL ? "reinstall the program: code and image must be of one build"
                                                  : "raise the limit of address space (ulimit -v)",
                                     "can't map the image: %s", strerror(-r))
                     : 0;
}

/* Signals: those that end a process by mistake are ignored, deaths are read from a descriptor. */
static int watch_children(struct zygote *zygote, struct sbx_error *err) {
        sigset_t children;
        int r = children_new(&zygote->children, zygote->config.sessions_max);

        sigemptyset(&children);
        sigaddset(&children, SIGCHLD);
        if (r == 0 && (signal(SIGPIPE, SIG_IGN) == SIG_ERR || signal(SIGXFSZ, SIG_IGN) == SIG_ERR ||
                       sigprocmask(SIG_BLOCK, &children, NULL) < 0))
                r = -errno;
        if (r == 0) {
                zygote->deaths = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
                r = zygote->deaths < 0 ? -errno : 0;
        }
        return r < 0 ? sbx_error_set(err, r, HELPER_ORIGIN, NULL, "can't watch sessions: %s", strerror(-r)) : 0;
}

static int come_up(struct zygote *zygote, struct sbx_error *err) {
        struct zygote_message ready = {.type = ZYGOTE_READY};
        _cleanup_close_ int report = -1;
        int r = read_config(zygote, err);

        /* What it was not meant to be given, sessions would have. */
        if (r == 0 && syscall(SYS_close_range, HELPER_CONFIG_FD + 1, ~0u, 0) < 0)
                r = sbx_error_set(err, -errno, HELPER_ORIGIN, "Linux 5.9 or later is needed", "close_range: %s",
                                  strerror(errno));
        report = memfd_create("sbx-report", MFD_CLOEXEC);
        if (r == 0 && report < 0)
                r = sbx_error_set(err, -errno, HELPER_ORIGIN, NULL, "memfd_create: %s", strerror(errno));
        if (r == 0)
                r = load(zygote, err);
        if (r == 0)
                r = jail_ids_drop_root(&zygote->jail, err);
        if (r == 0)
                r = jail_namespaces_enter(&zygote->jail, err);
        if (r == 0)
                r = make_instance(zygote, err);
        if (r == 0)
                r = watch_children(zygote, err);
        close(HELPER_CODE_FD);
        close(HELPER_CONFIG_FD);
        if (r == 0)
                r = jail_lock_zygote(&zygote->jail, err);
        if (r == 0)
                r = jail_report(&zygote->jail, report, err);
        return r < 0 ? r : helper_send(HELPER_SOCKET_FD, &ready, sizeof(ready), report);
}

/* ---- requests */

static void answer_failure(uint64_t id, int code, const char *text, const char *hint) {
        struct zygote_message answer = {.type = ZYGOTE_FAILED, .code = code, .id = id};

        copy_text(answer.text, sizeof(answer.text), text);
        copy_text(answer.hint, sizeof(answer.hint), hint);
        (void)helper_send(HELPER_SOCKET_FD, &answer, sizeof(answer), -1);
}

static void answer_spawned(uint64_t id, pid_t pid, int pidfd) {
        struct zygote_message answer = {.type = ZYGOTE_SPAWNED, .id = id, .pid = pid};

        (void)helper_send(HELPER_SOCKET_FD, &answer, sizeof(answer), pidfd);
}

/* In the new process: what is the zygote's goes, and what is the server's log. */
static _Noreturn void run_session(struct zygote *zygote, uint64_t id, struct received_fds *fds) {
        close(zygote->deaths);
        syscall(SYS_close_range, 0, HELPER_SOCKET_FD, 0);
        session_begin(&zygote->session, id, fds);
}

static void spawn(struct zygote *zygote, const struct zygote_message *request, struct received_fds *fds) {
        _cleanup_close_ int pidfd = -1;
        pid_t pid;

        if (fds->count != SPAWN_FDS && fds->count != SPAWN_FDS + 1) {
                answer_failure(request->id, -EINVAL, "a session has other descriptors", "reinstall the program");
                return;
        }
        if (zygote->children.count == zygote->children.max || children_find(&zygote->children, request->id) != NULL) {
                answer_failure(request->id, -EAGAIN, "too many sessions at once", "raise the option sessions");
                return;
        }
        pid = (pid_t)syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &pidfd, 0, 0);
        if (pid == 0)
                run_session(zygote, request->id, fds);
        if (pid < 0) {
                answer_failure(request->id, -EAGAIN, strerror(errno),
                               "raise the limit of processes (ulimit -u), or lower max_sessions");
                return;
        }
        children_add(&zygote->children, request->id, pid);
        answer_spawned(request->id, pid, pidfd);
}

static void permit(struct zygote *zygote, uint64_t id) {
        struct zygote_message answer = {.type = ZYGOTE_PERMITTED, .id = id};
        int r = children_permit(&zygote->children, id);

        if (r < 0)
                answer_failure(id, r, "there is no such session to be copied", "");
        else
                (void)helper_send(HELPER_SOCKET_FD, &answer, sizeof(answer), -1);
}

static void adopt(struct zygote *zygote, const struct zygote_message *request) {
        _cleanup_close_ int pidfd = -1;
        int r = children_adopt(&zygote->children, request->parent, request->id, request->pid);

        if (r == 0) {
                pidfd = (int)syscall(SYS_pidfd_open, request->pid, 0);
                r = pidfd < 0 ? -errno : 0;
        }
        if (r < 0)
                answer_failure(request->id, r,
                               r == -EAGAIN ? "too many sessions at once" : "there is no such copy of that session",
                               r == -EAGAIN ? "raise the option sessions" : "");
        else
                answer_spawned(request->id, request->pid, pidfd);
}

static void tell_status(struct zygote *zygote, uint64_t id) {
        struct zygote_message answer = {.type = ZYGOTE_EXITED, .code = INT32_MIN, .id = id};
        const struct child *child = children_find(&zygote->children, id);

        if (child != NULL) {
                answer.code = child->code;
                answer.cpu_ns = child->cpu_ns;
        }
        (void)helper_send(HELPER_SOCKET_FD, &answer, sizeof(answer), -1);
}

static void serve(struct zygote *zygote) {
        struct zygote_message request;
        struct received_fds fds = {.count = 0};
        int r = helper_receive(HELPER_SOCKET_FD, &request, sizeof(request), &fds);

        if (r < 0) /* the server is gone, and with this process every session goes */
                _exit(r == -EPIPE ? 0 : 1);
        /* First: who asks of a death that he has seen gets it told. */
        children_reap(&zygote->children);
        switch (request.type) {
        case ZYGOTE_SPAWN:
                spawn(zygote, &request, &fds);
                break;
        case ZYGOTE_PERMIT:
                permit(zygote, request.id);
                break;
        case ZYGOTE_ADOPT:
                adopt(zygote, &request);
                break;
        case ZYGOTE_RELEASE:
                children_release(&zygote->children, request.id);
                break;
        case ZYGOTE_STATUS:
                tell_status(zygote, request.id);
                break;
        default:
                answer_failure(request.id, -ENOSYS, "unknown request", "reinstall the program");
        }
        received_fds_close(&fds);
}

static _Noreturn void serve_for_ever(struct zygote *zygote) {
        for (;;) {
                struct pollfd fds[2] = {{.fd = HELPER_SOCKET_FD, .events = POLLIN},
                                        {.fd = zygote->deaths, .events = POLLIN}};
                struct signalfd_siginfo info;

                if (poll(fds, 2, -1) < 0 && errno != EINTR)
                        _exit(1);
                if (fds[1].revents != 0) {
                        while (read(zygote->deaths, &info, sizeof(info)) > 0)
                                ;
                        children_reap(&zygote->children);
                }
                if (fds[0].revents != 0)
                        serve(zygote);
        }
}

int zygote_main(void) {
        static struct zygote zygote = {.deaths = -1};
        struct sbx_error err = {0};
        int r = come_up(&zygote, &err);

        if (r == 0)
                serve_for_ever(&zygote);
        fail(&err);
        return 1;
}
