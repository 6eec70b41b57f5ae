/* SPDX-License-Identifier: Apache-2.0 */
/* Streams to containers: a request whose connection is handed over ("hijacked", as the Engine API calls it). */
#include "engine_internal.h"

struct engine_stream {
        struct sbx_http_stream *http;
};

static int take_over(struct engine *engine, const struct sbx_http_request *ask, const char *path,
                     const struct sbx_call *call, struct engine_stream *stream, struct sbx_error *err) {
        struct sbx_call bound = engine_bound(engine, call, 0);
        struct sbx_http_response response;
        struct sbx_error cause = {0};
        int r = sbx_http_stream_open(engine->http, ask, "tcp", &bound, &stream->http, &response, &cause);

        if (r < 0)
                r = engine_away(engine, r, &cause, err);
        else if (stream->http == NULL)
                r = engine_refused(engine, ask->method, path, response.status,
                                   (struct sbx_bytes){response.body, response.body_size}, err);
        sbx_http_response_clear(&response);
        return r;
}

int engine_stream_open(struct engine *engine, const char *method, const char *path, const json_t *body,
                       const struct sbx_call *call, struct engine_stream **ret_stream, struct sbx_error *err) {
        static const char *const headers[] = {"Content-Type: application/json", NULL};
        struct engine_stream *stream = calloc(1, sizeof(*stream));
        _cleanup_free_ char *url = NULL, *text = NULL;
        struct sbx_http_request ask = {.method = method};
        int r;

        if (body != NULL) {
                text = json_dumps(body, JSON_COMPACT);
                ask.headers = headers;
                ask.body = (struct sbx_bytes){text, text != NULL ? strlen(text) : 0};
        }
        if (asprintf(&url, "%s/v%s%s", engine->base, engine->info.api_version, path) < 0)
                url = NULL;
        if (stream == NULL || url == NULL || (body != NULL && text == NULL)) {
                free(stream);
                return sbx_error_set(err, -ENOMEM, ENGINE_ORIGIN, NULL, "out of memory");
        }
        ask.url = url;
        r = take_over(engine, &ask, path, call, stream, err);
        if (r < 0) {
                free(stream);
                return r;
        }
        *ret_stream = stream;
        return 0;
}

void engine_stream_free(struct engine_stream *stream) {
        if (stream == NULL)
                return;
        sbx_http_stream_free(stream->http);
        free(stream);
}

int engine_stream_fd(const struct engine_stream *stream) {
        return sbx_http_stream_fd(stream->http);
}

ssize_t engine_stream_send(struct engine_stream *stream, const void *data, size_t size) {
        return sbx_http_stream_send(stream->http, data, size);
}

ssize_t engine_stream_receive(struct engine_stream *stream, void *data, size_t size) {
        return sbx_http_stream_receive(stream->http, data, size);
}
