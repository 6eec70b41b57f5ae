/* SPDX-License-Identifier: Apache-2.0 */
/* Guests that lie: broken frames, wrong ids, floods, silence. The host ends them, tells why, and goes on. */
#include <pthread.h>
#include <sys/ioctl.h>

#include "../test.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/json.h"
#include "guest/frame.h"
#include "guest/guest.h"
#include "plain_backend.h"
#include "script_backend.h"

#define MIB ((size_t)1 << 20)

/* ---- scripted streams ---- */

struct scripted {
        struct script_backend script;
        struct sbx_buffer stream;
        struct sbx_guest_process *guest;
        struct sbx_error err;
};

static void add_raw(struct scripted *scripted, const void *data, size_t size) {
        assert_int_equal(sbx_buffer_append(&scripted->stream, data, size), 0);
}

static void add_frame(struct scripted *scripted, uint8_t type, const char *json, const void *blob, size_t blob_size) {
        size_t json_size = strlen(json), size = 4 + json_size + blob_size;
        unsigned char head[9] = {(unsigned char)size,
                                 (unsigned char)(size >> 8),
                                 (unsigned char)(size >> 16),
                                 (unsigned char)(size >> 24),
                                 type,
                                 (unsigned char)json_size,
                                 (unsigned char)(json_size >> 8),
                                 (unsigned char)(json_size >> 16),
                                 0};

        add_raw(scripted, head, sizeof(head));
        add_raw(scripted, json, json_size);
        if (blob_size > 0)
                add_raw(scripted, blob, blob_size);
}

static void begin(struct scripted *scripted) {
        *scripted = (struct scripted){.stream = SBX_BUFFER(MIB)};
        script_backend_init(&scripted->script);
        add_raw(scripted, SCRIPT_READY, SCRIPT_READY_SIZE);
}

static int start(struct scripted *scripted) {
        struct sbx_guest_spec spec = {.struct_size = sizeof(spec), .label = "x", .runtime = "python"};

        scripted->script.stream = sbx_buffer_bytes(&scripted->stream);
        return sbx_guest_start(&scripted->script.instance, NULL, &spec, NULL, &scripted->guest, &scripted->err);
}

static void end(struct scripted *scripted) {
        sbx_guest_free(scripted->guest);
        if (scripted->script.killed + scripted->script.closed > 0)
                assert_int_equal(scripted->script.closed, 1);
        sbx_buffer_free(&scripted->stream);
}

/* Runs `x` in a guest that sends the stream, and checks the end and what is said about it. */
static struct sbx_result *execute(struct scripted *scripted, enum sbx_end expected, const char *says) {
        struct sbx_guest_execution execution = {.code = BYTES("x"),
                                                .output_max_bytes = MIB,
                                                .display_max_bytes = MIB,
                                                .grace_ns = 100 * SBX_NS_PER_MS,
                                                .deadline_ns =
                                                        sbx_clock_deadline_ms(scripted->script.open ? 200 : 20000)};
        struct sbx_result *result = NULL;

        if (start(scripted) < 0)
                fail_msg("start: %s", scripted->err.message);
        assert_int_equal(sbx_guest_execute(scripted->guest, &execution, NULL, &result, &scripted->err), 0);
        if (result->end != expected)
                fail_msg("ended as %s: %s", sbx_end_name(result->end), result->error_message);
        if (says != NULL)
                assert_contains(result->error_message, says);
        if (expected == SBX_END_LOST) {
                assert_int_equal(result->state, SBX_STATE_LOST);
                assert_false(sbx_guest_alive(scripted->guest));
        }
        return result;
}

static void bad_results(void **state) {
        static const struct {
                const char *json, *says;
        } cases[] = {
                {"", "result"},
                {"nonsense", "result"},
                {"[1]", "result"},
                {"{\"id\":1}", "end"},
                {"{\"end\":\"ok\"}", "id"},
                {"{\"id\":\"1\",\"end\":\"ok\"}", "id"},
                {"{\"id\":1.5,\"end\":\"ok\"}", "id"},
                {"{\"id\":1,\"end\":5}", "end"},
                {"{\"id\":1,\"end\":\"fine\"}", "\"fine\""},
                {"{\"id\":1,\"id\":1,\"end\":\"ok\"}", "result"},
                {"{\"id\":1,\"end\":\"ok\",\"value\":5}", "value"},
                {"{\"id\":1,\"end\":\"ok\",\"names\":5}", "names"},
                {"{\"id\":1,\"end\":\"ok\",\"names\":[5]}", "names[0]"},
                {"{\"id\":1,\"end\":\"ok\",\"result_json\":5}", "result_json"},
                {"{\"id\":1,\"end\":\"ok\",\"result_json\":true}", "result_json"},
                {"{\"id\":1,\"end\":\"error\"}", "error is missing"},
                {"{\"id\":1,\"end\":\"error\",\"error\":5}", "not an object"},
                {"{\"id\":1,\"end\":\"error\",\"error\":{\"type\":5}}", "type"},
                {"{\"id\":1,\"end\":\"error\",\"error\":{\"message\":\"m\"}}", "missing"},
                {"{\"id\":1,\"end\":\"ok\",\"value\":\"\\ud800\"}", "result"},
                {"{\"id\":1,\"end\":\"ok\",\"value\":\"\xff\"}", "result"},
                {"{\"id\":1,\"end\":\"ok\"} trailing", "result"},
                {"{\"id\":99999999999999999999,\"end\":\"ok\"}", "result"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct scripted scripted;

                begin(&scripted);
                add_frame(&scripted, SBX_FRAME_RESULT, cases[i].json, NULL, 0);
                sbx_result_free(execute(&scripted, SBX_END_LOST, cases[i].says));
                end(&scripted);
        }
}

static void bad_frames(void **state) {
        static const struct {
                const char *data, *says;
                size_t size;
        } cases[] = {
                {"\xff\xff\xff\xff\x86", "4294967300 bytes", 5},
                {"\0\0\0\2\x86", "at most", 5}, /* 32 MiB: more than an execution's result can have */
                {"\0\0\0\0\x99", "unknown type 0x99", 5},
                {"\2\0\0\0\2{}", "unknown type 0x02", 7},
                {"\2\0\0\0\x81{}", "0x81", 7}, /* a second ready */
                {"\1\0\0\0\x86x", "no JSON length", 6},
                {"\6\0\0\0\x84\2\0\0\0{}", "mime", 11},
                {"\0\0\x10\0\x82 and no more", "closed its connection", 17},
                {"", "closed its connection", 0},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct scripted scripted;

                begin(&scripted);
                add_raw(&scripted, cases[i].data, cases[i].size);
                sbx_result_free(execute(&scripted, SBX_END_LOST, cases[i].says));
                end(&scripted);
        }
}

static void bad_displays_and_calls(void **state) {
        static const struct {
                uint8_t type;
                const char *json, *says;
        } cases[] = {
                {SBX_FRAME_DISPLAY, "{\"mime\":\"\"}", "no MIME type"},
                {SBX_FRAME_DISPLAY, "{\"mime\":\"noslash\"}", "no MIME type"},
                {SBX_FRAME_DISPLAY, "{\"mime\":\"text/\\u0000\"}", "no MIME type"},
                {SBX_FRAME_DISPLAY, "{\"mime\":\"text/x\\r\\nX: y\"}", "no MIME type"},
                {SBX_FRAME_DISPLAY, "{\"mime\":5}", "mime"},
                {SBX_FRAME_DISPLAY, "x", "display"},
                {SBX_FRAME_TOOL_CALL, "{}", "call"},
                {SBX_FRAME_TOOL_CALL, "{\"call\":-1,\"name\":\"x\"}", "call"},
                {SBX_FRAME_TOOL_CALL, "{\"call\":1,\"name\":\"x\\u0000\"}", "name"},
                {SBX_FRAME_TOOL_CALL, "{\"call\":1}", "name"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct scripted scripted;

                begin(&scripted);
                add_frame(&scripted, cases[i].type, cases[i].json, "x", 1);
                sbx_result_free(execute(&scripted, SBX_END_LOST, cases[i].says));
                end(&scripted);
        }
}

static void results_of_other_requests(void **state) {
        for (int count = 16; count <= 17; count++) {
                struct scripted scripted;

                begin(&scripted);
                for (int i = 0; i < count; i++)
                        add_frame(&scripted, SBX_FRAME_RESULT, "{\"id\":77,\"end\":\"ok\",\"value\":\"forged\"}", NULL,
                                  0);
                add_frame(&scripted, SBX_FRAME_RESULT, "{\"id\":1,\"end\":\"ok\",\"value\":\"true\"}", NULL, 0);
                if (count == 16) {
                        struct sbx_result *result = execute(&scripted, SBX_END_OK, NULL);

                        assert_string_equal(result->value, "true");
                        sbx_result_free(result);
                } else {
                        sbx_result_free(execute(&scripted, SBX_END_LOST, "more than 16"));
                }
                end(&scripted);
        }
}

static void deep_and_wide_json(void **state) {
        struct scripted scripted;
        char *text = calloc(1, 200 * 1024);

        assert_non_null(text);
        begin(&scripted);
        strcpy(text, "{\"id\":1,\"end\":\"ok\",\"value\":");
        memset(text + strlen(text), '[', 100 * 1024);
        add_frame(&scripted, SBX_FRAME_RESULT, text, NULL, 0);
        sbx_result_free(execute(&scripted, SBX_END_LOST, NULL));
        end(&scripted);
        free(text);
}

static void silence(void **state) {
        struct scripted scripted;
        struct sbx_result *result;

        begin(&scripted);
        scripted.script.open = true;
        add_raw(&scripted, "\0\0\0\1\x86part of a frame", 20);
        result = execute(&scripted, SBX_END_TIMEOUT, "did not stop");
        assert_int_equal(result->state, SBX_STATE_LOST);
        sbx_result_free(result);
        end(&scripted);
}

/* Closes the guest's end once a request lies in it, unread; `says` first. */
struct leaver {
        struct script_backend *script;
        int waiting; /* bytes that lay there before */
        const char *says;
};

static void *leave(void *data) {
        struct leaver *leaver = data;
        int there = leaver->waiting;

        for (int i = 0; i < 20000 && there <= leaver->waiting; i++) {
                usleep(1000);
                assert_int_equal(ioctl(leaver->script->peer, FIONREAD, &there), 0);
        }
        if (leaver->says != NULL)
                assert_int_equal(write(leaver->script->peer, leaver->says, strlen(leaver->says)), strlen(leaver->says));
        close(leaver->script->peer);
        leaver->script->peer = -1;
        return NULL;
}

/* What was never read was not done: another guest may be asked. A guest that had said something may have. */
static void leaves_without_reading(void **state) {
        static const char *const said[] = {NULL, "x"};

        for (size_t i = 0; i < 2; i++) {
                struct scripted scripted;
                struct leaver leaver = {.script = &scripted.script, .says = said[i]};
                struct sbx_guest_execution execution = {
                        .code = BYTES("x"), .output_max_bytes = MIB, .deadline_ns = sbx_clock_deadline_ms(20000)};
                struct sbx_result *result = NULL;
                pthread_t thread;
                int r;

                begin(&scripted);
                scripted.script.open = true;
                assert_int_equal(start(&scripted), 0);
                assert_int_equal(ioctl(scripted.script.peer, FIONREAD, &leaver.waiting), 0);
                assert_int_equal(pthread_create(&thread, NULL, leave, &leaver), 0);
                r = sbx_guest_execute(scripted.guest, &execution, NULL, &result, &scripted.err);
                pthread_join(thread, NULL);
                assert_int_equal(r, said[i] == NULL ? -ESRCH : 0);
                if (r == 0)
                        assert_int_equal(result->end, SBX_END_LOST);
                assert_false(sbx_guest_alive(scripted.guest));
                sbx_result_free(result);
                end(&scripted);
        }
}

static void bad_handshakes(void **state) {
        static const struct {
                const char *data, *says;
                size_t size;
        } cases[] = {
                {"", "ended before its worker was ready", 0},
                {"\x02\0\0\0\x81{}", "protocol", 7},
                {"\x0e\0\0\0\x81{\"protocol\":1}", "runtime", 19},
                {"\x10\0\0\0\x81{\"protocol\":\"1\"}", "protocol", 21},
                {"\x06\0\0\0\x86\2\0\0\0{}", "before `ready`", 11},
                {"\xff\xff\xff\0\x81", "at most", 5},
                {"\0\0\0\0\0", "unknown type", 5},
        };
        struct scripted scripted;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                begin(&scripted);
                sbx_buffer_clear(&scripted.stream);
                add_raw(&scripted, cases[i].data, cases[i].size);
                assert_true(start(&scripted) < 0);
                assert_contains(scripted.err.message, cases[i].says);
                assert_null(scripted.guest);
                end(&scripted);
        }
        begin(&scripted);
        sbx_buffer_clear(&scripted.stream);
        add_raw(&scripted, "\x35\0\0\0\x81{\"protocol\":2,\"runtime\":\"python\",\"version\":\"3.11.2\" }", 58);
        assert_int_equal(start(&scripted), -EPROTO);
        assert_contains(scripted.err.message, "speaks version 2");
        assert_contains(scripted.err.hint, "Update");
        end(&scripted);
}

static void bad_answers(void **state) {
        static const char *const variables[] = {"{\"id\":1,\"end\":\"ok\"}",
                                                "{\"id\":1,\"end\":\"ok\",\"variables\":[]}",
                                                "{\"id\":1,\"end\":\"ok\",\"variables\":{\"x\":5}}",
                                                "{\"id\":1,\"end\":\"ok\",\"variables\":{\"x\":{\"type\":\"int\"}}}"};
        static const char *const files[] = {"{\"id\":1,\"end\":\"ok\"}", "{\"id\":1,\"end\":\"ok\",\"files\":{}}",
                                            "{\"id\":1,\"end\":\"ok\",\"files\":[5]}",
                                            "{\"id\":1,\"end\":\"ok\",\"files\":[{\"path\":\"x\",\"size\":-1,\"mode\":"
                                            "0,\"mtime_ms\":0,\"type\":\"file\"}]}",
                                            "{\"id\":1,\"end\":\"ok\",\"files\":[{\"path\":\"x\",\"size\":1,\"mode\":0,"
                                            "\"mtime_ms\":0,\"type\":\"odd\"}]}"};
        struct scripted scripted;
        struct sbx_buffer content = SBX_BUFFER(MIB);
        json_t *answer = NULL;

        for (size_t i = 0; i < 4; i++) {
                begin(&scripted);
                add_frame(&scripted, SBX_FRAME_RESULT, variables[i], NULL, 0);
                assert_int_equal(start(&scripted), 0);
                assert_int_equal(sbx_guest_get(scripted.guest, NULL, NULL, &answer, &scripted.err), -EPROTO);
                assert_false(sbx_guest_alive(scripted.guest));
                end(&scripted);
        }
        for (size_t i = 0; i < 5; i++) {
                begin(&scripted);
                add_frame(&scripted, SBX_FRAME_RESULT, files[i], NULL, 0);
                assert_int_equal(start(&scripted), 0);
                assert_int_equal(sbx_guest_file_list(scripted.guest, ".", NULL, &answer, NULL, &scripted.err), -EPROTO);
                assert_false(sbx_guest_alive(scripted.guest));
                end(&scripted);
        }
        begin(&scripted);
        add_frame(&scripted, SBX_FRAME_RESULT, "{\"id\":1,\"end\":\"ok\",\"size\":5}", "more than asked for", 19);
        assert_int_equal(start(&scripted), 0);
        assert_int_equal(sbx_guest_file_read(scripted.guest, "x", 5, NULL, &content, &scripted.err), -EPROTO);
        assert_int_equal(content.size, 0);
        end(&scripted);
        assert_null(answer);
        sbx_buffer_free(&content);
}

/* ---- processes ---- */

#define PRELUDE                                                                                                        \
        "import os, struct, time\n"                                                                                    \
        "def frame(kind, payload): return struct.pack('<IB', len(payload), kind) + payload\n"                          \
        "def jb(kind, text, blob=b''): return frame(kind, struct.pack('<I', len(text)) + text + blob)\n"               \
        "def send(data):\n"                                                                                            \
        "    while data: data = data[os.write(3, data):]\n"                                                            \
        "os.read(3, 65536)\n"                                                                                          \
        "send(frame(0x81, b'{\"protocol\":1,\"runtime\":\"python\",\"version\":\"3\"}'))\n"                            \
        "os.read(3, 65536)\n"

static void run_process(const char *code, enum sbx_end expected, const char *says, uint64_t limit_ms) {
        const char *argv[] = {SBX_TEST_PYTHON, "-I", "-S", "-c", code, NULL};
        struct plain_backend backend = {.argv = argv};
        struct sbx_guest_spec spec = {.struct_size = sizeof(spec), .label = "x", .runtime = "python"};
        struct sbx_guest_execution execution = {
                .code = BYTES("x"), .output_max_bytes = MIB, .display_max_bytes = MIB, .grace_ns = 200 * SBX_NS_PER_MS};
        struct sbx_guest_process *guest = NULL;
        struct sbx_result *result = NULL;
        struct sbx_error err = {0};
        uint64_t started;

        plain_backend_init(&backend);
        if (sbx_guest_start(&backend.instance, NULL, &spec, NULL, &guest, &err) < 0)
                fail_msg("%s", err.message);
        started = sbx_clock_ns();
        execution.deadline_ns = sbx_clock_deadline_ms(limit_ms);
        assert_int_equal(sbx_guest_execute(guest, &execution, NULL, &result, &err), 0);
        if (result->end != expected)
                fail_msg("ended as %s: %s", sbx_end_name(result->end), result->error_message);
        if (says != NULL)
                assert_contains(result->error_message, says);
        assert_true(sbx_clock_ns() - started < (limit_ms + 5000) * SBX_NS_PER_MS);
        sbx_result_free(result);
        sbx_guest_free(guest);
        assert_int_equal(atomic_load(&backend.closed), 1);
}

static void floods(void **state) {
        run_process(PRELUDE "while True: send(frame(0x82, b'x' * 65536))", SBX_END_TIMEOUT, NULL, 500);
        run_process(PRELUDE "while True: send(frame(0x82, b''))", SBX_END_TIMEOUT, NULL, 500);
        run_process(PRELUDE "f = jb(0x84, b'{\"mime\":\"text/plain\"}', b'x') * 1000\nwhile True: send(f)",
                    SBX_END_TIMEOUT, NULL, 500);
        run_process(PRELUDE "while True: send(jb(0x86, b'{\"id\":77,\"end\":\"ok\"}'))", SBX_END_LOST, "more than 16",
                    5000);
        run_process(PRELUDE "while True: os.write(1, b'x' * 65536)", SBX_END_TIMEOUT, NULL, 500);
        run_process(PRELUDE "send(b'\\0' * (64 << 20))", SBX_END_LOST, "unknown type", 5000);
        run_process(PRELUDE "while True: send(jb(0x85, b'{\"call\":1,\"name\":\"x\"}', b'{}'))", SBX_END_LOST,
                    "before the answer", 5000);
}

static void drips(void **state) {
        run_process(PRELUDE "f = jb(0x86, b'{\"id\":1,\"end\":\"ok\"}')\nfor b in f:\n    os.write(3, bytes([b]))\n    "
                            "time.sleep(0.002)\ntime.sleep(100)",
                    SBX_END_OK, NULL, 5000);
        run_process(PRELUDE
                    "send(struct.pack('<IB', 16 << 20, 0x84))\nwhile True:\n    send(b'x')\n    time.sleep(0.01)",
                    SBX_END_TIMEOUT, NULL, 500);
}

/* A file of 64 MiB that nobody asked for must not fill the host's memory. */
static void large_results(void **state) {
        run_process(PRELUDE "send(jb(0x86, b'{\"id\":1,\"end\":\"ok\"}', b'x' * (64 << 20)))", SBX_END_LOST, "at most",
                    10000);
        run_process(PRELUDE "send(jb(0x86, b'{\"id\":1,\"end\":\"ok\"}', b'x' * (13 << 20)))", SBX_END_OK, NULL, 10000);
        run_process(PRELUDE "send(jb(0x86, b'{\"id\":1,\"end\":\"ok\",\"value\":\"' + b'x' * (5 << 20) + b'\"}'))",
                    SBX_END_LOST, NULL, 10000);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(bad_results),
                cmocka_unit_test(bad_frames),
                cmocka_unit_test(bad_displays_and_calls),
                cmocka_unit_test(results_of_other_requests),
                cmocka_unit_test(deep_and_wide_json),
                cmocka_unit_test(silence),
                cmocka_unit_test(leaves_without_reading),
                cmocka_unit_test(bad_handshakes),
                cmocka_unit_test(bad_answers),
                cmocka_unit_test(floods),
                cmocka_unit_test(drips),
                cmocka_unit_test(large_results),
        };

        return cmocka_run_group_tests_name("hostile", tests, NULL, NULL);
}
