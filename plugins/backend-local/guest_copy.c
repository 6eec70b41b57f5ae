/* SPDX-License-Identifier: Apache-2.0 */
#include "guest_copy.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "util.h"

#define ANSWER_MORE_MS 8000
#define FILES_MAX 10000

int guest_copy_begin(struct local_guest *guest, struct sbx_error *err) {
        struct family *family = guest->family;
        int r = 0;

        if (guest->copies < 0)
                return sbx_error_set(err, -ENOTSUP, LOCAL_ORIGIN, NULL,
                                     "sessions are copied with isolation = \"namespaces\" and in Python alone");
        pthread_mutex_lock(&family->lock);
        family_hear_locked(family);
        if (guest->killed || family_is_dead(guest))
                r = sbx_error_set(err, -ESRCH, LOCAL_ORIGIN, NULL, "the guest is dead");
        guest->asked = r == 0;
        pthread_mutex_unlock(&family->lock);
        return r;
}

void guest_copy_end(struct local_guest *guest) {
        pthread_mutex_lock(&guest->family->lock);
        guest->asked = false;
        pthread_mutex_unlock(&guest->family->lock);
}

int guest_copy_give_up(struct local_guest *guest, int code, struct sbx_error *err) {
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
static int send_frame(const struct local_guest *guest, const char *more) {
        bool own_workspace = guest->family->local->options.workspace == JAIL_WORKSPACE_NONE;
        char frame[512];
        int size = snprintf(frame + 5, sizeof(frame) - 5,
                            "{\"directories\":[\"/tmp\",\"/dev/shm\"%s],\"max_bytes\":%llu,\"max_files\":%d%s}",
                            own_workspace ? ",\"/workspace\"" : "", (unsigned long long)GUEST_COPY_FILES_BYTES,
                            FILES_MAX, more);

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
static int receive_answer(int socket_fd, struct copy_answer *answer) {
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
        *answer = (struct copy_answer){.kind = (enum guest_copy_answer)bytes[0],
                                       .pid = sender_of(&message),
                                       .inner_pid = (pid_t)number(bytes + 1, 4),
                                       .bytes = number(bytes + 5, 8)};
        for (ssize_t i = GUEST_COPY_HEADER; i < n; i++) /* for a message: no control characters */
                answer->text[i - GUEST_COPY_HEADER] = bytes[i] < ' ' || bytes[i] > '~' ? '?' : (char)bytes[i];
        return 0;
}

int guest_copy_await(int socket_fd, int patience_ms, const struct sbx_call *call, struct copy_answer *answer) {
        int r = wait_fd(socket_fd, POLLIN, NULL, patience_ms);

        if (r == -ETIMEDOUT)
                r = wait_fd(socket_fd, POLLIN, call, ANSWER_MORE_MS);
        return r < 0 ? r : receive_answer(socket_fd, answer);
}

int guest_copy_refused(const struct copy_answer *answer, struct sbx_error *err) {
        if (answer->kind == GUEST_COPY_BUSY)
                return sbx_error_set(err, -EBUSY, LOCAL_ORIGIN, NULL, "the session can't be copied now: %s",
                                     answer->text);
        return sbx_error_set(err, -EIO, LOCAL_ORIGIN, NULL, "the session could not be copied: %s",
                             answer->kind == GUEST_COPY_FAILED ? answer->text : "its worker answers nonsense");
}

uint64_t guest_copy_memory(const struct local_guest *guest, bool with_files) {
        unsigned long long resident = 0, shared = 0;
        char path[64], text[256];
        _cleanup_close_ int fd = -1;
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/%d/statm", (int)family_pid_of(family_pidfd(guest)));
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return 0;
        text[n] = '\0';
        if (sscanf(text, "%*u %llu %llu", &resident, &shared) != 2 || shared > resident)
                return 0;
        return (resident - (with_files ? 0 : shared)) * (uint64_t)sysconf(_SC_PAGESIZE);
}

int guest_copy_ask(struct local_guest *guest, const int fds[GUEST_COPY_FDS], const char *more, int patience_ms,
                   const struct sbx_call *call, struct copy_answer *ret, struct sbx_error *err) {
        int r = send_descriptors(guest->copies, fds);

        if (r == 0)
                r = send_frame(guest, more);
        if (r == 0)
                r = guest_copy_await(guest->copies, patience_ms, call, ret);
        return r < 0 ? guest_copy_give_up(guest, r, err) : 0;
}
