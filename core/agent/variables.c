/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that come with a request: into the journal, and from there into variables of the run's session. */
#include "agent/run.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

#define PART_BYTES ((size_t)2 << 20) /* six times that, when all of it is escaped, fits into a frame */
#define PART_NAME "_sbx_part"
#define KEY "variable."

/* ---- the request ---- */

static bool is_identifier(const char *name) {
        size_t length = name != NULL ? strlen(name) : 0;

        if (length == 0 || length > 64 || (name[0] >= '0' && name[0] <= '9'))
                return false;
        return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

static size_t count_characters(struct sbx_bytes text) {
        const char *bytes = text.data;
        size_t count = 0;

        for (size_t i = 0; i < text.size; i++)
                count += ((unsigned char)bytes[i] & 0xC0) != 0x80;
        return count;
}

static int check_variable(const struct sbx_run_variable *variable, struct sbx_error *err) {
        if (!is_identifier(variable->name) || strcmp(variable->name, PART_NAME) == 0)
                return sbx_error_set(err, -EINVAL, SBX_AGENT_ORIGIN,
                                     "Take letters, digits and underscores, at most 64, the first no digit.",
                                     "\"%.64s\" can't be the name of a variable",
                                     variable->name != NULL ? variable->name : "");
        if (variable->text.size > SBX_RUN_VARIABLE_MAX_BYTES)
                return sbx_error_set(err, -EFBIG, SBX_AGENT_ORIGIN, "Split it into several.",
                                     "the text for variable %s has %zu bytes, more than %zu", variable->name,
                                     variable->text.size, SBX_RUN_VARIABLE_MAX_BYTES);
        return 0;
}

int sbx_variables_describe(const struct sbx_run_variable *variables, size_t count, json_t **ret_list,
                           struct sbx_error *err) {
        _cleanup_json_ json_t *list = json_array();
        size_t total = 0;

        if (count > SBX_RUN_VARIABLES_MAX)
                return sbx_error_set(err, -EINVAL, SBX_AGENT_ORIGIN, NULL, "%zu variables are more than %u", count,
                                     SBX_RUN_VARIABLES_MAX);
        for (size_t i = 0; i < count; i++) {
                char digest[SBX_SHA256_TEXT_SIZE];
                int r = check_variable(&variables[i], err);

                if (r < 0)
                        return r;
                for (size_t k = 0; k < i; k++)
                        if (strcmp(variables[i].name, variables[k].name) == 0)
                                return sbx_error_set(err, -EINVAL, SBX_AGENT_ORIGIN, NULL,
                                                     "there are two texts for variable %s", variables[i].name);
                total += variables[i].text.size;
                if (total > SBX_RUN_VARIABLES_MAX_BYTES)
                        return sbx_error_set(err, -EFBIG, SBX_AGENT_ORIGIN, NULL,
                                             "the texts for variables have more than %zu bytes together",
                                             SBX_RUN_VARIABLES_MAX_BYTES);
                sbx_sha256_text(variables[i].text, digest);
                if (json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:s}", "name", variables[i].name, "bytes",
                                                          (json_int_t)variables[i].text.size, "characters",
                                                          (json_int_t)count_characters(variables[i].text), "sha256",
                                                          digest)) < 0)
                        return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        }
        if (list == NULL)
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        *ret_list = steal_pointer(list);
        return 0;
}

int sbx_variables_record(struct sbx_journal *journal, const struct sbx_run_variable *variables, size_t count,
                         struct sbx_error *err) {
        for (size_t i = 0; i < count; i++) {
                char key[SBX_JOURNAL_KEY_MAX];
                _cleanup_json_ json_t *record = json_object();
                int r = sbx_key_make(key, err, KEY, "%s", variables[i].name);

                if (record == NULL || json_object_set_new(record, "type", json_string("variable")) < 0 ||
                    json_object_set_new(record, "text", sbx_json_text(variables[i].text)) < 0)
                        return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
                if (r == 0)
                        r = sbx_journal_add(journal, key, record, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- the session ---- */

static int set_variable(struct sbx_run *run, const char *name, const json_t *value, struct sbx_error *err) {
        _cleanup_free_ char *repr = NULL;

        return sbx_sessions_set(run->parts->sessions, run->session_principal, SBX_SESSION_DEFAULT, name, value,
                                run->call, &repr, err);
}

static int execute_code(struct sbx_run *run, const char *code, struct sbx_error *err) {
        struct sbx_execution execution = {.struct_size = sizeof(execution),
                                          .code = {code, strlen(code)},
                                          .environment = run->environment,
                                          .principal = run->session_principal};
        struct sbx_result *result = NULL;
        int r = sbx_sessions_execute(run->parts->sessions, &execution, run->call, &result, err);

        if (r == 0 && result->end != SBX_END_OK)
                r = sbx_error_set(err, -EIO, SBX_AGENT_ORIGIN, NULL, "the run's session can't be prepared: %s",
                                  result->error_message != NULL ? result->error_message : sbx_end_name(result->end));
        sbx_result_free(result);
        return r;
}

/* Piece by piece: a text with many characters that JSON escapes does not fit into one frame. */
static int set_in_parts(struct sbx_run *run, const char *name, struct sbx_bytes text, struct sbx_error *err) {
        _cleanup_free_ char *code = NULL;
        const char *bytes = text.data;
        int r = 0;

        if (asprintf(&code, "%s += %s\ndel %s\n", name, PART_NAME, PART_NAME) < 0)
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        for (size_t at = 0, size; at < text.size && r == 0; at += size) {
                struct sbx_bytes rest = {bytes + at, text.size - at};
                json_t *piece;

                size = rest.size > PART_BYTES ? sbx_utf8_cut(rest, PART_BYTES) : rest.size;
                piece = sbx_json_text((struct sbx_bytes){rest.data, size});
                if (piece == NULL)
                        return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
                r = set_variable(run, at == 0 ? name : PART_NAME, piece, err);
                json_decref(piece);
                if (r == 0 && at > 0)
                        r = execute_code(run, code, err);
        }
        return r;
}

int sbx_variable_set(struct sbx_run *run, const char *name, const json_t *text, struct sbx_error *err) {
        struct sbx_bytes bytes = {json_string_value(text), json_string_length(text)};
        struct sbx_error problem = {0};
        int r = set_variable(run, name, text, &problem);

        if (r == -EFBIG)
                return set_in_parts(run, name, bytes, err);
        return r < 0 ? sbx_error_set(err, r, problem.origin, problem.hint, "variable %s: %s", name, problem.message)
                     : 0;
}

/* A session is started where its first use says: a variable can't say that, code can. */
int sbx_variables_start_session(struct sbx_run *run, struct sbx_error *err) {
        const char *configured = sbx_config_string(run->parts->config, "environment");

        if (configured != NULL && strcmp(configured, run->environment) == 0)
                return 0;
        return execute_code(run, "pass", err);
}

int sbx_variables_load(struct sbx_run *run, struct sbx_error *err) {
        const json_t *list = json_object_get(sbx_journal_request(run->journal), "variables"), *variable;
        size_t i;
        int r = json_array_size(list) > 0 ? sbx_variables_start_session(run, err) : 0;

        json_array_foreach (list, i, variable) {
                const char *name = json_string_value(json_object_get(variable, "name"));
                _cleanup_json_ json_t *record = NULL;
                char key[SBX_JOURNAL_KEY_MAX];

                if (r == 0)
                        r = sbx_key_make(key, err, KEY, "%s", is_identifier(name) ? name : "?");
                if (r < 0)
                        return r;
                record = sbx_journal_find(run->journal, key);
                if (!json_is_string(json_object_get(record, "text")))
                        return sbx_error_set(err, -ENOENT, SBX_AGENT_ORIGIN,
                                             "Begin it again: nothing of it had been done.",
                                             "the process ended before the run began: its journal lacks variable %s",
                                             is_identifier(name) ? name : "?");
                r = sbx_variable_set(run, name, json_object_get(record, "text"), err);
        }
        return r;
}
