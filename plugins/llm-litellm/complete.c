/* SPDX-License-Identifier: Apache-2.0 */
/* A completion: route, request, attempts, response. */
#include "complete.h"

#include <locale.h>

#include "errors.h"
#include "lift.h"
#include "receive.h"
#include "retry.h"
#include "util.h"

#define REQUEST_MAX ((size_t)96 << 20)
#define COST_HEADER "x-litellm-response-cost"

/* One call of complete(). */
struct completion {
        const struct llm_instance *instance;
        const struct sbx_provider_events *events; /* NULL: nothing is streamed */
        const struct sbx_call *call;
        const struct llm_dialect *dialect;
        json_t *request;          /* for an API of OpenAI's kind without what is in `lifted` */
        struct llm_lifted lifted; /* borrowed from the caller's request */
        struct llm_route route;
        struct llm_manner manner;
        struct llm_text body;
        struct llm_headers headers;
        unsigned attempts; /* requests sent */
};

static void free_completion(struct completion *completion) {
        json_decref(completion->request);
        llm_route_clear(&completion->route);
        llm_text_free(&completion->body);
        llm_headers_free(&completion->headers);
}

/* What became of one attempt. */
struct outcome {
        int code;     /* 0: answered */
        bool again;   /* another attempt may do better */
        bool at_once; /* no need to wait for it: the request was changed */
        uint64_t retry_after_ms;
        struct sbx_error error;
};

static struct llm_refusal refusal_of(const struct completion *completion, const struct llm_receiver *receiver,
                                     struct sbx_bytes body) {
        return (struct llm_refusal){.status = receiver->response.status,
                                    .content_type = receiver->response.content_type,
                                    .request_id = receiver->response.request_id,
                                    .body = body,
                                    .retry_after_ms = receiver->response.retry_after_ms,
                                    .attempts = completion->attempts};
}

/* Models that want it otherwise say so with a status of 400, which costs nothing: the request is put their way once. */
static bool adapt(struct completion *completion, const struct llm_refusal *refusal) {
        struct llm_manner *manner = &completion->manner;

        if (refusal->status != 400)
                return false;
        if (!manner->completion_tokens && llm_refusal_mentions(refusal, "max_completion_tokens"))
                return manner->completion_tokens = true;
        if (!manner->no_temperature && manner->has_temperature &&
            json_object_get(completion->request, "temperature") == NULL && llm_refusal_mentions(refusal, "temperature"))
                return manner->no_temperature = true;
        return false;
}

static void judge_refusal(struct completion *completion, const struct llm_receiver *receiver, struct sbx_bytes body,
                          struct outcome *outcome) {
        struct llm_refusal refusal = refusal_of(completion, receiver, body);

        outcome->code = llm_refusal_report(&completion->route, &refusal, &outcome->error);
        outcome->retry_after_ms = refusal.retry_after_ms;
        outcome->again = outcome->code == -EAGAIN || outcome->code == -EREMOTEIO;
        if (!receiver->stream.told && adapt(completion, &refusal))
                outcome->again = outcome->at_once = true;
}

/* An error object that came with a 2xx status. */
static void judge_reported(struct completion *completion, const struct llm_receiver *receiver,
                           struct outcome *outcome) {
        _cleanup_text_ struct llm_text text = LLM_TEXT(1 << 20);
        struct llm_refusal refusal;

        if (llm_json_encode(receiver->stream.error, &text) < 0) {
                outcome->code = llm_nomem(&outcome->error);
                return;
        }
        refusal = refusal_of(completion, receiver, llm_text_bytes(&text));
        refusal.status = 0;
        outcome->code = llm_refusal_report(&completion->route, &refusal, &outcome->error);
        outcome->again = !receiver->stream.told && (outcome->code == -EAGAIN || outcome->code == -EREMOTEIO);
}

static void judge_unreadable(struct completion *completion, const struct llm_receiver *receiver, int code,
                             struct outcome *outcome) {
        struct sbx_bytes body = receiver->looked
                                        ? llm_text_bytes(&receiver->whole)
                                        : (struct sbx_bytes){receiver->response.body, receiver->response.body_size};
        struct llm_refusal refusal = refusal_of(completion, receiver, body);

        outcome->code = code;
        if (code == -ENOMEM)
                llm_nomem(&outcome->error);
        else if (code == -EFBIG)
                llm_unreadable_report(&completion->route, &refusal, code, "the answer is too large", &outcome->error);
        else if (code == -ECONNRESET)
                llm_unreadable_report(&completion->route, &refusal, code, "the answer breaks off before its end",
                                      &outcome->error);
        else
                llm_unreadable_report(&completion->route, &refusal, -EBADMSG, "the answer can't be read",
                                      &outcome->error);
        outcome->again = code == -ECONNRESET && !receiver->stream.told;
}

/* No answer, or not all of it. */
static void judge_transport(struct completion *completion, const struct llm_receiver *receiver, int code,
                            struct outcome *outcome) {
        char text[SBX_ERROR_MESSAGE_MAX];

        outcome->code = code;
        outcome->again = receiver->response.status == 0 && (code == -ECONNREFUSED || code == -ECONNRESET);
        if (outcome->error.message[0] == '\0')
                return;
        snprintf(text, sizeof(text), "%s: %.900s", completion->route.model, outcome->error.message);
        memcpy(outcome->error.message, text, sizeof(text));
}

static void attempt(struct completion *completion, struct llm_receiver *receiver, struct outcome *outcome) {
        const struct llm_settings *settings = &completion->instance->settings;
        const struct sbx_http_request request = {.method = "POST",
                                                 .url = completion->route.url,
                                                 .headers = (const char *const *)completion->headers.lines,
                                                 .body = llm_text_bytes(&completion->body),
                                                 .response_max_bytes = settings->max_response,
                                                 .piece = completion->manner.stream ? llm_receiver_piece : NULL,
                                                 .data = receiver,
                                                 .keep_header = COST_HEADER};
        int r;

        completion->attempts++;
        r = sbx_http_perform(completion->instance->http, &request, completion->call, &receiver->response,
                             &outcome->error);
        if (r < 0 && outcome->error.code == 0)
                sbx_error_set(&outcome->error, r, LLM_ORIGIN, NULL, "the answer can't be used");
        if (r == -EREMOTEIO && receiver->stream.error != NULL) {
                outcome->error = (struct sbx_error){0}; /* of the transport, which knows less */
                judge_reported(completion, receiver, outcome);
                return;
        }
        if (r == -EBADMSG) {
                outcome->error = (struct sbx_error){0};
                judge_unreadable(completion, receiver, r, outcome);
                return;
        }
        if (r < 0 && !(r == -ECONNRESET && llm_receiver_is_whole(receiver))) {
                judge_transport(completion, receiver, r, outcome);
                return;
        }
        if (receiver->response.status < 200 || receiver->response.status > 299) {
                judge_refusal(completion, receiver,
                              (struct sbx_bytes){receiver->response.body, receiver->response.body_size}, outcome);
                return;
        }
        r = llm_receiver_finish(receiver);
        if (r == -EREMOTEIO && receiver->stream.error != NULL)
                judge_reported(completion, receiver, outcome);
        else if (r < 0)
                judge_unreadable(completion, receiver, r, outcome);
}

/* ---- the response ---- */

/* Four bytes a token, when the provider does not count. */
static void estimate_usage(const struct completion *completion, struct llm_answer *answer) {
        size_t said = answer->content.size;

        for (size_t i = 0; i < answer->call_count; i++)
                said += answer->calls[i].arguments.size +
                        (answer->calls[i].name != NULL ? strlen(answer->calls[i].name) : 0);
        answer->usage = (struct llm_usage){.prompt = (int64_t)(completion->body.size / 4 + 1),
                                           .completion = (int64_t)(said / 4 + 1)};
}

/* The cost that a LiteLLM proxy tells in a header; negative: it does not. */
static double cost_in_header(const char *value) {
        locale_t plain;
        double cost;
        char *end;

        if (value[0] == '\0' || strspn(value, "0123456789.eE+-") != strlen(value))
                return -1;
        plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
        if (plain == (locale_t)0)
                return -1;
        cost = strtod_l(value, &end, plain);
        freelocale(plain);
        return *end == '\0' && cost > 0 && cost < 1e6 ? cost : -1; /* it says 0 for what it does not know */
}

static int respond(const struct completion *completion, struct llm_receiver *receiver, struct sbx_output *ret_response,
                   struct sbx_error *err) {
        const struct sbx_host *host = completion->instance->settings.host;
        struct llm_answer *answer = receiver->stream.answer;
        _cleanup_text_ struct llm_text text = LLM_TEXT(SIZE_MAX / 4);
        bool estimated = !answer->usage.known;
        double cost = -1;
        int r;

        if (estimated)
                estimate_usage(completion, answer);
        if (answer->usage.has_cost)
                cost = answer->usage.cost_usd;
        if (cost < 0)
                cost = cost_in_header(receiver->response.kept);
        if (cost < 0)
                cost = llm_prices_cost(&completion->instance->prices, completion->route.model,
                                       completion->route.provider->name, answer->model, &answer->usage);
        if (llm_answer_encode(answer, completion->route.name, estimated, cost, &text) < 0)
                return llm_nomem(err);
        r = host->output_append(host->self, ret_response, text.data, text.size);
        if (r == -EFBIG)
                return sbx_error_set(err, r, LLM_ORIGIN, "Ask for a shorter answer.", "%s: the answer is too large",
                                     completion->route.model);
        return r < 0 ? llm_nomem(err) : 0;
}

/* ---- attempts ---- */

static int encode(struct completion *completion, struct sbx_error *err) {
        _cleanup_text_ struct llm_text shell = LLM_TEXT(REQUEST_MAX);
        int r = completion->dialect->encode(completion->request, &completion->route, &completion->manner, &shell, err);

        if (r < 0)
                return r;
        llm_text_clear(&completion->body);
        if (llm_lift_in(llm_text_bytes(&shell), &completion->lifted, &completion->body))
                return 0;
        return completion->body.error == -EFBIG ? sbx_error_set(err, -E2BIG, LLM_ORIGIN, NULL,
                                                                "the request is larger than %zu bytes", REQUEST_MAX)
                                                : llm_nomem(err);
}

/* 1: try again. */
static int prepare_again(struct completion *completion, struct outcome *outcome, unsigned *waits,
                         struct sbx_error *err) {
        const struct llm_settings *settings = &completion->instance->settings;
        int r;

        if (!outcome->again)
                return 0;
        if (outcome->at_once)
                return encode(completion, err) < 0 ? err != NULL ? err->code : -EINVAL : 1;
        if (*waits >= settings->max_retries)
                return 0;
        r = llm_retry_wait(completion->call, *waits, settings->retry_delay_ms, outcome->retry_after_ms);
        if (r < 0)
                return sbx_error_set(err, r, LLM_ORIGIN, NULL, "%s: cancelled while waiting to ask again",
                                     completion->route.model);
        (*waits)++;
        return r;
}

static int run(struct completion *completion, struct sbx_output *ret_response, struct sbx_error *err) {
        bool wants_json = completion->dialect == &llm_anthropic && llm_wants_json_tool(completion->request);
        size_t max_bytes = completion->instance->settings.max_response;

        for (unsigned waits = 0;;) {
                _cleanup_receiver_ struct llm_receiver receiver;
                struct outcome outcome = {0};
                int r;

                if (llm_receiver_init(&receiver, completion->dialect, &completion->route,
                                      completion->manner.stream ? completion->events : NULL, wants_json, max_bytes) < 0)
                        return llm_nomem(err);
                attempt(completion, &receiver, &outcome);
                if (outcome.code == 0)
                        return respond(completion, &receiver, ret_response, err);
                r = prepare_again(completion, &outcome, &waits, err);
                if (r < 0)
                        return r;
                if (r == 0)
                        return sbx_error_set(err, outcome.code, outcome.error.origin, outcome.error.hint, "%s",
                                             outcome.error.message);
        }
}

/* The request without its large members. -EBADMSG, -ENOMEM. */
static int parse_shell(struct completion *completion, struct sbx_bytes request) {
        _cleanup_text_ struct llm_text shell = LLM_TEXT(REQUEST_MAX + 64);

        if (!llm_lift_out(request, &completion->lifted, &shell))
                return shell.error == -ENOMEM ? -ENOMEM : llm_json_parse(request, &completion->request, NULL);
        return llm_json_parse(llm_text_bytes(&shell), &completion->request, NULL);
}

/* Anthropic's API has another form for a conversation: that is made from all of it. */
static int parse_whole(struct completion *completion, struct sbx_bytes request, struct sbx_error *err) {
        json_t *whole = NULL;
        int r = llm_json_parse(request, &whole, NULL);

        if (r < 0)
                return r == -ENOMEM ? llm_nomem(err)
                                    : sbx_error_set(err, -EINVAL, LLM_ORIGIN, NULL, "the request is not a JSON object");
        json_decref(completion->request);
        completion->request = whole;
        completion->lifted = (struct llm_lifted){0};
        return 0;
}

static int begin(struct completion *completion, struct sbx_bytes request, struct sbx_error *err) {
        const struct llm_settings *settings = &completion->instance->settings;
        const char *model;
        int r = request.size <= REQUEST_MAX ? parse_shell(completion, request) : -E2BIG;

        if (r == -ENOMEM)
                return llm_nomem(err);
        if (r < 0)
                return sbx_error_set(err, r == -E2BIG ? r : -EINVAL, LLM_ORIGIN, NULL,
                                     r == -E2BIG ? "the request is larger than 96 MiB"
                                                 : "the request is not a JSON object");
        model = llm_json_string(completion->request, "model");
        if (model == NULL)
                model = settings->model;
        if (model == NULL)
                return sbx_error_set(err, -EINVAL, LLM_ORIGIN, "Set model, as in model = \"openai/gpt-4o-mini\".",
                                     "the request names no model");
        r = llm_route_find(settings, model, &completion->route, err);
        if (r < 0)
                return r;
        completion->dialect = completion->route.provider->api == LLM_API_ANTHROPIC ? &llm_anthropic : &llm_openai;
        if (completion->dialect == &llm_anthropic) {
                r = parse_whole(completion, request, err);
                if (r < 0)
                        return r;
        }
        completion->manner = (struct llm_manner){.stream = completion->events != NULL,
                                                 .has_temperature = settings->has_temperature,
                                                 .temperature = settings->temperature};
        if (llm_headers_make(&completion->route,
                             completion->manner.stream ? "text/event-stream, application/json" : "application/json",
                             &completion->headers) < 0)
                return llm_nomem(err);
        return encode(completion, err);
}

int llm_complete(void *instance, struct sbx_bytes request, const struct sbx_provider_events *events,
                 const struct sbx_call *call, struct sbx_output *ret_response, struct sbx_error *err) {
        __attribute__((cleanup(free_completion))) struct completion completion = {
                .instance = instance, .events = events, .call = call, .body = LLM_TEXT(REQUEST_MAX)};
        int r = begin(&completion, request, err);

        return r < 0 ? r : run(&completion, ret_response, err);
}
