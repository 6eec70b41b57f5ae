/* SPDX-License-Identifier: Apache-2.0 */
/* One answer of the model: the request within the budget, the text while it streams, what it cost, once. */
#include <snipara-sandbox/provider.h>

#include "agent/response.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_AGENT_ORIGIN
#define REQUEST_MAX ((size_t)64 << 20) /* bytes */
#define CHUNK_MAX ((size_t)1 << 20)
/* No answer is asked to be shorter, and none to be longer: models refuse what is above their own maximum, and 8192 is
 * what the common ones have. */
#define ANSWER_TOKENS_MIN UINT64_C(64)
#define ANSWER_TOKENS_MAX UINT64_C(8192)

static void output_cleanup(struct sbx_output **output) {
        sbx_output_free(*output);
}

int sbx_model_provider(const struct sbx_runs_parts *parts, const char *name, const struct sbx_call *call,
                       const struct sbx_instance **ret_provider, struct sbx_error *err) {
        const char *entry = name != NULL ? name : sbx_config_string(parts->config, "backend");

        if (entry == NULL)
                entry = "litellm";
        /* 2.2.7 had these names for the same thing. */
        if ((strcmp(entry, "openai") == 0 || strcmp(entry, "anthropic") == 0) &&
            sbx_config_plugin_find(parts->config, entry) == NULL)
                entry = "litellm";
        return sbx_registry_get(parts->registry, entry, SBX_PLUGIN_PROVIDER, call, ret_provider, err);
}

int sbx_model_available(const struct sbx_runs_parts *parts, const struct sbx_call *call, struct sbx_error *err) {
        const struct sbx_instance *provider = NULL;
        const struct sbx_provider_ops *ops;
        int r = sbx_model_provider(parts, NULL, call, &provider, err);

        if (r < 0)
                return r;
        ops = provider->ops;
        if (ops->available == NULL)
                return 0;
        r = ops->available(provider->state, sbx_config_string(parts->config, "model"), err);
        return r < 0 ? sbx_error_set(err, r, provider->name, NULL, "the model can't be asked: %s", SBX_ERRNO_TEXT(r))
                     : 0;
}

const char *sbx_run_provider_name(const struct sbx_run *run) {
        return run->sampling != NULL ? SBX_SAMPLING_NAME : run->provider != NULL ? run->provider->name : "";
}

/* ---- the request ---- */

struct request {
        struct sbx_buffer json;
        uint64_t prompt_tokens; /* estimated, without the definitions of tools: they are in what comes back as usage */
        uint64_t reserved;
};

static int encode_messages(const json_t *messages, struct request *request, struct sbx_error *err) {
        int r = sbx_buffer_append_text(&request->json, "{\"messages\":");

        if (r == 0)
                r = sbx_json_encode(messages, &request->json);
        if (r == -EFBIG)
                return sbx_error_set(err, r, ORIGIN, "Ask for less output, or keep data in variables of the session.",
                                     "the conversation is larger than %zu MiB", REQUEST_MAX >> 20);
        request->prompt_tokens = sbx_tokens_estimate(request->json.size);
        return r < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

/* The rest of it, with what the budget leaves for the answer. */
static int encode_rest(const struct sbx_place *place, const json_t *tools, uint64_t max_tokens, struct request *request,
                       struct sbx_error *err) {
        _cleanup_json_ json_t *model = json_string(place->run->model);
        int r = model != NULL ? sbx_buffer_append_text(&request->json, ",\"model\":") : -ENOMEM;

        if (r == 0)
                r = sbx_json_encode(model, &request->json);
        if (r == 0 && json_array_size(tools) > 0) {
                r = sbx_buffer_append_text(&request->json, ",\"tools\":");
                if (r == 0)
                        r = sbx_json_encode(tools, &request->json);
        }
        if (r == 0 && place->run->response_format != NULL && place->depth == 0) {
                r = sbx_buffer_append_text(&request->json, ",\"response_format\":");
                if (r == 0)
                        r = sbx_json_encode(place->run->response_format, &request->json);
        }
        if (r == 0)
                r = sbx_buffer_printf(&request->json, ",\"max_tokens\":%llu}", (unsigned long long)max_tokens);
        if (r == -EFBIG)
                return sbx_error_set(err, r, ORIGIN, NULL, "the request is larger than %zu MiB", REQUEST_MAX >> 20);
        return r < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

static uint64_t answer_limit(const struct sbx_place *place) {
        uint64_t most = place->answer_tokens;

        return most > 0 && most < ANSWER_TOKENS_MAX ? most : ANSWER_TOKENS_MAX;
}

/* Takes what the call may use out of the budget, or says which limit is in the way. */
static enum sbx_run_end reserve(const struct sbx_place *place, struct request *request, uint64_t *ret_max_tokens,
                                struct sbx_error *err) {
        uint64_t wanted = request->prompt_tokens + answer_limit(place);
        enum sbx_run_end end =
                sbx_budget_begin_call(place->budget, request->prompt_tokens + 1, wanted, &request->reserved);
        uint64_t left;

        switch (end) {
        case SBX_RUN_OK:
                left = request->reserved - request->prompt_tokens;
                *ret_max_tokens = left > ANSWER_TOKENS_MIN || left == answer_limit(place) ? left : ANSWER_TOKENS_MIN;
                break;
        case SBX_RUN_TOKEN_BUDGET:
                sbx_error_set(err, -EDQUOT, ORIGIN, "Raise token_budget, or ask for less at a time.",
                              "the token budget is used up: the next prompt takes about %llu tokens, and %llu are left",
                              (unsigned long long)request->prompt_tokens,
                              (unsigned long long)sbx_budget_tokens_left(place->budget));
                break;
        case SBX_RUN_COST_LIMIT:
                sbx_error_set(err, -EDQUOT, ORIGIN, "Raise cost_limit (for sub-calls: sub_calls_max_cost_per_session).",
                              "the cost limit is reached");
                break;
        default:
                sbx_error_set(err, -EDQUOT, ORIGIN, "Raise max_subcalls.", "the limit of model calls is reached");
        }
        return end;
}

/* ---- streaming ---- */

static void on_delta(void *data, struct sbx_bytes chunk) {
        const struct sbx_place *place = data;
        const struct sbx_run_watch *watch = place->run->watch;
        _cleanup_json_ json_t *parsed = NULL;
        const json_t *content;

        /* What can't be read is not shown; the whole answer is checked when it is there. */
        if (sbx_json_parse(chunk, CHUNK_MAX, "chunk", &parsed, NULL) < 0)
                return;
        content = json_object_get(json_object_get(json_array_get(json_object_get(parsed, "choices"), 0), "delta"),
                                  "content");
        if (!json_is_string(content) || json_string_length(content) == 0)
                return;
        SBX_LOCKED(&place->run->lock);
        watch->text(watch->data, place->depth,
                    (struct sbx_bytes){json_string_value(content), json_string_length(content)});
}

/* ---- asking ---- */

static int ask_provider(const struct sbx_place *place, struct sbx_bytes request, struct sbx_output *response,
                        struct sbx_error *err) {
        static const struct sbx_call no_limit = {.struct_size = sizeof(no_limit), .cancel_fd = -1};
        struct sbx_run *run = place->run;
        const struct sbx_call *call = sbx_place_call(place);
        const struct sbx_instance *provider = run->provider;
        const struct sbx_provider_ops *ops;
        const struct sbx_provider_events events = {
                .struct_size = sizeof(events), .data = (void *)place, .delta = on_delta};
        bool streams = run->watch != NULL && run->watch->text != NULL;
        int r = 0;

        if (run->sampling != NULL) /* text alone ends a sub-call, and no agent */
                return sbx_sampling_complete(run->sampling, request, run->kind == SBX_RUN_AGENT && place->depth == 0,
                                             call != NULL ? call : &no_limit, response, err);
        if (provider == NULL)
                r = sbx_model_provider(run->parts, NULL, call, &provider, err);
        if (r < 0)
                return r;
        ops = provider->ops;
        r = ops->complete(provider->state, request, streams ? &events : NULL, call != NULL ? call : &no_limit, response,
                          err);
        if (r < 0)
                sbx_error_set(err, r, provider->name, NULL, "the model can't be asked: %s", SBX_ERRNO_TEXT(r));
        return r;
}

static enum sbx_run_end end_of(const struct sbx_place *place, int code) {
        int ended = sbx_place_ended(place);

        if (code == -ECANCELED || ended == -ECANCELED)
                return SBX_RUN_CANCELLED;
        return code == -ETIMEDOUT && ended == -ETIMEDOUT ? SBX_RUN_TIMEOUT : SBX_RUN_FAILED;
}

static int finish_record(json_t *record, uint64_t begin_ns, const char *timestamp) {
        uint64_t ms = (sbx_clock_ns() - begin_ns) / SBX_NS_PER_MS;

        return json_object_set_new(record, "duration_ms", json_integer((json_int_t)ms)) < 0 ||
                               json_object_set_new(record, "timestamp", json_string(timestamp)) < 0
                       ? -ENOMEM
                       : 0;
}

/* A call that was refused, or never came to the model, costs nothing. Of one that broke off nobody knows. */
static void settle_failure(const struct sbx_place *place, const struct request *request, int code) {
        bool broke_off = code == -ETIMEDOUT || code == -ECANCELED || code == -ECONNRESET || code == -EBADMSG ||
                         code == -EFBIG || code == -ENOMEM;

        sbx_budget_settle(place->budget, request->reserved, broke_off ? request->prompt_tokens : 0, 0,
                          broke_off ? -1 : 0);
}

/* What the model answered is paid for from here on: whatever comes, it is counted. */
static int ask(const struct sbx_place *place, struct request *request, json_t **ret_record, enum sbx_run_end *ret_end,
               struct sbx_error *err) {
        __attribute__((cleanup(output_cleanup))) struct sbx_output *response = NULL;
        char timestamp[SBX_TIMESTAMP_SIZE];
        uint64_t begin_ns = sbx_clock_ns();
        struct sbx_error problem = {0};
        json_t *record = NULL;
        const json_t *cost;
        int r = sbx_output_new(SBX_RESPONSE_MAX, &response);

        sbx_clock_timestamp(timestamp);
        if (r == 0)
                r = ask_provider(place, sbx_buffer_bytes(&request->json), response, &problem);
        if (r == 0)
                r = sbx_response_decode(sbx_output_bytes(response), request->json.size, &record, &problem);
        if (r == 0 && finish_record(record, begin_ns, timestamp) < 0)
                r = -ENOMEM;
        if (r < 0) {
                settle_failure(place, request, r);
                json_decref(record);
                *ret_end = end_of(place, r);
                sbx_error_set(&problem, r, ORIGIN, NULL, "the model can't be asked: %s", SBX_ERRNO_TEXT(r));
                if (err != NULL && err->code == 0)
                        *err = problem;
                return r == -ENOMEM ? r : 0;
        }
        cost = json_object_get(record, "cost_usd");
        sbx_budget_settle(place->budget, request->reserved,
                          (uint64_t)json_integer_value(json_object_get(record, "tokens_in")),
                          (uint64_t)json_integer_value(json_object_get(record, "tokens_out")),
                          json_is_number(cost) ? json_number_value(cost) : -1);
        *ret_record = record;
        return 0;
}

static void count_call(struct sbx_run *run) {
        SBX_LOCKED(&run->lock);
        run->calls_made++;
}

static int ask_now(const struct sbx_place *place, const char *key, const json_t *messages, const json_t *tools,
                   struct sbx_answer *ret_answer, enum sbx_run_end *ret_end, struct sbx_error *err) {
        _cleanup_json_ json_t *record = NULL;
        struct request request = {.json = SBX_BUFFER(REQUEST_MAX)};
        uint64_t max_tokens = 0;
        int r = encode_messages(messages, &request, err);

        if (r == 0) {
                *ret_end = reserve(place, &request, &max_tokens, err);
                if (*ret_end == SBX_RUN_OK) {
                        r = encode_rest(place, tools, max_tokens, &request, err);
                        if (r == 0) /* a call that a kill interrupts may be paid for: a resumed run says so */
                                r = sbx_journal_begin(place->run->journal, key, err);
                        if (r < 0)
                                sbx_budget_settle(place->budget, request.reserved, 0, 0, 0);
                }
        }
        if (r == 0 && *ret_end == SBX_RUN_OK) {
                count_call(place->run);
                r = ask(place, &request, &record, ret_end, err);
                if (r == 0 && *ret_end == SBX_RUN_FAILED)
                        r = sbx_journal_failed(place->run->journal, key, err);
        }
        sbx_buffer_free(&request.json);
        if (r == -EFBIG) { /* of the conversation: the run's own end, not this program's fault */
                *ret_end = SBX_RUN_FAILED;
                return 0;
        }
        if (r < 0 || *ret_end != SBX_RUN_OK)
                return r;
        r = sbx_journal_add(place->run->journal, key, record, err);
        return r < 0 ? r : sbx_response_answer(record, ret_answer, err);
}

static int recall(const struct sbx_place *place, json_t *record, struct sbx_answer *ret_answer, struct sbx_error *err) {
        int r = sbx_response_answer(record, ret_answer, err);

        if (r < 0)
                return r;
        count_call(place->run);
        sbx_budget_recall(place->budget, ret_answer->tokens_in, ret_answer->tokens_out, ret_answer->cost_usd);
        return 0;
}

int sbx_model_ask(const struct sbx_place *place, const json_t *messages, const json_t *tools,
                  struct sbx_answer *ret_answer, enum sbx_run_end *ret_end, struct sbx_error *err) {
        _cleanup_json_ json_t *record = NULL;
        char key[SBX_JOURNAL_KEY_MAX];
        int r = sbx_key_make(key, err, place->key, ".model");

        if (r < 0)
                return r;
        *ret_end = SBX_RUN_OK;
        record = sbx_journal_find(place->run->journal, key);
        if (record != NULL)
                return recall(place, record, ret_answer, err);
        if (place->replay) {
                *ret_end = SBX_RUN_FAILED;
                sbx_error_set(err, -ENODATA, ORIGIN, NULL, "this call had no answer in an earlier life of the run");
                return 0;
        }
        r = sbx_place_ended(place);
        if (r < 0) {
                *ret_end = r == -ECANCELED ? SBX_RUN_CANCELLED : SBX_RUN_TIMEOUT;
                sbx_error_set(err, r, ORIGIN, NULL, r == -ECANCELED ? "cancelled" : "the time is up");
                return 0;
        }
        return ask_now(place, key, messages, tools, ret_answer, ret_end, err);
}
