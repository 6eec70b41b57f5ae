/* SPDX-License-Identifier: Apache-2.0 */
/* Events into lines, and the hash of lines. */
#include "test.h"

#include "../record.h"

static const char some_hash[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

static json_t *line_of(const char *event, uint64_t count, const char *prev) {
        const struct jsonl_place place = {strcmp(prev, JSONL_CHAIN_START) == 0 ? 1 : 9, count, prev};
        struct jsonl_record record = JSONL_RECORD;
        struct sbx_error err = {0};
        char *line = NULL, sum[JSONL_HASH_SIZE];
        size_t size = 0;
        json_t *object;

        assert_int_equal(jsonl_record_read((struct sbx_bytes){event, strlen(event)}, &record, &err), 0);
        assert_int_equal(jsonl_record_line(&record, &place, &line, &size, &err), 0);
        assert_int_equal(line[size - 1], '\n');
        assert_true(memchr(line, '\n', size - 1) == NULL);
        object = json_loadb(line, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        assert_non_null(object);
        assert_string_equal(json_string_value(json_object_get(object, "prev")), prev);
        assert_int_equal(json_integer_value(json_object_get(object, "line")), place.line);
        jsonl_hash_line((struct sbx_bytes){line, size - strlen(",\"sum\":\"\"}\n") - 64}, sum);
        assert_string_equal(json_string_value(json_object_get(object, "sum")), sum);
        jsonl_record_clear(&record);
        free(line);
        return object;
}

/* Everything that the reader of 2.2.7 asks for. */
static void test_a_call(void **state) {
        static const char *const members[] = {"trajectory_id", "call_id",      "parent_call_id",    "depth",
                                              "prompt",        "response",     "tool_calls",        "tool_results",
                                              "repl_results",  "input_tokens", "output_tokens",     "duration_ms",
                                              "error",         "timestamp",    "estimated_cost_usd"};
        json_t *line = line_of("{\"trajectory_id\":\"" RUN "\",\"call_id\":\"c\",\"timestamp\":\"t\",\"depth\":2}", 7,
                               some_hash);

        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
                assert_non_null(json_object_get(line, members[i]));
        assert_int_equal(json_integer_value(json_object_get(line, "depth")), 2);
        assert_string_equal(json_string_value(json_object_get(line, "prompt")), "");
        assert_true(json_is_null(json_object_get(line, "response")));
        assert_true(json_is_array(json_object_get(line, "tool_calls")));
        assert_null(json_object_get(line, "_type"));
        assert_null(json_object_get(line, "event_count"));
        json_decref(line);
}

static void test_metadata(void **state) {
        json_t *line =
                line_of("{\"trajectory_id\":\"x\",\"event\":\"run_started\",\"prompt\":\"p\"}", 0, JSONL_CHAIN_START);

        assert_string_equal(json_string_value(json_object_get(line, "_type")), "trajectory_metadata");
        assert_int_equal(json_integer_value(json_object_get(line, "event_count")), 0);
        assert_int_equal(json_integer_value(json_object_get(line, "total_tokens")), 0);
        assert_int_equal(json_integer_value(json_object_get(line, "total_duration_ms")), 0);
        json_decref(line);
        line = line_of("{\"trajectory_id\":\"x\",\"event\":\"run_ended\",\"total_tokens\":42,\"duration_ms\":17.9}", 7,
                       some_hash);
        assert_string_equal(json_string_value(json_object_get(line, "_type")), "trajectory_metadata");
        assert_int_equal(json_integer_value(json_object_get(line, "event_count")), 7);
        assert_int_equal(json_integer_value(json_object_get(line, "total_tokens")), 42);
        assert_int_equal(json_integer_value(json_object_get(line, "total_duration_ms")), 17);
        json_decref(line);
        line = line_of("{\"trajectory_id\":\"x\",\"event\":\"other\",\"timestamp\":\"t\"}", 7, some_hash);
        assert_string_equal(json_string_value(json_object_get(line, "_type")), "trajectory_metadata");
        assert_null(json_object_get(line, "event_count"));
        json_decref(line);
}

/* What the core encoded stays as it is, numbers to the last digit. */
static void test_bytes_are_kept(void **state) {
        static const char body[] = "\"trajectory_id\":\"x\",\"call_id\":\"c\",\"a\":0.30000000000000004,\"b\":1e-7,"
                                   "\"c\":\"\\u0000\\n\xf0\x9f\x8c\x8d\"";
        const struct jsonl_place place = {2, 0, some_hash};
        struct jsonl_record record = JSONL_RECORD;
        struct sbx_error err = {0};
        char event[256], *line = NULL;
        size_t size = 0;

        snprintf(event, sizeof(event), " {%s}\r\n ", body);
        assert_int_equal(jsonl_record_read((struct sbx_bytes){event, strlen(event)}, &record, &err), 0);
        assert_int_equal(jsonl_record_line(&record, &place, &line, &size, &err), 0);
        assert_memory_equal(line + 1, body, strlen(body));
        jsonl_record_clear(&record);
        free(line);
}

static void test_an_event_over_several_lines(void **state) {
        json_t *line = line_of("{\n\t\"trajectory_id\": \"x\",\r\n\t\"call_id\": \"c\"\n}\n", 0, some_hash);

        assert_string_equal(json_string_value(json_object_get(line, "call_id")), "c");
        json_decref(line);
}

static void test_what_is_refused(void **state) {
        static const char *const events[] = {
                "",
                "{",
                "[]",
                "null",
                "{}",
                "{\"trajectory_id\":5}",
                "{\"trajectory_id\":\"\"}",
                "{\"trajectory_id\":\"../x\"}",
                "{\"trajectory_id\":\"x\\u0000\"}",
                "{\"trajectory_id\":\"x.jsonl\"}",
                "{\"trajectory_id\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}",
                "{\"trajectory_id\":\"x\",\"prev\":\"" JSONL_CHAIN_START "\"}",
                "{\"trajectory_id\":\"x\",\"line\":1}",
                "{\"trajectory_id\":\"x\",\"sum\":null}",
                "{\"trajectory_id\":\"x\",\"_type\":\"trajectory_metadata\"}",
        };

        for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
                struct jsonl_record record = JSONL_RECORD;
                struct sbx_error err = {0};

                assert_int_equal(jsonl_record_read((struct sbx_bytes){events[i], strlen(events[i])}, &record, &err),
                                 -EINVAL);
                assert_int_equal(err.code, -EINVAL);
                assert_null(record.object);
        }
}

/* FIPS 180-4, and a line in pieces. */
static void test_hash(void **state) {
        char hash[JSONL_HASH_SIZE];
        struct jsonl_hash pieces;

        jsonl_hash_line((struct sbx_bytes){"abc", 3}, hash);
        assert_string_equal(hash, some_hash);
        jsonl_hash_begin(&pieces);
        jsonl_hash_add(&pieces, (struct sbx_bytes){"a", 1});
        jsonl_hash_add(&pieces, (struct sbx_bytes){NULL, 0});
        jsonl_hash_add(&pieces, (struct sbx_bytes){"bc", 2});
        jsonl_hash_end(&pieces, hash);
        assert_string_equal(hash, some_hash);
        assert_int_equal(strlen(JSONL_CHAIN_START), 64);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_call),          cmocka_unit_test(test_metadata),
                cmocka_unit_test(test_bytes_are_kept),  cmocka_unit_test(test_an_event_over_several_lines),
                cmocka_unit_test(test_what_is_refused), cmocka_unit_test(test_hash),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
