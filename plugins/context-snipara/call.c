/* SPDX-License-Identifier: Apache-2.0 */
/* Sends JSON-RPC requests. What a request holds comes from the caller, the configuration and the tokens' file alone. */
#include "call.h"

#include <poll.h>

#include "address.h"
#include "log.h"
#include "util.h"

#define REQUEST_MAX_BYTES ((size_t)4 << 20)
#define ESCAPE_MAX_BYTES 6u /* \u0001: what JSON may make of one byte of text */
#define RESPONSE_SLACK_BYTES ((size_t)256 << 10)
#define RETRY_FIRST_MS 500u
#define RETRY_LONGEST_MS 10000u
#define NS_PER_MS UINT64_C(1000000)

/* One call under way. */
struct ask {
        struct snipara *snipara;
        const struct snipara_tool *tool;
        struct sbx_call call;     /* with this plugin's time-out in it */
        uint64_t own_deadline_ns; /* of the caller; 0: none */
        char *body;
        struct snipara_credential credential;
        struct snipara_failure *failure;
        struct sbx_error *err;
};

static void ask_clear(struct ask *ask) {
        snipara_credential_clear(&ask->credential);
        free(ask->body);
}

static uint64_t now_ns(const struct snipara *snipara) {
        return snipara->host->clock_ns(snipara->host->self);
}

static int no_memory(struct sbx_error *err) {
        return sbx_error_set(err, -ENOMEM, SNIPARA_ORIGIN, NULL, "out of memory");
}

/* ---- preparing ------------------------------------------------------------------------------------------- */

static void take_call(struct ask *ask, const struct sbx_call *call) {
        uint64_t deadline_ns = now_ns(ask->snipara) + ask->snipara->timeout_ms * NS_PER_MS;

        ask->call = (struct sbx_call){.struct_size = sizeof(ask->call), .cancel_fd = -1, .deadline_ns = deadline_ns};
        if (call == NULL)
                return;
        ask->call.cancel_fd = call->cancel_fd;
        ask->own_deadline_ns = call->deadline_ns;
        if (call->deadline_ns != 0 && call->deadline_ns < deadline_ns)
                ask->call.deadline_ns = call->deadline_ns;
}

/* One exchange holds one request, so its id need not differ from others. */
static int make_body(struct ask *ask, json_t *arguments) {
        _cleanup_json_ json_t *request =
                json_pack("{s:s, s:i, s:s, s:{s:s, s:O}}", "jsonrpc", "2.0", "id", 1, "method", "tools/call", "params",
                          "name", ask->tool->remote, "arguments", arguments);

        ask->body = request != NULL ? json_dumps(request, JSON_COMPACT) : NULL;
        if (ask->body == NULL)
                return no_memory(ask->err);
        if (strlen(ask->body) > REQUEST_MAX_BYTES)
                return snipara_fail(ask->failure, "arguments", "Send less text in one call.",
                                    "the arguments have more than %zu bytes", REQUEST_MAX_BYTES);
        return 0;
}

static int take_credential(struct ask *ask, bool again) {
        struct snipara_credential credential = {0};
        struct sbx_error problem = {0};
        int r = snipara_credentials_get(ask->snipara->credentials, again, &credential, &problem);

        if (r == -ENOMEM)
                return no_memory(ask->err);
        if (r < 0)
                return snipara_fail(ask->failure, "no_credentials", problem.hint, "%s", problem.message);
        snipara_credential_clear(&ask->credential);
        ask->credential = credential;
        return 0;
}

/* ---- one exchange ---------------------------------------------------------------------------------------- */

static void secret_free(char **text) {
        if (*text != NULL)
                explicit_bzero(*text, strlen(*text));
        free(*text);
}

static int perform(struct ask *ask, struct sbx_http_response *response, struct sbx_error *problem) {
        const struct snipara *snipara = ask->snipara;
        bool oauth = ask->credential.source == SNIPARA_OAUTH;
        _cleanup_(secret_free) char *authorization = NULL;
        _cleanup_free_ char *url = snipara_address_project(snipara->base, ask->credential.slug);
        struct sbx_http_request request = {0};

        if (asprintf(&authorization, oauth ? "Authorization: Bearer %s" : "X-API-Key: %s", ask->credential.secret) < 0)
                authorization = NULL;
        if (url == NULL || authorization == NULL)
                return no_memory(problem);
        request = (struct sbx_http_request){
                .method = "POST",
                .url = url,
                .headers = (const char *const[]){"Content-Type: application/json", "Accept: application/json",
                                                 authorization, NULL},
                .body = {ask->body, strlen(ask->body)},
                .response_max_bytes = ESCAPE_MAX_BYTES * snipara->text_max + RESPONSE_SLACK_BYTES,
        };
        return sbx_http_perform(snipara->http, &request, &ask->call, response, problem);
}

/* No answer came. */
static int fail_transport(struct ask *ask, int code, bool sent, const struct sbx_error *problem) {
        const char *doubt = sent ? snipara_tool_doubt(ask->tool) : "";
        char hint[SBX_ERROR_HINT_MAX + 128];

        if (code == -ECANCELED)
                return sbx_error_set(ask->err, code, SNIPARA_ORIGIN, NULL, "%s was cancelled", ask->tool->name);
        if (code == -ENOMEM)
                return no_memory(ask->err);
        if (code == -ETIMEDOUT && ask->own_deadline_ns != 0 && now_ns(ask->snipara) >= ask->own_deadline_ns)
                return sbx_error_set(ask->err, code, SNIPARA_ORIGIN, NULL,
                                     "%s: Snipara did not answer before the call's time was over", ask->tool->name);
        if (code == -ETIMEDOUT) {
                snprintf(hint, sizeof(hint), "Try again, or raise the option timeout.%s", doubt);
                return snipara_fail(ask->failure, "timeout", hint, "Snipara did not answer within %.3g seconds",
                                    (double)ask->snipara->timeout_ms / 1000);
        }
        if (code == -EFBIG)
                return snipara_fail(ask->failure, "too_large",
                                    "Ask for less, with max_tokens or limit, or raise the option max_result.",
                                    "Snipara's answer is larger than a result of %zu bytes can need",
                                    ask->snipara->text_max);
        snprintf(hint, sizeof(hint), "%s%s", problem->hint[0] != '\0' ? problem->hint : "Check the network.", doubt);
        return snipara_fail(ask->failure, "unreachable", hint, "Snipara can't be reached: %s", problem->message);
}

/* ---- asking again ---------------------------------------------------------------------------------------- */

/* Whether another try makes sense; how long to wait before it. */
static bool may_retry(const struct ask *ask, const struct sbx_http_response *response, unsigned tries,
                      uint64_t *ret_wait_ms) {
        uint64_t wait_ms = response->retry_after_ms;

        if (!ask->tool->reads || tries >= ask->snipara->retries || (response->status != 429 && response->status < 500))
                return false;
        if (wait_ms == 0)
                wait_ms = (uint64_t)RETRY_FIRST_MS << (tries < 5 ? tries : 5);
        *ret_wait_ms = wait_ms;
        return wait_ms <= RETRY_LONGEST_MS && now_ns(ask->snipara) + wait_ms * NS_PER_MS < ask->call.deadline_ns;
}

/* 0, or -ECANCELED. The deadline lies behind the wait. */
static int wait_ms(struct ask *ask, uint64_t time_ms) {
        struct pollfd cancel = {.fd = ask->call.cancel_fd, .events = POLLIN};
        uint64_t end_ns = now_ns(ask->snipara) + time_ms * NS_PER_MS;

        for (uint64_t now = now_ns(ask->snipara); now < end_ns; now = now_ns(ask->snipara)) {
                int n = poll(&cancel, 1, (int)((end_ns - now + NS_PER_MS - 1) / NS_PER_MS));

                if (n > 0)
                        return fail_transport(ask, -ECANCELED, false, NULL);
        }
        return 0;
}

/* A token may have been renewed by another program since it was read. 1: there is a new one; 0: there is not. */
static int renew_credential(struct ask *ask) {
        struct snipara_credential old = ask->credential;
        bool renewed;
        int r;

        ask->credential = (struct snipara_credential){0};
        r = take_credential(ask, true);
        if (r < 0) {
                ask->credential = old;
                return r == -ENOMEM ? r : 0; /* what the service said is the better reason */
        }
        renewed = ask->credential.source == SNIPARA_OAUTH && strcmp(ask->credential.secret, old.secret) != 0;
        if (renewed) {
                snipara_credential_clear(&old);
                return 1;
        }
        snipara_credential_clear(&ask->credential);
        ask->credential = old;
        return 0;
}

static int exchange(struct ask *ask, json_t **ret_result) {
        const struct snipara_question question = {ask->tool, &ask->credential, ask->snipara->text_max};
        bool renewed = false;

        for (unsigned tries = 0;;) {
                __attribute__((cleanup(sbx_http_response_clear))) struct sbx_http_response response = {0};
                struct sbx_error problem = {0};
                uint64_t pause_ms = 0;
                int r = perform(ask, &response, &problem);

                if (r < 0)
                        return fail_transport(ask, r, response.sent, &problem);
                if (response.status == 401 && ask->credential.source == SNIPARA_OAUTH && !renewed) {
                        renewed = true;
                        r = renew_credential(ask);
                        if (r < 0)
                                return r;
                        if (r > 0)
                                continue;
                }
                if (may_retry(ask, &response, tries, &pause_ms)) {
                        tries++;
                        r = wait_ms(ask, pause_ms);
                        if (r < 0)
                                return r;
                        continue;
                }
                r = snipara_answer_read(&question, &response, ret_result, ask->failure);
                return r == -ENOMEM ? no_memory(ask->err) : r;
        }
}

int snipara_ask(struct snipara *snipara, const struct snipara_tool *tool, json_t *arguments,
                const struct sbx_call *call, json_t **ret_result, struct snipara_failure *failure,
                struct sbx_error *err) {
        _cleanup_(ask_clear) struct ask ask = {.snipara = snipara, .tool = tool, .failure = failure, .err = err};
        struct sbx_error problem = {0};
        int r = snipara_tool_adapt(tool, arguments, &problem);

        if (r == -ENOMEM)
                return no_memory(err);
        if (r < 0)
                return snipara_fail(failure, "arguments", problem.hint, "%s", problem.message);
        take_call(&ask, call);
        r = make_body(&ask, arguments);
        if (r == 0)
                r = take_credential(&ask, false);
        return r < 0 ? r : exchange(&ask, ret_result);
}
