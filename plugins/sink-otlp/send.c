/* SPDX-License-Identifier: Apache-2.0 */
/* An ExportTraceServiceRequest over HTTP, as JSON. */
#include "send.h"

#include <string.h>

#include "util.h"

#define ANSWER_MAX ((size_t)256 << 10)

int otlp_http_new(const struct sbx_host *host, const struct otlp_settings *settings, struct sbx_http **ret_http,
                  struct sbx_error *err) {
        char user_agent[96];
        struct sbx_http_options options = {
                .origin = OTLP_ORIGIN,
                .user_agent = user_agent,
                .ca_file = settings->ca_file,
                .connect_timeout_ms = settings->timeout_ms,
        };

        snprintf(user_agent, sizeof(user_agent), "snipara-sandbox-otlp/%s", host->version);
        return sbx_http_new(&options, ret_http, err);
}

static char *append(char *out, const char *text) {
        size_t size = strlen(text);

        memcpy(out, text, size);
        return out + size;
}

/* {"resourceSpans": [{"resource": ..., "scopeSpans": [{"scope": ..., "spans": [...]}]}]} */
static char *make_body(const struct otlp_settings *settings, char *const *spans, size_t count, size_t *ret_size) {
        static const char
                empty[] = "{\"resourceSpans\":[]}",
                head[] = "{\"resourceSpans\":[{\"resource\":{\"attributes\":",
                scope[] = "},\"scopeSpans\":[{\"scope\":{\"name\":\"snipara-sandbox\",\"version\":\"" SBX_VERSION
                          "\"},\"spans\":[",
                tail[] = "]}]}]}";
        _cleanup_free_ char *resource = json_dumps(settings->resource, JSON_COMPACT);
        size_t size;
        char *body, *out;

        if (resource == NULL)
                return NULL;
        size = sizeof(head) + strlen(resource) + sizeof(scope) + sizeof(tail) + sizeof(empty);
        for (size_t i = 0; i < count; i++)
                size += strlen(spans[i]) + 1;
        out = body = malloc(size);
        if (body == NULL)
                return NULL;
        if (count > 0)
                out = append(append(append(out, head), resource), scope);
        for (size_t i = 0; i < count; i++)
                out = append(i > 0 ? append(out, ",") : out, spans[i]);
        out = append(out, count > 0 ? tail : empty);
        *ret_size = (size_t)(out - body);
        return body;
}

void otlp_send(struct sbx_http *http, const struct otlp_settings *settings, char *const *spans, size_t count,
               const struct sbx_call *call, struct otlp_answer *ret_answer) {
        struct sbx_http_request request = {
                .method = "POST",
                .url = settings->url,
                .headers = (const char *const *)settings->headers,
                .response_max_bytes = ANSWER_MAX,
        };
        struct sbx_http_response response = {.status = 0};
        struct sbx_error problem = {0};
        _cleanup_free_ char *body = make_body(settings, spans, count, &request.body.size);
        int r = -ENOMEM;

        request.body.data = body;
        if (body != NULL)
                r = sbx_http_perform(http, &request, call, &response, &problem);
        else
                sbx_error_set(&problem, r, OTLP_ORIGIN, NULL, "no memory for a request of %zu spans", count);
        otlp_answer_read(settings, r, &problem, &response, ret_answer);
        sbx_http_response_clear(&response);
}
