/* SPDX-License-Identifier: Apache-2.0 */
/* Code of the user that validates an answer: it runs in the run's session, where it sees `answer` and all that the run
 * has made, and passes when it ends without an exception. It can't call back: it judges, and has no budget. */
#include "agent/run.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/render.h"

#define CHECK_TIMEOUT_MS 120000u
#define ANSWER_NAME "answer"
#define CHECKPOINT_MAX ((size_t)1 << 20) /* bytes of what a result says of the session's checkpoint */

void sbx_check_clear(struct sbx_check *check) {
        free(check->end);
        free(check->output);
        *check = (struct sbx_check){0};
}

static int read_record(const json_t *record, struct sbx_check *ret_check, struct sbx_error *err) {
        const char *end = json_string_value(json_object_get(record, "end"));
        const char *output = json_string_value(json_object_get(record, "output"));
        struct sbx_check check = {.end = strdup(end != NULL ? end : "error"),
                                  .output = strdup(output != NULL ? output : "")};

        if (check.end == NULL || check.output == NULL) {
                sbx_check_clear(&check);
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        }
        check.passed = strcmp(check.end, sbx_end_name(SBX_END_OK)) == 0;
        *ret_check = check;
        return 0;
}

/* The event of 2.2.7's shape, from the record alone: a resumed run tells the same. */
static void tell(const struct sbx_place *place, const char *key, const json_t *record) {
        const json_t *output = json_object_get(record, "output"), *end = json_object_get(record, "end");
        bool passed = strcmp(json_string_value(end), sbx_end_name(SBX_END_OK)) == 0;
        char call_id[SBX_RUN_ID_SIZE], digest[SBX_SHA256_TEXT_SIZE];
        json_t *event, *facts;

        if (!sbx_run_observed(place->run))
                return;
        sbx_event_id(place->run, key, call_id);
        sbx_sha256_text((struct sbx_bytes){json_string_value(output), json_string_length(output)}, digest);
        facts = json_object_get(record, "facts");
        event = json_pack("{s:s, s:n, s:i, s:O, s:O, s:[{s:O, s:o, s:O, s:O, s:O, s:O}], s:O, s:O, s:s, s:s, s:b}",
                          "call_id", call_id, "parent_call_id", "depth", 0, "prompt",
                          json_object_get(json_object_get(record, "arguments"), "code"), "response", output,
                          "repl_results", "output", output, "error",
                          passed ? json_null() : json_incref((json_t *)output), "execution_time_ms",
                          json_object_get(record, "duration_ms"), "truncated", json_object_get(facts, "truncated"),
                          "memory_peak_bytes", json_object_get(facts, "memory_peak_bytes"), "cpu_time_ms",
                          json_object_get(facts, "cpu_time_ms"), "duration_ms", json_object_get(record, "duration_ms"),
                          "end", end, "key", key, "output_sha256", digest, "passed", (int)passed);
        if (event != NULL) {
                json_object_set(event, "session_id", json_object_get(record, "session_id"));
                json_object_set(event, "state", json_object_get(record, "state"));
                json_object_set(event, "profile", json_object_get(record, "profile"));
                json_object_set(event, "isolation", json_object_get(facts, "isolation"));
                json_object_set(event, "timestamp", json_object_get(record, "timestamp"));
                json_object_set(event, "principal", json_object_get(record, "principal"));
                json_object_set(event, "answer", json_object_get(record, "answer")); /* for doing it again */
        }
        sbx_run_emit(place->run, "check", event);
}

/* ---- running it ---- */

/* The text that a model gets of the result, as of any execution. */
static int text_of(const struct sbx_result *result, json_t **ret_text, struct sbx_error *err) {
        _cleanup_json_ json_t *rendered = NULL;
        json_t *text;
        int r = sbx_render_result(result, false, false, &rendered, err);

        if (r < 0)
                return r;
        text = json_object_get(json_array_get(json_object_get(rendered, "content"), 0), "text");
        *ret_text = text != NULL ? json_incref(text) : json_string("");
        return *ret_text != NULL ? 0 : SBX_NOMEM(err, SBX_AGENT_ORIGIN);
}

/* Down to microseconds: more digits are noise. */
static double milliseconds(uint64_t ns) {
        uint64_t us = ns / 1000;

        return (double)us / 1000;
}

static json_t *make_record(const struct sbx_place *place, const char *code, const char *answer,
                           const struct sbx_result *result, json_t *text, const char *timestamp) {
        _cleanup_json_ json_t *checkpoint = NULL;
        json_t *record = json_pack(
                "{s:s, s:s, s:{s:s, s:i}, s:s, s:s, s:s, s:s, s:s, s:s, s:O, s:i, s:s, s:f, s:{s:b, s:I, s:f, s:s?}}",
                "type", "execution", "name", "check", "arguments", "code", code, "timeout",
                (int)(CHECK_TIMEOUT_MS / 1000), "answer", answer, "principal", place->run->session_principal,
                "session_id", SBX_SESSION_DEFAULT, "end", sbx_end_name(result->end), "state",
                sbx_state_name(result->state), "profile", "default", "output", text, "calls", 0, "timestamp", timestamp,
                "duration_ms", milliseconds(result->duration_ns), "facts", "truncated",
                result->stdout_dropped_bytes + result->stderr_dropped_bytes > 0, "memory_peak_bytes",
                (json_int_t)result->memory_peak_bytes, "cpu_time_ms", milliseconds(result->cpu_ns), "isolation",
                result->isolation);

        if (result->checkpoint != NULL)
                (void)sbx_json_parse((struct sbx_bytes){result->checkpoint, strlen(result->checkpoint)}, CHECKPOINT_MAX,
                                     "checkpoint", &checkpoint, NULL);
        if (record != NULL && sbx_record_checkpoint(record, checkpoint) < 0) {
                json_decref(record);
                return NULL;
        }
        return record;
}

/* An end that came of the run's own end says nothing of the answer. */
static int ended_meanwhile(const struct sbx_run *run, enum sbx_end end, struct sbx_error *err) {
        int r = end == SBX_END_OK ? 0 : sbx_call_ended(run->call);

        if (end == SBX_END_CANCELLED && r == 0)
                r = -ECANCELED;
        return r < 0 ? sbx_error_set(err, r, SBX_AGENT_ORIGIN, NULL, "the run ended while its answer was checked") : 0;
}

static int execute(const struct sbx_place *place, const char *code, const char *answer, json_t **ret_record,
                   struct sbx_error *err) {
        struct sbx_run *run = place->run;
        _cleanup_json_ json_t *text = NULL, *value = sbx_json_text((struct sbx_bytes){answer, strlen(answer)});
        struct sbx_execution execution = {.struct_size = sizeof(execution),
                                          .code = {code, strlen(code)},
                                          .environment = run->environment,
                                          .principal = run->session_principal,
                                          .filename = "<check>",
                                          .timeout_ms = CHECK_TIMEOUT_MS};
        struct sbx_result *result = NULL;
        char began_at[SBX_TIMESTAMP_SIZE];
        int r = value != NULL ? sbx_variables_start_session(run, err) : SBX_NOMEM(err, SBX_AGENT_ORIGIN);

        if (r == 0)
                r = sbx_variable_set(run, ANSWER_NAME, value, err);
        sbx_clock_timestamp(began_at);
        if (r == 0)
                r = sbx_sessions_execute(run->parts->sessions, &execution, run->call, &result, err);
        if (r < 0)
                return r;
        r = ended_meanwhile(run, result->end, err);
        if (r == 0)
                r = text_of(result, &text, err);
        if (r == 0) {
                *ret_record = make_record(place, code, answer, result, text, began_at);
                r = *ret_record != NULL ? 0 : SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        }
        sbx_result_free(result);
        return r;
}

int sbx_check_answer(const struct sbx_place *place, const char *code, const char *answer, struct sbx_check *ret_check,
                     struct sbx_error *err) {
        _cleanup_json_ json_t *record = NULL;
        char key[SBX_JOURNAL_KEY_MAX];
        int r = sbx_key_make(key, err, place->key, ".check");

        if (r < 0)
                return r;
        record = sbx_journal_find(place->run->journal, key);
        if (record == NULL) {
                r = sbx_run_restore_sessions(place->run, err);
                if (r == 0)
                        r = execute(place, code, answer, &record, err);
                if (r == 0)
                        r = sbx_journal_add(place->run->journal, key, record, err);
                if (r < 0)
                        return r;
        }
        tell(place, key, record);
        return read_record(record, ret_check, err);
}
