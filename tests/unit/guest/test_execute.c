/* SPDX-License-Identifier: Apache-2.0 */
/* Executions in the real Python worker, over a backend that isolates nothing. */
#include "../test.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "guest/guest.h"
#include "plain_backend.h"

#define MIB ((size_t)1 << 20)

struct fixture {
        struct plain_backend backend;
        struct sbx_guest_process *guest;
        struct sbx_guest_execution execution;
        struct sbx_result *result;
        struct sbx_call call;
        struct sbx_error err;
};

static void start(struct fixture *fixture) {
        struct sbx_guest_spec spec = {.struct_size = sizeof(spec), .label = "test", .runtime = "python"};

        sbx_guest_free(fixture->guest);
        fixture->guest = NULL;
        if (sbx_guest_start(&fixture->backend.instance, NULL, &spec, NULL, &fixture->guest, &fixture->err) < 0)
                fail_msg("%s (%s)", fixture->err.message, fixture->err.hint);
}

static int setup(void **state) {
        struct fixture *fixture = calloc(1, sizeof(*fixture));

        if (fixture == NULL)
                return -1;
        plain_backend_init(&fixture->backend);
        fixture->execution = (struct sbx_guest_execution){
                .output_max_bytes = MIB, .display_max_bytes = MIB, .grace_ns = 2 * SBX_NS_PER_S};
        fixture->call = (struct sbx_call){.struct_size = sizeof(fixture->call), .cancel_fd = -1};
        start(fixture);
        *state = fixture;
        return 0;
}

static int teardown(void **state) {
        struct fixture *fixture = *state;

        sbx_result_free(fixture->result);
        sbx_guest_free(fixture->guest);
        free(fixture);
        return 0;
}

/* Runs code with a time limit (0: none) and checks how it ended. */
static const struct sbx_result *run(struct fixture *fixture, const char *code, uint64_t limit_ms, enum sbx_end end) {
        int r;

        sbx_result_free(fixture->result);
        fixture->result = NULL;
        if (code != NULL)
                fixture->execution.code = (struct sbx_bytes){code, strlen(code)};
        fixture->execution.deadline_ns = limit_ms > 0 ? sbx_clock_deadline_ms(limit_ms) : 0;
        r = sbx_guest_execute(fixture->guest, &fixture->execution, &fixture->call, &fixture->result, &fixture->err);
        if (r < 0)
                fail_msg("%s: %s", code, fixture->err.message);
        if (fixture->result->end != end)
                fail_msg("%s: ended as %s (%s; %s), not %s", code, sbx_end_name(fixture->result->end),
                         fixture->result->error_message, fixture->result->traceback, sbx_end_name(end));
        assert_true(end == SBX_END_OK || fixture->result->error_message[0] != '\0');
        return fixture->result;
}

static void tells_what_happened(void **state) {
        struct fixture *fixture = *state;
        const struct sbx_result *result =
                run(fixture, "import sys\nx = 1\nprint('out')\nprint('err', file=sys.stderr)\nx + 1", 0, SBX_END_OK);

        assert_string_equal(result->stdout_text.data, "out\n");
        assert_int_equal(result->stdout_text.size, 4);
        assert_string_equal(result->stderr_text.data, "err\n");
        assert_string_equal(result->value, "2");
        assert_string_equal(result->isolation, "none");
        assert_null(result->result);
        assert_null(result->error_message);
        assert_null(result->session_id);
        assert_true(result->duration_ns > 0 && result->cpu_ns > 0);
        assert_int_equal(result->state, SBX_STATE_KEPT);
        fixture->execution.session_id = "mine";
        fixture->execution.notice = "note";
        result = run(fixture, "result = {'a': [1, 'x']}", 0, SBX_END_OK);
        assert_string_equal(result->result, "{'a': [1, 'x']}");
        assert_string_equal(result->result_json, "{\"a\":[1,\"x\"]}");
        assert_string_equal(result->session_id, "mine");
        assert_string_equal(result->notice, "note");
        result = run(fixture, "x", 0, SBX_END_OK);
        assert_null(result->result_json);
        result = run(fixture, "raise ValueError('why')", 0, SBX_END_ERROR);
        assert_string_equal(result->error_type, "ValueError");
        assert_string_equal(result->error_message, "why");
        assert_contains(result->traceback, "line 1, in <module>");
        result = run(fixture, "assert False", 0, SBX_END_ERROR);
        assert_string_equal(result->error_message, "AssertionError");
        assert_int_equal(json_array_size(sbx_guest_names(fixture->guest)), 2);
        assert_string_equal(sbx_guest_isolation(fixture->guest), "none");
        assert_contains((const char *)sbx_guest_report(fixture->guest).data, "plain");
        assert_string_equal(json_string_value(json_object_get(sbx_guest_info(fixture->guest), "runtime")), "python");
}

static void takes_any_bytes_as_code(void **state) {
        struct fixture *fixture = *state;
        char *large = malloc(17 * MIB);

        assert_non_null(large);
        run(fixture, "", 0, SBX_END_OK);
        fixture->execution.code = BYTES("x = '\xff'");
        assert_contains(run(fixture, NULL, 0, SBX_END_ERROR)->error_message, "UTF-8");
        fixture->execution.code = BYTES("x = 1\0");
        assert_contains(run(fixture, NULL, 0, SBX_END_ERROR)->error_message, "NUL");
        memset(large, '#', 17 * MIB);
        fixture->execution.code = (struct sbx_bytes){large, 16 * MIB};
        run(fixture, NULL, 0, SBX_END_OK);
        fixture->execution.code.size = 17 * MIB;
        assert_int_equal(sbx_guest_execute(fixture->guest, &fixture->execution, NULL, &fixture->result, &fixture->err),
                         -EFBIG);
        assert_contains(fixture->err.message, "17825792 bytes");
        fixture->execution.filename = "a\"\\\xff\n.py";
        run(fixture, "1/0", 0, SBX_END_ERROR);
        assert_contains(fixture->result->traceback, "a\"\\\xef\xbf\xbd\n.py");
        free(large);
}

static void interrupts_at_the_deadline(void **state) {
        static const char *const codes[] = {"while True: pass", "import time\ntime.sleep(1e6)",
                                            "import asyncio\nawait asyncio.sleep(1e6)",
                                            "import subprocess\nsubprocess.run(['sleep', '1000'])"};
        struct fixture *fixture = *state;

        run(fixture, "x = 41", 0, SBX_END_OK);
        for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
                const struct sbx_result *result = run(fixture, codes[i], 300, SBX_END_TIMEOUT);

                assert_int_equal(result->state, SBX_STATE_KEPT);
                assert_null(result->error_type);
                assert_contains(result->error_message, "limit of 0.3 s; it was interrupted and its variables are kept");
                assert_contains(result->traceback, "KeyboardInterrupt");
                assert_true(result->duration_ns >= 300 * SBX_NS_PER_MS && result->duration_ns < 5 * SBX_NS_PER_S);
        }
        assert_string_equal(run(fixture, "x + 1", 0, SBX_END_OK)->value, "42");
        assert_true(sbx_guest_alive(fixture->guest));
}

static void kills_after_the_grace_period(void **state) {
        struct fixture *fixture = *state;
        const struct sbx_result *result;

        fixture->execution.grace_ns = 700 * SBX_NS_PER_MS;
        result = run(fixture,
                     "import time\nwhile True:\n    try:\n        while True: time.sleep(1)\n    except BaseException: "
                     "print('no')",
                     300, SBX_END_TIMEOUT);
        assert_int_equal(result->state, SBX_STATE_LOST);
        assert_contains(result->error_message, "it did not stop and was killed");
        assert_contains((const char *)result->stdout_text.data, "no\n");
        assert_true(atomic_load(&fixture->backend.interrupts) >= 3);
        assert_true(result->duration_ns >= 1000 * SBX_NS_PER_MS && result->duration_ns < 10 * SBX_NS_PER_S);
        assert_false(sbx_guest_alive(fixture->guest));
        assert_int_equal(sbx_guest_execute(fixture->guest, &fixture->execution, NULL, &fixture->result, &fixture->err),
                         -ESRCH);
}

static void counts_cpu_time(void **state) {
        struct fixture *fixture = *state;

        fixture->execution.cpu_limit_ns = 300 * SBX_NS_PER_MS;
        run(fixture, "import time\ntime.sleep(0.6)", 5000, SBX_END_OK);
        assert_contains(run(fixture, "while True: pass", 20000, SBX_END_TIMEOUT)->error_message, "CPU time of 0.3 s");
        assert_int_equal(fixture->result->state, SBX_STATE_KEPT);
        run(fixture, "1", 5000, SBX_END_OK);
}

static void is_cancelled(void **state) {
        struct fixture *fixture = *state;

        fixture->call.cancel_fd = eventfd(1, EFD_CLOEXEC);
        run(fixture, "while True: pass", 20000, SBX_END_CANCELLED);
        assert_int_equal(fixture->result->state, SBX_STATE_KEPT);
        fixture->execution.grace_ns = 200 * SBX_NS_PER_MS;
        fixture->backend.deaf = true;
        run(fixture, "while True: pass", 20000, SBX_END_CANCELLED);
        assert_int_equal(fixture->result->state, SBX_STATE_LOST);
        close(fixture->call.cancel_fd);
}

static void call_deadline_counts(void **state) {
        struct fixture *fixture = *state;

        fixture->call.deadline_ns = sbx_clock_deadline_ms(200);
        run(fixture, "while True: pass", 20000, SBX_END_TIMEOUT);
}

static void tells_how_a_guest_died(void **state) {
        static const struct {
                const char *code, *says;
                enum sbx_end end;
        } cases[] = {
                {"import os\nprint('last')\nos._exit(3)", "exited with code 3", SBX_END_LOST},
                {"import ctypes\nctypes.string_at(0)", "signal 11 (SIGSEGV", SBX_END_KILLED},
                {"import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "signal 9 (SIGKILL)", SBX_END_KILLED},
                {"import os\nos.closerange(3, 65536)\nimport time\ntime.sleep(100)", "closed its connection",
                 SBX_END_LOST},
                {"import os\nfor fd in range(3, 1100):\n    try: os.write(fd, b'rubbish' * 10)\n    except OSError: "
                 "pass",
                 "broke the protocol", SBX_END_LOST},
        };
        struct fixture *fixture = *state;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const struct sbx_result *result = run(fixture, cases[i].code, 20000, cases[i].end);

                assert_contains(result->error_message, cases[i].says);
                assert_int_equal(result->state, SBX_STATE_LOST);
                if (i == 0)
                        assert_string_equal(result->stdout_text.data, "last\n");
                assert_false(sbx_guest_alive(fixture->guest));
                start(fixture);
        }
        fixture->backend.oom = true;
        run(fixture, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", 20000, SBX_END_MEMORY);
        assert_contains(fixture->result->error_message, "memory limit");
        assert_int_equal(fixture->result->state, SBX_STATE_LOST);
}

static void guest_that_died_before_gets_no_code(void **state) {
        struct fixture *fixture = *state;
        struct sbx_error err = {0};

        kill(plain_backend_last_pid(), SIGKILL);
        while (sbx_guest_alive(fixture->guest))
                usleep(1000);
        fixture->execution.code = BYTES("1");
        assert_int_equal(sbx_guest_execute(fixture->guest, &fixture->execution, NULL, &fixture->result, &err), -ESRCH);
}

static void memory_error_keeps_the_state(void **state) {
        struct fixture *fixture = *state;

        fixture->execution.memory_bytes = 300 * MIB;
        run(fixture, "x = 5\ny = bytearray(1 << 30)", 20000, SBX_END_MEMORY);
        assert_int_equal(fixture->result->state, SBX_STATE_KEPT);
        assert_contains(fixture->result->error_message, "memory limit");
        assert_string_equal(run(fixture, "x", 0, SBX_END_OK)->value, "5");
}

struct stream {
        uint64_t bytes[3];
};

static void count_output(void *data, int fd, struct sbx_bytes bytes) {
        struct stream *stream = data;

        stream->bytes[fd] += bytes.size;
}

static void floods_are_counted_and_dropped(void **state) {
        struct fixture *fixture = *state;
        struct stream stream = {0};
        struct sbx_output_events events = {.struct_size = sizeof(events), .data = &stream, .output = count_output};
        const struct sbx_result *result;

        fixture->execution.events = &events;
        result = run(fixture,
                     "import os\nb = b'x' * (1 << 20)\nfor i in range(300):\n    n = 0\n    while n < len(b): n += "
                     "os.write(1, b)",
                     60000, SBX_END_OK);
        assert_int_equal(result->stdout_text.size, MIB);
        assert_int_equal(result->stdout_dropped_bytes, 299 * MIB);
        assert_int_equal(stream.bytes[1], MIB);
        result = run(fixture, "import sys\nfor i in range(100000): print('line', i, file=sys.stderr)", 60000,
                     SBX_END_OK);
        assert_int_equal(result->stderr_text.size + result->stderr_dropped_bytes,
                         10 * 7 + 90 * 8 + 900 * 9 + 9000 * 10 + 90000 * 11);
        run(fixture, "while True: print('x' * 100000)", 500, SBX_END_TIMEOUT);
        fixture->execution.output_max_bytes = 2;
        result = run(fixture, "print('a\xe2\x82\xac')", 0, SBX_END_OK);
        assert_string_equal(result->stdout_text.data, "a");
        assert_int_equal(result->stdout_dropped_bytes, 3);
        fixture->execution.output_max_bytes = 0;
        assert_int_equal(run(fixture, "print('x')", 0, SBX_END_OK)->stdout_dropped_bytes, 2);
}

static void invalid_output_is_repaired(void **state) {
        struct fixture *fixture = *state;
        const struct sbx_result *result = run(fixture, "import os\nos.write(1, b'a\\xff\\0b')\nNone", 0, SBX_END_OK);

        assert_int_equal(result->stdout_text.size, 6);
        assert_memory_equal(result->stdout_text.data, "a\xef\xbf\xbd\0b", 7);
        result = run(fixture, "'a\\0b\\ud800'", 0, SBX_END_OK);
        assert_string_equal(result->value, "'a\\x00b\\ud800'");
        result = run(fixture, "class N(Exception): pass\nraise N('a\\0b\\ud800')", 0, SBX_END_ERROR);
        assert_string_equal(result->error_message, "a\xe2\x90\x80"
                                                   "b\xef\xbf\xbd");
        assert_string_equal(result->error_type, "N");
}

static void late_output_belongs_to_the_next(void **state) {
        struct fixture *fixture = *state;

        assert_string_equal(run(fixture,
                                "import subprocess\np = subprocess.Popen(['sh', '-c', 'sleep 0.3; echo late'])", 0,
                                SBX_END_OK)
                                    ->stdout_text.data,
                            "");
        assert_string_equal(run(fixture, "p.wait()\nNone", 0, SBX_END_OK)->stdout_text.data, "late\n");
        run(fixture,
            "import threading, time\ndef f():\n    while True: print('x' * 1000)\nthreading.Thread(target=f, "
            "daemon=True).start()",
            20000, SBX_END_OK);
        run(fixture, "1", 20000, SBX_END_OK);
}

static void shows_displays_within_the_cap(void **state) {
        struct fixture *fixture = *state;
        const struct sbx_result *result =
                run(fixture,
                    "class C:\n    def __init__(self, n): self.n = n\n    def _repr_png_(self): return b'p' * self.n\n"
                    "    def _repr_html_(self): return '<b>\\u20ac</b>'\nC(3)",
                    0, SBX_END_OK);

        assert_int_equal(result->display_count, 2);
        assert_string_equal(result->displays[0].mime_type, "image/png");
        assert_string_equal(result->displays[0].data.data, "cHBw");
        assert_string_equal(result->displays[1].data.data, "<b>\xe2\x82\xac</b>");
        result = run(fixture, "display(C(600000))\ndisplay(C(600000))\nfor i in range(2000): display(C(1))", 0,
                     SBX_END_OK);
        assert_int_equal(result->display_count, 1000);
        assert_int_equal(result->display_dropped_count, 4004 - 1000);
}

static int answer_call(void *data, const char *name, struct sbx_bytes arguments, const struct sbx_call *call,
                       struct sbx_buffer *result, struct sbx_error *err) {
        unsigned *calls = data;

        ++*calls;
        if (strcmp(name, "fail") == 0)
                return sbx_error_set(err, -EIO, "test", NULL, "it failed");
        assert_memory_equal(arguments.data, "{\"a\":1}", arguments.size);
        return sbx_buffer_append_text(result, "{\"sum\":[3]}");
}

static void answers_tool_calls(void **state) {
        struct fixture *fixture = *state;
        unsigned calls = 0;
        const struct sbx_code_calls code_calls = {.data = &calls, .answer = answer_call};

        assert_contains(run(fixture, "call_tool('add', a=1)", 0, SBX_END_ERROR)->error_message, "no tools");
        fixture->execution.code_calls = &code_calls;
        assert_string_equal(run(fixture, "[call_tool('add', a=1) for i in range(100)][99]", 0, SBX_END_OK)->value,
                            "{'sum': [3]}");
        assert_contains(run(fixture, "call_tool('fail')", 0, SBX_END_ERROR)->error_message, "it failed");
        assert_int_equal(calls, 101);
}

static void variables(void **state) {
        struct fixture *fixture = *state;
        _cleanup_json_ json_t *value = json_pack("{s:[i,s]}", "a", 1, "x"), *all = NULL, *some = NULL;
        _cleanup_json_ json_t *names = json_pack("[s]", "y");
        char *repr = NULL;

        assert_int_equal(sbx_guest_set(fixture->guest, "x y", value, NULL, &repr, &fixture->err), 0);
        assert_string_equal(repr, "{'a': [1, 'x']}");
        free(repr);
        run(fixture, "y = context['x y']['a']\nz = object()\nimport os", 0, SBX_END_OK);
        assert_int_equal(sbx_guest_get(fixture->guest, NULL, NULL, &all, &fixture->err), 0);
        assert_int_equal(json_object_size(all), 3);
        assert_true(json_equal(json_object_get(json_object_get(all, "x y"), "json"), value));
        assert_int_equal(sbx_guest_get(fixture->guest, names, NULL, &some, &fixture->err), 0);
        assert_int_equal(json_object_size(some), 1);
        assert_int_equal(sbx_guest_set(fixture->guest, "__name__", value, NULL, NULL, &fixture->err), -EIO);
        assert_contains(fixture->err.message, "KeyError");
        assert_int_equal(sbx_guest_set(fixture->guest, "a\xff", value, NULL, NULL, NULL), -EINVAL);
        assert_int_equal(sbx_guest_clear(fixture->guest, NULL, NULL), 0);
        assert_int_equal(json_array_size(sbx_guest_names(fixture->guest)), 0);
        assert_contains(run(fixture, "y", 0, SBX_END_ERROR)->error_message, "not defined");
}

static void a_repr_that_hangs_is_stopped(void **state) {
        struct fixture *fixture = *state;
        _cleanup_json_ json_t *all = NULL;

        run(fixture,
            "class C:\n    def __repr__(self):\n        print('x' * 100000)\n        while True: pass\nc = C()", 0,
            SBX_END_OK);
        fixture->call.deadline_ns = sbx_clock_deadline_ms(300);
        assert_int_equal(sbx_guest_get(fixture->guest, NULL, &fixture->call, &all, &fixture->err), -ETIMEDOUT);
        assert_true(sbx_guest_alive(fixture->guest));
        fixture->call.deadline_ns = 0;
        run(fixture, "del c", 0, SBX_END_OK);
        run(fixture,
            "class D:\n    def __repr__(self):\n        while True:\n            try:\n                import time\n   "
            "             time.sleep(1)\n            except BaseException: pass\nd = D()",
            0, SBX_END_OK);
        fixture->call.deadline_ns = sbx_clock_deadline_ms(100);
        assert_int_equal(sbx_guest_get(fixture->guest, NULL, &fixture->call, &all, NULL), -ETIMEDOUT);
        assert_false(sbx_guest_alive(fixture->guest));
}

static void files(void **state) {
        struct fixture *fixture = *state;
        struct sbx_buffer content = SBX_BUFFER(64 * MIB), more = SBX_BUFFER(10);
        _cleanup_json_ json_t *list = NULL;
        char path[96], *large = malloc(20 * MIB);

        assert_non_null(large);
        for (size_t i = 0; i < 20 * MIB; i++)
                large[i] = (char)(i * 2654435761u >> 13);
        snprintf(path, sizeof(path), "sbx-guest-files-%d/a.bin", (int)getpid());
        assert_int_equal(
                sbx_guest_file_write(fixture->guest, path, (struct sbx_bytes){large, 20 * MIB}, NULL, &fixture->err),
                0);
        assert_int_equal(sbx_guest_file_read(fixture->guest, path, 64 * MIB, NULL, &content, &fixture->err), 0);
        assert_int_equal(content.size, 20 * MIB);
        assert_memory_equal(content.data, large, 20 * MIB);
        assert_int_equal(sbx_guest_file_read(fixture->guest, path, 10, NULL, &more, &fixture->err), -EFBIG);
        assert_contains(fixture->err.message, "Larger than 10 bytes");
        fixture->err.code = 0;
        assert_int_equal(sbx_guest_file_read(fixture->guest, "sbx-test-none", 10, NULL, &more, &fixture->err), -ENOENT);
        assert_contains(fixture->err.message, "No such file or directory: '");
        snprintf(path, sizeof(path), "sbx-guest-files-%d", (int)getpid());
        assert_int_equal(sbx_guest_file_list(fixture->guest, path, NULL, &list, NULL, NULL), 0);
        assert_int_equal(json_array_size(list), 1);
        assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 0), "size")), 20 * MIB);
        snprintf(path, sizeof(path), "__import__('shutil').rmtree('sbx-guest-files-%d')", (int)getpid());
        run(fixture, path, 0, SBX_END_OK);
        free(large);
        sbx_buffer_free(&content);
        sbx_buffer_free(&more);
}

static void framed_output(void **state) {
        struct fixture *fixture = *state;
        const struct sbx_result *result;

        fixture->backend.framed = true;
        start(fixture);
        result =
                run(fixture, "import os, sys\nprint('a')\nos.write(2, b'b')\nos.system('echo c')\nNone", 0, SBX_END_OK);
        assert_string_equal(result->stdout_text.data, "a\nc\n");
        assert_string_equal(result->stderr_text.data, "b");
        run(fixture, "while True: print('x' * 1000)", 500, SBX_END_TIMEOUT);
        assert_int_equal(fixture->result->state, SBX_STATE_KEPT);
        assert_int_equal(fixture->result->stdout_text.size, MIB);
}

/* A guest that stops reading while the host sends it 10 MB. */
static void guest_that_does_not_read(void **state) {
        struct fixture *fixture = *state;
        char *large = malloc(10 * MIB);

        assert_non_null(large);
        memset(large, '#', 10 * MIB);
        fixture->execution.grace_ns = 200 * SBX_NS_PER_MS;
        kill(plain_backend_last_pid(), SIGSTOP);
        fixture->execution.code = (struct sbx_bytes){large, 10 * MIB};
        run(fixture, NULL, 300, SBX_END_TIMEOUT);
        assert_int_equal(fixture->result->state, SBX_STATE_LOST);
        free(large);
}

static void warm_executions_are_fast(void **state) {
        struct fixture *fixture = *state;
        uint64_t best = UINT64_MAX;

        for (int i = 0; i < 2000; i++) {
                run(fixture, "x = 1", 0, SBX_END_OK);
                if (fixture->result->duration_ns < best)
                        best = fixture->result->duration_ns;
        }
        print_message("# fastest warm execution: %.1f us\n", (double)best / 1000.0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
                TEST(tells_what_happened),
                TEST(takes_any_bytes_as_code),
                TEST(interrupts_at_the_deadline),
                TEST(kills_after_the_grace_period),
                TEST(counts_cpu_time),
                TEST(is_cancelled),
                TEST(call_deadline_counts),
                TEST(tells_how_a_guest_died),
                TEST(guest_that_died_before_gets_no_code),
                TEST(memory_error_keeps_the_state),
                TEST(floods_are_counted_and_dropped),
                TEST(invalid_output_is_repaired),
                TEST(late_output_belongs_to_the_next),
                TEST(shows_displays_within_the_cap),
                TEST(answers_tool_calls),
                TEST(variables),
                TEST(a_repr_that_hangs_is_stopped),
                TEST(files),
                TEST(framed_output),
                TEST(guest_that_does_not_read),
                TEST(warm_executions_are_fast),
        };

        return cmocka_run_group_tests_name("execute", tests, NULL, NULL);
}
