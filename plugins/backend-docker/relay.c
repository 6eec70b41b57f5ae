/* SPDX-License-Identifier: Apache-2.0 */
/* The relay's thread, and what others ask of its lines. */
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "relay_internal.h"

#define ORIGIN "backend-docker"
#define EVENTS_MAX 32

void relay_wake(struct relay *relay) {
        const uint64_t one = 1;

        /* It can only be full, and then the thread wakes anyway. */
        if (write(relay->wake_fd, &one, sizeof(one)) < 0)
                return;
}

/* ---- the thread ---- */

static void tell_end(struct relay *relay, struct relay_line *line) {
        bool idle = !atomic_load(&line->dead);

        line->tell = false;
        pthread_mutex_unlock(&relay->lock);
        line->end.ended(line->end.data, idle);
        pthread_mutex_lock(&relay->lock);
}

/* Lines are taken out by this thread alone, so that what epoll told of a line is never about one that is gone. */
static void look_at_lines(struct relay *relay) {
        struct relay_line **link = &relay->lines;

        relay->look = false;
        while (*link != NULL) {
                struct relay_line *line = *link;

                if (line->again && !atomic_load(&line->dead))
                        relay_line_pump(line);
                if (line->tell && !line->released) {
                        tell_end(relay, line);
                        link = &relay->lines; /* others may have come to its front */
                        continue;
                }
                if (!line->released) {
                        link = &line->next;
                        continue;
                }
                relay_line_die(line);
                *link = line->next;
                line->gone = true;
                pthread_cond_broadcast(&relay->changed);
        }
}

static void drain_wakes(struct relay *relay) {
        uint64_t count;

        /* Non-blocking: nothing to read is as good. */
        if (read(relay->wake_fd, &count, sizeof(count)) < 0)
                return;
}

static void *relay_thread(void *data) {
        struct epoll_event events[EVENTS_MAX];
        struct relay *relay = data;

        pthread_mutex_lock(&relay->lock);
        while (!relay->stop) {
                int count, timeout;

                if (relay->look)
                        look_at_lines(relay);
                timeout = relay->look ? 0 : -1;
                pthread_mutex_unlock(&relay->lock);
                count = epoll_wait(relay->epoll_fd, events, EVENTS_MAX, timeout);
                pthread_mutex_lock(&relay->lock);
                for (int i = 0; i < count; i++) {
                        struct relay_line *line = events[i].data.ptr;

                        if (line == NULL)
                                drain_wakes(relay);
                        else if (!atomic_load(&line->dead))
                                relay_line_pump(line);
                }
        }
        pthread_mutex_unlock(&relay->lock);
        return NULL;
}

/* Signals are the program's business. */
static int start_thread(struct relay *relay) {
        sigset_t all, before;
        int r;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = -pthread_create(&relay->thread, NULL, relay_thread, relay);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return r;
}

static void destroy(struct relay *relay) {
        close_fd(&relay->epoll_fd);
        close_fd(&relay->wake_fd);
        pthread_mutex_destroy(&relay->lock);
        pthread_cond_destroy(&relay->changed);
        free(relay);
}

int relay_new(struct relay **ret_relay, struct sbx_error *err) {
        struct relay *relay = calloc(1, sizeof(*relay));
        struct epoll_event event = {.events = EPOLLIN};
        int r = 0;

        if (relay == NULL)
                return sbx_error_set(err, -ENOMEM, ORIGIN, NULL, "out of memory");
        pthread_mutex_init(&relay->lock, NULL);
        pthread_cond_init(&relay->changed, NULL);
        relay->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        relay->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (relay->epoll_fd < 0 || relay->wake_fd < 0 ||
            epoll_ctl(relay->epoll_fd, EPOLL_CTL_ADD, relay->wake_fd, &event) < 0)
                r = -errno;
        if (r == 0)
                r = start_thread(relay);
        if (r < 0) {
                destroy(relay);
                return sbx_error_set(err, r, ORIGIN,
                                     "Raise the limits of open files and threads (ulimit -n, ulimit -u).",
                                     "can't start the relay: %s", strerror(-r));
        }
        *ret_relay = relay;
        return 0;
}

void relay_free(struct relay *relay) {
        if (relay == NULL)
                return;
        pthread_mutex_lock(&relay->lock);
        relay->stop = true;
        relay_wake(relay);
        pthread_mutex_unlock(&relay->lock);
        pthread_join(relay->thread, NULL);
        destroy(relay);
}

/* ---- lines ---- */

static void line_destroy(struct relay_line *line) {
        close_fd(&line->control_fd);
        close_fd(&line->exit_fd);
        pending_free(&line->in);
        pending_free(&line->out);
        tail_clear(&line->words);
        free(line);
}

static int line_prepare(struct relay_line *line, struct sbx_bytes first, int *ret_control_fd, int *ret_exit_fd) {
        int pair[2];

        line->first_left = first.size;
        if (pending_add(&line->out, first) < 0)
                return -ENOMEM;
        line->exit_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (line->exit_fd < 0)
                return -errno;
        *ret_exit_fd = fcntl(line->exit_fd, F_DUPFD_CLOEXEC, 0);
        if (*ret_exit_fd < 0)
                return -errno;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return -errno;
        line->control_fd = pair[0];
        *ret_control_fd = pair[1];
        return 0;
}

int relay_line_new(struct relay *relay, struct engine_stream *stream, struct sbx_bytes first,
                   const struct relay_end *end, struct relay_line **ret_line, int *ret_control_fd, int *ret_exit_fd,
                   struct sbx_error *err) {
        struct relay_line *line = calloc(1, sizeof(*line));
        _cleanup_close_ int control_fd = -1, exit_fd = -1;
        int r;

        if (line == NULL)
                return sbx_error_set(err, -ENOMEM, ORIGIN, NULL, "out of memory");
        *line = (struct relay_line){.relay = relay, .end = *end, .control_fd = -1, .exit_fd = -1};
        r = line_prepare(line, first, &control_fd, &exit_fd);
        if (r < 0) {
                line_destroy(line);
                return sbx_error_set(err, r == -EMFILE || r == -ENFILE ? -EAGAIN : r, ORIGIN,
                                     "Raise the limit of open files (ulimit -n), or lower max_sessions.",
                                     "can't make the streams of a guest: %s", strerror(-r));
        }
        *ret_control_fd = steal_fd(&control_fd);
        *ret_exit_fd = steal_fd(&exit_fd);
        pthread_mutex_lock(&relay->lock);
        line->stream = stream;
        line->next = relay->lines;
        relay->lines = line;
        relay_line_pump(line);
        if (relay->look)
                relay_wake(relay);
        pthread_mutex_unlock(&relay->lock);
        *ret_line = line;
        return 0;
}

int relay_line_resume(struct relay_line *line, struct engine_stream *stream, struct engine_stream *input,
                      struct sbx_error *err) {
        struct relay *relay = line->relay;
        DOCKER_LOCKED(&relay->lock);

        if (atomic_load(&line->dead) || line->stream != NULL)
                return sbx_error_set(err, -ESRCH, ORIGIN, NULL, "the guest ended meanwhile");
        line->stream = stream;
        line->input = input;
        line->input_lost = false;
        line->mux = (struct mux){0};
        relay_line_pump(line);
        if (relay->look)
                relay_wake(relay);
        return 0;
}

void relay_line_hold(struct relay_line *line, bool hold) {
        struct relay *relay = line->relay;
        DOCKER_LOCKED(&relay->lock);

        line->held = hold;
        if (!atomic_load(&line->dead))
                relay_line_pump(line);
        if (relay->look)
                relay_wake(relay);
}

void relay_line_renew(struct relay_line *line) {
        struct relay *relay = line->relay;
        DOCKER_LOCKED(&relay->lock);

        if (line->input == NULL || atomic_load(&line->dead))
                return;
        line->input_lost = true;
        relay_line_pump(line);
        if (relay->look)
                relay_wake(relay);
}

void relay_line_kill(struct relay_line *line) {
        DOCKER_LOCKED(&line->relay->lock);

        relay_line_die(line);
}

bool relay_line_dead(const struct relay_line *line) {
        return atomic_load(&line->dead);
}

void relay_line_words(struct relay_line *line, char *text, size_t size) {
        DOCKER_LOCKED(&line->relay->lock);

        tail_text(&line->words, text, size);
}

void relay_line_free(struct relay_line *line) {
        struct relay *relay;

        if (line == NULL)
                return;
        relay = line->relay;
        pthread_mutex_lock(&relay->lock);
        line->released = relay->look = true;
        relay_wake(relay);
        while (!line->gone)
                pthread_cond_wait(&relay->changed, &relay->lock);
        pthread_mutex_unlock(&relay->lock);
        line_destroy(line);
}
