/* SPDX-License-Identifier: Apache-2.0 */
/* The life of MCP over HTTP: what it is made of, serving until told to end, and ending so that nobody is left without
 * an answer. */
#include "serve_http.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "http_private.h"
#include "subscriptions.h"

#define WELL_KNOWN "/.well-known/oauth-protected-resource"
/* How long the last responses may take to reach their clients. */
#define LINGER_MS 1000u
/* A stream takes the largest answer there is behind events that wait already: what is more is for clients that do not
 * read. */
#define STREAM_ROOM ((size_t)64 << 20)

uint64_t http_now_ns(const struct mcp_http *http) {
        return http->host->clock_ns(http->host->self);
}

bool http_is_stopping(struct mcp_http *http) {
        bool stopping;

        pthread_mutex_lock(&http->lock);
        stopping = http->stopping;
        pthread_mutex_unlock(&http->lock);
        return stopping;
}

/* ---- what it is made of ---- */

static void log_message(void *data, int level, const char *message) {
        const struct mcp_http *http = data;

        http->host->log(http->host->self, level, message);
}

static void tools_changed(void *data, const struct sbx_change *change) {
        struct mcp_http *http = data;

        if (change->kind == SBX_CHANGE_TOOLS)
                __atomic_store_n(&http->params.out_dated, 1, __ATOMIC_RELEASE);
}

/* RFC 9728, section 3.1: the well-known path stands between the host and the path of the resource. */
static int make_metadata_places(struct mcp_http *http, struct sbx_error *err) {
        const char *audience = http->settings->audience, *host = strstr(audience, "://"), *path;

        if (host == NULL || host[3] == '\0' || host[3] == '/')
                return sbx_error_set(err, -EINVAL, "transport-mcp",
                                     "Set http.audience to the address that clients use, \"https://HOST/mcp\".",
                                     "http.audience \"%.256s\" is no address", audience);
        path = strchr(host + 3, '/');
        if (path == NULL || path[1] == '\0')
                path = "";
        if (asprintf(&http->metadata_path, "%s%s", WELL_KNOWN, http->settings->path) < 0)
                http->metadata_path = NULL;
        if (asprintf(&http->metadata_url, "%.*s%s%s", (int)(strcspn(host + 3, "/") + (size_t)(host + 3 - audience)),
                     audience, WELL_KNOWN, path) < 0)
                http->metadata_url = NULL;
        if (http->metadata_path == NULL || http->metadata_url == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for the server");
        return 0;
}

static int make_auth(struct mcp_http *http, struct sbx_error *err) {
        const struct mcp_http_settings *settings = http->settings;
        struct hs_auth_settings auth = {
                .token_file = settings->token_file,
                .issuer = settings->issuer,
                .audience = settings->audience,
                .jwks = settings->jwks,
                .scopes = settings->scopes,
                .log = log_message,
                .log_data = http,
        };
        int r = 0;

        if ((settings->issuer != NULL) != (settings->audience != NULL) ||
            (settings->issuer != NULL) != (settings->jwks != NULL))
                return sbx_error_set(err, -EINVAL, "transport-mcp",
                                     "Set http.issuer, http.audience and http.jwks, or none of them.",
                                     "JSON Web Tokens need all three");
        if (settings->issuer == NULL && settings->token_file == NULL)
                return 0;
        if (settings->issuer != NULL)
                r = make_metadata_places(http, err);
        auth.metadata_url = http->metadata_url;
        if (r == 0)
                r = hs_auth_new(&auth, &http->auth, err);
        if (r == 0 && settings->issuer != NULL)
                r = hs_auth_metadata(http->auth, settings->audience, &http->metadata);
        return r;
}

static void make_routes(struct mcp_http *http) {
        size_t count = 0;

        http->routes[count++] = (struct hs_route){http->settings->path, "GET, POST, DELETE", 0, http, http_handle};
        http->routes[count++] = (struct hs_route){"/healthz", "GET", HS_ROUTE_PUBLIC, http, http_health};
        http->routes[count++] = (struct hs_route){"/readyz", "GET", HS_ROUTE_PUBLIC, http, http_ready};
        http->routes[count++] = (struct hs_route){"/metrics", "GET", 0, http, http_metrics};
        if (http->metadata != NULL) {
                http->routes[count++] = (struct hs_route){WELL_KNOWN, "GET", HS_ROUTE_PUBLIC, http, http_metadata};
                http->routes[count++] =
                        (struct hs_route){http->metadata_path, "GET", HS_ROUTE_PUBLIC, http, http_metadata};
        }
        http->routes[count] = (struct hs_route){NULL, NULL, 0, NULL, NULL};
}

static int start_server(struct mcp_http *http, struct sbx_error *err) {
        const struct mcp_http_settings *settings = http->settings;
        const struct hs_settings hs = {
                .listen = settings->listen,
                .tls_certificate = settings->tls_certificate,
                .tls_key = settings->tls_key,
                .hosts = settings->hosts,
                .origins = settings->origins,
                .auth = http->auth,
                .body_max = settings->message_max,
                .connections_max = settings->connections_max,
                .rate_per_second = settings->rate_per_second,
                .stream_max = settings->message_max + STREAM_ROOM,
                .log = log_message,
                .log_data = http,
        };

        struct hs_server *server = NULL;
        int r;

        make_routes(http);
        r = hs_server_start(&hs, http->routes, &server, err);
        /* Requests may be here already. */
        __atomic_store_n(&http->hs, server, __ATOMIC_RELEASE);
        return r;
}

static void http_free(struct mcp_http *http) {
        hs_server_free(http->hs);
        http->host->unwatch(http->host->self, http->watch);
        hs_auth_free(http->auth);
        http_params_free(&http->params);
        free(http->metadata);
        free(http->metadata_path);
        free(http->metadata_url);
        pthread_cond_destroy(&http->changed);
        pthread_mutex_destroy(&http->lock);
        free(http);
}

static int check_path(const char *path, struct sbx_error *err) {
        static const char *const taken[] = {"/healthz", "/readyz", "/metrics", WELL_KNOWN};
        size_t size = strlen(path);
        bool good = path[0] == '/' && (size == 1 || path[size - 1] != '/') &&
                    strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._~-") == size;

        for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
                good = good && strcmp(path, taken[i]) != 0;
        return good ? 0
                    : sbx_error_set(
                              err, -EINVAL, "transport-mcp",
                              "Use one like \"/mcp\": letters, digits, and \"/._~-\", without a slash at its end.",
                              "http.path \"%.256s\" can't be served", path);
}

static int http_new(struct mcp_server *server, const struct mcp_http_settings *settings, struct mcp_http **ret_http,
                    struct sbx_error *err) {
        struct mcp_http *http;
        int r = check_path(settings->path, err);

        if (r < 0)
                return r;
        http = calloc(1, sizeof(*http));
        if (http == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for the server");
        http->server = server;
        http->host = mcp_server_settings(server)->host;
        http->settings = settings;
        pthread_mutex_init(&http->lock, NULL);
        pthread_cond_init(&http->changed, NULL);
        r = http->host->watch(http->host->self, tools_changed, http, &http->watch, err);
        if (r == 0)
                r = make_auth(http, err);
        if (r < 0) {
                http_free(http);
                return r;
        }
        *ret_http = http;
        return 0;
}

/* ---- serving ---- */

static int tell_address(const struct mcp_http *http, int output_fd, struct sbx_error *err) {
        char *line = NULL;
        size_t size, done = 0;
        int r = 0;

        if (output_fd < 0)
                return 0;
        if (asprintf(&line, "%s%s\n", hs_server_url(http->hs), http->settings->path) < 0)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for the server's address");
        for (size = strlen(line); done < size && r == 0;) {
                ssize_t n = write(output_fd, line + done, size - done);

                if (n > 0)
                        done += (size_t)n;
                else if (n < 0 && errno != EINTR)
                        r = sbx_error_set(err, -errno, "transport-mcp", NULL, "the address can't be written: %s",
                                          strerror(errno));
        }
        free(line);
        return r;
}

/* Milliseconds for poll; -1: no end. */
static int time_left(const struct mcp_http *http, const struct sbx_call *call) {
        uint64_t now_ns = http_now_ns(http);

        if (call == NULL || call->deadline_ns == 0)
                return -1;
        if (call->deadline_ns <= now_ns)
                return 0;
        return call->deadline_ns - now_ns > 3600 * HTTP_SECOND_NS
                       ? 3600000
                       : (int)((call->deadline_ns - now_ns + 999999) / 1000000);
}

static int wait_for_end(const struct mcp_http *http, const struct sbx_call *call, struct sbx_error *err) {
        struct pollfd fd = {.fd = call != NULL ? call->cancel_fd : -1, .events = POLLIN};
        int timeout;

        for (;;) {
                timeout = time_left(http, call);
                if (poll(&fd, 1, timeout) < 0 && errno != EINTR)
                        return sbx_error_set(err, -errno, "transport-mcp", NULL, "poll: %s", strerror(errno));
                if (fd.revents != 0)
                        return 0;
                if (timeout == 0)
                        return sbx_error_set(err, -ETIMEDOUT, "transport-mcp", NULL, "the time to serve is over");
        }
}

/* ---- ending ---- */

/* What clients wait for may end by itself. */
static void wait_for_answers(struct mcp_http *http) {
        uint64_t until_ns = http_now_ns(http) + http->settings->shutdown_ms * UINT64_C(1000000);
        struct timespec now, until;
        uint64_t now_ns;

        clock_gettime(CLOCK_MONOTONIC, &now);
        now_ns = (uint64_t)now.tv_sec * HTTP_SECOND_NS + (uint64_t)now.tv_nsec +
                 http->settings->shutdown_ms * UINT64_C(1000000);
        until = (struct timespec){.tv_sec = (time_t)(now_ns / HTTP_SECOND_NS),
                                  .tv_nsec = (long)(now_ns % HTTP_SECOND_NS)};
        pthread_mutex_lock(&http->lock);
        http->stopping = true;
        while (http->unanswered > 0 && http_now_ns(http) < until_ns)
                if (pthread_cond_clockwait(&http->changed, &http->lock, CLOCK_MONOTONIC, &until) != 0)
                        break;
        pthread_mutex_unlock(&http->lock);
}

static void cancel_one(struct http_exchange *exchange, uint64_t now_ns) {
        http_exchange_cancel(exchange);
}

static void wait_for_nobody(struct mcp_http *http) {
        pthread_mutex_lock(&http->lock);
        while (http->exchanges_alive > 0 || http->sessions_alive > 0)
                pthread_cond_wait(&http->changed, &http->lock);
        pthread_mutex_unlock(&http->lock);
}

static void end(struct mcp_http *http) {
        hs_server_drain(http->hs);
        wait_for_answers(http);
        /* Those who listen get the end of their stream in its own words. */
        mcp_subscriptions_stop(mcp_server_subscriptions(http->server));
        http_sessions_close_all(http);
        http_each_exchange(http, cancel_one);
        wait_for_nobody(http);
        hs_server_stop(http->hs, LINGER_MS);
}

static int serve(struct mcp_http *http, int output_fd, const struct sbx_call *call, struct sbx_error *err) {
        int r = http_keeper_start(http, err);

        if (r < 0)
                return r;
        r = start_server(http, err);
        if (r == 0) {
                r = tell_address(http, output_fd, err);
                if (r == 0)
                        r = wait_for_end(http, call, err);
                end(http);
        }
        http_keeper_stop(http);
        return r;
}

int mcp_http_serve(struct mcp_server *server, const struct mcp_http_settings *settings, int output_fd,
                   const struct sbx_call *call, struct sbx_error *err) {
        struct mcp_http *http = NULL;
        int r = http_new(server, settings, &http, err);

        if (r < 0)
                return r;
        r = serve(http, output_fd, call, err);
        http_free(http);
        return r;
}
