/* SPDX-License-Identifier: Apache-2.0 */
/* The sessions of a resumed run: as the store has them, where it does; else the recorded executions run again, in
 * order, with the calls that their code makes answered from the journal. So the variables are there again, and nothing
 * outside of the sandbox is done twice. */
#include "agent/restore.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/render.h"

#define CALL_MAX_BYTES ((size_t)20 << 20) /* of the arguments of a call: 16 MiB, escaped */

struct restoring {
        struct sbx_run *run;
        json_t *since; /* {"principal session": key of the last record that need not be done again} */
        unsigned again, different;
        struct sbx_error *err;
};

/* One execution that is run again. */
struct again {
        struct sbx_run *run;
        const char *key;
        unsigned calls;
};

static const char *text_in(const json_t *record, const char *member) {
        const char *text = json_string_value(json_object_get(record, member));

        return text != NULL ? text : "";
}

/* ---- calls of the code ---- */

/* The record of the n-th call. Code that ran more than once in its life (because a kill came before its end) may have
 * made other calls then: those have keys with a `~`. */
static int find_call(const struct again *again, const char *name, const json_t *arguments, json_t **ret_record,
                     struct sbx_error *err) {
        char key[SBX_JOURNAL_KEY_MAX];
        int r = sbx_key_make(key, err, again->key, ".c%u", again->calls);

        for (unsigned variant = 1; r == 0; variant++) {
                json_t *record = sbx_journal_find(again->run->journal, key);

                if (record == NULL)
                        return sbx_error_set(
                                err, -ECANCELED, SBX_AGENT_ORIGIN, NULL,
                                "the journal of the run has no such call: the code does not do what it did "
                                "before");
                if (strcmp(text_in(record, "name"), name) == 0 &&
                    (json_object_size(arguments) == json_object_size(json_object_get(record, "arguments")) &&
                     (json_object_size(arguments) == 0 ||
                      json_equal(arguments, json_object_get(record, "arguments"))))) {
                        *ret_record = record;
                        return 0;
                }
                json_decref(record);
                r = sbx_key_make(key, err, again->key, ".c%u~%u", again->calls, variant);
        }
        return r;
}

/* The n-th call has the result that it had; what it had not answered yet when it ended, it is not answered now either.
 */
static int answer_call(void *data, const char *name, struct sbx_bytes arguments, const struct sbx_call *call,
                       struct sbx_buffer *ret_result, struct sbx_error *err) {
        struct again *again = data;
        _cleanup_json_ json_t *record = NULL, *parsed = NULL;
        const json_t *problem;
        int r = arguments.size > 0 ? sbx_json_parse(arguments, CALL_MAX_BYTES, "arguments", &parsed, err) : 0;

        if (r == 0)
                r = find_call(again, name, parsed, &record, err);
        again->calls++;
        if (r < 0)
                return r;
        problem = json_object_get(record, "error");
        if (json_is_object(problem)) {
                json_int_t code = json_integer_value(json_object_get(problem, "code"));

                return sbx_error_set(err, code < 0 && code > -4096 ? (int)code : -EIO, SBX_AGENT_ORIGIN, NULL, "%s",
                                     text_in(problem, "message"));
        }
        return sbx_json_encode(json_object_get(record, "result"), ret_result);
}

/* ---- which, and how ---- */

/* Sessions of a sub-completion are gone when it has ended: then what asked for it has a record. */
static bool is_over(struct sbx_run *run, const char *principal) {
        size_t length = strlen(run->session_principal);
        char key[SBX_JOURNAL_KEY_MAX];

        if (strncmp(principal, run->session_principal, length) != 0)
                return true;
        if (principal[length] == '\0')
                return false;
        if (principal[length] != '/' || strlen(principal + length + 1) >= sizeof(key))
                return true;
        snprintf(key, sizeof(key), "%s", principal + length + 1);
        for (char *dot = key + strlen(key); dot != NULL; dot = strrchr(key, '.')) {
                _cleanup_json_ json_t *record = NULL;

                *dot = '\0';
                record = sbx_journal_find(run->journal, key);
                if (record != NULL)
                        return true;
        }
        return false;
}

static bool in_session(const json_t *record) {
        bool execution = strcmp(text_in(record, "type"), "execution") == 0;

        if (!execution && !json_is_true(json_object_get(record, "session")))
                return false;
        /* The tool `execute` has a session of its own each time, which left nothing behind. */
        return !execution || strcmp(text_in(record, "name"), "execute") != 0;
}

bool sbx_restore_needs(struct sbx_run *run, const json_t *record, char ret_name[SBX_RESTORE_NAME_SIZE]) {
        const char *id = text_in(record, "session_id");
        int length;

        if (!in_session(record) || is_over(run, text_in(record, "principal")))
                return false;
        length = snprintf(ret_name, SBX_RESTORE_NAME_SIZE, "%s %s", text_in(record, "principal"),
                          id[0] != '\0' ? id : SBX_SESSION_DEFAULT);
        return length > 0 && length < SBX_RESTORE_NAME_SIZE;
}

/* What came before the loss of a session's state is not worth doing again; nor is what a stored state holds. */
static bool is_needed(struct restoring *restoring, const char *key, const json_t *record) {
        char name[SBX_RESTORE_NAME_SIZE];
        const char *since;

        if (!sbx_restore_needs(restoring->run, record, name))
                return false;
        since = json_string_value(json_object_get(restoring->since, name));
        if (since == NULL)
                return true;
        if (strcmp(since, key) == 0)
                json_object_del(restoring->since, name); /* what comes after it is needed */
        return false;
}

/* ---- again ---- */

static bool ended_the_same(const struct sbx_result *result, const json_t *record) {
        _cleanup_json_ json_t *rendered = NULL;
        const json_t *content, *text;

        if (strcmp(sbx_end_name(result->end), text_in(record, "end")) != 0 ||
            sbx_render_result(result, false, false, &rendered, NULL) < 0)
                return false;
        content = json_object_get(json_object_get(record, "result"), "content");
        text = content != NULL ? json_object_get(json_array_get(content, 0), "text")
                               : json_object_get(record, "output");
        return json_equal(text, json_object_get(json_array_get(json_object_get(rendered, "content"), 0), "text"));
}

static int execute_again(struct restoring *restoring, const char *key, const json_t *record) {
        struct sbx_run *run = restoring->run;
        struct again again = {.run = run, .key = key};
        struct sbx_code_calls calls = {.data = &again, .answer = answer_call};
        const json_t *arguments = json_object_get(record, "arguments");
        json_t *code = NULL;
        struct sbx_execution execution = {
                .struct_size = sizeof(execution),
                .session_id = json_string_value(json_object_get(record, "session_id")),
                .environment = run->environment,
                .principal = text_in(record, "principal"),
                .profile = json_string_value(json_object_get(arguments, "profile")),
        };
        const json_t *answer = json_object_get(record, "answer");
        struct sbx_result *result = NULL;
        int r = 0;

        if (!sbx_tools_code_of(text_in(record, "name"), arguments, &code, &execution.runtime))
                code = json_object_get(arguments, "code"); /* a check */
        execution.code = (struct sbx_bytes){json_string_value(code), json_string_length(code)};
        execution.timeout_ms = (uint64_t)json_integer_value(json_object_get(arguments, "timeout")) * 1000;
        if (!json_is_string(code))
                return sbx_error_set(restoring->err, -EBADMSG, SBX_AGENT_ORIGIN, NULL,
                                     "the journal of the run has an execution without code at %s", key);
        if (json_is_string(answer)) { /* a check */
                r = sbx_variables_start_session(run, restoring->err);
                if (r == 0)
                        r = sbx_variable_set(run, "answer", answer, restoring->err);
        }
        if (r == 0)
                r = sbx_sessions_execute_with(run->parts->sessions, &execution, &calls, run->call, &result,
                                              restoring->err);
        if (r < 0)
                return r;
        restoring->again++;
        r = sbx_call_ended(run->call);
        if (r == 0 && !ended_the_same(result, record)) {
                restoring->different++;
                sbx_run_notice(
                        run, "Step %s was run again to restore the session and ended otherwise: %s then, %s now%s.",
                        key, text_in(record, "end"), sbx_end_name(result->end),
                        strcmp(text_in(record, "end"), sbx_end_name(result->end)) == 0 ? ", with other output" : "");
        }
        sbx_result_free(result);
        return r < 0 ? sbx_error_set(restoring->err, r, SBX_AGENT_ORIGIN, NULL,
                                     "the run ended while its sessions were restored")
                     : 0;
}

/* Tools that change variables or end a session, through the registry, without a place in the run: nothing is counted.
 */
static int call_again(struct restoring *restoring, const char *key, const json_t *record) {
        struct sbx_run *run = restoring->run;
        _cleanup_buffer_ struct sbx_buffer arguments = SBX_BUFFER((size_t)64 << 20),
                                           result = SBX_BUFFER((size_t)64 << 20);
        struct sbx_tool_context context = {.principal = text_in(record, "principal"),
                                           .caller = SBX_CALLER_MODEL,
                                           .call = run->call,
                                           .environment = run->environment};
        int r = sbx_json_encode(json_object_get(record, "arguments"), &arguments);

        if (r == 0)
                r = sbx_tools_call(run->parts->tools, text_in(record, "name"), sbx_buffer_bytes(&arguments), &context,
                                   &result, restoring->err);
        if (r == 0)
                restoring->again++;
        return r < 0 ? sbx_error_set(restoring->err, r, SBX_AGENT_ORIGIN, NULL, "step %s can't be done again: %s", key,
                                     SBX_ERRNO_TEXT(r))
                     : 0;
}

static int restore_one(void *data, const char *key, const json_t *record) {
        struct restoring *restoring = data;

        if (!is_needed(restoring, key, record))
                return 0;
        return strcmp(text_in(record, "type"), "execution") == 0 ? execute_again(restoring, key, record)
                                                                 : call_again(restoring, key, record);
}

/* Texts that the run began with: in its own session, unless that came back with them. */
static int load_variables(struct sbx_run *run, const json_t *given, struct sbx_error *err) {
        char name[SBX_RESTORE_NAME_SIZE];

        snprintf(name, sizeof(name), "%s %s", run->session_principal, SBX_SESSION_DEFAULT);
        return json_object_get(given, name) == NULL ? sbx_variables_load(run, err) : 0;
}

static int restore(struct sbx_run *run, struct sbx_error *err) {
        __attribute__((cleanup(sbx_restored_clear))) struct sbx_restored restored = {0};
        struct restoring restoring = {.run = run, .err = err};
        int r = sbx_restore_states(run, &restored, err);

        restoring.since = restored.since;
        if (r == 0)
                r = load_variables(run, restored.given, err);
        if (r == 0)
                r = sbx_journal_each(run->journal, restore_one, &restoring);
        if (r < 0)
                return sbx_error_set(err, r, SBX_AGENT_ORIGIN, NULL, "the run's sessions can't be restored: %s",
                                     SBX_ERRNO_TEXT(r));
        if (restoring.again > 0 && restoring.different == 0)
                sbx_run_notice(
                        run,
                        "The session's variables were restored by running its %u executions again; all ended as before.",
                        restoring.again);
        else if (restoring.again > 0)
                sbx_run_notice(
                        run,
                        "The session's variables were restored by running its %u executions again; %u ended otherwise.",
                        restoring.again, restoring.different);
        return 0;
}

int sbx_run_restore_sessions(struct sbx_run *run, struct sbx_error *err) {
        int r = 0;
        SBX_LOCKED(&run->restore_lock);

        if (run->restored || !sbx_journal_resumed(run->journal))
                return 0;
        r = restore(run, err);
        run->restored = r == 0;
        return r;
}
