/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: how executions and guests end. Interrupts keep state; what does not stop is killed; nothing lives on. */
#include "suite.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include "guest/process.h"

/* Native code that does what it must not; where no native code can be called, the interpreter ends itself. */
#define CRASH                                                                                                          \
        "import os, sys\nif sys.platform == 'wasi': os.abort()\n"                                                      \
        "import ctypes\nctypes.string_at(0)"
/* Each waits in another way; an interrupt must reach it, and the variables must be there afterwards. */
static const char *const waits[] = {
        "while True: pass",
        "import time\ntime.sleep(1000)",
        "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
        "import asyncio\nawait asyncio.sleep(1000)",
        "import select, os, sys\nr = [] if sys.platform == 'wasi' else os.pipe()[:1]\nselect.select(r, [], [], 1000)",
        "while True: print('line')",
        "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')",
};

static void test_interrupt_keeps_state(void **state) {
        struct sbx_guest_process *guest = start("conformance-interrupt");

        expect(guest, "kept = 0", SBX_END_OK, "");
        for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
                struct sbx_result *result = execute_until(guest, waits[i], 300, NULL);

                if (result->end != SBX_END_TIMEOUT || result->state != SBX_STATE_KEPT)
                        fail_msg("%s: %s, state %s", waits[i], sbx_end_name(result->end),
                                 result->state == SBX_STATE_KEPT ? "kept" : "lost");
                sbx_result_free(result);
                assert_true(sbx_guest_alive(guest));
                expect(guest, "kept += 1", SBX_END_OK, "");
        }
        expect(guest, "print(kept)", SBX_END_OK, "7\n");
        sbx_guest_free(guest);
}

static void test_interrupt_ends_children(void **state) {
        struct sbx_guest_process *guest;
        struct sbx_result *result;

        if ((suite.ops->features & SBX_BACKEND_SUBPROCESS) == 0)
                skip_because("the backend's guests start no processes");
        guest = start("conformance-children");
        give_mark(guest);
        expect(guest, "kept = 1\nimport subprocess, sys", SBX_END_OK, "");
        result = execute_until(guest,
                               "subprocess.run([sys.executable, '-c', 'import signal, time; "
                               "signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(1000)' + mark])",
                               1000, NULL);
        assert_int_equal(result->end, SBX_END_TIMEOUT);
        assert_int_equal(result->state, SBX_STATE_KEPT);
        sbx_result_free(result);
        expect(guest, "print(kept)", SBX_END_OK, "1\n");
        sbx_guest_free(guest);
        assert_int_equal(marked_processes(), 0);
}

/* An interrupt that comes late, or before anything runs, hits nobody. */
static void test_interrupts_at_rest_are_dropped(void **state) {
        struct sbx_guest_process *guest = start("conformance-rest");
        struct sbx_error err = {0};

        expect(guest, "kept = 1", SBX_END_OK, "");
        for (int i = 0; i < 20; i++) {
                must(suite.ops->guest_interrupt(suite.backend->state, guest->handle.handle, &err), &err);
                if (i % 5 == 0)
                        usleep(30000);
        }
        usleep(300000); /* those that are on their way arrive */
        expect(guest, "print(kept)", SBX_END_OK, "1\n");
        sbx_guest_free(guest);
}

static void test_many_interrupts_in_a_row(void **state) {
        struct sbx_guest_process *guest = start("conformance-row");

        expect(guest, "count = 0", SBX_END_OK, "");
        for (int i = 0; i < 8; i++) {
                struct sbx_result *result =
                        execute_until(guest, "count += 1\nwhile True: pass", 20 + 30 * (unsigned)i, NULL);

                assert_int_equal(result->end, SBX_END_TIMEOUT);
                assert_int_equal(result->state, SBX_STATE_KEPT);
                sbx_result_free(result);
        }
        expect(guest, "print(0 <= count <= 8)", SBX_END_OK, "True\n");
        sbx_guest_free(guest);
}

static void test_kill_when_interrupts_are_ignored(void **state) {
        struct sbx_guest_process *guest = start("conformance-kill");
        struct sbx_result *result = execute_until(
                guest, "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", 300, NULL);

        assert_int_equal(result->end, SBX_END_TIMEOUT);
        assert_int_equal(result->state, SBX_STATE_LOST);
        sbx_result_free(result);
        assert_false(sbx_guest_alive(guest));
        sbx_guest_free(guest);
}

static void test_cpu_time_limit(void **state) {
        struct sbx_guest_process *guest = start("conformance-cpu");
        const struct sbx_guest_execution execution = {.cpu_limit_ns = 300 * SBX_NS_PER_MS};
        struct sbx_result *result;

        expect(guest, "kept = 1", SBX_END_OK, "");
        result = execute_as(guest, "while True: pass", &execution, NULL);
        assert_int_equal(result->end, SBX_END_TIMEOUT);
        assert_true(result->cpu_ns >= 300 * SBX_NS_PER_MS);
        sbx_result_free(result);
        expect(guest, "print(kept)", SBX_END_OK, "1\n");
        sbx_guest_free(guest);
}

static void test_cancel(void **state) {
        struct sbx_guest_process *guest = start("conformance-cancel");
        _cleanup_close_ int cancel = eventfd(1, EFD_CLOEXEC);
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = cancel};
        struct sbx_result *result = execute_until(guest, "while True: pass", PATIENCE_MS, &call);

        assert_int_equal(result->end, SBX_END_CANCELLED);
        assert_int_equal(result->state, SBX_STATE_KEPT);
        sbx_result_free(result);
        expect(guest, "print('here')", SBX_END_OK, "here\n");
        sbx_guest_free(guest);
}

/* Of a guest that died by itself: its end, and what is known of how. */
static void dies(const char *label, const char *code, enum sbx_end end) {
        struct sbx_guest_process *guest = start(label);
        struct sbx_result *result = execute_until(guest, code, PATIENCE_MS, NULL);

        if (result->end != end)
                fail_msg("%s: %s, not %s: %s", label, sbx_end_name(result->end), sbx_end_name(end),
                         result->error_message);
        assert_int_equal(result->state, SBX_STATE_LOST);
        assert_non_null(result->error_message);
        sbx_result_free(result);
        assert_false(sbx_guest_alive(guest));
        sbx_guest_free(guest);
}

static void test_guest_exit_is_lost(void **state) {
        dies("conformance-exit", "import os\nos._exit(3)", SBX_END_LOST);
}

static void test_native_crash_is_killed(void **state) {
        dies("conformance-crash", CRASH, SBX_END_KILLED);
}

static void test_output_before_death_is_told(void **state) {
        struct sbx_guest_process *guest = start("conformance-last-words");
        struct sbx_result *result =
                execute_until(guest, "import os\nprint('last words')\nos._exit(1)", PATIENCE_MS, NULL);

        assert_int_equal(result->end, SBX_END_LOST);
        assert_string_equal((const char *)result->stdout_text.data, "last words\n");
        sbx_result_free(result);
        sbx_guest_free(guest);
}

static void test_start_honours_cancel_and_deadline(void **state) {
        _cleanup_close_ int cancel = eventfd(1, EFD_CLOEXEC);
        struct sbx_call cancelled = {.struct_size = sizeof(cancelled), .cancel_fd = cancel};
        struct sbx_call late = {.struct_size = sizeof(late), .cancel_fd = -1, .deadline_ns = 1};
        struct sbx_guest_spec wanted = spec("conformance-cancelled");
        struct sbx_guest_process *guest = NULL;
        struct sbx_error err = {0};

        assert_int_equal(sbx_guest_start(suite.backend, &suite.logger, &wanted, &cancelled, &guest, &err), -ECANCELED);
        assert_true(err.message[0] != '\0');
        memset(&err, 0, sizeof(err));
        assert_int_equal(sbx_guest_start(suite.backend, &suite.logger, &wanted, &late, &guest, &err), -ETIMEDOUT);
        assert_null(guest);
}

static void start_raw(const char *label, struct sbx_guest *ret_guest) {
        struct sbx_guest_spec wanted = spec(label);
        struct sbx_call call = patience();
        struct sbx_error err = {0};

        *ret_guest = (struct sbx_guest){
                .struct_size = sizeof(*ret_guest), .control_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .exit_fd = -1};
        must(suite.ops->guest_start(suite.backend->state, &wanted, &call, ret_guest, &err), &err);
}

static void close_raw(struct sbx_guest *guest) {
        for (size_t i = 0; i < 4; i++) {
                int fd = (const int[]){guest->control_fd, guest->stdout_fd, guest->stderr_fd, guest->exit_fd}[i];

                if (fd >= 0)
                        close(fd);
        }
        suite.ops->guest_close(suite.backend->state, guest->handle);
}

static void test_kill_is_idempotent(void **state) {
        struct sbx_guest raw;
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage)};
        struct sbx_error err = {0};
        char byte;

        start_raw("conformance-raw", &raw);
        assert_true((fcntl(raw.control_fd, F_GETFD) & FD_CLOEXEC) != 0);
        suite.ops->guest_kill(suite.backend->state, raw.handle);
        suite.ops->guest_kill(suite.backend->state, raw.handle);
        assert_int_equal(suite.ops->guest_interrupt(suite.backend->state, raw.handle, NULL), -ESRCH);
        must(suite.ops->guest_usage(suite.backend->state, raw.handle, &usage, &err), &err);
        assert_true(usage.exit_code == -SIGKILL || usage.exit_code == INT32_MIN || usage.exit_code == 128 + SIGKILL);
        /* What it said before is there; then comes the end. */
        do
                assert_true(poll(&(struct pollfd){.fd = raw.control_fd, .events = POLLIN}, 1, PATIENCE_MS) == 1);
        while (read(raw.control_fd, &byte, 1) > 0);
        if (raw.exit_fd >= 0)
                assert_int_equal(poll(&(struct pollfd){.fd = raw.exit_fd, .events = POLLIN}, 1, 0), 1);
        close_raw(&raw);
}

/* Who gives up before the greeting leaves nothing either. */
static void test_close_without_a_word(void **state) {
        struct sbx_guest raw;

        for (int i = 0; i < 3; i++) {
                start_raw("conformance-silent", &raw);
                close_raw(&raw);
        }
}

static void *kill_soon(void *data) {
        struct sbx_guest_process *guest = data;
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage)};

        for (int i = 0; i < 20; i++)
                suite.ops->guest_usage(suite.backend->state, guest->handle.handle, &usage, NULL);
        usleep(100000);
        suite.ops->guest_kill(suite.backend->state, guest->handle.handle);
        return NULL;
}

/* Usage and kill come from other threads while an execution goes on. */
static void test_kill_from_another_thread(void **state) {
        struct sbx_guest_process *guest = start("conformance-killed");
        struct sbx_result *result;
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, kill_soon, guest), 0);
        result = execute_until(guest, "while True: pass", PATIENCE_MS, NULL);
        pthread_join(thread, NULL);
        assert_true(result->end == SBX_END_KILLED || result->end == SBX_END_LOST);
        assert_int_equal(result->state, SBX_STATE_LOST);
        sbx_result_free(result);
        sbx_guest_free(guest);
}

/* Daemons in sessions and process groups of their own, deaf to everything that can be ignored. */
static void test_nothing_outlives_a_guest(void **state) {
        struct sbx_guest_process *guest;

        if ((suite.ops->features & SBX_BACKEND_SUBPROCESS) == 0)
                skip_because("the backend's guests start no processes");
        guest = start("conformance-daemons");
        give_mark(guest);
        expect(guest,
               "import os, subprocess, sys\ncode = '''import os, signal, time\n"
               "for s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n"
               "    except (OSError, ValueError): pass\n"
               "if os.fork(): os._exit(0)\nos.setsid()\nprint(\"up\", flush=True)\ntime.sleep(100000)''' + mark\n"
               "for _ in range(3):\n"
               "    p = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE,\n"
               "                         start_new_session=True)\n"
               "    print(p.stdout.readline())",
               SBX_END_OK, "b'up\\n'\nb'up\\n'\nb'up\\n'\n");
        assert_true(marked_processes() >= 3);
        sbx_guest_free(guest);
        assert_int_equal(marked_processes(), 0);
}

struct group ends_group(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_interrupt_keeps_state),
                cmocka_unit_test(test_interrupt_ends_children),
                cmocka_unit_test(test_interrupts_at_rest_are_dropped),
                cmocka_unit_test(test_many_interrupts_in_a_row),
                cmocka_unit_test(test_kill_when_interrupts_are_ignored),
                cmocka_unit_test(test_cpu_time_limit),
                cmocka_unit_test(test_cancel),
                cmocka_unit_test(test_guest_exit_is_lost),
                cmocka_unit_test(test_native_crash_is_killed),
                cmocka_unit_test(test_output_before_death_is_told),
                cmocka_unit_test(test_start_honours_cancel_and_deadline),
                cmocka_unit_test(test_kill_is_idempotent),
                cmocka_unit_test(test_close_without_a_word),
                cmocka_unit_test(test_kill_from_another_thread),
                cmocka_unit_test(test_nothing_outlives_a_guest),
        };

        return (struct group){tests, sizeof(tests) / sizeof(tests[0])};
}
