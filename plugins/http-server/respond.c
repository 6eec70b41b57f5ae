/* SPDX-License-Identifier: Apache-2.0 */
/* Responses: of handlers, and of the server itself when it refuses. */
#include "internal.h"

static bool is_set(const struct hs_header *headers, const char *name) {
        for (; headers != NULL && headers->name != NULL; headers++)
                if (strcasecmp(headers->name, name) == 0)
                        return true;
        return false;
}

static void add(struct MHD_Response *response, const char *name, const char *value) {
        (void)MHD_add_response_header(response, name, value);
}

static void add_cors(const struct hs_exchange *exchange, struct MHD_Response *response) {
        if (exchange->origin == NULL)
                return;
        add(response, "Access-Control-Allow-Origin", exchange->origin);
        add(response, "Access-Control-Expose-Headers", "Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate");
        add(response, "Vary", "Origin");
}

void hs_response_dress(const struct hs_exchange *exchange, const struct hs_header *headers,
                       struct MHD_Response *response) {
        for (const struct hs_header *header = headers; header != NULL && header->name != NULL; header++)
                if (MHD_add_response_header(response, header->name, header->value) != MHD_YES)
                        hs_log(exchange->server, SBX_LOG_ERROR, "a response's header %s has a value that can't be sent",
                               header->name);
        if (!is_set(headers, "X-Content-Type-Options"))
                add(response, "X-Content-Type-Options", "nosniff");
        add_cors(exchange, response);
        /* What comes behind a chunked request is never read as another one: libmicrohttpd takes line ends and
         * extensions in its framing that a proxy may see otherwise. */
        if (exchange->chunked || exchange->refused.close || atomic_load(&exchange->server->draining))
                add(response, "Connection", "close");
}

struct MHD_Response *hs_response_new(const struct hs_exchange *exchange, const struct hs_header *headers,
                                     struct sbx_bytes body) {
        struct MHD_Response *response;
        void *copy = NULL;

        if (body.size > 0) {
                copy = malloc(body.size);
                if (copy == NULL)
                        return NULL;
                memcpy(copy, body.data, body.size);
        }
        response = MHD_create_response_from_buffer(body.size, copy,
                                                   copy != NULL ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
        if (response == NULL) {
                free(copy);
                return NULL;
        }
        hs_response_dress(exchange, headers, response);
        return response;
}

void hs_respond(struct hs_exchange *exchange, unsigned status, const struct hs_header *headers, struct sbx_bytes body) {
        struct MHD_Response *response;

        pthread_mutex_lock(&exchange->lock);
        if (!exchange->answered && exchange->connection != NULL) {
                exchange->answered = true;
                response = hs_response_new(exchange, headers, body);
                hs_count(exchange->server, HS_COUNT_OUT, body.size);
                exchange->response = response;
                exchange->status = status;
                exchange->abort |= response == NULL;
                if (exchange->suspended)
                        hs_post(exchange);
        }
        pthread_mutex_unlock(&exchange->lock);
}

/* The names that a page wants to send, if they are names at all. */
static void add_preflight(const struct hs_exchange *exchange, struct MHD_Response *response) {
        const char *wanted = hs_head_get(&exchange->head, "Access-Control-Request-Headers");
        const char *private = hs_head_get(&exchange->head, "Access-Control-Request-Private-Network");

        add(response, "Allow", exchange->route->methods);
        if (exchange->origin == NULL || hs_head_get(&exchange->head, "Access-Control-Request-Method") == NULL)
                return;
        add(response, "Access-Control-Allow-Methods", exchange->route->methods);
        add(response, "Access-Control-Max-Age", "600");
        if (wanted != NULL && hs_is_name_list(wanted))
                add(response, "Access-Control-Allow-Headers", wanted);
        if (private != NULL && strcmp(private, "true") == 0)
                add(response, "Access-Control-Allow-Private-Network", "true");
}

struct MHD_Response *hs_refusal_response(const struct hs_exchange *exchange) {
        static const struct hs_header json[] = {{"Content-Type", "application/json"}, {NULL, NULL}};
        const struct hs_refused *refused = &exchange->refused;
        struct MHD_Response *response;
        char text[512] = "", number[16];

        if (refused->message != NULL)
                snprintf(text, sizeof(text), "{\"error\":{\"message\":\"%s\",\"hint\":\"%s\"}}", refused->message,
                         refused->hint);
        hs_count(exchange->server, HS_COUNT_OUT, strlen(text));
        response = hs_response_new(exchange, refused->message != NULL ? json : NULL,
                                   (struct sbx_bytes){text, strlen(text)});
        if (response == NULL)
                return NULL;
        if (refused->status == MHD_HTTP_NO_CONTENT)
                add_preflight(exchange, response);
        if (refused->status == MHD_HTTP_METHOD_NOT_ALLOWED)
                add(response, "Allow", exchange->route->methods);
        if (exchange->challenge != NULL && exchange->challenge[0] != '\0')
                add(response, "WWW-Authenticate", exchange->challenge);
        if (refused->retry_after_s > 0) {
                snprintf(number, sizeof(number), "%u", refused->retry_after_s);
                add(response, "Retry-After", number);
        }
        return response;
}
