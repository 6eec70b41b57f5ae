/* SPDX-License-Identifier: Apache-2.0 */
/* The loop between a request and its result. */
#include "guest/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define CHUNK ((size_t)65536)
#define INPUT_KEPT_MAX ((size_t)1 << 18) /* more is given back after the request */
#define FIRST_INTERRUPT_AGAIN_NS (100 * SBX_NS_PER_MS)
#define INTERRUPT_AGAIN_NS (200 * SBX_NS_PER_MS)
#define CPU_CHECK_NS (100 * SBX_NS_PER_MS)
#define DRAIN_ROUNDS 20 /* more than the largest pipe that an ordinary user may have */

enum { POLL_CONTROL = 0, POLL_STDOUT, POLL_STDERR, POLL_EXIT, POLL_CANCEL, POLL_COUNT };

/* ---- sending ---- */

static size_t unsent(const struct sbx_exchange *exchange) {
        return exchange->head.size + exchange->blob.size - exchange->sent + exchange->reply.size;
}

/* The parts that are still to go, in order. */
static size_t fill_vector(const struct sbx_exchange *exchange, struct iovec vector[3]) {
        struct sbx_bytes parts[3] = {exchange->head, exchange->blob, sbx_buffer_bytes(&exchange->reply)};
        size_t skip = exchange->sent, count = 0;

        for (size_t i = 0; i < 3; i++) {
                size_t passed = skip < parts[i].size ? skip : parts[i].size;

                skip -= passed;
                if (parts[i].size > passed)
                        vector[count++] =
                                (struct iovec){(char *)(uintptr_t)parts[i].data + passed, parts[i].size - passed};
        }
        return count;
}

/* 1: something is to be sent; 0: nothing more. */
static int has_unsent(struct sbx_exchange *exchange, struct sbx_error *err) {
        if (unsent(exchange) > 0)
                return 1;
        return exchange->refill != NULL ? exchange->refill(exchange, err) : 0;
}

/* Sends what the socket takes now. 0 or -errno; -EPIPE when nobody reads any more. */
static int send_some(struct sbx_guest_process *guest, struct sbx_exchange *exchange, struct sbx_error *err) {
        int r;

        while ((r = has_unsent(exchange, err)) > 0) {
                size_t request = exchange->head.size + exchange->blob.size, left = request - exchange->sent, count;
                struct iovec vector[3];
                struct msghdr message = {.msg_iov = vector, .msg_iovlen = fill_vector(exchange, vector)};
                ssize_t sent = sendmsg(guest->handle.control_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

                if (sent < 0 && errno == EINTR)
                        continue;
                if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                        return 0;
                if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
                        return -EPIPE;
                if (sent < 0)
                        return sbx_error_set(err, -errno, SBX_GUEST_ORIGIN,
                                             "A backend must hand over a connected stream socket as control_fd.",
                                             "can't write to the guest: %s", SBX_ERRNO_TEXT(-errno));
                exchange->began = true;
                count = (size_t)sent < left ? (size_t)sent : left;
                exchange->sent += count;
                if ((size_t)sent > count)
                        exchange->reply_is_cut = exchange->reply.size > (size_t)sent - count;
                sbx_buffer_consume(&exchange->reply, (size_t)sent - count);
        }
        return r;
}

/* ---- output ---- */

int sbx_channel_output(struct sbx_exchange *exchange, int fd, struct sbx_bytes bytes, struct sbx_error *err) {
        const struct sbx_output_events *events = exchange->events;
        struct sbx_capture *capture;
        size_t kept;

        if (exchange->captures == NULL)
                return 0;
        capture = &exchange->captures[fd - 1];
        kept = capture->text.max - capture->text.size;
        if (capture->dropped > 0)
                kept = 0; /* what comes after a gap is not appended, even if it is short */
        if (kept > bytes.size)
                kept = bytes.size;
        capture->dropped += bytes.size - kept;
        if (kept == 0)
                return 0;
        if (sbx_buffer_append(&capture->text, bytes.data, kept) < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        if (events != NULL && events->output != NULL)
                events->output(events->data, fd, (struct sbx_bytes){bytes.data, kept});
        return 0;
}

/* One chunk. 1: more may be there; 0: nothing now; negative: no memory. At its end the descriptor is closed. */
static int read_output(struct sbx_exchange *exchange, int32_t *fd, int number, struct sbx_error *err) {
        char scratch[CHUNK];
        ssize_t size;
        int r;

        if (*fd < 0)
                return 0;
        size = read(*fd, scratch, sizeof(scratch));
        if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
                return 0;
        if (size <= 0) {
                close(*fd);
                *fd = -1;
                return 0;
        }
        r = sbx_channel_output(exchange, number, (struct sbx_bytes){scratch, (size_t)size}, err);
        return r < 0 ? r : (size_t)size == sizeof(scratch);
}

/* What is in the pipe at this moment: a thread or process of the guest that goes on writing must not keep us. */
static int drain_output(struct sbx_exchange *exchange, int32_t *fd, int number, struct sbx_error *err) {
        int r = 1;

        for (int round = 0; round < DRAIN_ROUNDS && r > 0; round++)
                r = read_output(exchange, fd, number, err);
        return r < 0 ? r : 0;
}

/* ---- frames ---- */

/* Hands over the whole frames in the input. 1: the result is among them. */
static int take_frames(struct sbx_guest_process *guest, struct sbx_exchange *exchange, struct sbx_error *err) {
        size_t used = 0;
        int r = 0;

        while (r == 0 && used < guest->input.size) {
                struct sbx_bytes rest = {guest->input.data + used, guest->input.size - used};
                struct sbx_frame frame = {0};
                size_t consumed = 0;

                if (sbx_frame_size(rest) > exchange->frame_max)
                        r = sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL,
                                          "a frame of %zu bytes; at most %zu can come here", sbx_frame_size(rest),
                                          exchange->frame_max);
                else
                        r = sbx_frame_decode(rest, &frame, &consumed, err);
                if (r <= 0)
                        break;
                r = exchange->take(exchange, &frame, err);
                used += consumed;
        }
        sbx_buffer_consume(&guest->input, used);
        return r;
}

/* 1: the result came; 0: more is needed; -EPIPE at the end of the stream. */
static int receive_some(struct sbx_guest_process *guest, struct sbx_exchange *exchange, struct sbx_error *err) {
        struct sbx_buffer *input = &guest->input;
        ssize_t size;

        if (sbx_buffer_reserve(input, CHUNK) < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        size = recv(guest->handle.control_fd, input->data + input->size, input->capacity - 1 - input->size,
                    MSG_DONTWAIT);
        if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
                return 0;
        if (size < 0) /* a Unix socket is reset when it is closed with something to be read in it */
                exchange->unread = exchange->unread || (errno == ECONNRESET && !exchange->heard);
        if (size <= 0)
                return -EPIPE;
        exchange->heard = true;
        input->size += (size_t)size;
        input->data[input->size] = '\0';
        return take_frames(guest, exchange, err);
}

/* The guest is dead or dying: what it said before counts. */
static int receive_rest(struct sbx_guest_process *guest, struct sbx_exchange *exchange, struct sbx_error *err) {
        int r = 0;

        for (int round = 0; round < 4096 && r == 0; round++) {
                size_t before = guest->input.size;

                r = receive_some(guest, exchange, err);
                if (r == 0 && guest->input.size == before)
                        break;
        }
        return r == 0 ? -EPIPE : r;
}

/* ---- limits ---- */

static void begin_stop(struct sbx_guest_process *guest, struct sbx_exchange *exchange, enum sbx_stop stop,
                       uint64_t now) {
        exchange->stop = stop;
        exchange->kill_at_ns = now + exchange->grace_ns;
        exchange->next_interrupt_ns = now + FIRST_INTERRUPT_AGAIN_NS;
        guest->ops->guest_interrupt(guest->backend->state, guest->handle.handle, NULL);
}

static bool cpu_used_up(const struct sbx_guest_process *guest, struct sbx_exchange *exchange, uint64_t now) {
        struct sbx_guest_usage usage;

        if (exchange->cpu_limit_ns == 0 || now < exchange->next_cpu_check_ns)
                return false;
        exchange->next_cpu_check_ns = now + CPU_CHECK_NS;
        sbx_guest_usage(guest, &usage);
        return usage.cpu_ns > exchange->cpu_start_ns && usage.cpu_ns - exchange->cpu_start_ns >= exchange->cpu_limit_ns;
}

/* Interrupts when a limit is reached, again and again until the grace period is over. -ETIMEDOUT then. */
static int enforce(struct sbx_guest_process *guest, struct sbx_exchange *exchange, bool cancelled) {
        uint64_t now = sbx_clock_ns();

        if (exchange->stop == SBX_STOP_NONE) {
                if (cancelled)
                        begin_stop(guest, exchange, SBX_STOP_CANCELLED, now);
                else if (exchange->deadline_ns != 0 && now >= exchange->deadline_ns)
                        begin_stop(guest, exchange, SBX_STOP_TIMEOUT, now);
                else if (cpu_used_up(guest, exchange, now))
                        begin_stop(guest, exchange, SBX_STOP_CPU, now);
                return 0;
        }
        if (now >= exchange->kill_at_ns)
                return -ETIMEDOUT;
        if (now >= exchange->next_interrupt_ns) {
                exchange->next_interrupt_ns = now + INTERRUPT_AGAIN_NS;
                guest->ops->guest_interrupt(guest->backend->state, guest->handle.handle, NULL);
        }
        return 0;
}

void sbx_channel_check(struct sbx_guest_process *guest, struct sbx_exchange *exchange) {
        struct pollfd cancel = {.fd = exchange->cancel_fd, .events = POLLIN};

        /* What is past its grace period already is left to the loop, which kills. */
        if (exchange->stop == SBX_STOP_NONE)
                (void)enforce(guest, exchange, cancel.fd >= 0 && poll(&cancel, 1, 0) > 0);
}

static void earlier(uint64_t *deadline, uint64_t other) {
        if (other != 0 && (*deadline == 0 || other < *deadline))
                *deadline = other;
}

static int wait_timeout(const struct sbx_exchange *exchange) {
        uint64_t deadline = 0;

        if (exchange->stop == SBX_STOP_NONE) {
                earlier(&deadline, exchange->deadline_ns);
                if (exchange->cpu_limit_ns != 0)
                        earlier(&deadline, exchange->next_cpu_check_ns);
        } else {
                earlier(&deadline, exchange->kill_at_ns);
                earlier(&deadline, exchange->next_interrupt_ns);
        }
        return sbx_clock_poll_ms(deadline);
}

/* ---- the loop ---- */

static int wait_events(const struct sbx_guest_process *guest, const struct sbx_exchange *exchange,
                       struct pollfd fds[POLL_COUNT], struct sbx_error *err) {
        bool stopped = exchange->stop != SBX_STOP_NONE;

        fds[POLL_CONTROL] = (struct pollfd){.fd = guest->handle.control_fd, .events = POLLIN};
        if (unsent(exchange) > 0)
                fds[POLL_CONTROL].events |= POLLOUT;
        fds[POLL_STDOUT] = (struct pollfd){.fd = guest->handle.stdout_fd, .events = POLLIN};
        fds[POLL_STDERR] = (struct pollfd){.fd = guest->handle.stderr_fd, .events = POLLIN};
        fds[POLL_EXIT] = (struct pollfd){.fd = guest->handle.exit_fd, .events = POLLIN};
        fds[POLL_CANCEL] = (struct pollfd){.fd = stopped ? -1 : exchange->cancel_fd, .events = POLLIN};
        if (poll(fds, POLL_COUNT, wait_timeout(exchange)) >= 0)
                return 0;
        if (errno != EINTR)
                return sbx_error_set(err, -errno, SBX_GUEST_ORIGIN, NULL, "can't wait for the guest: %s",
                                     SBX_ERRNO_TEXT(-errno));
        for (int i = 0; i < POLL_COUNT; i++)
                fds[i].revents = 0;
        return 0;
}

/* One round: output first, so that it is read before the result that it belongs to. */
static int serve_events(struct sbx_guest_process *guest, struct sbx_exchange *exchange, const struct pollfd *fds,
                        struct sbx_error *err) {
        int r = 0;

        if (fds[POLL_STDOUT].revents != 0)
                r = read_output(exchange, &guest->handle.stdout_fd, 1, err);
        if (r >= 0 && fds[POLL_STDERR].revents != 0)
                r = read_output(exchange, &guest->handle.stderr_fd, 2, err);
        if (r < 0)
                return r;
        r = (fds[POLL_CONTROL].revents & ~POLLOUT) != 0 ? receive_some(guest, exchange, err) : 0;
        if (r == 0)
                r = send_some(guest, exchange, err);
        if (r == -EPIPE || (r == 0 && fds[POLL_EXIT].revents != 0))
                r = receive_rest(guest, exchange, err);
        return r;
}

static int run(struct sbx_guest_process *guest, struct sbx_exchange *exchange, struct sbx_error *err) {
        struct pollfd fds[POLL_COUNT] = {0};
        int r;

        if (exchange->cpu_limit_ns != 0)
                exchange->next_cpu_check_ns = sbx_clock_ns() + CPU_CHECK_NS;
        r = send_some(guest, exchange, err);
        if (r == 0)
                r = take_frames(guest, exchange, err); /* of threads that went on since the last request */
        while (r == 0) {
                r = wait_events(guest, exchange, fds, err);
                if (r == 0)
                        r = serve_events(guest, exchange, fds, err);
                if (r == 0)
                        r = enforce(guest, exchange, fds[POLL_CANCEL].revents != 0);
        }
        if (r > 0 && exchange->reply_is_cut) /* what is sent next would be read as the rest of it */
                return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL,
                                     "a result before the answer to a call was taken");
        return r;
}

int sbx_channel_run(struct sbx_guest_process *guest, struct sbx_exchange *exchange, struct sbx_error *err) {
        int r = run(guest, exchange, err);
        int drained = drain_output(exchange, &guest->handle.stdout_fd, 1, err);

        if (drained == 0)
                drained = drain_output(exchange, &guest->handle.stderr_fd, 2, err);
        if (guest->input.capacity > INPUT_KEPT_MAX && guest->input.size == 0)
                sbx_buffer_free(&guest->input);
        if (r >= 0 && drained < 0)
                return drained;
        return r > 0 ? 0 : r;
}
