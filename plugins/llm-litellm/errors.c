/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses and error bodies of OpenAI-compatible APIs, Anthropic, proxies and what stands before them. */
#include "errors.h"

#include <strings.h>

#include "util.h"

#define SHOWN_MAX 300 /* bytes of what a server says */

/* What an error body says; the strings are borrowed from `json`. */
struct words {
        json_t *json;
        const char *message, *type, *code;
        int64_t status; /* 0: none in the body */
};

static void free_words(struct words *words) {
        json_decref(words->json);
}

/* {"error": {"message", "type", "code"}} (OpenAI, Anthropic, OpenRouter), {"error": "..."} (Ollama), {"message"}
 * (Mistral),
 * {"detail": "..." or [{"msg"}]} (what FastAPI makes). Gemini puts the object into an array. */
static void read_words(struct sbx_bytes body, struct words *ret_words) {
        json_t *root = NULL, *error, *detail;

        *ret_words = (struct words){0};
        while (body.size > 0 && strchr(" \t\r\n[", *(const char *)body.data) != NULL)
                body = (struct sbx_bytes){(const char *)body.data + 1, body.size - 1};
        while (body.size > 0 && strchr(" \t\r\n]", ((const char *)body.data)[body.size - 1]) != NULL)
                body.size--;
        if (llm_json_parse(body, &root, NULL) < 0)
                return;
        ret_words->json = root;
        error = json_object_get(root, "error");
        detail = json_object_get(root, "detail");
        if (!json_is_object(error))
                error = root;
        ret_words->message = llm_json_string(error, "message");
        if (ret_words->message == NULL)
                ret_words->message = llm_json_string(root, "error");
        if (ret_words->message == NULL)
                ret_words->message = llm_json_string(root, "detail");
        if (ret_words->message == NULL)
                ret_words->message = llm_json_string(json_array_get(detail, 0), "msg");
        ret_words->type = llm_json_string(error, "type");
        ret_words->code = llm_json_string(error, "code");
        if (!llm_json_count(error, "code", &ret_words->status))
                llm_json_count(error, "status", &ret_words->status);
}

bool llm_is_html(const char *content_type, struct sbx_bytes body) {
        const char *text = body.data;
        size_t size = body.size;

        if (strstr(content_type, "html") != NULL)
                return true;
        while (size > 0 && strchr(" \t\r\n", *text) != NULL) {
                text++;
                size--;
        }
        return (size >= 9 && strncasecmp(text, "<!doctype", 9) == 0) ||
               (size >= 5 && strncasecmp(text, "<html", 5) == 0);
}

static bool says(const char *text, const char *word) {
        return text != NULL && strcasestr(text, word) != NULL;
}

static bool any_says(const struct words *words, const char *const *phrases) {
        for (; *phrases != NULL; phrases++)
                if (says(words->message, *phrases) || says(words->code, *phrases) || says(words->type, *phrases))
                        return true;
        return false;
}

bool llm_refusal_mentions(const struct llm_refusal *refusal, const char *word) {
        __attribute__((cleanup(free_words))) struct words words;
        bool found;

        read_words(refusal->body, &words);
        found = says(words.message, word);
        return found;
}

/* Errors within a stream have no status of their own. */
static unsigned status_of(const struct llm_refusal *refusal, const struct words *words) {
        static const struct {
                const char *word;
                unsigned status;
        } types[] = {{"overloaded", 529},         {"rate_limit", 429},      {"authentication", 401},
                     {"permission", 403},         {"not_found", 404},       {"too_large", 413},
                     {"insufficient_quota", 429}, {"invalid_request", 400}, {"billing", 402}};

        if (refusal->status >= 300)
                return refusal->status;
        if (words->status >= 400 && words->status < 600)
                return (unsigned)words->status;
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
                if (says(words->type, types[i].word) || says(words->code, types[i].word))
                        return types[i].status;
        return 500;
}

static int code_of(unsigned status, const struct words *words) {
        static const char *const too_long[] = {"context_length",
                                               "context length",
                                               "context window",
                                               "prompt is too long",
                                               "maximum context",
                                               "too many tokens",
                                               "request_too_large",
                                               "input is too long",
                                               "exceeds the maximum number of tokens",
                                               "reduce the length",
                                               NULL};
        static const char *const no_credit[] = {"insufficient_quota",
                                                "credit balance",
                                                "exceeded your current quota",
                                                "insufficient credit",
                                                "insufficient balance",
                                                "billing",
                                                NULL};
        static const char *const no_model[] = {"model_not_found", "invalid model",      "not a valid model",
                                               "unknown model",   "model not found",    "invalid_model",
                                               "does not exist",  "deploymentnotfound", NULL};
        static const char *const bad_key[] = {"invalid_api_key",   "invalid api key",      "api key not valid",
                                              "incorrect api key", "authentication_error", NULL};

        if (status == 401 || status == 403)
                return any_says(words, no_credit) ? -EDQUOT : -EACCES;
        if (status == 402)
                return -EDQUOT;
        if (status == 404)
                return -ENOENT;
        if (status == 413)
                return -E2BIG;
        if (status == 429)
                return any_says(words, no_credit) ? -EDQUOT : -EAGAIN;
        if (status == 408 || status >= 500)
                return -EREMOTEIO;
        if (status < 400)
                return -EBADMSG;
        if (any_says(words, too_long))
                return -E2BIG;
        if (any_says(words, no_credit))
                return -EDQUOT;
        if (any_says(words, bad_key))
                return -EACCES;
        return any_says(words, no_model) ? -ENOENT : -EINVAL;
}

static void write_hint(const struct llm_route *route, int code, unsigned status, bool html, char *hint, size_t size) {
        switch (code) {
        case -EACCES:
                if (route->key == NULL)
                        snprintf(hint, size, "Set %s: the server wants a key.", route->key_variable);
                else
                        snprintf(hint, size, "Check %s, and that the key may use %s.", route->key_variable,
                                 route->name);
                break;
        case -ENOENT:
                snprintf(hint, size, "Check the name of the model, and the address (%s).", route->place);
                break;
        case -E2BIG:
                snprintf(hint, size,
                         "Send less, or use a model with a larger context; data can stay in variables of a session.");
                break;
        case -EDQUOT:
                snprintf(hint, size, "Look at the plan and the balance of the account at %s.", route->provider->name);
                break;
        case -EAGAIN:
                snprintf(hint, size, "Wait, raise max_retries, or ask less at the same time.");
                break;
        case -EREMOTEIO:
                snprintf(hint, size, "Try again later: the fault is on the other side.");
                break;
        default:
                if (status >= 300 && status < 400)
                        snprintf(hint, size, "Set the address to where the server is now; a key is not sent along.");
                else
                        snprintf(hint, size, "Check the request and the model's own restrictions.");
        }
        if (html)
                snprintf(hint, size, "Check api_base: an API answers in JSON, and its address often ends with /v1.");
}

static const char *meaning(int code, unsigned status) {
        switch (code) {
        case -EACCES:
                return "the API key is refused";
        case -ENOENT:
                return "there is no such model";
        case -E2BIG:
                return "the context is too long";
        case -EDQUOT:
                return "the quota or credit is used up";
        case -EAGAIN:
                return "too many requests";
        case -EREMOTEIO:
                return status == 503 || status == 529 ? "the server is overloaded" : "the server failed";
        case -EBADMSG:
                return "the server answers with a redirect";
        default:
                return "the request is refused";
        }
}

/* "openai/gpt-4o: the API key is refused (status 401 from https://api.openai.com): words (request req-1)" */
static int report(const struct llm_route *route, const struct llm_refusal *refusal, int code, const char *what,
                  unsigned status, const char *words, size_t words_size, const char *hint, struct sbx_error *err) {
        _cleanup_text_ struct llm_text text = LLM_TEXT(SBX_ERROR_MESSAGE_MAX * 2);
        size_t own;

        llm_text_printf(&text, "%s: %s (", route->model, what);
        if (status > 0)
                llm_text_printf(&text, "status %u from ", status);
        llm_text_printf(&text, "%s", route->place);
        if (refusal->attempts > 1)
                llm_text_printf(&text, ", asked %u times", refusal->attempts);
        llm_text_literal(&text, ")");
        own = text.size; /* what follows is the server's */
        if (words_size > 0) {
                llm_text_literal(&text, ": ");
                llm_plain_line(&text, words, words_size, SHOWN_MAX);
        }
        if (refusal->request_id[0] != '\0')
                llm_text_printf(&text, " (request %s)", refusal->request_id);
        if (text.error != 0)
                return llm_nomem(err);
        llm_redact(text.data + own, text.size - own, route->key);
        return sbx_error_set(err, code, LLM_ORIGIN, hint, "%s", text.data);
}

int llm_refusal_report(const struct llm_route *route, const struct llm_refusal *refusal, struct sbx_error *err) {
        __attribute__((cleanup(free_words))) struct words words;
        bool html = llm_is_html(refusal->content_type, refusal->body);
        char hint[SBX_ERROR_HINT_MAX];
        const char *shown;
        unsigned status;
        size_t size;
        int code;

        read_words(refusal->body, &words);
        status = status_of(refusal, &words);
        code = code_of(status, &words);
        shown = words.message != NULL ? words.message : refusal->body.data;
        size = words.message != NULL ? strlen(words.message) : refusal->body.size;
        if (html) {
                shown = "it answers with a web page";
                size = strlen(shown);
        }
        write_hint(route, code, status, html, hint, sizeof(hint));
        return report(route, refusal, code, meaning(code, status), status, shown, size, hint, err);
}

int llm_unreadable_report(const struct llm_route *route, const struct llm_refusal *refusal, int code, const char *what,
                          struct sbx_error *err) {
        if (llm_is_html(refusal->content_type, refusal->body))
                return report(route, refusal, code, "the server answers with a web page", refusal->status, NULL, 0,
                              "Check api_base: an API answers in JSON, and its address often ends with /v1.", err);
        return report(route, refusal, code, what, refusal->status, refusal->body.data, refusal->body.size,
                      code == -ECONNRESET ? "Try again; if it stays, look at the server and at proxies before it."
                                          : "Check that api_base leads to an API of this kind.",
                      err);
}
