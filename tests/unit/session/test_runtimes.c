/* SPDX-License-Identifier: Apache-2.0 */
/* The language of a session: its names, what the backend is asked for, and that a session keeps the one it has. */
#include "sessions.h"

#include "session/runtimes.h"

static int run_as(struct table *table, const char *id, const char *runtime) {
        struct sbx_execution execution = {
                .struct_size = sizeof(execution), .code = {"ok", 2}, .session_id = id, .runtime = runtime};

        sbx_result_free(table->result);
        table->result = NULL;
        table->err = (struct sbx_error){0};
        return sbx_sessions_execute(table->sessions, &execution, NULL, &table->result, &table->err);
}

static void test_names(void **state) {
        static const struct {
                const char *text, *canonical, *family, *version;
        } cases[] = {
                {NULL, "python", "python", ""},
                {"python3", "python", "python", ""},
                {"py", "python", "python", ""},
                {"python3.12", "python3.12", "python", "3.12"},
                {"javascript", "node", "node", ""},
                {"node20", "node20", "node", "20"},
                {"sh", "bash", "bash", ""},
                {"bash5", "bash5", "bash", "5"},
                {"python-ml", "python-ml", "python-ml", ""},
                {"python3.", "python3.", "python3.", ""},
                {"datasci", "datasci", "datasci", ""},
        };
        struct sbx_runtime_name name;
        struct sbx_error err = {0};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_int_equal(sbx_runtime_name_parse(cases[i].text, &name, NULL), 0);
                assert_string_equal(name.text, cases[i].canonical);
                assert_string_equal(name.family, cases[i].family);
                assert_string_equal(name.version, cases[i].version);
        }
        assert_int_equal(sbx_runtime_name_parse("", &name, &err), -EINVAL);
        assert_int_equal(sbx_runtime_name_parse("../bash", &name, NULL), -EINVAL);
        assert_int_equal(sbx_runtime_name_parse("a b", &name, NULL), -EINVAL);
        assert_int_equal(sbx_runtime_name_parse("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                                &name, NULL),
                         -EINVAL);
        assert_contains(err.hint, "python, node or bash");
}

static void test_backend_is_told(void **state) {
        struct table table;
        struct sbx_execution owned = {
                .struct_size = sizeof(owned), .code = {"ok", 2}, .session_id = "o", .principal = "token:ann"};

        table_open(&table, NULL);
        assert_int_equal(run_as(&table, NULL, NULL), 0);
        assert_string_equal(fake_guest_counts().last_runtime, "python");
        assert_string_equal(fake_guest_counts().last_owner, "");
        assert_int_equal(run_as(&table, "new", "python3.12"), 0);
        assert_string_equal(fake_guest_counts().last_runtime, "python 3.12");
        assert_int_equal(run_as(&table, "", "datasci"), 0);
        assert_string_equal(fake_guest_counts().last_runtime, "datasci");
        sbx_result_free(table.result);
        assert_int_equal(sbx_sessions_execute(table.sessions, &owned, NULL, &table.result, &table.err), 0);
        assert_string_equal(fake_guest_counts().last_owner, "token:ann");
        table_close(&table);
}

static void test_session_keeps_its_language(void **state) {
        struct table table;
        _cleanup_json_ json_t *list = NULL;

        table_open(&table, NULL);
        assert_int_equal(run_as(&table, "a", "js"), 0);
        assert_int_equal(run_as(&table, "a", "node"), 0);
        assert_int_equal(run_as(&table, "a", NULL), 0);
        assert_string_equal(table.result->value, "3");
        assert_int_equal(run_as(&table, "a", "python"), -EINVAL);
        assert_contains(table.err.message, "session 'a' is one of node and can't execute python");
        assert_int_equal(run_as(&table, "a", "node20"), -EINVAL);
        assert_int_equal(run_as(&table, "b", "no/language"), -EINVAL);
        assert_int_equal(sbx_sessions_destroy(table.sessions, "", "a", &table.err), 0);
        assert_int_equal(run_as(&table, "a", "python"), 0);
        list = list_of(&table, "");
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "language")), "python");
        assert_int_equal(fake_guest_counts().alive, 1);
        table_close(&table);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_backend_is_told),
                cmocka_unit_test(test_session_keeps_its_language),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
