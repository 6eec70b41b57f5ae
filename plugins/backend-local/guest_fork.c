/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of running guests: the server asks the guest's process for a copy of itself (zygote_copy.c, and in the guest
 * sbx_guest/copies.py), and finds out which process that is. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "family.h"
#include "syscalls.h"
#include "util.h"

#define ANSWER_MIN_MS 2000 /* for the worker, whatever the call's deadline: a guest that is late is ended */
#define ANSWER_MAX_MS 10000
#define FILES_BYTES_MAX (UINT64_C(64) << 20)
#define FILES_MAX 10000
#define KERNEL_BYTES (UINT64_C(2) << 20) /* page tables and the like of a process: they are counted, too */

struct answer {
        enum guest_copy_answer kind;
        pid_t pid, inner_pid; /* as the kernel says; as the guest says */
        uint64_t bytes;
        char text[GUEST_COPY_TEXT_MAX + 1];
};

/* ---- messages ---- */

/* The guest is no longer what this side takes it for: it is ended, as any that breaks the protocol. */
static int give_up(struct local_guest *guest, int code, struct sbx_error *err) {
        family_kill(guest);
        return sbx_error_set(err, code, LOCAL_ORIGIN, NULL,
                             "the guest did not answer when it was to be copied (%s), and was "
                             "ended",
                             code == -ECANCELED ? "the call was cancelled" : strerror(-code));
}

static int send_descriptors(int socket_fd, const int fds[GUEST_COPY_FDS]) {
        struct iovec iov = {"c", 1};
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int) * GUEST_COPY_FDS)];
        } control = {0};
        struct msghdr message = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int) * GUEST_COPY_FDS);
        memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * GUEST_COPY_FDS);
        return sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 0 : -errno;
}

/* The frame `copy`; it is small, and nothing else is under way: it fits, or the guest does not read. */
static int send_frame(const struct local_guest *guest) {
        bool own_workspace = guest->family->local->options.workspace == JAIL_WORKSPACE_NONE;
        char frame[512];
        int size = snprintf(frame + 5, sizeof(frame) - 5,
                            "{\"directories\":[\"/tmp\",\"/dev/shm\"%s],\"max_bytes\":%llu,\"max_files\":%d}",
                            own_workspace ? ",\"/workspace\"" : "", (unsigned long long)FILES_BYTES_MAX, FILES_MAX);

        for (int i = 0; i < 4; i++)
                frame[i] = (char)((unsigned)size >> (8 * i));
        frame[4] = FRAME_COPY;
        return send(guest->control, frame, (size_t)size + 5, MSG_NOSIGNAL | MSG_DONTWAIT) == size + 5 ? 0 : -EIO;
}

static uint64_t number(const unsigned char *bytes, int size) {
        uint64_t value = 0;

        while (size-- > 0)
                value = value << 8 | bytes[size];
        return value;
}

static pid_t sender_of(struct msghdr *message) {
        struct ucred sender = {0};

        for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c))
                if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS &&
                    c->cmsg_len == CMSG_LEN(sizeof(sender)))
                        memcpy(&sender, CMSG_DATA(c), sizeof(sender));
        return sender.pid;
}

/* Foreign code may have written it. Descriptors that come along have no room, and are closed by the kernel. */
static int receive_answer(int socket_fd, struct answer *answer) {
        unsigned char bytes[GUEST_COPY_HEADER + GUEST_COPY_TEXT_MAX];
        struct iovec iov = {bytes, sizeof(bytes)};
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(struct ucred))];
        } control;
        struct msghdr message = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
        ssize_t n = recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

        if (n == 0)
                return -ESRCH;
        if (n < GUEST_COPY_HEADER)
                return n < 0 ? -errno : -EBADMSG;
        *answer = (struct answer){.kind = (enum guest_copy_answer)bytes[0],
                                  .pid = sender_of(&message),
                                  .inner_pid = (pid_t)number(bytes + 1, 4),
                                  .bytes = number(bytes + 5, 8)};
        for (ssize_t i = GUEST_COPY_HEADER; i < n; i++) /* for a message: no control characters */
                answer->text[i - GUEST_COPY_HEADER] = bytes[i] < ' ' || bytes[i] > '~' ? '?' : (char)bytes[i];
        return 0;
}

static int await_answer(int socket_fd, const struct sbx_call *call, struct answer *answer) {
        int r = wait_fd(socket_fd, POLLIN, NULL, ANSWER_MIN_MS);

        if (r == -ETIMEDOUT)
                r = wait_fd(socket_fd, POLLIN, call, ANSWER_MAX_MS - ANSWER_MIN_MS);
        return r < 0 ? r : receive_answer(socket_fd, answer);
}

/* What a copy or its original says instead of having done it. */
static int refusal(const struct answer *answer, struct sbx_error *err) {
        if (answer->kind == GUEST_COPY_BUSY)
                return sbx_error_set(err, -EBUSY, LOCAL_ORIGIN, NULL, "the session can't be copied now: %s",
                                     answer->text);
        return sbx_error_set(err, -EIO, LOCAL_ORIGIN, NULL, "the session could not be copied: %s",
                             answer->kind == GUEST_COPY_FAILED ? answer->text : "its worker answers nonsense");
}

/* ---- what may be copied ---- */

static bool is_frozen_wanted(const struct sbx_guest_spec *spec) {
        return spec->struct_size >= offsetof(struct sbx_guest_spec, flags) + sizeof(spec->flags) &&
               (spec->flags & SBX_GUEST_FROZEN) != 0;
}

/* From here on the answers of the guest are the caller's. */
static int begin(struct local_guest *guest, const struct sbx_guest_spec *spec, struct sbx_error *err) {
        struct family *family = guest->family;
        int r = 0;

        if (guest->copies < 0)
                return sbx_error_set(err, -ENOTSUP, LOCAL_ORIGIN, NULL,
                                     "sessions are copied with isolation = \"namespaces\" and in Python alone");
        pthread_mutex_lock(&family->lock);
        family_hear_locked(family);
        if (guest->killed || family_is_dead(guest))
                r = sbx_error_set(err, -ESRCH, LOCAL_ORIGIN, NULL, "the guest is dead");
        else if (!is_frozen_wanted(spec)) /* they share files, and whatever else is in their namespaces */
                r = sbx_error_set(err, -ENOTSUP, LOCAL_ORIGIN, NULL,
                                  "a copy of a session's process can't run beside it, only take its place");
        guest->asked = r == 0;
        pthread_mutex_unlock(&family->lock);
        return r;
}

/* Resident memory that is the process's own. */
static uint64_t memory_of(pid_t pid) {
        unsigned long long resident = 0, shared = 0;
        char path[64], text[256];
        _cleanup_close_ int fd = -1;
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return 0;
        text[n] = '\0';
        if (sscanf(text, "%*u %llu %llu", &resident, &shared) != 2 || shared > resident)
                return 0;
        return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- a copy ---- */

struct copying {
        struct local_guest *guest, *copy;
        struct streams streams;
        int deaths[2];
        struct answer answer;
};

static void end_copying(struct copying *copying) {
        streams_close(&copying->streams);
        close_fd(&copying->deaths[0]);
        close_fd(&copying->deaths[1]);
}

/* The first copy: looks at what the family is, while its process 1 certainly lives. */
static int look_at_family(struct family *family, struct sbx_error *err) {
        pid_t pid = family_pid_of(family->first_pidfd);
        _cleanup_close_ int fd = -1;
        char path[64], text[16] = "";
        int r;

        snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
        r = stat(path, &family->namespace) < 0 ? -errno : 0;
        snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
                family->oom_score = (int)strtol(text, NULL, 10);
        if (r == 0 && sys_pidfd_send_signal(family->first_pidfd, 0) < 0)
                r = -errno;
        return r < 0 ? sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "can't tell the guest's processes from others: %s",
                                     strerror(-r))
                     : 0;
}

static int make_room(struct copying *copying, struct sbx_error *err) {
        struct local_guest *copy = copying->copy;
        struct family *family = copy->family;
        uint64_t most = copying->guest->limits.memory_bytes,
                 kept_bytes = memory_of(family_pid_of(family_pidfd(copying->guest)));
        int r;

        if (most > 0 && kept_bytes > most)
                kept_bytes = most;
        pthread_mutex_lock(&family->lock);
        copy->kept_bytes = kept_bytes + KERNEL_BYTES + FILES_BYTES_MAX;
        r = atomic_load(&copying->guest->pidfd) == FIRST_PROCESS ? look_at_family(family, err) : 0;
        if (r == 0)
                r = family_limit_locked(family, err);
        pthread_mutex_unlock(&family->lock);
        return r;
}

/* The guest is another process from here on. */
static int follow(struct copying *copying, struct sbx_error *err) {
        struct local_guest *guest = copying->guest;
        struct family *family = guest->family;
        struct epoll_event event = {.events = EPOLLIN};
        int pidfd = family_open_process(family, copying->answer.pid);

        if (pidfd < 0 || epoll_ctl(guest->exit_poll, EPOLL_CTL_ADD, pidfd, &event) < 0) {
                close_fd(&pidfd);
                return give_up(guest, -ESRCH, err);
        }
        pthread_mutex_lock(&family->lock);
        family->deaths = steal_fd(&copying->deaths[0]);
        guest->inner_pid = copying->answer.inner_pid;
        atomic_store(&guest->pidfd, pidfd);
        epoll_ctl(guest->exit_poll, EPOLL_CTL_DEL, family->first_pidfd, NULL);
        family_rank_locked(guest);
        pthread_mutex_unlock(&family->lock);
        return 0;
}

static int ask(struct copying *copying, const struct sbx_call *call, struct sbx_error *err) {
        struct local_guest *guest = copying->guest;
        const int *theirs = copying->streams.theirs;
        bool first = atomic_load(&guest->pidfd) == FIRST_PROCESS;
        const int fds[GUEST_COPY_FDS] = {theirs[STREAM_CONTROL], theirs[STREAM_STDOUT], theirs[STREAM_STDERR],
                                         theirs[STREAM_COPIES], first ? copying->deaths[1] : theirs[STREAM_STDERR]};
        int r = send_descriptors(guest->copies, fds);

        for (int i = 0; i < STREAM_COUNT; i++)
                close_fd(&copying->streams.theirs[i]);
        close_fd(&copying->deaths[1]);
        if (r == 0)
                r = send_frame(guest);
        if (r == 0)
                r = await_answer(guest->copies, call, &copying->answer);
        if (r < 0)
                return give_up(guest, r, err);
        if (copying->answer.kind != GUEST_COPY_DONE)
                return refusal(&copying->answer, err);
        return first ? follow(copying, err) : 0;
}

/* The copy's own answer: the original goes on, whatever it is. */
static int meet(struct copying *copying, const struct sbx_call *call, struct sbx_error *err) {
        struct local_guest *copy = copying->copy;
        struct family *family = copy->family;
        int pidfd, r = await_answer(copying->streams.ours[STREAM_COPIES], call, &copying->answer);

        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "the copy of the session's process did not answer: %s",
                                     r == -ECANCELED ? "the call was cancelled" : strerror(-r));
        if (copying->answer.kind != GUEST_COPY_DONE)
                return refusal(&copying->answer, err);
        pidfd = family_open_process(family, copying->answer.pid);
        if (pidfd < 0)
                return sbx_error_set(err, -EIO, LOCAL_ORIGIN, NULL, "the copy of the session's process has ended");
        pthread_mutex_lock(&family->lock);
        atomic_store(&copy->pidfd, pidfd);
        copy->inner_pid = copying->answer.inner_pid;
        if (copying->answer.bytes < FILES_BYTES_MAX)
                copy->kept_bytes -= FILES_BYTES_MAX - copying->answer.bytes;
        family_rank_locked(copy);
        (void)family_limit_locked(family, NULL); /* it needs less than it might have */
        pthread_mutex_unlock(&family->lock);
        return 0;
}

static int make_copy(struct copying *copying, const struct sbx_call *call, struct sbx_guest *ret_guest,
                     struct sbx_error *err) {
        int r = make_room(copying, err);

        if (r == 0)
                r = streams_open(&copying->streams, true, err);
        if (r == 0 && pipe2(copying->deaths, O_CLOEXEC | O_NONBLOCK) < 0)
                r = sbx_error_set(err, -EAGAIN, LOCAL_ORIGIN, "raise the limit of open files (ulimit -n)", "pipe: %s",
                                  strerror(errno));
        if (r == 0)
                r = ask(copying, call, err);
        if (r == 0)
                r = meet(copying, call, err);
        return r == 0 ? streams_hand_over(&copying->streams, copying->copy, true, ret_guest, err) : r;
}

static void end(struct local_guest *guest) {
        pthread_mutex_lock(&guest->family->lock);
        guest->asked = false;
        pthread_mutex_unlock(&guest->family->lock);
}

/* One that came to nothing: the family goes on as it was. */
static void drop(struct local_guest *copy) {
        struct family *family = copy->family;

        pthread_mutex_lock(&family->lock);
        if (atomic_load(&copy->pidfd) >= 0)
                sys_pidfd_send_signal(family_pidfd(copy), SIGKILL);
        copy->killed = true;
        (void)family_limit_locked(family, NULL);
        pthread_mutex_unlock(&family->lock);
        family_leave(copy);
}

int local_guest_fork(void *instance, void *handle, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                     struct sbx_guest *ret_guest, struct sbx_error *err) {
        struct local *local = instance;
        struct local_guest *guest = handle;
        __attribute__((cleanup(end_copying))) struct copying copying = {
                .guest = guest, .streams = NO_STREAMS, .deaths = {-1, -1}};
        int r = begin(guest, spec, err);

        if (r < 0)
                return r;
        copying.copy = family_add(guest->family);
        if (copying.copy != NULL) {
                pthread_mutex_lock(&guest->family->lock);
                copying.copy->limits = limits_for_spec(local, &spec->limits);
                pthread_mutex_unlock(&guest->family->lock);
                r = make_copy(&copying, call, ret_guest, err);
        } else
                r = sbx_error_set(err, -ENOMEM, LOCAL_ORIGIN, NULL, "out of memory");
        end(guest);
        if (r < 0 && copying.copy != NULL)
                drop(copying.copy);
        return r;
}
