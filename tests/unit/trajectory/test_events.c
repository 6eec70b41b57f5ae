/* SPDX-License-Identifier: Apache-2.0 */
/* Trajectory events: order, sinks that fail or hang, a full queue, tool calls, and the digest. Run under TSan too. */
#include "../test.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <snipara-sandbox/sink.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "tools/content.h"
#include "trajectory/trajectory.h"

/* ---- a sink ---- */

struct memory_sink {
        pthread_mutex_t lock;
        json_t *events;
        unsigned flushes;
        int answer; /* of event() */
        bool stuck; /* event() waits until it is not */
        struct sbx_instance instance;
};

static int sink_event(void *instance, struct sbx_bytes json, struct sbx_error *err) {
        struct memory_sink *sink = instance;
        json_t *event = NULL;
        int r;

        while (__atomic_load_n(&sink->stuck, __ATOMIC_SEQ_CST))
                usleep(1000);
        pthread_mutex_lock(&sink->lock);
        r = sink->answer;
        if (r == 0 && sbx_json_parse(json, 32 << 20, "event", &event, err) == 0)
                json_array_append_new(sink->events, event);
        pthread_mutex_unlock(&sink->lock);
        return r < 0 ? sbx_error_set(err, r, "sink", NULL, "the disk is full") : 0;
}

static int sink_flush(void *instance, struct sbx_error *err) {
        struct memory_sink *sink = instance;

        pthread_mutex_lock(&sink->lock);
        sink->flushes++;
        pthread_mutex_unlock(&sink->lock);
        return 0;
}

static const struct sbx_sink_ops ops = {.struct_size = sizeof(ops), .event = sink_event, .flush = sink_flush};

static void sink_open(struct memory_sink *sink) {
        *sink = (struct memory_sink){.events = json_array()};
        pthread_mutex_init(&sink->lock, NULL);
        sink->instance = (struct sbx_instance){.name = "memory", .state = sink, .ops = &ops};
}

static void sink_answer(struct memory_sink *sink, int answer) {
        pthread_mutex_lock(&sink->lock);
        sink->answer = answer;
        pthread_mutex_unlock(&sink->lock);
}

static size_t sink_count(struct memory_sink *sink) {
        size_t count;

        pthread_mutex_lock(&sink->lock);
        count = json_array_size(sink->events);
        pthread_mutex_unlock(&sink->lock);
        return count;
}

struct log {
        unsigned lines; /* written by the trajectory's thread, read when that has ended */
        char last[512];
};

static void log_line(void *data, int level, const char *message) {
        struct log *log = data;

        log->lines++;
        snprintf(log->last, sizeof(log->last), "%s", message);
}

static struct sbx_trajectory *trajectory_open(const struct sbx_logger *logger) {
        struct sbx_trajectory *trajectory = NULL;
        struct sbx_error err = {0};

        assert_int_equal(sbx_trajectory_new(logger, &trajectory, &err), 0);
        return trajectory;
}

static const struct sbx_logger quiet = {.level = SBX_LOG_ERROR};

/* ---- tests ---- */

static void test_without_a_sink(void **state) {
        struct sbx_trajectory *trajectory = trajectory_open(&quiet);

        assert_false(sbx_trajectory_active(trajectory));
        assert_int_equal(sbx_trajectory_emit(trajectory, NULL, "x", json_object()), 0);
        sbx_trajectory_free(trajectory);
}

static void settings_of(struct memory_sink *sink, struct sbx_settings *settings, struct sbx_value *value,
                        const char *events) {
        static const struct sbx_option table[] = {
                {.struct_size = sizeof(struct sbx_option), .type = SBX_OPTION_ENUM, .name = "events"}};

        *value = (struct sbx_value){.type = SBX_OPTION_ENUM, .set = true, .string = events, .origin = "default"};
        *settings = (struct sbx_settings){.table = table, .count = 1, .values = value};
        sink->instance.core_settings = settings;
}

/* A sink with events = runs gets those of runs alone; with no other sink, nobody pays for the rest. */
static void test_a_sink_of_runs(void **state) {
        struct memory_sink runs, all;
        struct sbx_settings settings[2];
        struct sbx_value values[2];
        struct sbx_trajectory *trajectory = trajectory_open(&quiet);
        struct sbx_error err = {0};

        sink_open(&runs);
        sink_open(&all);
        settings_of(&runs, &settings[0], &values[0], "runs");
        settings_of(&all, &settings[1], &values[1], "all");
        assert_false(sbx_trajectory_records_runs(trajectory));
        assert_int_equal(sbx_trajectory_add_sink(trajectory, &runs.instance, &err), 0);
        assert_true(sbx_trajectory_records_runs(trajectory));
        assert_false(sbx_trajectory_active(trajectory));
        assert_int_equal(sbx_trajectory_emit(trajectory, NULL, "ignored", json_object()), 0);
        assert_int_equal(sbx_trajectory_emit(trajectory, "run", "first", json_object()), 0);
        assert_int_equal(sbx_trajectory_flush(trajectory), 0);
        assert_int_equal(sbx_trajectory_add_sink(trajectory, &all.instance, &err), 0);
        assert_true(sbx_trajectory_active(trajectory));
        assert_int_equal(sbx_trajectory_emit(trajectory, NULL, "other", json_object()), 0);
        assert_int_equal(sbx_trajectory_emit(trajectory, "run", "second", json_object()), 0);
        sbx_trajectory_free(trajectory);
        assert_int_equal(json_array_size(runs.events), 2);
        assert_string_equal(json_string_value(json_object_get(json_array_get(runs.events, 0), "event")), "first");
        assert_int_equal(json_integer_value(json_object_get(json_array_get(runs.events, 0), "sequence")), 1);
        assert_string_equal(json_string_value(json_object_get(json_array_get(runs.events, 1), "event")), "second");
        assert_int_equal(json_integer_value(json_object_get(json_array_get(runs.events, 1), "sequence")), 3);
        assert_int_equal(json_array_size(all.events), 2);
        json_decref(runs.events);
        json_decref(all.events);
}

static void test_flush(void **state) {
        struct memory_sink sink;
        struct sbx_trajectory *trajectory = trajectory_open(&quiet);
        struct sbx_error err = {0};

        assert_int_equal(sbx_trajectory_flush(trajectory), 0); /* nobody to wait for */
        sink_open(&sink);
        assert_int_equal(sbx_trajectory_add_sink(trajectory, &sink.instance, &err), 0);
        for (unsigned i = 1; i <= 200; i++) {
                assert_int_equal(sbx_trajectory_emit(trajectory, "run", "step", json_object()), 0);
                assert_int_equal(sbx_trajectory_flush(trajectory), 0);
                assert_int_equal(sink_count(&sink), i);
                assert_true(__atomic_load_n(&sink.flushes, __ATOMIC_SEQ_CST) >= i);
        }
        sbx_trajectory_free(trajectory);
        json_decref(sink.events);
}

struct emitter {
        struct sbx_trajectory *trajectory;
        const char *run_id;
        unsigned kept;
};

static void *emit_and_flush(void *data) {
        struct emitter *emitter = data;

        for (unsigned i = 0; i < 500; i++) {
                emitter->kept += sbx_trajectory_emit(emitter->trajectory, emitter->run_id, "step", json_object()) == 0;
                if (i % 50 == 0 && sbx_trajectory_flush(emitter->trajectory) < 0)
                        emitter->kept = 0;
        }
        return NULL;
}

static void test_flushes_side_by_side(void **state) {
        struct memory_sink sink;
        struct sbx_trajectory *trajectory = trajectory_open(&quiet);
        struct emitter emitters[4];
        pthread_t threads[4];
        struct sbx_error err = {0};
        unsigned kept = 0;

        sink_open(&sink);
        assert_int_equal(sbx_trajectory_add_sink(trajectory, &sink.instance, &err), 0);
        for (unsigned i = 0; i < 4; i++) {
                emitters[i] = (struct emitter){trajectory, i % 2 ? "run" : NULL, 0};
                assert_int_equal(pthread_create(&threads[i], NULL, emit_and_flush, &emitters[i]), 0);
        }
        for (unsigned i = 0; i < 4; i++) {
                assert_int_equal(pthread_join(threads[i], NULL), 0);
                kept += emitters[i].kept;
        }
        assert_int_equal(kept, 2000);
        sbx_trajectory_free(trajectory);
        assert_int_equal(json_array_size(sink.events), 2000);
        json_decref(sink.events);
}

static void test_own_timestamps_stay(void **state) {
        struct memory_sink sink;
        struct sbx_trajectory *trajectory = trajectory_open(&quiet);
        struct sbx_error err = {0};

        sink_open(&sink);
        assert_int_equal(sbx_trajectory_add_sink(trajectory, &sink.instance, &err), 0);
        assert_int_equal(sbx_trajectory_emit(trajectory, "run", "step",
                                             json_pack("{s:s}", "timestamp", "2026-01-02T03:04:05.678Z")),
                         0);
        assert_int_equal(sbx_trajectory_emit(trajectory, "run", "step", json_pack("{s:i}", "timestamp", 5)), 0);
        sbx_trajectory_free(trajectory);
        assert_string_equal(json_string_value(json_object_get(json_array_get(sink.events, 0), "timestamp")),
                            "2026-01-02T03:04:05.678Z");
        assert_int_equal(json_string_length(json_object_get(json_array_get(sink.events, 1), "timestamp")), 24);
        json_decref(sink.events);
}

/* Events of runs wait for a sink that is slow for longer than others are dropped. */
static void *unstick(void *data) {
        struct memory_sink *sink = data;

        usleep(1500000); /* longer than events outside of runs wait; runs' wait twenty times that */
        __atomic_store_n(&sink->stuck, false, __ATOMIC_SEQ_CST);
        return NULL;
}

static void test_runs_wait_for_a_slow_sink(void **state) {
        struct memory_sink sink;
        struct sbx_trajectory *trajectory = trajectory_open(&quiet);
        struct sbx_error err = {0};
        pthread_t thread;

        sink_open(&sink);
        __atomic_store_n(&sink.stuck, true, __ATOMIC_SEQ_CST);
        assert_int_equal(sbx_trajectory_add_sink(trajectory, &sink.instance, &err), 0);
        while (sbx_trajectory_emit(trajectory, NULL, "step", json_object()) == 0)
                ; /* until the queue is full, and one was dropped */
        assert_int_equal(pthread_create(&thread, NULL, unstick, &sink), 0);
        assert_int_equal(sbx_trajectory_emit(trajectory, "run", "last", json_object()), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        sbx_trajectory_free(trajectory);
        assert_string_equal(json_string_value(json_object_get(
                                    json_array_get(sink.events, json_array_size(sink.events) - 1), "event")),
                            "last");
        json_decref(sink.events);
}

/* 64 MiB may wait, beside what the thread has in hand. */
static void test_memory_is_bounded(void **state) {
        struct memory_sink sink;
        struct sbx_trajectory *trajectory = trajectory_open(&quiet);
        struct sbx_error err = {0};
        char *large = calloc(1, (8 << 20) + 1);
        unsigned kept = 0;

        memset(large, 'x', 8 << 20);
        sink_open(&sink);
        __atomic_store_n(&sink.stuck, true, __ATOMIC_SEQ_CST);
        assert_int_equal(sbx_trajectory_add_sink(trajectory, &sink.instance, &err), 0);
        while (sbx_trajectory_emit(trajectory, NULL, "step", json_pack("{s:s}", "text", large)) == 0)
                kept++;
        assert_in_range(kept, 7, 8);
        __atomic_store_n(&sink.stuck, false, __ATOMIC_SEQ_CST);
        sbx_trajectory_free(trajectory);
        json_decref(sink.events);
        free(large);
}

static void test_events_arrive(void **state) {
        struct memory_sink first, second;
        struct sbx_trajectory *trajectory = trajectory_open(&quiet);
        struct sbx_error err = {0};

        sink_open(&first);
        sink_open(&second);
        assert_int_equal(sbx_trajectory_add_sink(trajectory, &first.instance, &err), 0);
        assert_int_equal(sbx_trajectory_add_sink(trajectory, &second.instance, &err), 0);
        for (unsigned i = 0; i < 3000; i++)
                assert_int_equal(
                        sbx_trajectory_emit(trajectory, i % 2 ? "run" : NULL, "step", json_pack("{s:i}", "i", (int)i)),
                        0);
        sbx_trajectory_free(trajectory);
        assert_int_equal(json_array_size(first.events), 3000);
        assert_true(json_equal(first.events, second.events));
        for (unsigned i = 0; i < 3000; i++) {
                const json_t *event = json_array_get(first.events, i);

                assert_int_equal(json_integer_value(json_object_get(event, "i")), i);
                assert_int_equal(json_integer_value(json_object_get(event, "sequence")), i + 1);
                assert_string_equal(json_string_value(json_object_get(event, "event")), "step");
                assert_int_equal(json_string_length(json_object_get(event, "timestamp")), 24);
                assert_int_equal(json_string_length(json_object_get(event, "trajectory_id")), i % 2 ? 3 : 32);
        }
        assert_true(first.flushes >= 1);
        json_decref(first.events);
        json_decref(second.events);
}

static void test_a_sink_that_fails(void **state) {
        struct log log = {0};
        struct sbx_logger logger = {.write = log_line, .data = &log, .level = SBX_LOG_WARNING};
        struct memory_sink broken, good;
        struct sbx_trajectory *trajectory = trajectory_open(&logger);
        struct sbx_error err = {0};

        sink_open(&broken);
        sink_open(&good);
        broken.answer = -ENOSPC;
        assert_int_equal(sbx_trajectory_add_sink(trajectory, &broken.instance, &err), 0);
        assert_int_equal(sbx_trajectory_add_sink(trajectory, &good.instance, &err), 0);
        for (unsigned i = 0; i < 100; i++)
                assert_int_equal(sbx_trajectory_emit(trajectory, NULL, "step", json_object()), 0);
        while (sink_count(&good) < 100)
                usleep(1000);
        sink_answer(&broken, 0);
        assert_int_equal(sbx_trajectory_emit(trajectory, NULL, "step", json_object()), 0);
        sbx_trajectory_free(trajectory);
        assert_int_equal(json_array_size(good.events), 101);
        assert_int_equal(json_array_size(broken.events), 1);
        assert_int_equal(log.lines, 2); /* that it fails, and that it works again */
        assert_contains(log.last, "100 events were lost");
        json_decref(broken.events);
        json_decref(good.events);
}

static void test_a_sink_that_hangs(void **state) {
        struct memory_sink sink;
        struct sbx_trajectory *trajectory = trajectory_open(&quiet);
        struct sbx_error err = {0};
        const json_t *last;
        uint64_t begin;
        unsigned kept = 0;

        sink_open(&sink);
        __atomic_store_n(&sink.stuck, true, __ATOMIC_SEQ_CST);
        assert_int_equal(sbx_trajectory_add_sink(trajectory, &sink.instance, &err), 0);
        begin = sbx_clock_ns();
        for (unsigned i = 0; i < 2000; i++)
                kept += sbx_trajectory_emit(trajectory, NULL, "step", json_object()) == 0;
        assert_true(sbx_clock_ns() - begin < 3 * SBX_NS_PER_S); /* one wait, not one for each */
        assert_in_range(kept, 1024, 1025);
        __atomic_store_n(&sink.stuck, false, __ATOMIC_SEQ_CST);
        sbx_trajectory_free(trajectory);
        last = json_array_get(sink.events, json_array_size(sink.events) - 1);
        if (json_array_size(sink.events) > kept) {
                assert_string_equal(json_string_value(json_object_get(last, "event")), "events_dropped");
                assert_int_equal(json_integer_value(json_object_get(last, "count")), 2000 - kept);
                assert_int_equal(json_integer_value(json_object_get(last, "sequence")), 2001); /* behind the gap */
        }
        json_decref(sink.events);
}

static void test_an_event_too_large(void **state) {
        struct memory_sink sink;
        struct sbx_trajectory *trajectory = trajectory_open(&quiet);
        struct sbx_error err = {0};
        char *large = calloc(1, (2 << 20) + 1);

        memset(large, 'x', 2 << 20);
        sink_open(&sink);
        assert_int_equal(sbx_trajectory_add_sink(trajectory, &sink.instance, &err), 0);
        assert_int_equal(sbx_trajectory_emit(trajectory, NULL, "step", json_pack("{s:s}", "text", large)), 0);
        sbx_trajectory_free(trajectory);
        assert_int_equal(json_array_size(sink.events), 1);
        assert_true(json_is_true(json_object_get(json_array_get(sink.events, 0), "too_large")));
        assert_string_equal(json_string_value(json_object_get(json_array_get(sink.events, 0), "event")), "step");
        json_decref(sink.events);
        free(large);
}

/* Those of runs hold whole prompts and outputs. */
static void test_a_large_event_of_a_run(void **state) {
        struct memory_sink sink;
        struct sbx_trajectory *trajectory = trajectory_open(&quiet);
        struct sbx_error err = {0};
        char *large = calloc(1, (40 << 20) + 1);
        const json_t *event;

        memset(large, 'x', 40 << 20);
        sink_open(&sink);
        assert_int_equal(sbx_trajectory_add_sink(trajectory, &sink.instance, &err), 0);
        assert_int_equal(
                sbx_trajectory_emit(trajectory, "run", "step", json_pack("{s:s, s:s}", "call_id", "a", "text", large)),
                0);
        large[31 << 20] = '\0';
        assert_int_equal(sbx_trajectory_emit(trajectory, "run", "step", json_pack("{s:s}", "text", large)), 0);
        sbx_trajectory_free(trajectory);
        assert_int_equal(json_array_size(sink.events), 2);
        event = json_array_get(sink.events, 0);
        assert_true(json_is_true(json_object_get(event, "too_large")));
        assert_string_equal(json_string_value(json_object_get(event, "call_id")), "a");
        event = json_array_get(sink.events, 1);
        assert_int_equal(json_string_length(json_object_get(event, "text")), 31 << 20);
        json_decref(sink.events);
        free(large);
}

static int answer(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                  struct sbx_error *err) {
        *ret_result = sbx_content_text(false, "secret answer");
        json_object_set_new(*ret_result, "_meta",
                            json_pack("{s:{s:s, s:s}}", "snipara-sandbox/execution", "end", "ok", "state", "kept"));
        return 0;
}

static void test_tool_calls(void **state) {
        static const struct sbx_tool tool = {
                .name = "answer", .description = "d", .input_schema = "{\"type\":\"object\"}", .run = answer};
        struct memory_sink sink;
        struct sbx_trajectory *trajectory = trajectory_open(&quiet);
        struct sbx_tools *tools = NULL;
        struct sbx_tool_context context = {.principal = "alice"};
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(1 << 20);
        struct sbx_error err = {0};
        _cleanup_free_ char *text = NULL;
        const json_t *event;

        sink_open(&sink);
        assert_int_equal(sbx_trajectory_add_sink(trajectory, &sink.instance, &err), 0);
        assert_int_equal(sbx_tools_new(&quiet, &tools, &err), 0);
        sbx_trajectory_watch_tools(trajectory, tools);
        assert_int_equal(sbx_tools_add(tools, &tool, &err), 0);
        assert_int_equal(sbx_tools_call(tools, "answer",
                                        BYTES("{\"password\": \"hunter2\", \"a\": 1, \"session_id\": \"s\"}"), &context,
                                        &out, &err),
                         0);
        context.run = &sink; /* core/agent tells of these */
        assert_int_equal(sbx_tools_call(tools, "answer", BYTES("{}"), &context, &out, &err), 0);
        sbx_tools_free(tools);
        sbx_trajectory_free(trajectory);
        assert_int_equal(json_array_size(sink.events), 1);
        event = json_array_get(sink.events, 0);
        assert_string_equal(json_string_value(json_object_get(event, "event")), "tool_call");
        assert_string_equal(json_string_value(json_object_get(event, "tool")), "answer");
        assert_string_equal(json_string_value(json_object_get(event, "principal")), "alice");
        assert_string_equal(json_string_value(json_object_get(event, "session_id")), "s");
        assert_string_equal(json_string_value(json_object_get(event, "end")), "ok");
        /* printf '{"a":1,"password":"hunter2","session_id":"s"}' | sha256sum */
        assert_int_equal(json_integer_value(json_object_get(event, "arguments_bytes")), 45);
        assert_string_equal(json_string_value(json_object_get(event, "arguments_sha256")),
                            "09b48491cb67d6c7b4603b13adebff2e96cb1075db38eff8bd0789ff1d80f11e");
        text = json_dumps(event, 0);
        assert_null(strstr(text, "hunter2"));
        assert_null(strstr(text, "secret"));
        json_decref(sink.events);
}

/* FIPS 180-4 examples, and lengths around the block size. */
static void test_sha256(void **state) {
        static const char block[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        char text[SBX_SHA256_TEXT_SIZE], as[130];

        memset(as, 'a', sizeof(as));
        sbx_sha256_text((struct sbx_bytes){NULL, 0}, text);
        assert_string_equal(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        sbx_sha256_text(BYTES("abc"), text);
        assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        sbx_sha256_text((struct sbx_bytes){block, sizeof(block) - 1}, text);
        assert_string_equal(text, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        sbx_sha256_text((struct sbx_bytes){as, 55}, text);
        assert_string_equal(text, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
        sbx_sha256_text((struct sbx_bytes){as, 64}, text);
        assert_string_equal(text, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
        sbx_sha256_text((struct sbx_bytes){as, 119}, text);
        assert_string_equal(text, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb");
        sbx_sha256_text((struct sbx_bytes){as, 130}, text);
        assert_string_equal(text, "1e3c4f4750c8c29bbfa9ced317788176b156d342e57f7777f62fd7221a44312f");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_without_a_sink),
                cmocka_unit_test(test_events_arrive),
                cmocka_unit_test(test_a_sink_that_fails),
                cmocka_unit_test(test_a_sink_that_hangs),
                cmocka_unit_test(test_an_event_too_large),
                cmocka_unit_test(test_a_large_event_of_a_run),
                cmocka_unit_test(test_a_sink_of_runs),
                cmocka_unit_test(test_flush),
                cmocka_unit_test(test_flushes_side_by_side),
                cmocka_unit_test(test_own_timestamps_stay),
                cmocka_unit_test(test_runs_wait_for_a_slow_sink),
                cmocka_unit_test(test_memory_is_bounded),
                cmocka_unit_test(test_tool_calls),
                cmocka_unit_test(test_sha256),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
