/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: the other languages that a backend has keep the same promises as Python; which it has not, it says. */
#include "suite.h"

struct language {
        const char *runtime;
        const char *other;         /* what another engine of the language may call itself; NULL: none */
        const char *assign, *show; /* show prints "41" once assign has run */
        const char *fail, *endless, *deaf, *leave, *crash;
        const char *write_file, *flood; /* "note" with "hello"; 8 MiB of output */
        bool leave_keeps;               /* `leave` ends the execution alone */
};

static const struct language languages[] = {
        {.runtime = "bash",
         .assign = "x=41",
         .show = "echo $x",
         .fail = "false",
         .endless = "while true; do :; done",
         .deaf = "sleep 1000",
         .leave = "exit 3",
         .crash = NULL,
         .write_file = "printf hello >note",
         .flood = "head -c 8388608 /dev/zero | tr '\\0' x",
         .leave_keeps = true},
        {.runtime = "node",
         .other = "javascript",
         .assign = "let x = 41",
         .show = "console.log(x)",
         .fail = "throw new Error('wrong')",
         .endless = "while (true);",
         .deaf = "await new Promise(() => setTimeout(() => {}, 1e9))",
         .leave = NULL,
         .crash = "process.abort()",
         .write_file = "require('fs').writeFileSync('note', 'hello')",
         .flood = "process.stdout.write('x'.repeat(8 << 20))"},
};

static bool is_called(const struct sbx_guest_process *guest, const char *runtime) {
        const char *name = json_string_value(json_object_get(sbx_guest_info(guest), "runtime"));

        return name != NULL && strcmp(name, runtime) == 0;
}

static struct sbx_guest_process *start_language(const char *test, const struct language *language) {
        struct sbx_guest_process *guest = NULL;
        struct sbx_guest_spec wanted = spec("conformance-language");
        struct sbx_call call = patience();
        struct sbx_error err = {0};
        int r;

        wanted.runtime = language->runtime;
        r = sbx_guest_start(suite.backend, &suite.logger, &wanted, &call, &guest, &err);
        if (r == -ENOENT) {
                assert_non_null(strstr(err.message, language->runtime));
                print_reason(test, "%s", err.message);
                skip();
        }
        must(r, &err);
        assert_true(is_called(guest, language->runtime) ||
                    (language->other != NULL && is_called(guest, language->other)));
        return guest;
}

static void test_language_state(void **state) {
        const struct language *language = *state;
        struct sbx_guest_process *guest = start_language(__func__, language);
        struct sbx_result *result;

        expect(guest, language->assign, SBX_END_OK, "");
        expect(guest, language->show, SBX_END_OK, "41\n");
        result = execute_until(guest, language->fail, PATIENCE_MS, NULL);
        assert_int_equal(result->end, SBX_END_ERROR);
        assert_int_equal(result->state, SBX_STATE_KEPT);
        sbx_result_free(result);
        expect(guest, language->show, SBX_END_OK, "41\n");
        sbx_guest_free(guest);
}

static void test_language_interrupts(void **state) {
        const struct language *language = *state;
        struct sbx_guest_process *guest = start_language(__func__, language);

        expect(guest, language->assign, SBX_END_OK, "");
        for (int i = 0; i < 3; i++) {
                struct sbx_result *result =
                        execute_until(guest, i == 1 ? language->deaf : language->endless, 500, NULL);

                if (result->end != SBX_END_TIMEOUT || result->state != SBX_STATE_KEPT)
                        fail_msg("%s, %d: %s: %s", language->runtime, i, sbx_end_name(result->end),
                                 result->error_message);
                sbx_result_free(result);
                expect(guest, language->show, SBX_END_OK, "41\n");
        }
        sbx_guest_free(guest);
}

static void test_language_ends(void **state) {
        const struct language *language = *state;
        struct sbx_guest_process *guest = start_language(__func__, language);
        struct sbx_result *result;

        expect(guest, language->assign, SBX_END_OK, "");
        if (language->leave != NULL) {
                result = execute_until(guest, language->leave, PATIENCE_MS, NULL);
                assert_int_equal(result->state, language->leave_keeps ? SBX_STATE_KEPT : SBX_STATE_LOST);
                sbx_result_free(result);
                expect(guest, language->show, SBX_END_OK, "41\n");
        }
        /* Another engine of the language may have no way to end itself. */
        if (language->crash != NULL && is_called(guest, language->runtime)) {
                result = execute_until(guest, language->crash, PATIENCE_MS, NULL);
                assert_true(result->end == SBX_END_KILLED || result->end == SBX_END_LOST);
                assert_int_equal(result->state, SBX_STATE_LOST);
                sbx_result_free(result);
                assert_false(sbx_guest_alive(guest));
        }
        sbx_guest_free(guest);
}

static void test_language_files_and_floods(void **state) {
        const struct language *language = *state;
        struct sbx_guest_process *guest = start_language(__func__, language);
        _cleanup_buffer_ struct sbx_buffer content = SBX_BUFFER(1000);
        struct sbx_call call = patience();
        struct sbx_error err = {0};
        struct sbx_result *result;

        expect(guest, language->write_file, SBX_END_OK, NULL);
        must(sbx_guest_file_read(guest, "note", 1000, &call, &content, &err), &err);
        assert_int_equal(content.size, 5);
        assert_memory_equal(content.data, "hello", 5);
        result = execute_until(guest, language->flood, PATIENCE_MS, NULL);
        assert_int_equal(result->end, SBX_END_OK);
        assert_int_equal(result->stdout_text.size + result->stdout_dropped_bytes, 8 << 20);
        sbx_result_free(result);
        sbx_guest_free(guest);
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

static void test_unknown_version(void **state) {
        struct sbx_guest_spec wanted = spec("conformance-version");
        struct sbx_call call = patience();
        struct sbx_guest_process *guest = NULL;
        struct sbx_error err = {0};

        wanted.runtime_version = "2.7";
        assert_int_equal(sbx_guest_start(suite.backend, &suite.logger, &wanted, &call, &guest, &err), -ENOENT);
        assert_non_null(strstr(err.message, "2.7"));
}

struct group runtimes_group(void) {
        static const struct {
                const char *name;
                CMUnitTestFunction function;
        } kinds[] = {{"state", test_language_state},
                     {"interrupts", test_language_interrupts},
                     {"ends", test_language_ends},
                     {"files_and_floods", test_language_files_and_floods}};
        enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), LANGUAGES = sizeof(languages) / sizeof(languages[0]) };
        static struct CMUnitTest tests[KINDS * LANGUAGES + 2] = {cmocka_unit_test(test_unknown_runtime),
                                                                 cmocka_unit_test(test_unknown_version)};
        static char names[KINDS * LANGUAGES][64];

        for (size_t i = 0; i < KINDS * LANGUAGES; i++) {
                union {
                        const struct language *constant;
                        void *changeable; /* as cmocka wants it */
                } data = {.constant = &languages[i / KINDS]};

                snprintf(names[i], sizeof(names[i]), "%s_%s", data.constant->runtime, kinds[i % KINDS].name);
                tests[i + 2] = (struct CMUnitTest){
                        .name = names[i], .test_func = kinds[i % KINDS].function, .initial_state = data.changeable};
        }
        return (struct group){tests, KINDS * LANGUAGES + 2};
}
