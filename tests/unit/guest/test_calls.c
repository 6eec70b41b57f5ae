/* SPDX-License-Identifier: Apache-2.0 */
/* Code that calls the host back, in the real Python worker: whose time an answer takes, what ends it, and what a guest
 * that does not keep to the rules gets. */
#include "../test.h"

#include <stdlib.h>
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
        struct sbx_code_calls calls;
        struct sbx_result *result;
        struct sbx_call call;
        struct sbx_error err;
        unsigned count;       /* of calls */
        size_t largest;       /* bytes of arguments */
        char name[160];       /* of the last call */
        char arguments[256];  /* of the last call, the beginning */
        struct sbx_call seen; /* by the last call */
};

static void pause_ms(unsigned ms) {
        nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

static int large_result(struct sbx_buffer *result, size_t size) {
        char *text = malloc(size);
        int r;

        assert_non_null(text);
        memset(text, 'x', size);
        text[0] = text[size - 1] = '"';
        r = sbx_buffer_append(result, text, size);
        free(text);
        return r;
}

/* What a call does stands in its name. */
static int answer(void *data, const char *name, struct sbx_bytes arguments, const struct sbx_call *call,
                  struct sbx_buffer *result, struct sbx_error *err) {
        struct fixture *fixture = data;

        fixture->count++;
        fixture->seen = *call;
        snprintf(fixture->name, sizeof(fixture->name), "%s", name);
        snprintf(fixture->arguments, sizeof(fixture->arguments), "%.*s",
                 (int)(arguments.size < 200 ? arguments.size : 200), (const char *)arguments.data);
        if (arguments.size > fixture->largest)
                fixture->largest = arguments.size;
        if (strncmp(name, "wait ", 5) == 0)
                pause_ms((unsigned)strtoul(name + 5, NULL, 10));
        else if (strcmp(name, "until deadline") == 0)
                while (sbx_clock_ns() < call->deadline_ns)
                        pause_ms(1);
        else if (strcmp(name, "cancel") == 0)
                (void)!eventfd_write(call->cancel_fd, 1);
        else if (strcmp(name, "cancel and fail") == 0) {
                (void)!eventfd_write(call->cancel_fd, 1);
                return sbx_error_set(err, -ECANCELED, "test", NULL, "cancelled");
        } else if (strcmp(name, "fail") == 0)
                return sbx_error_set(err, -EIO, "test", NULL, "it failed");
        else if (strcmp(name, "large") == 0)
                return large_result(result, 16 * MIB);
        else if (strcmp(name, "too large") == 0)
                return large_result(result, 16 * MIB + 1);
        else if (strcmp(name, "nothing") == 0)
                return 0;
        else if (strcmp(name, "llm_query") == 0)
                return sbx_buffer_append_text(result, "{\"response\":\"yes\",\"tokens_used\":1,\"cost\":null}");
        return sbx_buffer_append_text(result, "1");
}

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
        fixture->calls = (struct sbx_code_calls){.data = fixture, .answer = answer};
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

/* Runs code with a time limit (0: none); its end is not looked at. */
static const struct sbx_result *run_any(struct fixture *fixture, const char *code, uint64_t limit_ms) {
        struct sbx_guest_execution execution = {.code = {code, strlen(code)},
                                                .output_max_bytes = MIB,
                                                .display_max_bytes = MIB,
                                                .grace_ns = 10 * SBX_NS_PER_S,
                                                .deadline_ns = limit_ms > 0 ? sbx_clock_deadline_ms(limit_ms) : 0,
                                                .code_calls = &fixture->calls};

        sbx_result_free(fixture->result);
        fixture->result = NULL;
        if (sbx_guest_execute(fixture->guest, &execution, &fixture->call, &fixture->result, &fixture->err) < 0)
                fail_msg("%s: %s", code, fixture->err.message);
        return fixture->result;
}

static const struct sbx_result *run(struct fixture *fixture, const char *code, uint64_t limit_ms, enum sbx_end end) {
        const struct sbx_result *result = run_any(fixture, code, limit_ms);

        if (result->end != end)
                fail_msg("%s: ended as %s (%s; %s), not %s", code, sbx_end_name(result->end), result->error_message,
                         result->traceback, sbx_end_name(end));
        return result;
}

static void an_answer_is_not_the_executions_time(void **state) {
        struct fixture *fixture = *state;
        const struct sbx_result *result;

        run(fixture, "call_tool('wait 2500')", 2000, SBX_END_OK);
        assert_true(fixture->result->duration_ns >= 2500 * SBX_NS_PER_MS);
        result = run(fixture, "call_tool('wait 700')\nwhile True: pass", 600, SBX_END_TIMEOUT);
        assert_contains(result->error_message, "its limit of 0.6 s");
        assert_true(result->duration_ns >= 1300 * SBX_NS_PER_MS);
        assert_int_equal(result->state, SBX_STATE_KEPT);
        run(fixture, "try:\n    call_tool('wait 300')\nfinally:\n    while True: pass", 500, SBX_END_TIMEOUT);
}

static void the_answer_gets_the_callers_limits(void **state) {
        struct fixture *fixture = *state;

        run(fixture, "call_tool('x')", 60000, SBX_END_OK);
        assert_int_equal(fixture->seen.deadline_ns, 0);
        assert_int_equal(fixture->seen.cancel_fd, -1);
        fixture->call.cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        fixture->call.deadline_ns = sbx_clock_deadline_ms(120000);
        run(fixture, "call_tool('x')", 60000, SBX_END_OK);
        assert_int_equal(fixture->seen.deadline_ns, fixture->call.deadline_ns);
        assert_int_equal(fixture->seen.cancel_fd, fixture->call.cancel_fd);
        close(fixture->call.cancel_fd);
}

/* Whatever the answer was, and whatever the code makes of it. */
static void a_cancel_during_the_answer_cancels(void **state) {
        static const char *const codes[] = {
                "call_tool('cancel')",
                "call_tool('cancel and fail')",
                "try:\n    call_tool('cancel and fail')\nexcept BaseException:\n    pass",
                "try:\n    call_tool('cancel')\nexcept KeyboardInterrupt:\n    call_tool('again')",
        };
        struct fixture *fixture = *state;

        for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
                fixture->count = 0;
                fixture->call.cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
                run(fixture, codes[i], 0, SBX_END_CANCELLED);
                assert_int_equal(fixture->result->state, SBX_STATE_KEPT);
                assert_int_equal(fixture->count, 1);
                close(fixture->call.cancel_fd);
                fixture->call.cancel_fd = -1;
                assert_string_equal(run(fixture, "call_tool('x') + 1", 0, SBX_END_OK)->value, "2");
        }
}

static void the_callers_deadline_counts_during_the_answer(void **state) {
        struct fixture *fixture = *state;

        fixture->call.deadline_ns = sbx_clock_deadline_ms(400);
        run(fixture, "try:\n    call_tool('until deadline')\nexcept BaseException:\n    pass", 60000, SBX_END_TIMEOUT);
        assert_int_equal(fixture->result->state, SBX_STATE_KEPT);
        assert_int_equal(fixture->count, 1);
}

/* Others than the calling thread fill the pipes meanwhile, which nobody reads. */
static void output_during_the_answer(void **state) {
        static const char code[] = "import os, threading\n"
                                   "def write():\n"
                                   "    for i in range(40): os.write(1, b'x' * 10000)\n"
                                   "thread = threading.Thread(target=write)\n"
                                   "thread.start()\n"
                                   "if os.fork() == 0:\n"
                                   "    for i in range(400): os.write(2, b'y' * 10000)\n"
                                   "    os._exit(0)\n"
                                   "call_tool('wait 300')\n"
                                   "thread.join()\n"
                                   "os.wait()\n"
                                   "None";
        struct fixture *fixture = *state;

        for (int framed = 0; framed < 2; framed++) {
                fixture->backend.framed = framed == 1;
                start(fixture);
                run(fixture, code, 0, SBX_END_OK);
                assert_int_equal(fixture->result->stdout_text.size, 400000);
                assert_int_equal(fixture->result->stderr_text.size, MIB);
                assert_int_equal(fixture->result->stderr_dropped_bytes, 4000000 - MIB);
        }
}

static void results_of_all_sizes(void **state) {
        struct fixture *fixture = *state;

        assert_string_equal(run(fixture, "len(call_tool('large'))", 0, SBX_END_OK)->value, "16777214");
        assert_contains(run(fixture, "call_tool('too large')", 0, SBX_END_ERROR)->error_message, "16 MiB");
        assert_contains(run(fixture, "call_tool('nothing')", 0, SBX_END_ERROR)->error_message, "no result");
        assert_contains(run(fixture, "call_tool('fail')", 0, SBX_END_ERROR)->error_message, "it failed");
        run(fixture, "call_tool('x', a='y' * (15 << 20))", 0, SBX_END_OK);
        assert_true(fixture->largest > 15 * MIB);
        fixture->count = 0;
        run(fixture, "call_tool('x', a='y' * (17 << 20))", 0, SBX_END_ERROR);
        assert_int_equal(fixture->count, 0);
}

static void code_mode(void **state) {
        struct fixture *fixture = *state;

        assert_string_equal(run(fixture, "llm_query('is it?', system='s')", 0, SBX_END_OK)->value, "'yes'");
        assert_string_equal(fixture->arguments, "{\"prompt\":\"is it?\",\"system\":\"s\"}");
        run(fixture, "found = [1, 2]\nFINAL_VAR('found')", 0, SBX_END_OK);
        assert_string_equal(fixture->name, "FINAL_VAR");
        assert_string_equal(fixture->arguments, "{\"variable_name\":\"found\",\"value\":\"[1, 2]\"}");
        assert_string_equal(run(fixture, "tools['wait 0']()", 0, SBX_END_OK)->value, "1");
        /* A loop over 10 MB in a variable, of which the host sees a piece at a time. */
        fixture->count = 0;
        fixture->largest = 0;
        run(fixture,
            "text = 'word ' * 2_000_000\n"
            "answers = [llm_query(text[at:at + 100_000]) for at in range(0, len(text), 100_000)]\n"
            "FINAL(len(answers))",
            0, SBX_END_OK);
        assert_int_equal(fixture->count, 101);
        assert_true(fixture->largest < 101000);
        assert_string_equal(fixture->arguments, "{\"answer\":\"100\"}");
}

/* ---- guests that break the rules ---- */

/* The worker's stream, as code that looks for it finds it; frames as the code likes. */
#define RAW                                                                                                            \
        "import os, struct\n"                                                                                          \
        "fd = call_tool.__self__._channel.write_fd\n"                                                                  \
        "def frame(call, name, blob=b'{}'):\n"                                                                         \
        "    head = b'{\"call\":%d,\"name\":\"%s\"}' % (call, name)\n"                                                 \
        "    return struct.pack('<IBI', 4 + len(head) + len(blob), 0x85, len(head)) + head + blob\n"

static void a_second_call_before_the_answer(void **state) {
        struct fixture *fixture = *state;

        run(fixture, RAW "os.write(fd, frame(1, b'large') + frame(2, b'x'))\nimport time\ntime.sleep(60)", 0,
            SBX_END_LOST);
        assert_contains(fixture->result->error_message, "before the answer");
        assert_false(sbx_guest_alive(fixture->guest));
        assert_int_equal(fixture->count, 1);
}

/* What came next would be taken for the rest of the answer, of which nobody reads a byte here. */
static void a_result_before_the_answer(void **state) {
        struct fixture *fixture = *state;

        run(fixture,
            RAW "os.write(fd, frame(1, b'large'))\nimport select, time\nselect.select([fd], [], [])\n"
                "head = b'{\"id\":1,\"end\":\"ok\"}'\n"
                "os.write(fd, struct.pack('<IBI', 4 + len(head), 0x86, len(head)) + head)\ntime.sleep(60)",
            0, SBX_END_LOST);
        assert_contains(fixture->result->error_message, "before the answer");
        start(fixture);
        assert_string_equal(run(fixture, "call_tool('x')", 0, SBX_END_OK)->value, "1");
}

static void names_and_frames_that_are_none(void **state) {
        static const char *const bad[] = {
                "os.write(fd, struct.pack('<IBI', 6, 0x85, 2) + b'{}')",
                "os.write(fd, frame(-1, b'x'))",
                "os.write(fd, frame(1, b'a\\\\u0000b'))",
                "os.write(fd, frame(1, b'\\xff'))",
                "os.write(fd, struct.pack('<IBI', 19 << 20, 0x85, 2) + b'{}')",
                "os.write(fd, struct.pack('<IBI', 100, 0x85, 99) + b'{' * 96)",
        };
        struct fixture *fixture = *state;
        char code[1024];

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                snprintf(code, sizeof(code), "%s%s\nimport time\ntime.sleep(60)", RAW, bad[i]);
                run(fixture, code, 0, SBX_END_LOST);
                assert_contains(fixture->result->error_message, "broke the protocol");
                start(fixture);
        }
        assert_int_equal(fixture->count, 0);
        /* These are calls, which fail. The worker throws the answers away. */
        run(fixture, RAW "os.write(fd, frame(1, b''))", 0, SBX_END_OK);
        run(fixture, RAW "os.write(fd, frame(1, b'x' * 129))", 0, SBX_END_OK);
        assert_int_equal(fixture->count, 0);
        run(fixture, RAW "os.write(fd, frame(1, b'x' * 128, b'\\xff not JSON'))", 0, SBX_END_OK);
        assert_int_equal(fixture->count, 1);
        assert_string_equal(run(fixture, "call_tool('x')", 0, SBX_END_OK)->value, "1");
}

static void calls_of_forked_children(void **state) {
        struct fixture *fixture = *state;

        /* As the worker has it, they fail in the child. */
        run(fixture,
            "import os\nif os.fork() == 0:\n    try:\n        call_tool('x')\n    except ToolError as e:\n"
            "        print(e, flush=True)\n    os._exit(0)\nos.wait()\nNone",
            0, SBX_END_OK);
        assert_contains((const char *)fixture->result->stdout_text.data, "forked");
        assert_int_equal(fixture->count, 0);
        /* One that kept the stream is the session itself as far as the host can tell. */
        run(fixture,
            RAW "keep = os.dup(fd)\nif os.fork() == 0:\n    os.write(keep, frame(1, b'x'))\n    os._exit(0)\n"
                "os.wait()\nos.close(keep)",
            0, SBX_END_OK);
        assert_int_equal(fixture->count, 1);
        assert_string_equal(run(fixture, "call_tool('y')", 0, SBX_END_OK)->value, "1");
}

static void floods(void **state) {
        struct fixture *fixture = *state;

        run(fixture, "for i in range(3000):\n    try:\n        call_tool('fail')\n    except ToolError:\n        pass",
            0, SBX_END_OK);
        assert_int_equal(fixture->count, 3000);
        run(fixture, "while True:\n    try:\n        call_tool('fail')\n    except ToolError:\n        pass", 300,
            SBX_END_TIMEOUT);
        assert_int_equal(fixture->result->state, SBX_STATE_KEPT);
        /* Frames without a pause, and nobody who takes the answers. */
        run_any(fixture, RAW "while True: os.write(fd, frame(1, b'x'))", 60000);
        assert_int_equal(fixture->result->end, SBX_END_LOST);
        start(fixture);
        assert_string_equal(run(fixture, "call_tool('y')", 0, SBX_END_OK)->value, "1");
}

/* It wants something from the host when it has no right to, or no execution. */
static void calls_at_other_times(void **state) {
        struct fixture *fixture = *state;
        _cleanup_json_ json_t *all = NULL;

        run(fixture,
            RAW "class C:\n    def __repr__(self):\n        os.write(fd, frame(1, b'x'))\n        return 'c'\nc = C()",
            0, SBX_END_OK);
        assert_int_equal(sbx_guest_get(fixture->guest, NULL, NULL, &all, &fixture->err), 0);
        assert_int_equal(fixture->count, 0);
        run(fixture, "del c", 0, SBX_END_OK);
        fixture->calls.answer = answer;
        run(fixture, "held = tools", 0, SBX_END_OK);
        json_decref(all);
        all = NULL;
        assert_int_equal(sbx_guest_get(fixture->guest, NULL, NULL, &all, &fixture->err), 0);
        assert_int_equal(fixture->count, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
                TEST(an_answer_is_not_the_executions_time),
                TEST(the_answer_gets_the_callers_limits),
                TEST(a_cancel_during_the_answer_cancels),
                TEST(the_callers_deadline_counts_during_the_answer),
                TEST(output_during_the_answer),
                TEST(results_of_all_sizes),
                TEST(code_mode),
                TEST(a_second_call_before_the_answer),
                TEST(a_result_before_the_answer),
                TEST(names_and_frames_that_are_none),
                TEST(calls_of_forked_children),
                TEST(floods),
                TEST(calls_at_other_times),
        };

        return cmocka_run_group_tests_name("calls", tests, NULL, NULL);
}
