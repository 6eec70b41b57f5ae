/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to OpenAI-compatible APIs: the request as it came, with the few things that differ between them. */
#include <ctype.h>

#include "dialect.h"
#include "util.h"

/* OpenAI's reasoning models refuse max_tokens, and temperatures other than 1. */
static bool is_reasoning_model(const struct llm_route *route) {
        const char *name = route->name;

        if ((route->provider->traits & LLM_REASONING_NAMES) == 0)
                return false;
        if (name[0] == 'o' && isdigit((unsigned char)name[1]))
                return true;
        return strncmp(name, "gpt-5", 5) == 0 && strstr(name, "chat") == NULL;
}

static int set(json_t *object, const char *key, json_t *value) {
        return json_object_set_new(object, key, value) < 0 ? -ENOMEM : 0;
}

static int set_limits(json_t *body, const struct llm_route *route, const struct llm_manner *manner) {
        bool reasoning = is_reasoning_model(route);
        int r = 0;

        if (manner->no_temperature)
                json_object_del(body, "temperature");
        else if (manner->has_temperature && !reasoning && json_object_get(body, "temperature") == NULL)
                r = set(body, "temperature", json_real(manner->temperature));
        if (r == 0 && (reasoning || manner->completion_tokens) && json_object_get(body, "max_tokens") != NULL) {
                r = json_object_set(body, "max_completion_tokens", json_object_get(body, "max_tokens")) < 0 ? -ENOMEM
                                                                                                            : 0;
                json_object_del(body, "max_tokens");
        }
        return r;
}

static int set_stream(json_t *body, const struct llm_route *route, const struct llm_manner *manner) {
        int r = 0;

        json_object_del(body, "stream");
        json_object_del(body, "stream_options");
        if (manner->stream) {
                r = set(body, "stream", json_true());
                if (r == 0 && (route->provider->traits & LLM_NO_STREAM_OPTIONS) == 0)
                        r = set(body, "stream_options", json_pack("{s:b}", "include_usage", 1));
        }
        if (r == 0 && (route->provider->traits & LLM_ASK_COST) != 0)
                r = set(body, "usage", json_pack("{s:b}", "include", 1));
        return r;
}

static int encode(const json_t *request, const struct llm_route *route, const struct llm_manner *manner,
                  struct llm_text *out, struct sbx_error *err) {
        _cleanup_json_ json_t *body = json_copy((json_t *)request); /* its members are shared, and not changed */
        int r = body != NULL ? 0 : -ENOMEM;

        if (!json_is_array(json_object_get(request, "messages")))
                return sbx_error_set(err, -EINVAL, LLM_ORIGIN, NULL, "the request has no messages");
        if (r == 0)
                r = set(body, "model", json_string(route->name));
        if (r == 0)
                r = set_limits(body, route, manner);
        if (r == 0)
                r = set_stream(body, route, manner);
        if (r == 0)
                r = llm_json_encode(body, out);
        if (r == -EFBIG)
                return sbx_error_set(err, -E2BIG, LLM_ORIGIN, NULL, "the request is larger than %zu bytes", out->max);
        return r < 0 ? llm_nomem(err) : 0;
}

const struct llm_dialect llm_openai = {encode, llm_openai_decode, llm_openai_event};
