/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite for backends: what every backend must do, whatever isolates. Run it on an instance of the
 * configuration: `conformance INSTANCE [NAME=VALUE ...]`. What a backend declares that it can't do is told as skipped. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "guest/guest.h"
#include "guest/pool.h"

#define GRACE_NS (2 * SBX_NS_PER_S)
#define PATIENCE_MS 20000

static struct suite {
        struct sbx_logger logger;
        struct sbx_directories directories;
        struct sbx_config *config;
        struct sbx_registry *registry;
        const struct sbx_instance *backend;
        const struct sbx_backend_ops *ops;
} suite;

static struct sbx_call patience(void) {
        return (struct sbx_call){sizeof(struct sbx_call), -1, sbx_clock_deadline_ms(PATIENCE_MS)};
}

static void must(int r, const struct sbx_error *err) {
        if (r < 0)
                fail_msg("%s (%s) %s", err->message, err->origin, err->hint);
}

static struct sbx_guest_spec spec(const char *label) {
        return (struct sbx_guest_spec){.struct_size = sizeof(struct sbx_guest_spec),
                                       .label = label,
                                       .runtime = "python",
                                       .limits = {.struct_size = sizeof(struct sbx_limits)}};
}

static struct sbx_guest_process *start(const char *label) {
        struct sbx_guest_process *guest = NULL;
        struct sbx_guest_spec wanted = spec(label);
        struct sbx_call call = patience();
        struct sbx_error err = {0};

        must(sbx_guest_start(suite.backend, &suite.logger, &wanted, &call, &guest, &err), &err);
        return guest;
}

static struct sbx_result *execute_until(struct sbx_guest_process *guest, const char *code, uint64_t timeout_ms,
                                        const struct sbx_call *call) {
        struct sbx_guest_execution execution = {.code = {code, strlen(code)},
                                                .deadline_ns = sbx_clock_deadline_ms(timeout_ms),
                                                .grace_ns = GRACE_NS,
                                                .output_max_bytes = 1 << 20,
                                                .display_max_bytes = 1 << 20};
        struct sbx_result *result = NULL;
        struct sbx_error err = {0};

        must(sbx_guest_execute(guest, &execution, call, &result, &err), &err);
        return result;
}

static void expect(struct sbx_guest_process *guest, const char *code, enum sbx_end end, const char *output) {
        struct sbx_result *result = execute_until(guest, code, PATIENCE_MS, NULL);

        if (result->end != end)
                fail_msg("%s: ended as %s, not %s: %s", code, sbx_end_name(result->end), sbx_end_name(end),
                         result->error_message != NULL ? result->error_message : "");
        if (output != NULL)
                assert_string_equal((const char *)result->stdout_text.data, output);
        sbx_result_free(result);
}

/* ---- the tests ---- */

static void test_start_and_report(void **state) {
        struct sbx_guest_process *guest = start("conformance-report");
        _cleanup_json_ json_t *report = NULL;
        struct sbx_error err = {0};
        size_t index;
        json_t *layer;

        must(sbx_json_parse(sbx_guest_report(guest), 1 << 20, "report", &report, &err), &err);
        assert_true(json_is_string(json_object_get(report, "backend")));
        assert_true(json_is_string(json_object_get(report, "isolation")));
        assert_true(json_array_size(json_object_get(report, "layers")) > 0);
        json_array_foreach(json_object_get(report, "layers"), index, layer) {
                const char *word = json_string_value(json_object_get(layer, "state"));

                assert_true(json_is_string(json_object_get(layer, "name")));
                assert_non_null(word);
                assert_true(strcmp(word, "applied") == 0 || strcmp(word, "absent") == 0 || strcmp(word, "off") == 0);
        }
        assert_true(json_is_string(json_object_get(sbx_guest_info(guest), "version")));
        sbx_guest_free(guest);
}

static void test_state_is_kept(void **state) {
        struct sbx_guest_process *guest = start("conformance-state");

        expect(guest, "x = 40", SBX_END_OK, "");
        expect(guest, "print(x + 2)", SBX_END_OK, "42\n");
        expect(guest, "1 / 0", SBX_END_ERROR, NULL);
        expect(guest, "print(x)", SBX_END_OK, "40\n");
        sbx_guest_free(guest);
}

static void test_guests_do_not_meet(void **state) {
        struct sbx_guest_process *one = start("conformance-one"), *two = start("conformance-two");
        struct sbx_result *result = execute_until(one,
                                                  "import tempfile\nsecret = tempfile.gettempdir() + '/secret'\n"
                                                  "open(secret, 'w').write('1')\nprint(secret, end='')",
                                                  PATIENCE_MS, NULL);
        char question[512];

        assert_int_equal(result->end, SBX_END_OK);
        snprintf(question, sizeof(question),
                 "try:\n    print(open('%s').read())\nexcept OSError:\n    print('secret' in globals(), 'refused')",
                 (const char *)result->stdout_text.data);
        sbx_result_free(result);
        expect(two, question, SBX_END_OK, "False refused\n");
        sbx_guest_free(one);
        expect(two, "print('still here')", SBX_END_OK, "still here\n");
        sbx_guest_free(two);
}

static void test_streams_are_apart(void **state) {
        struct sbx_guest_process *guest = start("conformance-streams");
        struct sbx_result *result =
                execute_until(guest, "import os, sys\nprint('out')\nprint('err', file=sys.stderr)\nos.write(1, b'raw\\n')",
                              PATIENCE_MS, NULL);

        assert_int_equal(result->end, SBX_END_OK);
        assert_non_null(strstr(result->stdout_text.data, "out\n"));
        assert_non_null(strstr(result->stdout_text.data, "raw\n"));
        assert_string_equal((const char *)result->stderr_text.data, "err\n");
        sbx_result_free(result);
        sbx_guest_free(guest);
}

static void test_interrupt_keeps_state(void **state) {
        struct sbx_guest_process *guest = start("conformance-interrupt");
        struct sbx_result *result;

        expect(guest, "x = 1", SBX_END_OK, "");
        result = execute_until(guest, "while True: pass", 300, NULL);
        assert_int_equal(result->end, SBX_END_TIMEOUT);
        assert_int_equal(result->state, SBX_STATE_KEPT);
        sbx_result_free(result);
        assert_true(sbx_guest_alive(guest));
        expect(guest, "print(x)", SBX_END_OK, "1\n");
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

static void test_cancel(void **state) {
        struct sbx_guest_process *guest = start("conformance-cancel");
        _cleanup_close_ int cancel = eventfd(1, EFD_CLOEXEC);
        struct sbx_call call = {sizeof(call), cancel, 0};
        struct sbx_result *result = execute_until(guest, "while True: pass", PATIENCE_MS, &call);

        assert_int_equal(result->end, SBX_END_CANCELLED);
        assert_int_equal(result->state, SBX_STATE_KEPT);
        sbx_result_free(result);
        expect(guest, "print('here')", SBX_END_OK, "here\n");
        sbx_guest_free(guest);
}

static void test_guest_exit_is_lost(void **state) {
        struct sbx_guest_process *guest = start("conformance-exit");
        struct sbx_result *result = execute_until(guest, "import os\nos._exit(3)", PATIENCE_MS, NULL);

        assert_int_equal(result->end, SBX_END_LOST);
        assert_int_equal(result->state, SBX_STATE_LOST);
        sbx_result_free(result);
        assert_false(sbx_guest_alive(guest));
        sbx_guest_free(guest);
}

static void test_start_honours_cancel_and_deadline(void **state) {
        _cleanup_close_ int cancel = eventfd(1, EFD_CLOEXEC);
        struct sbx_call cancelled = {sizeof(cancelled), cancel, 0}, late = {sizeof(late), -1, 1};
        struct sbx_guest_spec wanted = spec("conformance-cancelled");
        struct sbx_guest_process *guest = NULL;
        struct sbx_error err = {0};

        assert_int_equal(sbx_guest_start(suite.backend, &suite.logger, &wanted, &cancelled, &guest, &err), -ECANCELED);
        assert_true(err.message[0] != '\0');
        memset(&err, 0, sizeof(err));
        assert_int_equal(sbx_guest_start(suite.backend, &suite.logger, &wanted, &late, &guest, &err), -ETIMEDOUT);
        assert_null(guest);
}

static void test_unknown_runtime(void **state) {
        struct sbx_guest_spec wanted = spec("conformance-runtime");
        struct sbx_call call = patience();
        struct sbx_guest_process *guest = NULL;
        struct sbx_error err = {0};

        wanted.runtime = "cobol";
        assert_int_equal(sbx_guest_start(suite.backend, &suite.logger, &wanted, &call, &guest, &err), -ENOENT);
        assert_non_null(strstr(err.message, "cobol"));
}

static void test_kill_is_idempotent(void **state) {
        struct sbx_guest raw = {.struct_size = sizeof(raw), .control_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .exit_fd = -1};
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage)};
        struct sbx_guest_spec wanted = spec("conformance-raw");
        struct sbx_call call = patience();
        struct sbx_error err = {0};
        char byte;

        must(suite.ops->guest_start(suite.backend->state, &wanted, &call, &raw, &err), &err);
        assert_true((fcntl(raw.control_fd, F_GETFD) & FD_CLOEXEC) != 0);
        suite.ops->guest_kill(suite.backend->state, raw.handle);
        suite.ops->guest_kill(suite.backend->state, raw.handle);
        assert_int_equal(suite.ops->guest_interrupt(suite.backend->state, raw.handle, NULL), -ESRCH);
        must(suite.ops->guest_usage(suite.backend->state, raw.handle, &usage, &err), &err);
        assert_true(usage.exit_code == -SIGKILL || usage.exit_code == INT32_MIN || usage.exit_code == 128 + SIGKILL);
        assert_true(read(raw.control_fd, &byte, 1) <= 0);
        if (raw.exit_fd >= 0)
                assert_int_equal(poll(&(struct pollfd){.fd = raw.exit_fd, .events = POLLIN}, 1, 0), 1);
        for (size_t i = 0; i < 4; i++) {
                int fd = (const int[]){raw.control_fd, raw.stdout_fd, raw.stderr_fd, raw.exit_fd}[i];

                if (fd >= 0)
                        close(fd);
        }
        suite.ops->guest_close(suite.backend->state, raw.handle);
}

static void test_usage_counts(void **state) {
        struct sbx_guest_process *guest = start("conformance-usage");
        struct sbx_result *result =
                execute_until(guest, "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass",
                              PATIENCE_MS, NULL);

        assert_int_equal(result->end, SBX_END_OK);
        assert_true(result->cpu_ns >= 150 * SBX_NS_PER_MS);
        assert_true(result->cpu_ns <= 2 * result->duration_ns);
        sbx_result_free(result);
        sbx_guest_free(guest);
}

static void test_memory_limit(void **state) {
        struct sbx_guest_process *guest = start("conformance-memory");
        struct sbx_limits limits = {.struct_size = sizeof(limits), .memory_bytes = 96u << 20};
        struct sbx_result *result;
        struct sbx_error err = {0};

        if (suite.ops->guest_limit == NULL) {
                sbx_guest_free(guest);
                skip();
        }
        must(sbx_guest_limit(guest, &limits, &err), &err);
        result = execute_until(guest, "hoard = []\nwhile True: hoard.append(bytearray(1 << 20))", PATIENCE_MS, NULL);
        assert_int_equal(result->end, SBX_END_MEMORY);
        sbx_result_free(result);
        sbx_guest_free(guest);
}

static void test_subprocess(void **state) {
        struct sbx_guest_process *guest;

        if ((suite.ops->features & SBX_BACKEND_SUBPROCESS) == 0)
                skip();
        guest = start("conformance-subprocess");
        expect(guest,
               "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(7)'], capture_output=True, "
               "text=True).stdout)",
               SBX_END_OK, "7\n\n");
        sbx_guest_free(guest);
}

static void test_threads(void **state) {
        struct sbx_guest_process *guest;

        if ((suite.ops->features & SBX_BACKEND_THREADS) == 0)
                skip();
        guest = start("conformance-threads");
        expect(guest,
               "import threading\nseen = []\nts = [threading.Thread(target=seen.append, args=(i,)) for i in range(4)]\n"
               "[t.start() for t in ts]\n[t.join() for t in ts]\nprint(sorted(seen))",
               SBX_END_OK, "[0, 1, 2, 3]\n");
        sbx_guest_free(guest);
}

static void test_no_network(void **state) {
        struct sbx_guest_process *guest;

        if ((suite.ops->features & SBX_BACKEND_NETWORK) != 0)
                skip();
        guest = start("conformance-network");
        expect(guest,
               "try:\n    import socket\n    socket.create_connection(('127.0.0.1', 1), 1)\n    print('connected')\n"
               "except (OSError, ImportError) as error:\n    print('refused' if getattr(error, 'errno', 0) != 111 else "
               "'reached a network stack')",
               SBX_END_OK, "refused\n");
        sbx_guest_free(guest);
}

static void test_files(void **state) {
        struct sbx_guest_process *guest = start("conformance-files");
        _cleanup_buffer_ struct sbx_buffer content = SBX_BUFFER(1 << 20);
        _cleanup_json_ json_t *files = NULL;
        struct sbx_call call = patience();
        struct sbx_error err = {0};

        must(sbx_guest_file_write(guest, "dir/a.bin", (struct sbx_bytes){"\0\1\2", 3}, &call, &err), &err);
        must(sbx_guest_file_read(guest, "dir/a.bin", 1 << 20, &call, &content, &err), &err);
        assert_int_equal(content.size, 3);
        assert_memory_equal(content.data, "\0\1\2", 3);
        must(sbx_guest_file_list(guest, ".", &call, &files, NULL, &err), &err);
        assert_true(json_is_array(files) && json_array_size(files) >= 1);
        expect(guest, "print(open('dir/a.bin', 'rb').read())", SBX_END_OK, "b'\\x00\\x01\\x02'\n");
        sbx_guest_free(guest);
}

/* Guests of several threads at once: none may see, slow to death or break another. */
static void *start_and_run(void *argument) {
        struct sbx_guest_spec wanted = spec("conformance-parallel");
        struct sbx_guest_process *guest = NULL;
        struct sbx_call call = patience();
        intptr_t failures = 0;

        for (int i = 0; i < 8; i++) {
                struct sbx_guest_execution execution = {.code = {"print(6 * 7)", 12}, .grace_ns = GRACE_NS,
                                                        .deadline_ns = call.deadline_ns, .output_max_bytes = 100,
                                                        .display_max_bytes = 100};
                struct sbx_result *result = NULL;

                if (sbx_guest_start(suite.backend, &suite.logger, &wanted, &call, &guest, NULL) < 0) {
                        failures++;
                        continue;
                }
                if (sbx_guest_execute(guest, &execution, &call, &result, NULL) < 0 ||
                    strcmp(result->stdout_text.data, "42\n") != 0)
                        failures++;
                sbx_result_free(result);
                sbx_guest_free(guest);
        }
        return (void *)failures;
}

static void test_parallel_guests(void **state) {
        pthread_t threads[4];
        void *failures;

        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, start_and_run, NULL), 0);
        for (size_t i = 0; i < 4; i++) {
                pthread_join(threads[i], &failures);
                assert_int_equal((intptr_t)failures, 0);
        }
}

static void test_pool(void **state) {
        struct sbx_guest_spec wanted = spec("conformance-pool");
        struct sbx_pool *pool = NULL;
        struct sbx_error err = {0};

        must(sbx_pool_new(suite.backend, &suite.logger, 2, &pool, &err), &err);
        for (int i = 0; i < 6; i++) {
                struct sbx_guest_process *guest = NULL;
                struct sbx_call call = patience();

                must(sbx_pool_take(pool, &wanted, &call, &guest, &err), &err);
                expect(guest, "print([n for n in dir() if not n.startswith('__')])", SBX_END_OK, NULL);
                sbx_guest_free(guest);
        }
        sbx_pool_free(pool);
}

/* ---- set-up ---- */

static int set_up(const char *instance, const char *const *settings, struct sbx_error *err) {
        struct sbx_runtime_options options = {.struct_size = sizeof(options), .settings = settings};
        struct sbx_call call = patience();
        int r;

        suite.logger.level = SBX_LOG_INFO;
        r = sbx_config_load(&options, &suite.logger, &suite.config, err);
        if (r == 0)
                r = sbx_directories_find(&suite.directories, err);
        if (r == 0)
                r = sbx_registry_new(suite.config, &suite.logger, &suite.directories, NULL, &suite.registry, err);
        if (r == 0)
                r = sbx_registry_get(suite.registry, instance, SBX_PLUGIN_BACKEND, &call, &suite.backend, err);
        if (r == 0)
                suite.ops = suite.backend->ops;
        return r;
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_start_and_report), cmocka_unit_test(test_state_is_kept),
                cmocka_unit_test(test_guests_do_not_meet), cmocka_unit_test(test_streams_are_apart),
                cmocka_unit_test(test_interrupt_keeps_state), cmocka_unit_test(test_kill_when_interrupts_are_ignored),
                cmocka_unit_test(test_cancel), cmocka_unit_test(test_guest_exit_is_lost),
                cmocka_unit_test(test_start_honours_cancel_and_deadline), cmocka_unit_test(test_unknown_runtime),
                cmocka_unit_test(test_kill_is_idempotent), cmocka_unit_test(test_usage_counts),
                cmocka_unit_test(test_memory_limit), cmocka_unit_test(test_subprocess), cmocka_unit_test(test_threads),
                cmocka_unit_test(test_no_network), cmocka_unit_test(test_files), cmocka_unit_test(test_parallel_guests),
                cmocka_unit_test(test_pool),
        };
        struct sbx_error err = {0};
        int r;

        if (argc < 2) {
                fprintf(stderr, "usage: conformance INSTANCE [NAME=VALUE ...]\n");
                return 2;
        }
        if (set_up(argv[1], (const char *const *)argv + 2, &err) < 0) {
                fprintf(stderr, "%s\n%s\n", err.message, err.hint);
                return 1;
        }
        r = cmocka_run_group_tests_name(argv[1], tests, NULL, NULL);
        sbx_registry_free(suite.registry);
        sbx_directories_free(&suite.directories);
        sbx_config_free(suite.config);
        return r;
}
