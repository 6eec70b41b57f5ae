/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a request may come in, by its head alone: well-formed, from an allowed host and origin, to a path that is
 * there, by somebody who may, not too often, not too large. In this order; the first that fails is the answer. */
#include <arpa/inet.h>

#include "internal.h"

#define METHOD_MAX 16
#define DISCARD_MAX 65536u /* of a refused request's body: more, and the connection is closed instead */
#define CHALLENGE_SIZE 1024

struct fields {
        struct hs_field list[HS_FIELDS_MAX];
        size_t value_sizes[HS_FIELDS_MAX];
        size_t count;
        bool too_many;
};

static enum MHD_Result collect(void *data, enum MHD_ValueKind kind, const char *name, size_t name_size,
                               const char *value, size_t value_size) {
        struct fields *fields = data;

        if (fields->count == HS_FIELDS_MAX) {
                fields->too_many = true;
                return MHD_NO;
        }
        fields->list[fields->count] = (struct hs_field){.name = name, .value = value};
        fields->value_sizes[fields->count++] = value_size;
        return MHD_YES;
}

static void refuse(struct hs_exchange *exchange, unsigned status, int reason, const char *message, const char *hint) {
        exchange->refused = (struct hs_refused){.status = status, .reason = reason, .message = message, .hint = hint};
}

static void malformed(struct hs_exchange *exchange, const char *message) {
        refuse(exchange, MHD_HTTP_BAD_REQUEST, HS_REFUSED_MALFORMED, message,
               "Send HTTP/1.1 as RFC 9112 has it: CRLF, one Content-Length, no folded lines.");
        exchange->refused.close = true;
}

static void read_head(struct hs_exchange *exchange, struct MHD_Connection *mhd, const char *method,
                      const char *version) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
        struct fields fields = {.count = 0};
        struct hs_parts parts = {
                .method = method,
                .uri = exchange->uri,
                .uri_size = exchange->uri_size,
                .version = version,
                .size = info != NULL ? info->header_size : 0,
                .fields = fields.list,
                .value_sizes = fields.value_sizes,
        };

        exchange->uri = NULL; /* the buffer is libmicrohttpd's */
        if (parts.size > exchange->server->limits.header_max) {
                refuse(exchange, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, HS_REFUSED_HEADER,
                       "the request's head is too large", "Send fewer or shorter header fields.");
                exchange->refused.close = true;
                return;
        }
        MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, collect, &fields);
        parts.count = fields.count;
        hs_count(exchange->server, HS_COUNT_IN, parts.size);
        if (fields.too_many) {
                refuse(exchange, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, HS_REFUSED_HEADER,
                       "the request has too many header fields", "Send fewer.");
                exchange->refused.close = true;
        } else if (!hs_head_is_strict(&parts)) {
                malformed(exchange, "the request's head is malformed");
        } else if (hs_head_copy(&parts, &exchange->head) < 0) {
                refuse(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, -1, "out of memory", "Come again later.");
                exchange->refused.close = true;
        }
}

/* Fields on which two readers must never differ. */
static bool has_doubles(const struct hs_exchange *exchange) {
        static const char *const once[] = {
                "Host", "Content-Length", "Transfer-Encoding", "Origin", "Authorization", "Content-Type", "Expect"};
        const char *ignored;

        for (size_t i = 0; i < sizeof(once) / sizeof(*once); i++)
                if (hs_head_find(&exchange->head, once[i], &ignored) > 1)
                        return true;
        return false;
}

static bool is_method(const char *method) {
        size_t size = strlen(method);

        return size > 0 && size <= METHOD_MAX && strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == size;
}

/* RFC 9110, 8.6: digits alone. Only its size is wanted here; SIZE_MAX: larger than any limit. */
static int parse_length(const char *text, size_t *ret) {
        size_t length = 0;

        if (*text == '\0')
                return -EINVAL;
        for (; *text != '\0'; text++) {
                if (*text < '0' || *text > '9')
                        return -EINVAL;
                length = length > (SIZE_MAX - 9) / 10 ? SIZE_MAX : length * 10 + (size_t)(*text - '0');
        }
        *ret = length;
        return 0;
}

static void check_framing(struct hs_exchange *exchange, const char *version) {
        const char *length = hs_head_get(&exchange->head, "Content-Length");
        const char *coding = hs_head_get(&exchange->head, "Transfer-Encoding");

        exchange->http10 = strcmp(version, "HTTP/1.0") == 0;
        if (strcmp(version, "HTTP/1.1") != 0 && !exchange->http10)
                malformed(exchange, "the request is of an unknown version of HTTP");
        else if (!is_method(exchange->head.method))
                malformed(exchange, "the request's method is malformed");
        else if (has_doubles(exchange))
                malformed(exchange, "a header field that may be there once is there twice");
        else if (length != NULL && coding != NULL)
                malformed(exchange, "the request has both Content-Length and Transfer-Encoding");
        else if (coding != NULL && (exchange->http10 || strcasecmp(coding, "chunked") != 0))
                malformed(exchange, "the request's Transfer-Encoding is not \\\"chunked\\\"");
        else if (length != NULL && parse_length(length, &exchange->body_expected) < 0)
                malformed(exchange, "the request's Content-Length is malformed");
        exchange->chunked = coding != NULL;
}

/* The address that the client reached, as a Host would have it. */
static const char *local_host(const struct hs_exchange *exchange, char buffer[HS_ADDRESS_SIZE + 2]) {
        struct sockaddr_storage local = {0};
        socklen_t size = sizeof(local);
        char text[HS_ADDRESS_SIZE];

        if (getsockname(exchange->connection->fd, (struct sockaddr *)&local, &size) < 0)
                return NULL;
        if (local.ss_family == AF_INET &&
            inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)&local)->sin_addr, text, sizeof(text)) != NULL)
                snprintf(buffer, HS_ADDRESS_SIZE + 2, "%s", text);
        else if (local.ss_family == AF_INET6 &&
                 inet_ntop(AF_INET6, &((struct sockaddr_in6 *)(void *)&local)->sin6_addr, text, sizeof(text)) != NULL)
                snprintf(buffer, HS_ADDRESS_SIZE + 2, "[%s]", text);
        else
                return NULL;
        return buffer;
}

static void check_host(struct hs_exchange *exchange) {
        const char *host = hs_head_get(&exchange->head, "Host");
        const struct hs_guard *guard = &exchange->server->guard;
        char local[HS_ADDRESS_SIZE + 2];
        int r;

        if (host == NULL) {
                if (!exchange->http10)
                        malformed(exchange, "the request has no Host");
                return;
        }
        r = hs_guard_host(guard, host, NULL);
        if (r == -EACCES)
                r = hs_guard_host(guard, host, local_host(exchange, local));
        if (r == -EINVAL)
                malformed(exchange, "the request's Host is malformed");
        else if (r < 0)
                refuse(exchange, MHD_HTTP_FORBIDDEN, HS_REFUSED_HOST, "this server is not known by that Host",
                       "Use the address that the server listens on, or have its operator allow the name (hosts).");
}

static void check_origin(struct hs_exchange *exchange) {
        const char *origin = hs_head_get(&exchange->head, "Origin");

        if (origin == NULL)
                return;
        if (hs_guard_origin(&exchange->server->guard, origin) < 0)
                refuse(exchange, MHD_HTTP_FORBIDDEN, HS_REFUSED_ORIGIN, "pages of that Origin are not allowed here",
                       "Have the server's operator allow the origin (origins).");
        else
                exchange->origin = origin;
}

static bool has_method(const char *methods, const char *method) {
        size_t size = strlen(method);

        for (const char *at = methods; *at != '\0';) {
                size_t length = strcspn(at, ", ");

                if (length == size && memcmp(at, method, size) == 0)
                        return true;
                at += length;
                at += strspn(at, ", ");
        }
        return false;
}

static void check_route(struct hs_exchange *exchange) {
        const struct hs_route *route = exchange->server->routes;

        while (route->path != NULL && strcmp(route->path, exchange->target.path) != 0)
                route++;
        if (route->path == NULL) {
                refuse(exchange, MHD_HTTP_NOT_FOUND, HS_REFUSED_PATH, "there is nothing at this path",
                       "Check the address.");
                return;
        }
        exchange->route = route;
        if (strcmp(exchange->head.method, "OPTIONS") == 0)
                refuse(exchange, MHD_HTTP_NO_CONTENT, -1, NULL, NULL);
        else if (!has_method(route->methods, exchange->head.method))
                refuse(exchange, MHD_HTTP_METHOD_NOT_ALLOWED, HS_REFUSED_METHOD, "the path does not have this method",
                       "See the Allow header for those that it has.");
}

static void too_often(struct hs_exchange *exchange, unsigned wait_s) {
        refuse(exchange, MHD_HTTP_TOO_MANY_REQUESTS, HS_REFUSED_RATE, "too many requests", "Wait as Retry-After says.");
        exchange->refused.retry_after_s = wait_s;
}

static void not_let_in(struct hs_exchange *exchange, enum hs_auth_result result) {
        if (result == HS_AUTH_FORBIDDEN)
                refuse(exchange, MHD_HTTP_FORBIDDEN, HS_REFUSED_SCOPE, "the token lacks a scope",
                       "Get a token with the scopes that WWW-Authenticate names.");
        else if (result == HS_AUTH_LATER)
                refuse(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, HS_REFUSED_TOKEN,
                       "the token can't be checked now: the issuer's keys are not at hand", "Come again in a moment.");
        else
                refuse(exchange, MHD_HTTP_UNAUTHORIZED, HS_REFUSED_TOKEN,
                       result == HS_AUTH_MISSING ? "a token is required" : "the token is not valid",
                       "Send \\\"Authorization: Bearer TOKEN\\\" with a token of this server.");
        if (result == HS_AUTH_LATER)
                exchange->refused.retry_after_s = 1;
}

/* Failed attempts are the address's, all else the principal's. */
static void check_token(struct hs_exchange *exchange) {
        struct hs_server *server = exchange->server;
        char challenge[CHALLENGE_SIZE] = "";
        bool public = (exchange->route->flags & HS_ROUTE_PUBLIC) != 0;
        unsigned wait_s = 0;

        if (!public && server->auth != NULL) {
                enum hs_auth_result result;

                if (server->rate != NULL)
                        wait_s = hs_rate_peek(server->rate, exchange->rate_key, server->now_ns);
                if (wait_s > 0) {
                        too_often(exchange, wait_s);
                        return;
                }
                result = hs_auth_check(server->auth, hs_head_get(&exchange->head, "Authorization"), exchange->principal,
                                       challenge, sizeof(challenge));
                if (result != HS_AUTH_OK) {
                        exchange->principal[0] = '\0';
                        exchange->challenge = strdup(challenge);
                        not_let_in(exchange, result);
                }
        }
        if (server->rate != NULL)
                wait_s = hs_rate_take(server->rate,
                                      exchange->principal[0] != '\0' ? exchange->principal : exchange->rate_key,
                                      server->now_ns);
        if (wait_s > 0 && exchange->refused.status == 0)
                too_often(exchange, wait_s);
}

static void check_size(struct hs_exchange *exchange) {
        if (exchange->body_expected <= exchange->server->limits.body_max)
                return;
        refuse(exchange, MHD_HTTP_CONTENT_TOO_LARGE, HS_REFUSED_BODY, "the request's body is too large",
               "Send less at once.");
        exchange->refused.close = true;
}

static void check_draining(struct hs_exchange *exchange) {
        if (!atomic_load(&exchange->server->draining))
                return;
        refuse(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, -1, "the server is stopping", "Come again later.");
        exchange->refused.close = true;
}

/* A refused request's body is read and thrown away if it is small, so that the connection can be used on. */
static void decide_on_body(struct hs_exchange *exchange) {
        if (exchange->refused.status != 0 && (exchange->chunked || exchange->body_expected > DISCARD_MAX ||
                                              hs_head_get(&exchange->head, "Expect") != NULL))
                exchange->refused.close = true;
}

void hs_check(struct hs_exchange *exchange, struct MHD_Connection *mhd, const char *method, const char *version) {
        static void (*const checks[])(struct hs_exchange * exchange) = {
                check_host, check_origin, check_draining, check_route, check_token, check_size,
        };

        if (exchange->refused.status == 0)
                read_head(exchange, mhd, method, version);
        if (exchange->refused.status == 0)
                check_framing(exchange, version);
        for (size_t i = 0; i < sizeof(checks) / sizeof(*checks) && exchange->refused.status == 0; i++)
                checks[i](exchange);
        decide_on_body(exchange);
}
