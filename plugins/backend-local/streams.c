/* SPDX-License-Identifier: Apache-2.0 */
/* The streams between server and guest, from their making to the core. */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "family.h"
#include "util.h"

void streams_close(struct streams *streams) {
        for (int i = 0; i < STREAM_COUNT; i++) {
                close_fd(&streams->ours[i]);
                close_fd(&streams->theirs[i]);
        }
}

static int too_many(int code, const char *what, struct sbx_error *err) {
        return sbx_error_set(err, code == EMFILE || code == ENFILE ? -EAGAIN : -code, LOCAL_ORIGIN,
                             "raise the limit of open files (ulimit -n), or lower max_sessions",
                             "can't make %s of a guest: %s", what, strerror(code));
}

static int open_pair(int stream, int pair[2]) {
        const int pass = 1;

        switch (stream) {
        case STREAM_CONTROL:
                return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
        case STREAM_COPIES:
                /* Who answers is a process that the kernel names. */
                if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                        return -1;
                return setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &pass, sizeof(pass));
        default:
                return pipe2(pair, O_CLOEXEC);
        }
}

int streams_open(struct streams *streams, bool for_copy, struct sbx_error *err) {
        for (int i = 0; i < STREAM_COUNT; i++) {
                int pair[2] = {-1, -1}, r;

                if (for_copy && i == STREAM_REPORT)
                        continue;
                r = open_pair(i, pair);
                streams->ours[i] = pair[0];
                streams->theirs[i] = pair[1];
                if (r < 0)
                        return too_many(errno, "the streams", err);
        }
        return 0;
}

/* What is readable once the guest is dead, whatever process it is then. */
static int watch(struct local_guest *guest) {
        struct epoll_event event = {.events = EPOLLIN};

        guest->exit_poll = epoll_create1(EPOLL_CLOEXEC);
        if (guest->exit_poll < 0 || epoll_ctl(guest->exit_poll, EPOLL_CTL_ADD, family_pidfd(guest), &event) < 0)
                return -errno;
        return 0;
}

int streams_hand_over(struct streams *streams, struct local_guest *guest, bool copies, struct sbx_guest *ret_guest,
                      struct sbx_error *err) {
        _cleanup_close_ int exit_fd = -1;
        int r = 0;

        if (copies) {
                r = watch(guest);
                /* Who ends another member of its family listens to this one, too. */
                pthread_mutex_lock(&guest->family->lock);
                if (r == 0 && (guest->control = fcntl(streams->ours[STREAM_CONTROL], F_DUPFD_CLOEXEC, 0)) < 0)
                        r = -errno;
                guest->copies = steal_fd(&streams->ours[STREAM_COPIES]);
                pthread_mutex_unlock(&guest->family->lock);
        }
        if (r == 0)
                exit_fd = fcntl(copies ? guest->exit_poll : family_pidfd(guest), F_DUPFD_CLOEXEC, 0);
        if (r == 0 && exit_fd < 0)
                r = -errno;
        if (r < 0)
                return too_many(-r, "descriptors", err);
        ret_guest->control_fd = steal_fd(&streams->ours[STREAM_CONTROL]);
        ret_guest->stdout_fd = steal_fd(&streams->ours[STREAM_STDOUT]);
        ret_guest->stderr_fd = steal_fd(&streams->ours[STREAM_STDERR]);
        ret_guest->exit_fd = steal_fd(&exit_fd);
        ret_guest->handle = guest;
        ret_guest->report = (struct sbx_bytes){guest->family->report, strlen(guest->family->report)};
        return 0;
}
