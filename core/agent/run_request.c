/* SPDX-License-Identifier: Apache-2.0 */
/* A run from a request, with a new journal, or from the journal of an earlier life. */
#include "agent/runs.h"

#include <sys/random.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define PROMPT_MAX_BYTES ((size_t)16 << 20) /* of the prompt, and of the system text */
#define FORMAT_MAX_BYTES ((size_t)1 << 20)
#define CHECKED_ITERATIONS 10u /* of a completion run with a check, which may have to answer again */
#define LIVES_MAX 10000u

int sbx_run_id_new(char ret_id[SBX_RUN_ID_SIZE], struct sbx_error *err) {
        unsigned char bytes[16];

        if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                return sbx_error_set(err, -EIO, SBX_AGENT_ORIGIN, NULL, "the kernel gives no random numbers: %s",
                                     SBX_ERRNO_TEXT(-errno));
        bytes[6] = (unsigned char)((bytes[6] & 0x0F) | 0x40); /* version 4, RFC 9562 */
        bytes[8] = (unsigned char)((bytes[8] & 0x3F) | 0x80);
        for (size_t i = 0, at = 0; i < sizeof(bytes); i++) {
                snprintf(ret_id + at, SBX_RUN_ID_SIZE - at, "%02x%s", bytes[i],
                         i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "");
                at += i == 3 || i == 5 || i == 7 || i == 9 ? 3 : 2;
        }
        return 0;
}

void sbx_prepared_clear(struct sbx_prepared *prepared) {
        struct sbx_run *run = &prepared->run;

        if (run->runs == NULL)
                return;
        sbx_budget_destroy(&run->budget);
        pthread_mutex_destroy(&run->lock);
        pthread_mutex_destroy(&run->restore_lock);
        free(run->principal);
        free(run->session_principal);
        free(run->model);
        free(run->environment);
        free(run->answer);
        json_decref(run->response_format);
        json_decref(run->notices);
        json_decref(run->events);
        sbx_journal_free(run->journal);
        sbx_sampling_free(run->sampling);
        json_decref(prepared->ended);
        free(prepared->ended_as);
        *prepared = (struct sbx_prepared){0};
}

/* ---- the request, as it is in the journal ---- */

static int check_text(const char *name, const char *text, struct sbx_error *err) {
        if (text == NULL || strlen(text) <= PROMPT_MAX_BYTES)
                return 0;
        return sbx_error_set(err, -EINVAL, SBX_AGENT_ORIGIN, "Put long texts into variables, which code works on.",
                             "the %s has more than %zu bytes", name, PROMPT_MAX_BYTES);
}

static int check_texts(const struct sbx_run_request *request, struct sbx_error *err) {
        int r = check_text("prompt", request->prompt, err);

        if (r == 0)
                r = check_text("system text", request->system, err);
        if (r == 0)
                r = check_text("check", request->check, err);
        if (r == 0 && (request->prompt == NULL || request->prompt[strspn(request->prompt, " \t\r\n")] == '\0'))
                r = sbx_error_set(err, -EINVAL, SBX_AGENT_ORIGIN, "Say what is to be done.", "the prompt is empty");
        return r;
}

static int put(json_t *object, const char *name, json_t *value) {
        return value == NULL || json_object_set_new(object, name, value) < 0 ? -ENOMEM : 0;
}

static int put_text(json_t *object, const char *name, const char *text) {
        return text == NULL ? 0 : put(object, name, sbx_json_text((struct sbx_bytes){text, strlen(text)}));
}

static int parse_format(const char *text, json_t **ret_format, struct sbx_error *err) {
        _cleanup_json_ json_t *format = NULL;
        int r;

        if (text == NULL)
                return 0;
        r = sbx_json_parse((struct sbx_bytes){text, strlen(text)}, FORMAT_MAX_BYTES, "response_format", &format, err);
        if (r == 0 && !json_is_object(format))
                r = sbx_error_set(err, -EINVAL, SBX_AGENT_ORIGIN,
                                  "It looks like {\"type\": \"json_schema\", \"json_schema\": {...}}.",
                                  "response_format is not a JSON object");
        if (r == 0)
                *ret_format = steal_pointer(format);
        return r;
}

static const char *or_configured(const struct sbx_runs *runs, const char *text, const char *setting) {
        return text != NULL ? text : sbx_config_string(runs->parts.config, setting);
}

/* Settled: a resume must not depend on a configuration that has changed meanwhile. */
static int encode_request(const struct sbx_runs *runs, const struct sbx_run_request *request,
                          const struct sbx_run_limits *limits, json_t **ret_json, struct sbx_error *err) {
        _cleanup_json_ json_t *json = json_object(), *format = NULL, *variables = NULL;
        bool sub_calls = !request->no_sub_calls && sbx_config_bool(runs->parts.config, "sub_calls_enabled");
        bool sampling = request->client != NULL;
        const char *provider = sampling ? SBX_SAMPLING_NAME : or_configured(runs, request->provider, "backend"),
                   *model = sampling ? SBX_SAMPLING_NAME : or_configured(runs, request->model, "model");
        char timestamp[SBX_TIMESTAMP_SIZE];
        int r = check_texts(request, err);

        if (r == 0)
                r = parse_format(request->response_format, &format, err);
        if (r == 0)
                r = sbx_variables_describe(request->variables, request->variable_count, &variables, err);
        if (r < 0)
                return r;
        sbx_clock_timestamp(timestamp);
        if (put_text(json, "kind", request->kind == SBX_RUN_AGENT ? "agent" : "completion") < 0 ||
            put_text(json, "prompt", request->prompt) < 0 || put_text(json, "system", request->system) < 0 ||
            put_text(json, "provider", provider) < 0 || put_text(json, "model", model) < 0 ||
            put_text(json, "environment", or_configured(runs, request->environment, "environment")) < 0 ||
            put_text(json, "principal", request->principal != NULL ? request->principal : "") < 0 ||
            put_text(json, "check", request->check) < 0 || put(json, "limits", sbx_limits_encode(limits)) < 0 ||
            put(json, "sub_calls", json_boolean(sub_calls)) < 0 ||
            put(json, "auto_context", json_boolean(!request->no_auto_context)) < 0 ||
            put_text(json, "started_at", timestamp) < 0 || put_text(json, "version", SBX_VERSION) < 0 ||
            json_object_set(json, "variables", variables) < 0 ||
            (format != NULL && json_object_set(json, "response_format", format) < 0))
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        *ret_json = steal_pointer(json);
        return 0;
}

/* ---- the run ---- */

static char *copy_of(const json_t *request, const char *name) {
        const char *text = json_string_value(json_object_get(request, name));

        return strdup(text != NULL ? text : "");
}

static enum sbx_run_kind kind_of(const json_t *request) {
        const char *kind = json_string_value(json_object_get(request, "kind"));

        return kind != NULL && strcmp(kind, "agent") == 0 ? SBX_RUN_AGENT : SBX_RUN_COMPLETION;
}

static int fill_run(struct sbx_prepared *prepared, struct sbx_runs *runs, const struct sbx_run_limits *limits,
                    struct sbx_error *err) {
        struct sbx_run *run = &prepared->run;

        run->kind = kind_of(prepared->request);
        run->parts = &runs->parts;
        run->limits = *limits;
        run->sub_calls = json_is_true(json_object_get(prepared->request, "sub_calls"));
        run->response_format = json_incref(json_object_get(prepared->request, "response_format"));
        run->principal = copy_of(prepared->request, "principal");
        run->model = copy_of(prepared->request, "model");
        run->environment = copy_of(prepared->request, "environment");
        run->notices = json_array();
        if (asprintf(&run->session_principal, "run:%s", run->id) < 0)
                run->session_principal = NULL;
        run->budget.token_limit = limits->token_budget;
        run->budget.tool_limit = limits->tool_budget;
        run->budget.call_limit = limits->max_subcalls;
        run->budget.cost_limit_usd = limits->cost_usd;
        return run->principal == NULL || run->model == NULL || run->environment == NULL || run->notices == NULL ||
                               run->session_principal == NULL
                       ? SBX_NOMEM(err, SBX_AGENT_ORIGIN)
                       : 0;
}

/* Time that earlier lives have taken counts. */
static void set_deadline(struct sbx_prepared *prepared, const struct sbx_call *caller) {
        uint64_t earlier_ms = sbx_journal_earlier_ms(prepared->run.journal),
                 timeout_ms = prepared->run.limits.timeout_ms;
        uint64_t deadline_ns = sbx_clock_deadline_ms(timeout_ms > earlier_ms ? timeout_ms - earlier_ms : 0);

        prepared->call = (struct sbx_call){.struct_size = sizeof(struct sbx_call),
                                           .cancel_fd = caller != NULL ? caller->cancel_fd : -1,
                                           .deadline_ns = deadline_ns};
        if (caller != NULL && caller->deadline_ns != 0 && caller->deadline_ns < deadline_ns)
                prepared->call.deadline_ns = caller->deadline_ns;
        prepared->run.call = &prepared->call;
}

/* A mistyped environment is told before the model is paid for the code that could not run there. It is not started yet:
 * not every run executes code. */
static int check_environment(const struct sbx_run *run, struct sbx_error *err) {
        const struct sbx_plugin_entry *entry = sbx_config_plugin_find(run->parts->config, run->environment);

        if (entry != NULL && entry->enabled)
                return 0;
        return sbx_error_set(err, -ENOENT, SBX_AGENT_ORIGIN, "'snipara-sandbox doctor' lists the plugin entries.",
                             "there is no backend \"%.128s\"", run->environment);
}

static int use_sampling(struct sbx_run *run, const struct sbx_client *client, struct sbx_error *err) {
        int r = sbx_sampling_new(client, &run->sampling, err);

        if (r == 0)
                sbx_run_notice(run, "The client's own model answered (sampling). It tells neither tokens nor prices: "
                                    "tokens are estimates here, and the cost is unknown.");
        return r;
}

/* A run of a client's model goes on with the configured one: the client that it had is gone. */
static int leave_sampling(struct sbx_run *run, struct sbx_error *err) {
        const char *model = sbx_config_string(run->parts->config, "model");
        char *copy = strdup(model != NULL ? model : "");

        if (copy == NULL)
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        free(run->model);
        run->model = copy;
        sbx_run_notice(run, "The run began with the model of its client (sampling), and went on with %.200s.", copy);
        return 0;
}

static int find_provider(struct sbx_prepared *prepared, const struct sbx_client *client, struct sbx_error *err) {
        const char *name = json_string_value(json_object_get(prepared->request, "provider"));
        struct sbx_run *run = &prepared->run;
        int r = check_environment(run, err);

        if (r == 0 && client != NULL)
                return use_sampling(run, client, err);
        if (r == 0 && name != NULL && strcmp(name, SBX_SAMPLING_NAME) == 0 &&
            sbx_config_plugin_find(run->parts->config, name) == NULL) {
                name = NULL;
                r = leave_sampling(run, err);
        }
        return r < 0 ? r : sbx_model_provider(run->parts, name, &prepared->call, &run->provider, err);
}

/* ---- a new one ---- */

static int settle(const struct sbx_runs *runs, const struct sbx_run_request *request, struct sbx_run_limits *ret_limits,
                  struct sbx_error *err) {
        struct sbx_run_limits asked = request->limits;

        int r;

        if (request->check != NULL && asked.max_iterations == 0 && request->kind == SBX_RUN_COMPLETION)
                asked.max_iterations = CHECKED_ITERATIONS;
        r = sbx_run_limits_settle(runs->parts.config, request->kind, &asked, ret_limits, err);
        if (r == 0 && request->client != NULL && ret_limits->max_iterations > SBX_SAMPLING_ITERATIONS_MAX)
                ret_limits->max_iterations = SBX_SAMPLING_ITERATIONS_MAX;
        return r;
}

static int begin_new(struct sbx_prepared *prepared, struct sbx_runs *runs, const struct sbx_run_request *request,
                     const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_run *run = &prepared->run;
        _cleanup_json_ json_t *json = NULL;
        struct sbx_run_limits limits;
        int r = settle(runs, request, &limits, err);

        if (r == 0)
                r = encode_request(runs, request, &limits, &json, err);
        if (r == 0 && request->run_id == NULL)
                r = sbx_run_id_new(run->id, err);
        if (r < 0)
                return r;
        if (request->run_id != NULL)
                snprintf(run->id, sizeof(run->id), "%s", request->run_id);
        /* In memory until it is known that the run can begin at all: nothing is left behind by one that can't. */
        prepared->request = json;
        r = fill_run(prepared, runs, &limits, err);
        prepared->call = (struct sbx_call){.struct_size = sizeof(struct sbx_call), .cancel_fd = -1};
        if (r == 0)
                r = find_provider(prepared, request->client, err);
        if (r == 0)
                r = sbx_journal_create(runs->directory, run->id, json, runs->parts.logger, &run->journal, err);
        prepared->request = r == 0 ? sbx_journal_request(run->journal) : NULL;
        if (r == 0)
                r = sbx_variables_record(run->journal, request->variables, request->variable_count, err);
        if (r < 0)
                return r;
        prepared->life = 1;
        set_deadline(prepared, call);
        return 0;
}

/* ---- one that goes on ---- */

static int life_key(unsigned life, const char *what, char ret_key[SBX_JOURNAL_KEY_MAX]) {
        return snprintf(ret_key, SBX_JOURNAL_KEY_MAX, "%s.%u", what, life);
}

/* The number of the last life, with the limits that it had, and the result that it ended with if it did. */
static int read_lives(struct sbx_prepared *prepared, struct sbx_run_limits *limits) {
        char key[SBX_JOURNAL_KEY_MAX];
        json_t *life = NULL, *result;

        sbx_limits_decode(json_object_get(prepared->request, "limits"), limits);
        for (prepared->life = 1; prepared->life < LIVES_MAX; prepared->life++) {
                life_key(prepared->life + 1, "life", key);
                life = sbx_journal_find(prepared->run.journal, key);
                if (life == NULL)
                        break;
                sbx_limits_decode(json_object_get(life, "limits"), limits);
                json_decref(life);
        }
        life_key(prepared->life, "result", key);
        result = sbx_journal_find(prepared->run.journal, key);
        if (result != NULL) {
                prepared->ended = json_incref(json_object_get(result, "result"));
                prepared->ended_as = copy_of(prepared->ended, "end");
                json_decref(result);
        }
        return prepared->ended != NULL && prepared->ended_as == NULL ? -ENOMEM : 0;
}

/* An ended run goes on only if a limit ended it, and the limits are others now. */
static bool goes_on(const struct sbx_prepared *prepared, bool limits_replaced) {
        return prepared->ended == NULL ||
               (limits_replaced && strcmp(prepared->ended_as, sbx_run_end_name(SBX_RUN_OK)) != 0);
}

static int record_life(struct sbx_prepared *prepared, const struct sbx_run_limits *limits, struct sbx_error *err) {
        char key[SBX_JOURNAL_KEY_MAX], timestamp[SBX_TIMESTAMP_SIZE];
        _cleanup_json_ json_t *record = NULL, *encoded = sbx_limits_encode(limits);

        json_decref(prepared->ended);
        prepared->ended = NULL;
        sbx_clock_timestamp(timestamp);
        record = json_pack("{s:s, s:O, s:s, s:s}", "type", "life", "limits", encoded, "timestamp", timestamp, "version",
                           SBX_VERSION);
        life_key(++prepared->life, "life", key);
        return sbx_journal_add(prepared->run.journal, key, record, err);
}

static void tell_resumed(struct sbx_prepared *prepared) {
        unsigned open_calls = sbx_journal_open_ends(prepared->run.journal, ".model");

        if (open_calls > 0)
                sbx_run_notice(
                        &prepared->run,
                        "%u model call%s under way when the run was interrupted. Its provider may have charged for "
                        "that; what it costs now is counted, what it may have cost then is not known.",
                        open_calls, open_calls == 1 ? " was" : "s were");
}

static int check_owner(const struct sbx_prepared *prepared, const char *principal, struct sbx_error *err) {
        const char *owner = json_string_value(json_object_get(prepared->request, "principal"));

        if (principal == NULL || principal[0] == '\0' || (owner != NULL && strcmp(owner, principal) == 0))
                return 0;
        return sbx_error_set(err, -ENOENT, SBX_AGENT_ORIGIN, NULL, "there is no run %s of this client",
                             prepared->run.id);
}

static int begin_again(struct sbx_prepared *prepared, struct sbx_runs *runs, const struct sbx_run_request *request,
                       const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_run *run = &prepared->run;
        struct sbx_run_limits limits = {0};
        bool replaced;
        int r = sbx_journal_resolve(runs->directory, request->resume_id, run->id, err);

        if (r == 0)
                r = sbx_journal_open(runs->directory, run->id, runs->parts.logger, &run->journal, err);
        if (r < 0)
                return r;
        prepared->request = sbx_journal_request(run->journal);
        r = check_owner(prepared, request->principal, err);
        if (r == 0 && !json_is_string(json_object_get(prepared->request, "prompt")))
                r = sbx_error_set(err, -EBADMSG, SBX_AGENT_ORIGIN, NULL, "the journal of run %s has no prompt",
                                  run->id);
        if (r == 0 && read_lives(prepared, &limits) < 0)
                r = SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        if (r < 0)
                return r;
        replaced = sbx_limits_replace(&limits, &request->limits);
        if (!goes_on(prepared, replaced))
                return 0;
        /* What is above a hard limit is refused, whether the request or a changed journal says so. */
        r = sbx_run_limits_settle(runs->parts.config, kind_of(prepared->request), &limits, &limits, err);
        if (r == 0)
                r = fill_run(prepared, runs, &limits, err);
        set_deadline(prepared, call);
        if (r == 0)
                r = find_provider(prepared, request->client, err);
        if (r == 0)
                r = record_life(prepared, &limits, err);
        if (r == 0)
                tell_resumed(prepared);
        return r;
}

int sbx_prepare(struct sbx_runs *runs, const struct sbx_run_request *request, const struct sbx_run_watch *watch,
                const struct sbx_call *call, struct sbx_prepared *prepared, struct sbx_error *err) {
        struct sbx_run *run = &prepared->run;
        int r;

        *prepared = (struct sbx_prepared){.run = {.runs = runs, .watch = watch}};
        pthread_mutex_init(&run->lock, NULL);
        pthread_mutex_init(&run->restore_lock, NULL);
        sbx_budget_init(&run->budget, NULL, 0, 0, 0, 0);
        r = request->resume_id != NULL ? begin_again(prepared, runs, request, call, err)
                                       : begin_new(prepared, runs, request, call, err);
        if (r == 0 && request->with_events && prepared->ended == NULL) {
                run->events = json_array();
                if (run->events == NULL)
                        r = SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        }
        if (r < 0)
                sbx_prepared_clear(prepared);
        return r;
}
