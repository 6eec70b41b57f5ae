/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: guests start, keep their state, know nothing of each other or of the host, and speak in whole. */
#include "suite.h"

#include <pthread.h>

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
        json_array_foreach (json_object_get(report, "layers"), index, layer) {
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
        expect(guest, "import os\nos.chdir('/tmp')\nos.environ['MINE'] = 'here'\ndef f(): return x", SBX_END_OK, "");
        expect(guest, "print(f(), os.getcwd(), os.environ['MINE'])", SBX_END_OK, "40 /tmp here\n");
        sbx_guest_free(guest);
}

static void test_variables(void **state) {
        struct sbx_guest_process *guest = start("conformance-variables");
        _cleanup_json_ json_t *value = json_pack("{s:[i,i],s:s}", "list", 1, 2, "text", "\xc3\xa9"), *got = NULL;
        _cleanup_free_ char *shown = NULL;
        struct sbx_call call = patience();
        struct sbx_error err = {0};
        const json_t *made;

        must(sbx_guest_set(guest, "given", value, &call, &shown, &err), &err);
        expect(guest, "print(given['list'][1], given['text'])\nmade = {'n': 7}", SBX_END_OK, "2 \xc3\xa9\n");
        must(sbx_guest_get(guest, NULL, &call, &got, &err), &err);
        made = json_object_get(json_object_get(got, "made"), "json");
        assert_int_equal(json_integer_value(json_object_get(made, "n")), 7);
        must(sbx_guest_clear(guest, &call, &err), &err);
        expect(guest, "made", SBX_END_ERROR, NULL);
        sbx_guest_free(guest);
}

static void test_value_result_and_display(void **state) {
        struct sbx_guest_process *guest = start("conformance-display");
        struct sbx_result *result =
                execute_until(guest,
                              "class Picture:\n"
                              "    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + b'\\0' * 99\n"
                              "result = [1, {'two': 2}]\nPicture()",
                              PATIENCE_MS, NULL);

        assert_int_equal(result->end, SBX_END_OK);
        assert_string_equal(result->result_json, "[1,{\"two\":2}]");
        assert_int_equal(result->display_count, 1);
        assert_string_equal(result->displays[0].mime_type, "image/png");
        assert_int_equal(result->displays[0].data.size, (107 + 2) / 3 * 4);
        sbx_result_free(result);
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
        struct sbx_result *result = execute_until(guest,
                                                  "import os, sys\nprint('out')\nprint('err', file=sys.stderr)\n"
                                                  "os.write(1, b'raw\\n')\nos.write(2, b'2')",
                                                  PATIENCE_MS, NULL);

        assert_int_equal(result->end, SBX_END_OK);
        assert_non_null(strstr(result->stdout_text.data, "out\n"));
        assert_non_null(strstr(result->stdout_text.data, "raw\n"));
        assert_int_equal(result->stdout_text.size, 8);
        assert_non_null(strstr(result->stderr_text.data, "err\n"));
        assert_int_equal(result->stderr_text.size, 5);
        sbx_result_free(result);
        expect(guest, "print('a\\0b', '\\u00e9')", SBX_END_OK, NULL);
        expect(guest, "import os\nos.write(1, b'\\xff\\xfe tail')", SBX_END_OK, "\xef\xbf\xbd\xef\xbf\xbd tail");
        sbx_guest_free(guest);
}

static void test_nothing_to_read(void **state) {
        struct sbx_guest_process *guest = start("conformance-stdin");

        expect(guest, "import sys\nprint(repr(sys.stdin.read()) if sys.stdin else \"''\")", SBX_END_OK, "''\n");
        expect(guest, "input()", SBX_END_ERROR, NULL);
        if ((suite.ops->features & SBX_BACKEND_SUBPROCESS) != 0)
                expect(guest,
                       "import subprocess, sys\n"
                       "subprocess.run([sys.executable, '-c', 'import sys; print(len(sys.stdin.read()))'],"
                       " check=True)",
                       SBX_END_OK, "0\n");
        expect(guest, "print('alive')", SBX_END_OK, "alive\n");
        sbx_guest_free(guest);
}

static int answer_call(void *data, const char *name, struct sbx_bytes arguments, const struct sbx_call *call,
                       struct sbx_buffer *ret_result, struct sbx_error *err) {
        static const char answer[] = "{\"response\": \"42\", \"tokens_used\": 1, \"cost\": null}";
        unsigned *calls = data;

        ++*calls;
        if (strcmp(name, "llm_query") != 0)
                return sbx_error_set(err, -EACCES, "conformance", NULL, "%s is not allowed", name);
        return sbx_buffer_append(ret_result, answer, sizeof(answer) - 1);
}

static void test_calls_back_are_answered(void **state) {
        struct sbx_guest_process *guest = start("conformance-calls");
        unsigned calls = 0;
        const struct sbx_code_calls answers = {.data = &calls, .answer = answer_call};
        const struct sbx_guest_execution execution = {.code_calls = &answers};
        struct sbx_result *result = execute_as(guest,
                                               "print(llm_query('?'))\n"
                                               "try:\n    FINAL('x')\nexcept ToolError as e:\n    print('refused')",
                                               &execution, NULL);

        if (result->end != SBX_END_OK)
                fail_msg("%s", result->error_message);
        assert_non_null(strstr(result->stdout_text.data, "42"));
        assert_int_equal(calls, 2);
        sbx_result_free(result);
        sbx_guest_free(guest);
}

/* Who it is: nobody that the host knows. A guest in WebAssembly has no users at all, and no /proc. */
static void expect_no_privileges(struct sbx_guest_process *guest) {
        if (holds(guest, IS_WASI)) {
                expect(guest, "print(hasattr(os, 'getuid'), os.path.exists('/proc'), os.listdir('/dev'))", SBX_END_OK,
                       "False False ['null']\n");
                return;
        }
        expect(guest, "print(os.getuid() != 0, os.getgid() != 0, [g for g in os.getgroups() if g == 0])", SBX_END_OK,
               "True True []\n");
        expect(guest,
               "status = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)\n"
               "print({int(status[c], 16) for c in ('CapEff', 'CapPrm', 'CapInh', 'CapAmb')}, "
               "status['NoNewPrivs'].strip())",
               SBX_END_OK, "{0} 1\n");
}

static void test_nothing_of_the_host(void **state) {
        struct sbx_guest_process *guest = start("conformance-host");

        expect(guest,
               "import os\nprint([n for n in os.environ if n.startswith(('SBX_', 'SNIPARA', 'RLM_', 'DOCKER'))])",
               SBX_END_OK, "[]\n");
        expect_no_privileges(guest);
        expect(guest,
               "def writable(path):\n    try:\n        open(path + '/probe', 'w').close()\n        return True\n"
               "    except OSError:\n        return False\n"
               "print([p for p in ('/', '/etc', '/usr', '/bin', '/lib', '/root', '/proc', '/sys') if writable(p)])",
               SBX_END_OK, "[]\n");
        expect(guest, "import tempfile\nprint(writable(tempfile.gettempdir()), writable(os.getcwd()))", SBX_END_OK,
               "True True\n");
        sbx_guest_free(guest);
}

static void test_subprocess(void **state) {
        struct sbx_guest_process *guest;

        if ((suite.ops->features & SBX_BACKEND_SUBPROCESS) == 0)
                skip_because("the backend's guests start no processes");
        guest = start("conformance-subprocess");
        expect(guest,
               "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(7)'], capture_output=True, "
               "text=True).stdout)",
               SBX_END_OK, "7\n\n");
        expect(guest,
               "p = subprocess.run([sys.executable, '-c', 'print(8); raise SystemExit(3)'])\nprint(p.returncode)",
               SBX_END_OK, "8\n3\n");
        sbx_guest_free(guest);
}

static void test_threads(void **state) {
        struct sbx_guest_process *guest;

        if ((suite.ops->features & SBX_BACKEND_THREADS) == 0)
                skip_because("the backend's guests start no threads");
        guest = start("conformance-threads");
        expect(guest,
               "import threading\nseen = []\nts = [threading.Thread(target=seen.append, args=(i,)) for i in range(4)]\n"
               "[t.start() for t in ts]\n[t.join() for t in ts]\nprint(sorted(seen))",
               SBX_END_OK, "[0, 1, 2, 3]\n");
        sbx_guest_free(guest);
}

static void test_no_network(void **state) {
        struct sbx_guest_process *guest;

        guest = start("conformance-network");
        if ((suite.ops->features & SBX_BACKEND_NETWORK) != 0 && !layer_applied(guest, "network namespace"))
                skip_because("the backend's guests are configured to have a network");
        /* The loopback of an empty network of its own may be up, with nobody there. */
        expect(guest,
               "import sys\nrefusals = (OSError, ImportError) if sys.platform == 'wasi' else OSError\n"
               "def try_to_reach(address):\n    try:\n        import socket\n"
               "        socket.create_connection(address, 1)\n        print('connected')\n"
               "    except refusals as error:\n        print('refused')\n"
               "try_to_reach(('192.0.2.1', 80))\ntry_to_reach(('127.0.0.1', 1))\ntry_to_reach(('example.org', 80))",
               SBX_END_OK, "refused\nrefused\nrefused\n");
        sbx_guest_free(guest);
}

/* Guests of several threads at once: none may see, slow to death or break another. */
static void *start_and_run(void *argument) {
        struct sbx_guest_spec wanted = spec("conformance-parallel");
        struct sbx_guest_process *guest = NULL;
        struct sbx_call call = patience();
        intptr_t failures = 0;

        for (int i = 0; i < 4; i++) {
                struct sbx_guest_execution execution = {.code = {"print(6 * 7)", 12},
                                                        .grace_ns = GRACE_NS,
                                                        .deadline_ns = call.deadline_ns,
                                                        .output_max_bytes = 100,
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

        must(sbx_pool_new(suite.backend, &(struct sbx_pool_runtime){"python", NULL}, &suite.logger, 2, &pool, &err),
             &err);
        for (int i = 0; i < 4; i++) {
                struct sbx_guest_process *guest = NULL;
                struct sbx_call call = patience();

                must(sbx_pool_take(pool, &wanted, &call, &guest, &err), &err);
                expect(guest, "print([n for n in ('left',) if n in globals()])\nleft = 1", SBX_END_OK, "[]\n");
                sbx_guest_free(guest);
        }
        sbx_pool_free(pool);
}

struct group state_group(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_start_and_report),
                cmocka_unit_test(test_state_is_kept),
                cmocka_unit_test(test_variables),
                cmocka_unit_test(test_value_result_and_display),
                cmocka_unit_test(test_guests_do_not_meet),
                cmocka_unit_test(test_streams_are_apart),
                cmocka_unit_test(test_nothing_to_read),
                cmocka_unit_test(test_calls_back_are_answered),
                cmocka_unit_test(test_nothing_of_the_host),
                cmocka_unit_test(test_subprocess),
                cmocka_unit_test(test_threads),
                cmocka_unit_test(test_no_network),
                cmocka_unit_test(test_parallel_guests),
                cmocka_unit_test(test_pool),
        };

        return (struct group){tests, sizeof(tests) / sizeof(tests[0])};
}
