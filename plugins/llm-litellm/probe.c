/* SPDX-License-Identifier: Apache-2.0 */
/* Checking the configured model, its provider and key, without a request that costs something. */
#include "complete.h"
#include "errors.h"
#include "util.h"

#define PROBE_MAX_NS (UINT64_C(10000) * LLM_NS_PER_MS)
#define LIST_MAX ((size_t)8 << 20)

static void report(const struct sbx_probe_events *events, int status, const char *subject, const char *detail,
                   const char *remedy) {
        events->report(events->data, status, subject, detail, remedy != NULL && remedy[0] != '\0' ? remedy : NULL);
}

/* Whether the list of models, if it is one, has the configured one. Lists of proxies and of deployments may not. */
static void check_model(const struct sbx_probe_events *events, const struct llm_route *route,
                        const struct sbx_http_response *response) {
        _cleanup_json_ json_t *list = NULL;
        const json_t *models, *model;
        char detail[400];
        size_t index;

        if (llm_json_parse((struct sbx_bytes){response->body, response->body_size}, &list, NULL) < 0)
                return;
        models = json_object_get(list, "data");
        if (json_array_size(models) == 0)
                return;
        json_array_foreach (models, index, model) {
                const char *id = llm_json_string(model, "id");

                if (id != NULL && (strstr(id, route->name) != NULL))
                        return;
        }
        snprintf(detail, sizeof(detail), "%s is not among the %zu models that %s lists", route->name,
                 json_array_size(models), route->place);
        report(events, SBX_PROBE_WARNING, "model", detail, "Check model in the configuration.");
}

static int check_key(const struct llm_instance *instance, const struct llm_route *route,
                     const struct sbx_probe_events *events, const struct sbx_call *call) {
        _cleanup_headers_ struct llm_headers headers = {{NULL}};
        struct sbx_http_request request = {.method = "GET", .url = route->check_url, .response_max_bytes = LIST_MAX};
        struct sbx_http_response response = {0};
        struct sbx_error err = {0};
        int r = llm_headers_make(route, "application/json", &headers);

        if (r < 0)
                return r;
        request.headers = (const char *const *)headers.lines;
        r = sbx_http_perform(instance->http, &request, call, &response, &err);
        if (r == 0 && response.status == 404 &&
            !llm_is_html(response.content_type, (struct sbx_bytes){response.body, response.body_size}))
                report(events, SBX_PROBE_OK, "provider",
                       "it answers; it lists no models, so that the key was not tried", NULL);
        else if (r == 0 && (response.status < 200 || response.status > 299)) {
                struct llm_refusal refusal = {.status = response.status,
                                              .content_type = response.content_type,
                                              .request_id = response.request_id,
                                              .body = {response.body, response.body_size},
                                              .attempts = 1};

                r = llm_refusal_report(route, &refusal, &err);
        } else if (r == 0) {
                report(events, SBX_PROBE_OK, "provider",
                       route->key != NULL ? "it answers, and takes the key"
                                          : "it answers; no key is set, and none was asked for",
                       NULL);
                check_model(events, route, &response);
        }
        if (r < 0)
                report(events, SBX_PROBE_FAILED, "provider", err.message, err.hint);
        sbx_http_response_clear(&response);
        return r;
}

int llm_probe(void *data, const struct sbx_probe_events *events, const struct sbx_call *call) {
        const struct llm_instance *instance = data;
        const char *model = instance->settings.model;
        _cleanup_route_ struct llm_route route = {0};
        struct sbx_call bounded = {sizeof(bounded), -1, llm_now_ns() + PROBE_MAX_NS};
        struct sbx_error err = {0};
        char detail[512];
        int r;

        if (model == NULL) {
                report(events, SBX_PROBE_WARNING, "model", "none is configured",
                       "Set model, as in model = \"openai/gpt-4o-mini\".");
                return 0;
        }
        r = llm_route_find(&instance->settings, model, &route, &err);
        if (r < 0) {
                /* Without a key everything but run and agent works. */
                report(events, r == -EACCES ? SBX_PROBE_WARNING : SBX_PROBE_FAILED, "route", err.message, err.hint);
                return r == -EACCES ? 0 : r;
        }
        snprintf(detail, sizeof(detail), "%s is asked at %s%s%s", model, route.place,
                 route.key != NULL ? " with the key of " : "",
                 route.key != NULL ? route.key_variable : ", without a key");
        report(events, SBX_PROBE_OK, "route", detail, NULL);
        if (route.check_url == NULL) {
                report(events, SBX_PROBE_OK, "provider", "not asked: every request to it costs something", NULL);
                return 0;
        }
        if (call != NULL) {
                bounded.cancel_fd = call->cancel_fd;
                if (call->deadline_ns != 0 && call->deadline_ns < bounded.deadline_ns)
                        bounded.deadline_ns = call->deadline_ns;
        }
        return check_key(instance, &route, events, &bounded);
}

/* The route says all: provider, address, and the key that it needs. */
int llm_available(void *data, const char *model, struct sbx_error *err) {
        const struct llm_instance *instance = data;
        _cleanup_route_ struct llm_route route = {0};

        if (model == NULL)
                model = instance->settings.model;
        if (model == NULL)
                return sbx_error_set(err, -EINVAL, LLM_ORIGIN, "Set model, as in model = \"openai/gpt-4o-mini\".",
                                     "no model is named");
        return llm_route_find(&instance->settings, model, &route, err);
}
