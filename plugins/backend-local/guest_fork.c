/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of running guests: the server asks the guest's process for a copy of itself (zygote_copy.c, and in the guest
 * sbx_guest/copies.py), and finds out which process that is. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "guest_copy.h"
#include "syscalls.h"
#include "util.h"

#define KERNEL_BYTES (UINT64_C(2) << 20) /* page tables and the like of a process: they are counted, too */

static bool is_frozen_wanted(const struct sbx_guest_spec *spec) {
        return spec->struct_size >= offsetof(struct sbx_guest_spec, flags) + sizeof(spec->flags) &&
               (spec->flags & SBX_GUEST_FROZEN) != 0;
}

/* ---- a copy ---- */

struct copying {
        struct local_guest *guest, *copy;
        struct streams streams;
        int deaths[2];
        struct copy_answer answer;
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
        uint64_t most = copying->guest->limits.memory_bytes, kept_bytes = guest_copy_memory(copying->guest, false);
        int r;

        if (most > 0 && kept_bytes > most)
                kept_bytes = most;
        pthread_mutex_lock(&family->lock);
        copy->kept_bytes = kept_bytes + KERNEL_BYTES + GUEST_COPY_FILES_BYTES;
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
                return guest_copy_give_up(guest, -ESRCH, err);
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
        int r = guest_copy_ask(guest, fds, "", GUEST_COPY_PATIENCE_MS, call, &copying->answer, err);

        for (int i = 0; i < STREAM_COUNT; i++)
                close_fd(&copying->streams.theirs[i]);
        close_fd(&copying->deaths[1]);
        if (r < 0)
                return r;
        if (copying->answer.kind != GUEST_COPY_DONE)
                return guest_copy_refused(&copying->answer, err);
        return first ? follow(copying, err) : 0;
}

/* The copy's own answer: the original goes on, whatever it is. */
static int meet(struct copying *copying, const struct sbx_call *call, struct sbx_error *err) {
        struct local_guest *copy = copying->copy;
        struct family *family = copy->family;
        int pidfd, r = guest_copy_await(copying->streams.ours[STREAM_COPIES], GUEST_COPY_PATIENCE_MS, call,
                                        &copying->answer);

        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "the copy of the session's process did not answer: %s",
                                     r == -ECANCELED ? "the call was cancelled" : strerror(-r));
        if (copying->answer.kind != GUEST_COPY_DONE)
                return guest_copy_refused(&copying->answer, err);
        pidfd = family_open_process(family, copying->answer.pid);
        if (pidfd < 0)
                return sbx_error_set(err, -EIO, LOCAL_ORIGIN, NULL, "the copy of the session's process has ended");
        pthread_mutex_lock(&family->lock);
        atomic_store(&copy->pidfd, pidfd);
        copy->inner_pid = copying->answer.inner_pid;
        if (copying->answer.bytes < GUEST_COPY_FILES_BYTES)
                copy->kept_bytes -= GUEST_COPY_FILES_BYTES - copying->answer.bytes;
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
        int r = guest_copy_begin(guest, err);

        if (r < 0)
                return r;
        if (!is_frozen_wanted(spec)) {
                r = local_guest_branch(guest, spec, call, ret_guest, err);
                guest_copy_end(guest);
                return r;
        }
        copying.copy = family_add(guest->family);
        if (copying.copy != NULL) {
                pthread_mutex_lock(&guest->family->lock);
                copying.copy->limits = limits_for_spec(local, &spec->limits);
                pthread_mutex_unlock(&guest->family->lock);
                r = make_copy(&copying, call, ret_guest, err);
        } else
                r = sbx_error_set(err, -ENOMEM, LOCAL_ORIGIN, NULL, "out of memory");
        guest_copy_end(guest);
        if (r < 0 && copying.copy != NULL)
                drop(copying.copy);
        return r;
}
