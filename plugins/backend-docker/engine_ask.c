/* SPDX-License-Identifier: Apache-2.0 */
/* One question to the engine: a request with a deadline, and JSON that comes back. */
#include "engine_internal.h"

int engine_escape(char *text, size_t size, const char *part) {
        static const char hex[] = "0123456789ABCDEF";
        size_t used = strnlen(text, size);

        for (; *part != '\0'; part++) {
                unsigned char c = (unsigned char)*part;
                bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                             c == '.' || c == '_' || c == '~';

                if (used + (plain ? 1 : 3) >= size)
                        return -ENAMETOOLONG;
                if (!plain) {
                        text[used++] = '%';
                        text[used++] = hex[c >> 4];
                        text[used++] = hex[c & 15];
                } else
                        text[used++] = (char)c;
                text[used] = '\0';
        }
        return 0;
}

struct sbx_call engine_bound(const struct engine *engine, const struct sbx_call *call, uint64_t timeout_ms) {
        struct sbx_call bound = {.struct_size = sizeof(bound), .cancel_fd = -1};
        uint64_t now = monotonic_ns();

        if (call != NULL) {
                bound.cancel_fd = call->cancel_fd;
                bound.deadline_ns = call->deadline_ns;
        }
        if (timeout_ms == 0)
                timeout_ms = engine->timeout_ms;
        if (timeout_ms != UINT64_MAX && timeout_ms < (UINT64_MAX - now) / ENGINE_NS_PER_MS) {
                uint64_t until = now + timeout_ms * ENGINE_NS_PER_MS;

                if (bound.deadline_ns == 0 || until < bound.deadline_ns)
                        bound.deadline_ns = until;
        }
        return bound;
}

static int take_piece(void *data, struct sbx_bytes piece) {
        return engine_items_take(data, piece);
}

static int not_json(const struct engine *engine, const struct engine_request *request, struct sbx_error *err) {
        return sbx_error_set(err, -EPROTO, ENGINE_ORIGIN,
                             "Check that a container engine listens there: snipara-sandbox doctor.",
                             "%s answered %s %.*s with something that is not JSON", engine->info.place.address,
                             request->method, (int)strcspn(request->path, "?"), request->path);
}

static int take_answer(const struct engine *engine, const struct engine_request *request,
                       const struct sbx_http_response *response, const struct engine_items *items, json_t **ret_answer,
                       struct sbx_error *err) {
        json_t *answer = NULL;
        bool blank = response->body == NULL || strspn(response->body, " \t\r\n") == response->body_size;

        if (response->status == 304)
                blank = true;
        else if (response->status < 200 || response->status > 299)
                return engine_refused(engine, request->method, request->path, response->status,
                                      (struct sbx_bytes){response->body, response->body_size}, err);
        if (request->item != NULL && !engine_items_whole(items))
                return not_json(engine, request, err);
        if (ret_answer == NULL)
                return 0;
        if (!blank) {
                answer =
                        json_loadb(response->body, response->body_size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
                if (answer == NULL)
                        return not_json(engine, request, err);
        }
        *ret_answer = answer;
        return 0;
}

/* What `item` returned is the reason of the one who asked, who tells it better. */
static int no_answer(const struct engine *engine, const struct engine_items *items, int code,
                     const struct sbx_error *cause, struct sbx_error *err) {
        if (items->stopped < 0)
                return sbx_error_set(err, items->stopped, ENGINE_ORIGIN, "Ask again when it is wanted.",
                                     "what %s tells was not read to its end", engine->info.place.address);
        return engine_away(engine, code, cause, err);
}

int engine_ask_at(struct engine *engine, const char *prefix, const struct engine_request *request,
                  const struct sbx_call *call, json_t **ret_answer, struct sbx_error *err) {
        struct engine_items items = {.item = request->item, .data = request->data};
        struct sbx_call bound = engine_bound(engine, call, request->timeout_ms);
        _cleanup_free_ char *url = NULL, *body = NULL, *type = NULL;
        const char *headers[3] = {NULL};
        struct sbx_http_response response;
        struct sbx_http_request ask = {
                .method = request->method,
                .headers = headers,
                .body = request->body,
                .response_max_bytes = request->answer_max_bytes > 0 ? request->answer_max_bytes
                                      : request->item != NULL       ? ENGINE_ITEMS_MAX
                                                                    : ENGINE_ANSWER_MAX,
                .piece = request->item != NULL ? take_piece : NULL,
                .data = &items,
        };
        struct sbx_error cause = {0};
        size_t count = 0;
        int r;

        if (request->json != NULL) {
                body = json_dumps(request->json, JSON_COMPACT | JSON_ENCODE_ANY);
                ask.body = (struct sbx_bytes){body, body != NULL ? strlen(body) : 0};
        }
        if (asprintf(&url, "%s%s%s", engine->base, prefix, request->path) < 0)
                url = NULL;
        if (asprintf(&type, "Content-Type: %s",
                     request->json != NULL || request->content_type == NULL ? "application/json"
                                                                            : request->content_type) < 0)
                type = NULL;
        if (url == NULL || type == NULL || (request->json != NULL && body == NULL))
                return sbx_error_set(err, -ENOMEM, ENGINE_ORIGIN, NULL, "out of memory");
        ask.url = url;
        if (ask.body.size > 0)
                headers[count++] = type;
        if (request->header != NULL)
                headers[count++] = request->header;
        r = sbx_http_perform(engine->http, &ask, &bound, &response, &cause);
        if (r < 0)
                r = no_answer(engine, &items, r, &cause, err);
        else
                r = take_answer(engine, request, &response, &items, ret_answer, err);
        sbx_http_response_clear(&response);
        engine_items_clear(&items);
        return r;
}

int engine_ask(struct engine *engine, const struct engine_request *request, const struct sbx_call *call,
               json_t **ret_answer, struct sbx_error *err) {
        char version[32];

        snprintf(version, sizeof(version), "/v%s", engine->info.api_version);
        return engine_ask_at(engine, version, request, call, ret_answer, err);
}
