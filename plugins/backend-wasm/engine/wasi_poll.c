/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting: poll_oneoff, which sleeps and looks at descriptors, and what the engine itself waits with. An interrupt ends
 * every wait, also one that comes just before it. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "host.h"
#include "vfs.h"
#include "wasi.h"

#define NS_PER_S INT64_C(1000000000)
#define SUBSCRIPTIONS_MAX 1024
#define STREAMS_MAX 8 /* descriptors of the host that a guest can have; ppoll takes no more than RLIMIT_NOFILE */
#define NO_STREAM STREAMS_MAX

struct subscription { /* as <wasi/api.h> */
        uint64_t user_data;
        uint8_t type, padding0[7];
        union {
                struct {
                        uint32_t id, padding;
                        uint64_t timeout_ns, precision_ns;
                        uint16_t flags;
                        uint8_t padding1[6];
                } clock;
                uint32_t fd;
        };
};
struct event {
        uint64_t user_data;
        uint16_t error;
        uint8_t type, padding0[5];
        uint64_t size;
        uint16_t flags;
        uint8_t padding1[6];
};
_Static_assert(sizeof(struct subscription) == 48 && sizeof(struct event) == 32, "as <wasi/api.h>");

static int64_t time_left(struct wasm_instance *instance, uint64_t begin_ns, int64_t timeout_ns) {
        int64_t passed = (int64_t)(wasi_now_ns(instance, WASI_CLOCK_MONOTONIC) - begin_ns);

        if (timeout_ns < 0)
                return -1;
        if (instance->host->baking)
                return 0; /* its clock stands still */
        return passed < timeout_ns ? timeout_ns - passed : 0;
}

/* How many are ready, 0 when the time is over, -EINTR: the guest is to take notice of an interrupt. Interrupts are let
 * through only while ppoll waits: between the check and the wait none gets lost. */
static int wait_for(struct wasm_instance *instance, struct pollfd *fds, nfds_t count, int64_t timeout_ns) {
        uint64_t begin = wasi_now_ns(instance, WASI_CLOCK_MONOTONIC);
        sigset_t blocked, before, during;
        int r = -EINTR;

        sigemptyset(&blocked);
        sigaddset(&blocked, SIGINT);
        sigprocmask(SIG_BLOCK, &blocked, &before);
        during = before;
        sigdelset(&during, SIGINT);
        while (r == -EINTR && !wasm_interrupted(instance)) {
                int64_t left = time_left(instance, begin, timeout_ns);
                struct timespec timeout = {.tv_sec = left / NS_PER_S, .tv_nsec = left % NS_PER_S};

                r = ppoll(fds, count, left < 0 ? NULL : &timeout, &during);
                if (r < 0)
                        r = -errno;
        }
        sigprocmask(SIG_SETMASK, &before, NULL);
        return r;
}

uint32_t wasi_wait(struct wasm_instance *instance, int host_fd, short events, int64_t timeout_ns) {
        struct pollfd fd = {.fd = host_fd, .events = events};
        int r = wait_for(instance, &fd, 1, timeout_ns);

        if (r < 0)
                return r == -EINTR ? WASI_EINTR : WASI_EIO;
        return r > 0 ? WASI_SUCCESS : WASI_ETIMEDOUT;
}

/* How long until a clock's subscription fires; 0: it has. */
static int64_t clock_left(struct wasm_instance *instance, const struct subscription *subscription) {
        uint64_t left = subscription->clock.timeout_ns;

        if (subscription->clock.flags & WASI_POLL_ABSOLUTE) {
                uint64_t now = wasi_now_ns(instance, subscription->clock.id);

                left = left > now ? left - now : 0;
        }
        return left > INT64_MAX ? INT64_MAX : (int64_t)left;
}

struct poll {
        struct wasm_instance *instance;
        uint8_t *events; /* in guest memory; they may lie upon the subscriptions there */
        uint32_t event_count;
        int64_t timeout_ns; /* the clocks' soonest; < 0: there are none */
        bool ready;         /* something is that no wait is needed for */
        struct pollfd streams[STREAMS_MAX];
        uint32_t stream_count;
        uint8_t stream_of[SUBSCRIPTIONS_MAX]; /* NO_STREAM: there is none */
        struct subscription subscriptions[SUBSCRIPTIONS_MAX];
};

static short events_of(const struct subscription *subscription) {
        return subscription->type == WASI_EVENT_FD_READ ? POLLIN : POLLOUT;
}

static void put_event(struct poll *poll, const struct subscription *subscription, uint32_t error, bool hangup) {
        struct event event = {.user_data = subscription->user_data,
                              .error = (uint16_t)error,
                              .type = subscription->type,
                              .flags = hangup ? WASI_POLL_HANGUP : 0};

        if (subscription->type != WASI_EVENT_CLOCK && error == WASI_SUCCESS)
                event.size = 1;
        memcpy(poll->events + (size_t)poll->event_count++ * sizeof(event), &event, sizeof(event));
}

/* Subscriptions of one stream share its place. */
static uint32_t add_stream(struct poll *poll, uint32_t index, int host_fd, short events) {
        uint32_t i = 0;

        while (i < poll->stream_count && poll->streams[i].fd != host_fd)
                i++;
        if (i == STREAMS_MAX)
                return WASI_ENOTSUP;
        if (i == poll->stream_count)
                poll->streams[poll->stream_count++] = (struct pollfd){.fd = host_fd};
        poll->streams[i].events |= events;
        poll->stream_of[index] = (uint8_t)i;
        return WASI_SUCCESS;
}

/* Before the wait: how long it lasts, and for which descriptors of the host. */
static uint32_t look_at(struct poll *poll, uint32_t index) {
        const struct subscription *subscription = &poll->subscriptions[index];
        int64_t left;
        int host_fd;

        poll->stream_of[index] = NO_STREAM;
        switch (subscription->type) {
        case WASI_EVENT_CLOCK:
                if (subscription->clock.id > WASI_CLOCK_MONOTONIC)
                        return WASI_ENOTSUP;
                left = clock_left(poll->instance, subscription);
                if (poll->timeout_ns < 0 || left < poll->timeout_ns)
                        poll->timeout_ns = left;
                return WASI_SUCCESS;
        case WASI_EVENT_FD_READ:
        case WASI_EVENT_FD_WRITE:
                if (vfs_host_fd(poll->instance->host->vfs, subscription->fd, &host_fd) == WASI_SUCCESS && host_fd >= 0)
                        return add_stream(poll, index, host_fd, events_of(subscription));
                poll->ready = true;
                return WASI_SUCCESS;
        default:
                return WASI_EINVAL;
        }
}

/* After the wait. */
static void tell_of(struct poll *poll, uint32_t index, int64_t passed_ns) {
        const struct subscription *subscription = &poll->subscriptions[index];
        uint32_t stream = poll->stream_of[index], error;
        short happened;
        int host_fd;

        if (subscription->type == WASI_EVENT_CLOCK) {
                bool absolute = subscription->clock.flags & WASI_POLL_ABSOLUTE;

                if (poll->instance->host->baking || (absolute ? clock_left(poll->instance, subscription) == 0
                                                              : clock_left(poll->instance, subscription) <= passed_ns))
                        put_event(poll, subscription, WASI_SUCCESS, false);
                return;
        }
        error = vfs_host_fd(poll->instance->host->vfs, subscription->fd, &host_fd);
        happened = stream == NO_STREAM ? 0 : poll->streams[stream].revents;
        happened &= (short)(events_of(subscription) | POLLERR | POLLHUP | POLLNVAL);
        if (error != WASI_SUCCESS || stream == NO_STREAM || happened != 0)
                put_event(poll, subscription, error, (happened & POLLHUP) != 0);
}

uint32_t wasi_poll_oneoff(struct wasm_instance *instance, uint32_t subscriptions, uint32_t events, uint32_t count,
                          uint32_t ret_count) {
        struct poll poll; /* large, and filled as far as it is used */
        uint64_t began = wasi_now_ns(instance, WASI_CLOCK_MONOTONIC);
        const void *from = wasm_range(instance, subscriptions, (uint64_t)count * sizeof(struct subscription));
        uint8_t *ret = wasm_range(instance, ret_count, sizeof(poll.event_count));

        if (count == 0 || count > SUBSCRIPTIONS_MAX)
                return WASI_EINVAL;
        poll.instance = instance;
        poll.events = wasm_range(instance, events, (uint64_t)count * sizeof(struct event));
        poll.event_count = poll.stream_count = 0;
        poll.timeout_ns = -1;
        poll.ready = false;
        if (from == NULL || poll.events == NULL || ret == NULL)
                return WASI_EFAULT;
        memcpy(poll.subscriptions, from, count * sizeof(struct subscription));
        for (uint32_t i = 0; i < count; i++) {
                uint32_t error = look_at(&poll, i);

                if (error != WASI_SUCCESS)
                        return error;
        }
        do {
                int r = wait_for(instance, poll.streams, poll.stream_count, poll.ready ? 0 : poll.timeout_ns);

                if (r < 0)
                        return r == -EINTR ? WASI_EINTR : WASI_EIO;
                for (uint32_t i = 0; i < count; i++)
                        tell_of(&poll, i, (int64_t)(wasi_now_ns(instance, WASI_CLOCK_MONOTONIC) - began));
                poll.timeout_ns = poll.timeout_ns < 0 ? -1 : NS_PER_S / 1000; /* the clock was set back: once more */
        } while (poll.event_count == 0);
        memcpy(ret, &poll.event_count, sizeof(poll.event_count));
        return WASI_SUCCESS;
}
