/* SPDX-License-Identifier: Apache-2.0 */
/* One line of the relay: what moves, what is watched, and how it ends. */
#include <sys/epoll.h>
#include <sys/socket.h>

#include "relay_internal.h"

#define FRAME_HEAD 5
#define FRAME_STDERR 0x83
#define ROUNDS_MAX 16 /* of one line, before others have their turn */

/* ---- what is watched ---- */

static void watch(struct relay_line *line, int fd, uint32_t *current, uint32_t wanted) {
        struct epoll_event event = {.events = wanted, .data.ptr = line};
        int operation = *current == 0 ? EPOLL_CTL_ADD : wanted == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;

        if (*current == wanted)
                return;
        /* Only memory can fail here: then the line would hang, so it ends. */
        if (epoll_ctl(line->relay->epoll_fd, operation, fd, &event) < 0 && wanted != 0)
                line->ended = line->waiting = line->again = true;
        else
                *current = wanted;
}

/* ---- the end of a line ---- */

static void drop_stream(struct relay_line *line) {
        if (line->stream == NULL)
                return;
        watch(line, engine_stream_fd(line->stream), &line->stream_events, 0);
        line->stream_events = 0;
        engine_stream_free(steal_pointer(line->stream));
        if (line->input == NULL)
                return;
        watch(line, engine_stream_fd(line->input), &line->input_events, 0);
        line->input_events = 0;
        engine_stream_free(steal_pointer(line->input));
}

void relay_line_die(struct relay_line *line) {
        const uint64_t one = 1;

        if (atomic_exchange(&line->dead, true))
                return;
        drop_stream(line);
        if (line->control_fd >= 0) {
                watch(line, line->control_fd, &line->control_events, 0);
                close_fd(&line->control_fd);
        }
        pending_free(&line->in);
        pending_free(&line->out);
        if (write(line->exit_fd, &one, sizeof(one)) < 0)
                return; /* it was never written to, so it takes this */
}

static bool is_idle(const struct relay_line *line) {
        return !line->waiting && line->first_left == 0 && frames_at_boundary(&line->from_guest) &&
               frames_at_boundary(&line->to_guest) && mux_at_boundary(&line->mux);
}

/* A worker that never spoke: what it wrote instead is the reason, so it goes to the core in a frame. */
static void add_words(struct relay_line *line) {
        char text[RELAY_WORDS_MAX];
        unsigned char head[FRAME_HEAD];
        size_t size;

        if (line->answered || !frames_at_boundary(&line->from_guest))
                return;
        line->answered = true;
        tail_text(&line->words, text, sizeof(text));
        size = strlen(text);
        if (size == 0)
                return;
        for (int i = 0; i < 4; i++)
                head[i] = (unsigned char)(size >> (8 * i));
        head[4] = FRAME_STDERR;
        if (pending_add(&line->in, (struct sbx_bytes){head, sizeof(head)}) == 0 &&
            pending_add(&line->in, (struct sbx_bytes){text, size}) < 0)
                pending_drop(&line->in, pending_size(&line->in)); /* half a frame is worse than none */
}

/* The core has all that came before the stream ended. */
static void finish(struct relay_line *line) {
        line->ended = false;
        drop_stream(line);
        line->tell = true;
        if (!is_idle(line))
                relay_line_die(line);
}

/* ---- moving bytes: each returns whether something moved ---- */

static void answer_passed(void *data, uint8_t type) {
        struct relay_line *line = data;

        if (!frame_is_answer(type))
                return;
        line->waiting = false;
        line->answered = true;
}

static void request_passed(void *data, uint8_t type) {
        struct relay_line *line = data;

        if (frame_is_request(type))
                line->waiting = true;
}

static bool send_to_core(struct relay_line *line) {
        ssize_t n;

        if (pending_size(&line->in) == 0)
                return false;
        if (line->control_fd < 0 || line->core_gone) {
                pending_drop(&line->in, pending_size(&line->in)); /* nobody is there to take it */
                return true;
        }
        n = send(line->control_fd, line->in.data + line->in.start, pending_size(&line->in),
                 MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
                line->core_gone = true;
        if (n <= 0)
                return false;
        pending_drop(&line->in, (size_t)n);
        return true;
}

/* Takes the engine's multiplexing off. Negative: it is none, or no memory. */
static int take_received(struct relay_line *line, struct sbx_bytes bytes) {
        while (bytes.size > 0) {
                struct sbx_bytes piece;
                int stream = MUX_STDERR;
                ssize_t used = mux_take(&line->mux, bytes, &stream, &piece);

                if (used < 0)
                        return (int)used;
                bytes.data = (const char *)bytes.data + used;
                bytes.size -= (size_t)used;
                if (stream == MUX_STDERR) {
                        tail_add(&line->words, piece);
                        continue;
                }
                frames_pass(&line->from_guest, piece, answer_passed, line);
                if (pending_add(&line->in, piece) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static bool receive_from_guest(struct relay_line *line) {
        size_t room = pending_room(&line->in);
        unsigned char *chunk = line->relay->chunk;
        ssize_t n;

        if (line->stream == NULL || line->ended || room == 0)
                return false;
        n = engine_stream_receive(line->stream, chunk, room < RELAY_CHUNK ? room : RELAY_CHUNK);
        if (n == -EAGAIN)
                return false;
        if (n <= 0) {
                line->ended = true;
                return false;
        }
        if (take_received(line, (struct sbx_bytes){chunk, (size_t)n}) < 0) {
                line->waiting = true; /* what comes after it can't be understood: nothing to resume */
                line->ended = true;
        }
        return true;
}

static bool receive_from_core(struct relay_line *line) {
        size_t room = pending_room(&line->out);
        unsigned char *chunk = line->relay->chunk;
        ssize_t n;

        if (line->control_fd < 0 || line->core_gone || line->held || line->stream == NULL || line->ended || room == 0)
                return false;
        n = recv(line->control_fd, chunk, room < RELAY_CHUNK ? room : RELAY_CHUNK, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                line->core_gone = true;
        if (n <= 0)
                return false;
        if (pending_add(&line->out, (struct sbx_bytes){chunk, (size_t)n}) < 0)
                line->waiting = line->ended = true; /* a gap in it would be worse */
        return true;
}

/* What a program says that only takes what the core sends: nothing, but that it ended. */
static void receive_from_input(struct relay_line *line) {
        unsigned char *chunk = line->relay->chunk;
        ssize_t n;

        for (int round = 0; line->input != NULL && !line->input_lost && round < ROUNDS_MAX; round++) {
                n = engine_stream_receive(line->input, chunk, RELAY_CHUNK);
                if (n == -EAGAIN)
                        return;
                line->input_lost = n <= 0;
        }
}

static bool send_to_guest(struct relay_line *line) {
        struct sbx_bytes bytes = pending_bytes(&line->out);
        ssize_t n;

        if (line->stream == NULL || line->ended || line->input_lost || bytes.size == 0)
                return false;
        n = engine_stream_send(line->input != NULL ? line->input : line->stream, bytes.data, bytes.size);
        if (n == -EAGAIN || n == 0)
                return false;
        if (n < 0 && (line->input != NULL || is_idle(line))) {
                line->input_lost = true; /* of these bytes nothing left: the next stream takes them */
                return false;
        }
        if (n < 0) {
                /* What the guest wrote before may still be there to be read. */
                pending_drop(&line->out, bytes.size);
                line->waiting = true;
                return false;
        }
        bytes.size = (size_t)n;
        if (line->first_left > 0) {
                size_t passed = line->first_left < bytes.size ? line->first_left : bytes.size;

                line->first_left -= passed;
                bytes.data = (const char *)bytes.data + passed;
                bytes.size -= passed;
        }
        frames_pass(&line->to_guest, bytes, request_passed, line);
        pending_drop(&line->out, (size_t)n);
        return true;
}

static void watch_both(struct relay_line *line) {
        uint32_t stream, control = 0;

        if (line->stream != NULL) {
                stream = (!line->ended && pending_room(&line->in) > 0 ? EPOLLIN : 0) |
                         (!line->ended && pending_size(&line->out) > 0 ? EPOLLOUT : 0);
                if (line->input != NULL) {
                        uint32_t input = line->input_lost ? 0 : EPOLLIN | (stream & EPOLLOUT);

                        stream &= ~(uint32_t)EPOLLOUT;
                        watch(line, engine_stream_fd(line->input), &line->input_events, input);
                }
                watch(line, engine_stream_fd(line->stream), &line->stream_events, stream);
        }
        if (line->control_fd >= 0) {
                bool listens = line->stream != NULL && !line->ended && !line->held && pending_room(&line->out) > 0;

                if (!line->core_gone)
                        control = (listens ? EPOLLIN : 0) | (pending_size(&line->in) > 0 ? EPOLLOUT : 0);
                watch(line, line->control_fd, &line->control_events, control);
        }
}

void relay_line_pump(struct relay_line *line) {
        bool moved = true;

        for (int round = 0; moved && round < ROUNDS_MAX; round++) {
                moved = send_to_core(line);
                moved = receive_from_guest(line) || moved;
                moved = send_to_core(line) || moved;
                moved = receive_from_core(line) || moved;
                moved = send_to_guest(line) || moved;
        }
        line->again = moved;
        receive_from_input(line);
        if (line->input_lost && is_idle(line))
                line->ended = true;
        if (line->ended) {
                add_words(line);
                send_to_core(line);
        }
        if (line->ended && pending_size(&line->in) == 0) {
                finish(line);
                line->again = false;
        }
        if (!atomic_load(&line->dead))
                watch_both(line);
        line->relay->look = line->relay->look || line->again || line->tell;
}
