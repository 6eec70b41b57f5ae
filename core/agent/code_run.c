/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of code that is executed outside of a run (code_mode = "always"): a run without a model of its own, that has
 * the budget of one completion and lasts as long as the execution. */
#include "agent/run.h"

#include <sys/random.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_AGENT_ORIGIN

struct sbx_code_run {
        struct sbx_run run;
        struct sbx_place place;
        struct sbx_code_context context;
        struct sbx_call call; /* the caller's, and the time of one completion */
        struct sbx_code_calls calls;
        unsigned sub_calls;
        bool context_ready, told;
};

/* A random UUID (RFC 9562, version 4). */
static int make_id(char ret_id[SBX_RUN_ID_SIZE], struct sbx_error *err) {
        unsigned char b[16];

        if (getrandom(b, sizeof(b), 0) != sizeof(b))
                return sbx_error_set(err, -EIO, ORIGIN, NULL, "the kernel gives no random numbers: %s",
                                     SBX_ERRNO_TEXT(-errno));
        b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
        b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
        snprintf(ret_id, SBX_RUN_ID_SIZE, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
        return 0;
}

/* Most executions make no calls: those have no trajectory either. */
static void tell_started(struct sbx_code_run *code_run) {
        struct sbx_run *run = &code_run->run;

        if (code_run->told)
                return;
        code_run->told = true;
        sbx_run_emit(run, "run_started",
                     json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", "code", "prompt", "", "model", run->model,
                               "environment", run->environment, "version", SBX_VERSION));
}

static void tell_ended(struct sbx_code_run *code_run) {
        struct sbx_run *run = &code_run->run;
        const struct sbx_budget *used = &run->budget;

        if (!code_run->told)
                return;
        sbx_run_emit(run, "run_ended",
                     json_pack("{s:s, s:n, s:s, s:i, s:I, s:I, s:I, s:i, s:o}", "end", "ok", "error", "response", "",
                               "total_calls", (int)run->calls_made, "total_tokens",
                               (json_int_t)(used->tokens_in + used->tokens_out), "total_input_tokens",
                               (json_int_t)used->tokens_in, "total_output_tokens", (json_int_t)used->tokens_out,
                               "total_tool_calls", (int)code_run->context.count, "total_cost_usd",
                               used->cost_unknown ? json_null() : json_real(used->cost_usd)));
}

static int answer(void *data, const char *name, struct sbx_bytes arguments, const struct sbx_call *call,
                  struct sbx_buffer *ret_result, struct sbx_error *err) {
        struct sbx_code_run *code_run = data;
        const struct sbx_code_calls *calls = &code_run->context.calls;

        if (strcmp(name, "FINAL") == 0 || strcmp(name, "FINAL_VAR") == 0)
                return sbx_error_set(err, -EPERM, ORIGIN, "Print the value, or leave it in a variable.",
                                     "%s gives the answer of a run, and this code is not part of one", name);
        if (strcmp(name, "__list__") != 0)
                tell_started(code_run);
        return calls->answer(calls->data, name, arguments, call, ret_result, err);
}

static int set_texts(struct sbx_run *run, const char *principal) {
        const struct sbx_config *config = run->parts->config;

        run->principal = strdup(principal != NULL ? principal : "");
        run->model = strdup(sbx_config_string(config, "model"));
        run->environment = strdup(sbx_config_string(config, "environment"));
        run->notices = json_array();
        if (asprintf(&run->session_principal, "run:%s", run->id) < 0)
                run->session_principal = NULL;
        return run->principal != NULL && run->model != NULL && run->environment != NULL && run->notices != NULL &&
                               run->session_principal != NULL
                       ? 0
                       : -ENOMEM;
}

static void bound_call(struct sbx_code_run *code_run, const struct sbx_call *call) {
        uint64_t deadline_ns = sbx_clock_deadline_ms(code_run->run.limits.timeout_ms);

        code_run->call = (struct sbx_call){.struct_size = sizeof(code_run->call),
                                           .cancel_fd = call != NULL ? call->cancel_fd : -1,
                                           .deadline_ns = deadline_ns};
        if (call != NULL && call->deadline_ns != 0 && call->deadline_ns < deadline_ns)
                code_run->call.deadline_ns = call->deadline_ns;
        code_run->run.call = &code_run->call;
}

static int open_run(struct sbx_code_run *code_run, const char *principal, const struct sbx_call *call,
                    struct sbx_error *err) {
        const struct sbx_run_limits configured = SBX_RUN_LIMITS_CONFIGURED;
        struct sbx_run *run = &code_run->run;
        _cleanup_json_ json_t *request = json_object();
        int r = make_id(run->id, err);

        if (r == 0)
                r = sbx_run_limits_settle(run->parts->config, SBX_RUN_COMPLETION, &configured, &run->limits, err);
        if (r < 0)
                return r;
        sbx_budget_init(&run->budget, NULL, run->limits.token_budget, run->limits.tool_budget, run->limits.max_subcalls,
                        run->limits.cost_usd);
        if (request == NULL || set_texts(run, principal) < 0)
                return SBX_NOMEM(err, ORIGIN);
        run->sub_calls = sbx_config_bool(run->parts->config, "sub_calls_enabled");
        bound_call(code_run, call);
        r = sbx_journal_create(NULL, run->id, request, run->parts->logger, &run->journal, err);
        if (r < 0)
                return r;
        code_run->place = (struct sbx_place){.run = run,
                                             .budget = &run->budget,
                                             .key = "1",
                                             .principal = run->session_principal,
                                             .sub_calls_of_turn = &code_run->sub_calls};
        r = sbx_code_context_init(&code_run->context, &code_run->place, err);
        code_run->context_ready = r == 0;
        code_run->calls = (struct sbx_code_calls){.data = code_run, .answer = answer};
        return r;
}

int sbx_code_run_new(struct sbx_runs *runs, const char *principal, const struct sbx_call *call,
                     struct sbx_code_run **ret_run, struct sbx_error *err) {
        const struct sbx_runs_parts *parts = sbx_runs_parts(runs);
        const char *mode = sbx_config_string(parts->config, "code_mode");
        struct sbx_code_run *code_run;
        int r;

        if (mode == NULL || strcmp(mode, "always") != 0) {
                *ret_run = NULL;
                return 0;
        }
        code_run = calloc(1, sizeof(*code_run));
        if (code_run == NULL)
                return SBX_NOMEM(err, ORIGIN);
        code_run->run.runs = runs;
        code_run->run.parts = parts;
        pthread_mutex_init(&code_run->run.lock, NULL);
        r = open_run(code_run, principal, call, err);
        if (r < 0) {
                sbx_code_run_free(code_run);
                return r;
        }
        *ret_run = code_run;
        return 0;
}

const struct sbx_code_calls *sbx_code_run_calls(struct sbx_code_run *run) {
        return run != NULL ? &run->calls : NULL;
}

void sbx_code_run_free(struct sbx_code_run *code_run) {
        struct sbx_run *run;

        if (code_run == NULL)
                return;
        run = &code_run->run;
        tell_ended(code_run);
        if (code_run->context_ready)
                sbx_code_context_destroy(&code_run->context);
        sbx_journal_free(run->journal);
        sbx_budget_destroy(&run->budget);
        pthread_mutex_destroy(&run->lock);
        json_decref(run->notices);
        free(run->answer);
        free(run->principal);
        free(run->session_principal);
        free(run->model);
        free(run->environment);
        free(code_run);
}
