/* SPDX-License-Identifier: Apache-2.0 */
/* The server: its settings, its life, its figures. */
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "tls.h"

#define MIB (1024u * 1024u)
#define DEFAULT_BODY_MAX (32u * MIB)
#define DEFAULT_HEADER_MAX (32u * 1024u)
#define DEFAULT_CONNECTIONS_MAX 1024u
#define DEFAULT_IDLE_MS 120000u
#define DEFAULT_REQUEST_MS 30000u
#define DEFAULT_WRITE_MS 30000u
#define DEFAULT_STREAM_MAX (4u * MIB)
/* Bodies of all requests together, so that many connections are no way round body_max. */
#define BODIES_MAX_FACTOR 8
/* What libmicrohttpd keeps in a connection's memory beside the head of the request: its list of fields, and the head of
 * the response. Bodies of requests and responses pass through what is left. */
#define MEMORY_BESIDE_HEAD (32u * 1024u)

uint64_t hs_now_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

int hs_thread_start(pthread_t *ret_thread, void *(*run)(void *data), void *data, struct sbx_error *err) {
        sigset_t all, before;
        int r;

        /* Signals are the program's. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(ret_thread, NULL, run, data);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (r != 0)
                return sbx_error_set(err, -r, HS_ORIGIN, NULL, "no thread can be started: %s", strerror(r));
        return 0;
}

void hs_log(const struct hs_server *server, int level, const char *format, ...) {
        char message[512];
        va_list args;

        if (server->log == NULL)
                return;
        va_start(args, format);
        if (vsnprintf(message, sizeof(message), format, args) < 0)
                message[0] = '\0';
        va_end(args);
        server->log(server->log_data, level, message);
}

void hs_count(struct hs_server *server, unsigned index, uint64_t amount) {
        atomic_fetch_add_explicit(&server->counts[index], amount, memory_order_relaxed);
}

void hs_count_refusal(struct hs_server *server, int reason) {
        if (reason >= 0)
                hs_count(server, HS_COUNT_REFUSED + (unsigned)reason, 1);
}

const char *hs_refusal_name(enum hs_refusal refusal) {
        static const char *const names[HS_REFUSALS] = {
                [HS_REFUSED_HOST] = "host",     [HS_REFUSED_ORIGIN] = "origin",
                [HS_REFUSED_TOKEN] = "token",   [HS_REFUSED_SCOPE] = "scope",
                [HS_REFUSED_RATE] = "rate",     [HS_REFUSED_BODY] = "body",
                [HS_REFUSED_HEADER] = "header", [HS_REFUSED_CONNECTIONS] = "connections",
                [HS_REFUSED_SLOW] = "slow",     [HS_REFUSED_MALFORMED] = "malformed",
                [HS_REFUSED_PATH] = "path",     [HS_REFUSED_METHOD] = "method",
        };

        return (unsigned)refusal < HS_REFUSALS ? names[refusal] : "";
}

void hs_server_counts(struct hs_server *server, struct hs_counts *ret) {
        uint64_t values[HS_COUNT_REFUSED + HS_REFUSALS];

        for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
                values[i] = atomic_load_explicit(&server->counts[i], memory_order_relaxed);
        *ret = (struct hs_counts){
                .connections = values[HS_COUNT_CONNECTIONS],
                .connections_open = atomic_load_explicit(&server->open, memory_order_relaxed),
                .requests = values[HS_COUNT_REQUESTS],
                .bytes_in = values[HS_COUNT_IN],
                .bytes_out = values[HS_COUNT_OUT],
        };
        for (size_t i = 0; i < HS_REFUSALS; i++)
                ret->refused[i] = values[HS_COUNT_REFUSED + i];
}

const char *hs_server_url(const struct hs_server *server) {
        return server->url;
}

static void set_limits(struct hs_server *server, const struct hs_settings *settings) {
        struct hs_limits *limits = &server->limits;
        unsigned idle_ms = settings->idle_timeout_ms > 0 ? settings->idle_timeout_ms : DEFAULT_IDLE_MS;
        unsigned request_ms = settings->request_timeout_ms > 0 ? settings->request_timeout_ms : DEFAULT_REQUEST_MS;
        unsigned write_ms = settings->write_timeout_ms > 0 ? settings->write_timeout_ms : DEFAULT_WRITE_MS;

        limits->body_max = settings->body_max > 0 ? settings->body_max : DEFAULT_BODY_MAX;
        limits->stream_max = settings->stream_max > 0 ? settings->stream_max : DEFAULT_STREAM_MAX;
        limits->header_max = settings->header_max > 0 ? settings->header_max : DEFAULT_HEADER_MAX;
        limits->connections_max = settings->connections_max > 0 ? settings->connections_max : DEFAULT_CONNECTIONS_MAX;
        limits->per_address_max = settings->per_address_max > 0 ? settings->per_address_max : limits->connections_max;
        limits->idle_ns = idle_ms * HS_NS_PER_MS;
        limits->request_ns = request_ms * HS_NS_PER_MS;
        limits->write_ns = write_ms * HS_NS_PER_MS;
}

/* libmicrohttpd says in its log what it refused by itself; the words hold what the client sent, so only the number of
 * the response is taken from it. */
static void note_library(void *data, const char *format, va_list args) {
        struct hs_server *server = data;
        static const char refused[] = "Error processing request (HTTP response code is %u";

        if (strncmp(format, refused, sizeof(refused) - 1) != 0)
                return;
        switch (va_arg(args, unsigned)) {
        case MHD_HTTP_URI_TOO_LONG:
        case MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE:
                hs_count_refusal(server, HS_REFUSED_HEADER);
                break;
        case MHD_HTTP_CONTENT_TOO_LARGE:
                hs_count_refusal(server, HS_REFUSED_BODY);
                break;
        default:
                hs_count_refusal(server, HS_REFUSED_MALFORMED);
                break;
        }
}

static int start_library(struct hs_server *server, const struct hs_tls *tls, struct sbx_error *err) {
        unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG;
        const struct MHD_OptionItem tls_options[] = {
                {MHD_OPTION_HTTPS_MEM_CERT, 0, tls->certificate},
                {MHD_OPTION_HTTPS_MEM_KEY, 0, tls->key},
                {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)HS_TLS_PRIORITIES},
                {MHD_OPTION_END, 0, NULL},
        };
        const struct MHD_OptionItem no_options[] = {{MHD_OPTION_END, 0, NULL}};

        if (server->tls)
                flags |= MHD_USE_TLS;
        server->daemon = MHD_start_daemon(
                flags, 0, NULL, NULL, hs_request_step, server, MHD_OPTION_EXTERNAL_LOGGER, note_library, server,
                MHD_OPTION_URI_LOG_CALLBACK, hs_request_begin, server, MHD_OPTION_NOTIFY_COMPLETED,
                hs_request_completed, server, MHD_OPTION_NOTIFY_CONNECTION, hs_connection_notify, server,
                MHD_OPTION_CONNECTION_LIMIT, (unsigned)INT32_MAX, MHD_OPTION_CONNECTION_TIMEOUT, 0u,
                MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)server->limits.header_max + MEMORY_BESIDE_HEAD,
                MHD_OPTION_ARRAY, server->tls ? tls_options : no_options, MHD_OPTION_END);
        if (server->daemon == NULL)
                return sbx_error_set(err, -EINVAL, HS_ORIGIN,
                                     "Check the installation of libmicrohttpd (epoll, and TLS if it is configured).",
                                     "libmicrohttpd %s can't be started", MHD_get_version());
        return 0;
}

static int check_settings(const struct hs_settings *settings, const struct hs_address *address, struct sbx_error *err) {
        if (settings->auth == NULL && !address->loopback)
                return sbx_error_set(err, -EINVAL, HS_ORIGIN,
                                     "Give a token file (or an issuer of JSON Web Tokens), or listen on 127.0.0.1.",
                                     "%s can be reached from other machines, and no token would be required",
                                     settings->listen);
        if ((settings->tls_certificate != NULL) != (settings->tls_key != NULL))
                return sbx_error_set(err, -EINVAL, HS_ORIGIN, "Give both files, or none for plain HTTP.",
                                     "a TLS certificate and its key belong together: the %s is missing",
                                     settings->tls_key == NULL ? "key" : "certificate");
        return 0;
}

static int set_url(struct hs_server *server, const struct hs_address *address, struct sbx_error *err) {
        struct sockaddr_storage bound = {0};
        socklen_t size = sizeof(bound);
        bool six = address->address.ss_family == AF_INET6;
        unsigned port;

        if (getsockname(server->listen_fd, (struct sockaddr *)&bound, &size) < 0)
                return sbx_error_set(err, -errno, HS_ORIGIN, NULL, "the port of the server can't be read");
        port = ntohs(six ? ((struct sockaddr_in6 *)(void *)&bound)->sin6_port
                         : ((struct sockaddr_in *)(void *)&bound)->sin_port);
        snprintf(server->url, sizeof(server->url), "%s://%s%s%s:%u", server->tls ? "https" : "http", six ? "[" : "",
                 address->host, six ? "]" : "", port);
        return 0;
}

static int set_guards(struct hs_server *server, const struct hs_settings *settings, const struct hs_address *address,
                      struct sbx_error *err) {
        const char *bad = NULL;
        unsigned burst = settings->rate_burst;
        int r = hs_guard_init(&server->guard, address->host, settings->hosts, settings->origins, &bad);

        if (r == -EINVAL)
                return sbx_error_set(err, r, HS_ORIGIN,
                                     "A host is a name or an address without port; an origin is \"https://host\" or "
                                     "\"https://host:port\", without a path.",
                                     "\"%s\" is neither a host nor an origin", bad);
        if (r < 0)
                return sbx_error_set(err, r, HS_ORIGIN, NULL, "out of memory");
        if (settings->rate_per_second == 0)
                return 0;
        if (burst == 0)
                burst = settings->rate_per_second > UINT32_MAX / 2 ? UINT32_MAX : 2 * settings->rate_per_second;
        server->rate = hs_rate_new(settings->rate_per_second, burst);
        return server->rate != NULL ? 0 : sbx_error_set(err, -ENOMEM, HS_ORIGIN, NULL, "out of memory");
}

static int start(struct hs_server *server, const struct hs_settings *settings, struct sbx_error *err) {
        struct hs_address address;
        struct hs_tls tls = {0};
        int r = hs_address_parse(settings->listen, &address, err);

        if (r == 0)
                r = check_settings(settings, &address, err);
        if (r == 0)
                r = set_guards(server, settings, &address, err);
        if (r == 0 && settings->tls_certificate != NULL) {
                server->tls = true;
                r = hs_tls_load(server, settings->tls_certificate, settings->tls_key, &tls, err);
        }
        if (r == 0)
                r = hs_listen(&address, &server->listen_fd, err);
        if (r == 0)
                r = set_url(server, &address, err);
        if (r == 0)
                r = start_library(server, &tls, err);
        hs_tls_clear(&tls);
        if (r == 0)
                r = hs_loop_open(server, err);
        if (r < 0)
                return r;
        r = hs_thread_start(&server->thread, hs_loop_run, server, err);
        if (r < 0)
                return r;
        server->running = true;
        return 0;
}

int hs_server_start(const struct hs_settings *settings, const struct hs_route *routes, struct hs_server **ret_server,
                    struct sbx_error *err) {
        struct hs_server *server = calloc(1, sizeof(*server));
        int r;

        if (server == NULL)
                return sbx_error_set(err, -ENOMEM, HS_ORIGIN, NULL, "out of memory");
        server->listen_fd = server->epoll_fd = server->wake_fd = -1;
        server->auth = settings->auth;
        server->routes = routes;
        server->log = settings->log;
        server->log_data = settings->log_data;
        server->ready_end = &server->ready;
        pthread_mutex_init(&server->lock, NULL);
        pthread_cond_init(&server->changed, NULL);
        set_limits(server, settings);
        server->budget = hs_budget_new(server->limits.body_max > SIZE_MAX / BODIES_MAX_FACTOR
                                               ? SIZE_MAX
                                               : server->limits.body_max * BODIES_MAX_FACTOR);
        r = server->budget != NULL ? start(server, settings, err)
                                   : sbx_error_set(err, -ENOMEM, HS_ORIGIN, NULL, "out of memory");
        if (r < 0) {
                hs_server_free(server);
                return r;
        }
        *ret_server = server;
        return 0;
}

void hs_server_drain(struct hs_server *server) {
        atomic_store(&server->draining, true);
}

void hs_server_stop(struct hs_server *server, unsigned grace_ms) {
        uint64_t end_ns = hs_now_ns() + grace_ms * HS_NS_PER_MS;
        struct timespec end = {
                .tv_sec = (time_t)(end_ns / UINT64_C(1000000000)),
                .tv_nsec = (long)(end_ns % UINT64_C(1000000000)),
        };

        if (!server->running)
                return;
        hs_server_drain(server);
        pthread_mutex_lock(&server->lock);
        while (server->active > 0 && grace_ms > 0)
                if (pthread_cond_clockwait(&server->changed, &server->lock, CLOCK_MONOTONIC, &end) != 0)
                        break;
        server->stopping = true;
        pthread_mutex_unlock(&server->lock);
        hs_loop_wake(server);
        pthread_join(server->thread, NULL);
        server->running = false;
}

void hs_server_free(struct hs_server *server) {
        if (server == NULL)
                return;
        hs_server_stop(server, 0);
        if (server->daemon != NULL)
                MHD_stop_daemon(server->daemon);
        if (server->listen_fd >= 0)
                close(server->listen_fd);
        if (server->epoll_fd >= 0)
                close(server->epoll_fd);
        if (server->wake_fd >= 0)
                close(server->wake_fd);
        hs_budget_give_back(server->budget, 0);
        hs_guard_clear(&server->guard);
        hs_rate_free(server->rate);
        pthread_cond_destroy(&server->changed);
        pthread_mutex_destroy(&server->lock);
        free(server);
}
