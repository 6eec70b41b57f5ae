/* SPDX-License-Identifier: Apache-2.0 */
/* The relay between a core and an engine that are the test's own: socket pairs. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

#include "relay_internal.h"

/* ---- the engine's stream: one end of a socket pair; it may hold bytes back as TLS does */

struct engine_stream {
        int fd;
        bool hoards;
        unsigned char held[4096];
        size_t start, end;
};

int engine_stream_fd(const struct engine_stream *stream) {
        return stream->fd;
}

void engine_stream_free(struct engine_stream *stream) {
        if (stream == NULL)
                return;
        close(stream->fd);
        free(stream);
}

ssize_t engine_stream_send(struct engine_stream *stream, const void *data, size_t size) {
        ssize_t n = send(stream->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);

        return n < 0 ? -errno : n;
}

ssize_t engine_stream_receive(struct engine_stream *stream, void *data, size_t size) {
        ssize_t n;

        if (!stream->hoards) {
                n = recv(stream->fd, data, size, MSG_DONTWAIT);
                return n < 0 ? -errno : n;
        }
        if (stream->start == stream->end) {
                n = recv(stream->fd, stream->held, sizeof(stream->held), MSG_DONTWAIT);
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                stream->start = 0;
                stream->end = (size_t)n;
        }
        n = (ssize_t)(stream->end - stream->start);
        if (n > 7)
                n = 7;
        if ((size_t)n > size)
                n = (ssize_t)size;
        memcpy(data, stream->held + stream->start, (size_t)n);
        stream->start += (size_t)n;
        return n;
}

/* ---- one line with both its ends */

struct bench {
        struct relay *relay;
        struct relay_line *line;
        int engine, control, exit; /* the test's ends */
        atomic_int ended_idle, ended_busy;
};

static void count_end(void *data, bool idle) {
        struct bench *bench = data;

        atomic_fetch_add(idle ? &bench->ended_idle : &bench->ended_busy, 1);
}

static struct engine_stream *make_stream(int *ret_other, bool hoards) {
        struct engine_stream *stream = calloc(1, sizeof(*stream));
        int pair[2];

        assert_non_null(stream);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        stream->fd = pair[0];
        stream->hoards = hoards;
        *ret_other = pair[1];
        return stream;
}

static void bench_line(struct bench *bench, struct sbx_bytes first, bool hoards) {
        const struct relay_end end = {.data = bench, .ended = count_end};
        struct sbx_error err = {0};

        if (relay_line_new(bench->relay, make_stream(&bench->engine, hoards), first, &end, &bench->line,
                           &bench->control, &bench->exit, &err) < 0)
                fail_msg("%s", err.message);
}

static int set_up(void **state) {
        struct bench *bench = calloc(1, sizeof(*bench));

        if (bench == NULL || relay_new(&bench->relay, NULL) < 0)
                return -1;
        bench->engine = bench->control = bench->exit = -1;
        *state = bench;
        return 0;
}

static int tear_down(void **state) {
        struct bench *bench = *state;

        close_fd(&bench->control);
        close_fd(&bench->exit);
        relay_line_free(bench->line);
        close_fd(&bench->engine);
        relay_free(bench->relay);
        free(bench);
        return 0;
}

static void put(int fd, const void *data, size_t size) {
        for (size_t done = 0; done < size;) {
                ssize_t n = send(fd, (const char *)data + done, size - done, MSG_NOSIGNAL);

                assert_true(n > 0);
                done += (size_t)n;
        }
}

static bool readable(int fd, int ms) {
        struct pollfd one = {.fd = fd, .events = POLLIN};

        return poll(&one, 1, ms) > 0;
}

static void expect(int fd, const void *wanted, size_t size) {
        unsigned char *got = malloc(size + 1);
        size_t have = 0;

        while (have < size) {
                ssize_t n;

                assert_true(readable(fd, 20000));
                n = recv(fd, got + have, size - have, 0);
                if (n < 0 && errno == EAGAIN)
                        continue;
                assert_true(n > 0);
                have += (size_t)n;
        }
        assert_memory_equal(got, wanted, size);
        free(got);
}

static void expect_end(int fd) {
        char byte;

        assert_true(readable(fd, 20000));
        assert_int_equal(recv(fd, &byte, 1, 0), 0);
}

static void wait_for(atomic_int *count, int wanted) {
        for (int i = 0; i < 20000 && atomic_load(count) != wanted; i++)
                usleep(1000);
        assert_int_equal(atomic_load(count), wanted);
}

static size_t make_frame(unsigned char *to, uint8_t type, const void *payload, size_t size) {
        for (int i = 0; i < 4; i++)
                to[i] = (unsigned char)(size >> (8 * i));
        to[4] = type;
        memcpy(to + 5, payload, size);
        return size + 5;
}

/* As an engine sends it. */
static void put_mux(int fd, int stream, const void *data, size_t size) {
        unsigned char head[8] = {(unsigned char)stream, 0, 0, 0};

        for (int i = 0; i < 4; i++)
                head[4 + i] = (unsigned char)(size >> (8 * (3 - i)));
        put(fd, head, sizeof(head));
        put(fd, data, size);
}

static void request(struct bench *bench, uint8_t type) {
        unsigned char frame[16];
        size_t size = make_frame(frame, type, "{}", 2);

        put(bench->control, frame, size);
        expect(bench->engine, frame, size);
}

static void answer(struct bench *bench, uint8_t type) {
        unsigned char frame[16];
        size_t size = make_frame(frame, type, "{}", 2);

        put_mux(bench->engine, MUX_STDOUT, frame, size);
        expect(bench->control, frame, size);
}

/* ---- tests */

static void test_bytes_go_both_ways(void **state) {
        struct bench *bench = *state;

        bench_line(bench, BYTES("the worker"), false);
        expect(bench->engine, "the worker", 10);
        request(bench, 0x01);
        answer(bench, 0x81);
        for (int i = 0; i < 100; i++) {
                request(bench, 0x02);
                put_mux(bench->engine, MUX_STDERR, "not a frame", 11);
                answer(bench, 0x86);
        }
        assert_false(relay_line_dead(bench->line));
        assert_false(readable(bench->exit, 0));
        assert_int_equal(atomic_load(&bench->ended_idle) + atomic_load(&bench->ended_busy), 0);
}

static void test_heads_come_in_pieces(void **state) {
        struct bench *bench = *state;
        const unsigned char bytes[] = {1, 0, 0, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0x81, '{', '}', 1, 0, 0, 0, 0, 0, 0, 0};

        bench_line(bench, (struct sbx_bytes){0}, false);
        for (size_t i = 0; i < sizeof(bytes); i++) {
                put(bench->engine, bytes + i, 1);
                usleep(200);
        }
        expect(bench->control, "\2\0\0\0\201{}", 7);
}

/* What TLS has decrypted already is no event for epoll. */
static void test_bytes_that_a_stream_holds(void **state) {
        struct bench *bench = *state;
        unsigned char frame[3000];
        size_t size;

        memset(frame, 'x', sizeof(frame));
        bench_line(bench, (struct sbx_bytes){0}, true);
        size = make_frame(frame, 0x82, frame + 5, 2900);
        put_mux(bench->engine, MUX_STDOUT, frame, size);
        expect(bench->control, frame, size);
}

static void *flood(void *data) {
        struct bench *bench = data;
        size_t size = 65536;
        unsigned char *block = malloc(size);

        for (int i = 0; i < 64; i++) {
                memset(block, i, size);
                make_frame(block, 0x82, block + 5, size - 5);
                put_mux(bench->engine, MUX_STDOUT, block, size);
        }
        free(block);
        return NULL;
}

static size_t held(struct bench *bench) {
        DOCKER_LOCKED(&bench->relay->lock);

        return pending_size(&bench->line->in);
}

static void test_a_flood_is_held_back(void **state) {
        struct bench *bench = *state;
        unsigned char *block = malloc(65536);
        pthread_t thread;
        size_t most = 0;

        bench_line(bench, (struct sbx_bytes){0}, false);
        assert_int_equal(pthread_create(&thread, NULL, flood, bench), 0);
        for (int i = 0; i < 200; i++) {
                size_t now = held(bench);

                most = now > most ? now : most;
                usleep(1000);
        }
        assert_true(most > 0); /* it came as far as it could */
        assert_true(most <= RELAY_PENDING_MAX);
        for (int i = 0; i < 64; i++) {
                memset(block, i, 65536);
                make_frame(block, 0x82, block + 5, 65536 - 5);
                expect(bench->control, block, 65536);
        }
        pthread_join(thread, NULL);
        free(block);
}

static void test_an_idle_line_goes_on(void **state) {
        struct bench *bench = *state;
        unsigned char frame[16];
        size_t size = make_frame(frame, 0x02, "{}", 2);

        bench_line(bench, BYTES("worker"), false);
        expect(bench->engine, "worker", 6);
        request(bench, 0x01);
        answer(bench, 0x81);
        for (int i = 1; i <= 3; i++) {
                struct engine_stream *stream;

                close_fd(&bench->engine);
                wait_for(&bench->ended_idle, i);
                assert_false(relay_line_dead(bench->line));
                put(bench->control, frame, size); /* waits */
                stream = make_stream(&bench->engine, false);
                assert_int_equal(relay_line_resume(bench->line, stream, NULL, NULL), 0);
                expect(bench->engine, frame, size);
                answer(bench, 0x86);
        }
        assert_int_equal(atomic_load(&bench->ended_busy), 0);
}

/* Another stream to the same worker, and one more that brings its input. */
static void resume_with_input(struct bench *bench, int *ret_input) {
        struct engine_stream *stream, *input;

        close_fd(&bench->engine);
        stream = make_stream(&bench->engine, false);
        input = make_stream(ret_input, false);
        assert_int_equal(relay_line_resume(bench->line, stream, input, NULL), 0);
}

static void test_an_input_of_its_own(void **state) {
        struct bench *bench = *state;
        unsigned char frame[16];
        size_t size = make_frame(frame, 0x02, "{}", 2);
        int input = -1;

        bench_line(bench, (struct sbx_bytes){0}, false);
        request(bench, 0x01);
        answer(bench, 0x81);
        close_fd(&bench->engine);
        wait_for(&bench->ended_idle, 1);
        resume_with_input(bench, &input);
        put(bench->control, frame, size);
        expect(input, frame, size);
        put_mux(input, MUX_STDERR, "noise", 5);
        close_fd(&input); /* while code runs: its answer comes another way */
        assert_false(readable(bench->exit, 50));
        answer(bench, 0x86);
        wait_for(&bench->ended_idle, 2);
        assert_false(relay_line_dead(bench->line));
        put(bench->control, frame, size); /* waits */
        resume_with_input(bench, &input);
        expect(input, frame, size);
        relay_line_renew(bench->line); /* not before the answer */
        answer(bench, 0x86);
        wait_for(&bench->ended_idle, 3);
        expect_end(input);
        close_fd(&input);
        relay_line_renew(bench->line); /* nothing to renew */
        resume_with_input(bench, &input);
        put(bench->control, frame, size);
        expect(input, frame, size);
        close_fd(&bench->engine); /* the answer is lost */
        expect_end(bench->control);
        assert_true(relay_line_dead(bench->line));
        expect_end(input);
        close(input);
}

static void test_a_second_stream_is_refused(void **state) {
        struct bench *bench = *state;
        int other;
        struct engine_stream *stream = make_stream(&other, false);

        bench_line(bench, (struct sbx_bytes){0}, false);
        assert_int_equal(relay_line_resume(bench->line, stream, NULL, NULL), -ESRCH);
        relay_line_kill(bench->line);
        assert_int_equal(relay_line_resume(bench->line, stream, NULL, NULL), -ESRCH);
        engine_stream_free(stream);
        close(other);
}

static void expect_death(struct bench *bench) {
        expect_end(bench->control);
        assert_true(readable(bench->exit, 20000));
        assert_true(relay_line_dead(bench->line));
        wait_for(&bench->ended_busy, 1);
        assert_int_equal(atomic_load(&bench->ended_idle), 0);
}

static void test_a_busy_line_dies(void **state) {
        struct bench *bench = *state;
        unsigned char frame[16];
        size_t size = make_frame(frame, 0x82, "out", 3);

        bench_line(bench, (struct sbx_bytes){0}, false);
        request(bench, 0x01);
        answer(bench, 0x81);
        request(bench, 0x02);
        put_mux(bench->engine, MUX_STDOUT, frame, size); /* what it said before counts */
        close_fd(&bench->engine);
        expect(bench->control, frame, size);
        expect_death(bench);
}

static void test_half_a_frame_is_no_idling(void **state) {
        struct bench *bench = *state;

        bench_line(bench, (struct sbx_bytes){0}, false);
        request(bench, 0x01);
        answer(bench, 0x81);
        put_mux(bench->engine, MUX_STDOUT, "\5\0\0\0\202ab", 7);
        close_fd(&bench->engine);
        expect(bench->control, "\5\0\0\0\202ab", 7);
        expect_death(bench);
}

static void test_a_worker_that_is_half_there(void **state) {
        struct bench *bench = *state;
        size_t size = (size_t)4 << 20; /* more than a socket takes */
        char *worker = calloc(1, size);

        bench_line(bench, (struct sbx_bytes){worker, size}, false);
        close_fd(&bench->engine);
        expect_death(bench);
        free(worker);
}

static void test_what_no_engine_sends(void **state) {
        struct bench *bench = *state;

        bench_line(bench, (struct sbx_bytes){0}, false);
        request(bench, 0x01);
        answer(bench, 0x81);
        put(bench->engine, "HTTP/1.1 500 x\r\n", 16);
        expect_death(bench);
}

/* A worker that never spoke: its complaint is an stderr frame. */
static void test_last_words(void **state) {
        struct bench *bench = *state;
        char words[64];

        bench_line(bench, (struct sbx_bytes){0}, false);
        put_mux(bench->engine, MUX_STDERR, "no \xffpython\x1b[2J\n", 14);
        close_fd(&bench->engine);
        expect(bench->control, "\x10\0\0\0\203no \xEF\xBF\xBDpython?[2J", 21);
        wait_for(&bench->ended_idle, 1);
        relay_line_words(bench->line, words, sizeof(words));
        assert_string_equal(words, "no \xEF\xBF\xBDpython?[2J");
        relay_line_words(bench->line, words, 5);
        assert_string_equal(words, "?[2J");
}

static void test_words_keep_their_end(void **state) {
        struct tail tail = {0};
        char text[RELAY_WORDS_MAX + 1], many[10000];

        tail_text(&tail, text, sizeof(text));
        assert_string_equal(text, "");
        memset(many, 'a', sizeof(many));
        tail_add(&tail, (struct sbx_bytes){many, sizeof(many)});
        for (int i = 0; i < 1000; i++)
                tail_add(&tail, BYTES("\xC3\xA4"));
        tail_add(&tail, BYTES("end \n\n"));
        tail_text(&tail, text, sizeof(text));
        assert_string_equal(text + strlen(text) - 5, "\xC3\xA4"
                                                     "end");
        tail_text(&tail, text, 6); /* in the middle of a character */
        assert_string_equal(text, "\xC3\xA4"
                                  "end");
        tail_text(&tail, text, 5);
        assert_string_equal(text, "end");
        tail_clear(&tail);
}

static void test_holding(void **state) {
        struct bench *bench = *state;
        unsigned char frame[16];
        size_t size = make_frame(frame, 0x02, "{}", 2);

        bench_line(bench, (struct sbx_bytes){0}, false);
        request(bench, 0x01);
        relay_line_hold(bench->line, true);
        put(bench->control, frame, size);
        answer(bench, 0x81); /* the other way is open, and so the thread has had its turn */
        assert_false(readable(bench->engine, 50));
        relay_line_hold(bench->line, false);
        expect(bench->engine, frame, size);
}

static void test_kill(void **state) {
        struct bench *bench = *state;

        bench_line(bench, (struct sbx_bytes){0}, false);
        request(bench, 0x02);
        relay_line_kill(bench->line);
        relay_line_kill(bench->line);
        relay_line_hold(bench->line, false);
        expect_end(bench->control);
        expect_end(bench->engine);
        assert_true(readable(bench->exit, 0));
        assert_true(relay_line_dead(bench->line));
        assert_int_equal(atomic_load(&bench->ended_idle) + atomic_load(&bench->ended_busy), 0);
}

/* The core closes its end first; what the guest still says has nowhere to go, and nothing spins or breaks. */
static void test_the_core_leaves(void **state) {
        struct bench *bench = *state;
        pthread_t thread;

        bench_line(bench, (struct sbx_bytes){0}, false);
        close_fd(&bench->control);
        assert_int_equal(pthread_create(&thread, NULL, flood, bench), 0);
        pthread_join(thread, NULL);
        assert_false(relay_line_dead(bench->line));
}

struct traffic {
        struct bench bench;
        pthread_t thread;
        int rounds;
};

static void *talk(void *data) {
        struct traffic *traffic = data;

        for (int i = 0; i < traffic->rounds; i++) {
                struct bench *bench = &traffic->bench;

                bench_line(bench, BYTES("worker"), i % 2 == 0);
                expect(bench->engine, "worker", 6);
                request(bench, 0x01);
                answer(bench, 0x81);
                request(bench, 0x02);
                if (i % 3 == 0)
                        close_fd(&bench->engine);
                else if (i % 3 == 1)
                        relay_line_kill(bench->line);
                relay_line_free(bench->line);
                close_fd(&bench->control);
                close_fd(&bench->exit);
                close_fd(&bench->engine);
        }
        return NULL;
}

static void test_many_at_once(void **state) {
        struct bench *bench = *state;
        struct traffic traffic[8];

        for (int i = 0; i < 8; i++) {
                traffic[i] = (struct traffic){.bench = {.relay = bench->relay, .engine = -1}, .rounds = 100};
                assert_int_equal(pthread_create(&traffic[i].thread, NULL, talk, &traffic[i]), 0);
        }
        for (int i = 0; i < 8; i++)
                pthread_join(traffic[i].thread, NULL);
        assert_null(bench->relay->lines);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                EACH(test_bytes_go_both_ways),
                EACH(test_heads_come_in_pieces),
                EACH(test_bytes_that_a_stream_holds),
                EACH(test_a_flood_is_held_back),
                EACH(test_an_idle_line_goes_on),
                EACH(test_an_input_of_its_own),
                EACH(test_a_second_stream_is_refused),
                EACH(test_a_busy_line_dies),
                EACH(test_half_a_frame_is_no_idling),
                EACH(test_a_worker_that_is_half_there),
                EACH(test_what_no_engine_sends),
                EACH(test_last_words),
                cmocka_unit_test(test_words_keep_their_end),
                EACH(test_holding),
                EACH(test_kill),
                EACH(test_the_core_leaves),
                EACH(test_many_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
