/* SPDX-License-Identifier: Apache-2.0 */
/* A server with a few routes for test_server.py, which starts it with `NAME=VALUE` arguments. It prints its address;
 * then each line that it reads is a command: "drain", "stop GRACE_MS", "counts". */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "http_server.h"

#define ANSWERERS 4
#define LIST_MAX 8

/* Exchanges that other threads answer. */
struct job {
        struct job *next;
        struct hs_exchange *exchange;
        void (*run)(struct hs_exchange *exchange, void *data);
        void *data;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct job *jobs, **jobs_end = &jobs;
static bool ended;
static atomic_uint gone_count, held_count;

static const struct hs_header plain[] = {{"Content-Type", "text/plain"}, {NULL, NULL}};
static const struct hs_header events[] = {{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-store"}, {NULL}};

static void later(struct hs_exchange *exchange, void (*run)(struct hs_exchange *exchange, void *data), void *data) {
        struct job *job = calloc(1, sizeof(*job));

        if (job == NULL)
                abort();
        job->exchange = hs_ref(exchange);
        job->run = run;
        job->data = data;
        pthread_mutex_lock(&lock);
        *jobs_end = job;
        jobs_end = &job->next;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
}

static void *answer(void *data) {
        for (;;) {
                struct job *job;

                pthread_mutex_lock(&lock);
                while (jobs == NULL && !ended)
                        pthread_cond_wait(&changed, &lock);
                job = jobs;
                if (job != NULL) {
                        jobs = job->next;
                        if (jobs == NULL)
                                jobs_end = &jobs;
                }
                pthread_mutex_unlock(&lock);
                if (job == NULL)
                        return NULL;
                job->run(job->exchange, job->data);
                hs_unref(job->exchange);
                free(job);
        }
}

/* What came in, as the server has it. */
static void respond_echo(struct hs_exchange *exchange, void *data) {
        const char *names[] = {"X-Test", "Content-Type", "Host"};
        struct sbx_bytes body = hs_body(exchange);
        char *text = NULL;
        size_t size = 0;
        FILE *stream = open_memstream(&text, &size);

        fprintf(stream, "method=%s\npath=%s\nprincipal=%s\naddress=%s\n", hs_method(exchange), hs_path(exchange),
                hs_principal(exchange), hs_address(exchange));
        if (hs_query(exchange, "q") != NULL)
                fprintf(stream, "q=%s\n", hs_query(exchange, "q"));
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
                if (hs_header(exchange, names[i]) != NULL)
                        fprintf(stream, "%s=[%s]\n", names[i], hs_header(exchange, names[i]));
        fprintf(stream, "body=");
        fwrite(body.data, 1, body.size, stream);
        fclose(stream);
        hs_respond(exchange, 200, plain, (struct sbx_bytes){text, size});
        free(text);
}

static void echo(void *data, struct hs_exchange *exchange) {
        respond_echo(exchange, NULL);
}

static void echo_later(void *data, struct hs_exchange *exchange) {
        later(exchange, respond_echo, NULL);
}

static unsigned number(struct hs_exchange *exchange, const char *name, unsigned otherwise) {
        const char *text = hs_query(exchange, name);
        unsigned value = 0;

        if (text == NULL)
                return otherwise;
        for (; *text >= '0' && *text <= '9'; text++)
                value = value * 10 + (unsigned)(*text - '0');
        return value;
}

/* ?count=N&size=B&pause=MS: pieces "data: I xxx\n\n"; ?abandon=1: the last reference goes before the end. Says how far
 * it came. */
static void run_stream(struct hs_exchange *exchange, void *data) {
        unsigned count = number(exchange, "count", 3), size = number(exchange, "size", 0);
        unsigned pause_ms = number(exchange, "pause", 0);
        char *filler = malloc(size + 1);
        int r = 0;
        unsigned i;

        if (filler == NULL)
                abort();
        memset(filler, 'x', size);
        for (i = 0; i < count && r == 0; i++) {
                char head[32];
                struct sbx_bytes parts[] = {{head, 0}, {filler, size}, {"\n\n", 2}};

                parts[0].size = (size_t)snprintf(head, sizeof(head), "data: %u ", i);
                r = hs_write(exchange, parts, 3);
                if (pause_ms > 0)
                        usleep(pause_ms * 1000);
        }
        fprintf(stderr, "stream %u %s\n", i, r == 0 ? "ok" : strerror(-r));
        free(filler);
        if (number(exchange, "abandon", 0) == 0)
                hs_end(exchange);
}

static void stream(void *data, struct hs_exchange *exchange) {
        hs_stream(exchange, 200, events);
        later(exchange, run_stream, NULL);
}

/* Holds the exchange until its client has gone. */
static void went(void *data) {
        atomic_fetch_add(&gone_count, 1);
        atomic_fetch_sub(&held_count, 1);
        hs_unref(data);
}

static void hold(void *data, struct hs_exchange *exchange) {
        if (number(exchange, "stream", 0) != 0)
                hs_stream(exchange, 200, events);
        atomic_fetch_add(&held_count, 1);
        hs_on_gone(hs_ref(exchange), went, exchange);
}

/* Registers, unregisters, and answers. What was registered is freed, so that a sanitizer sees a call that comes late.
 */
static void note(void *data) {
        atomic_fetch_add((atomic_uint *)data, 1);
}

static void respond_unheld(struct hs_exchange *exchange, void *data) {
        hs_on_gone(exchange, NULL, NULL);
        free(data);
        respond_echo(exchange, NULL);
}

static void unhold(void *data, struct hs_exchange *exchange) {
        atomic_uint *notes = calloc(1, sizeof(*notes));

        if (notes == NULL)
                abort();
        hs_on_gone(exchange, note, notes);
        later(exchange, respond_unheld, notes);
}

static void forget(void *data, struct hs_exchange *exchange) {
}

static void large(void *data, struct hs_exchange *exchange) {
        unsigned size = number(exchange, "size", 1);
        char *body = malloc(size > 0 ? size : 1);

        if (body == NULL)
                abort();
        memset(body, 'y', size);
        hs_respond(exchange, 200, plain, (struct sbx_bytes){body, size});
        free(body);
}

static const struct hs_route routes[] = {
        {"/echo", "GET, POST, PUT, DELETE", 0, NULL, echo},
        {"/later", "GET, POST", 0, NULL, echo_later},
        {"/stream", "GET", 0, NULL, stream},
        {"/hold", "GET, POST", 0, NULL, hold},
        {"/unhold", "GET", 0, NULL, unhold},
        {"/forget", "GET", 0, NULL, forget},
        {"/large", "GET", 0, NULL, large},
        {"/public", "GET", HS_ROUTE_PUBLIC, NULL, echo},
        {NULL, NULL, 0, NULL, NULL},
};

static void print_log(void *data, int level, const char *message) {
        fprintf(stderr, "log %d %s\n", level, message);
}

static void print_counts(struct hs_server *server) {
        struct hs_counts counts;

        hs_server_counts(server, &counts);
        printf("accepted=%llu open=%llu requests=%llu in=%llu out=%llu gone=%u held=%u",
               (unsigned long long)counts.connections, (unsigned long long)counts.connections_open,
               (unsigned long long)counts.requests, (unsigned long long)counts.bytes_in,
               (unsigned long long)counts.bytes_out, atomic_load(&gone_count), atomic_load(&held_count));
        for (int i = 0; i < HS_REFUSALS; i++)
                printf(" %s=%llu", hs_refusal_name((enum hs_refusal)i), (unsigned long long)counts.refused[i]);
        printf("\n");
        fflush(stdout);
}

struct options {
        struct hs_settings settings;
        struct hs_auth_settings auth;
        const char *hosts[LIST_MAX + 1], *origins[LIST_MAX + 1], *scopes[LIST_MAX + 1];
        size_t hosts_count, origins_count, scopes_count;
        bool metadata;
};

static void add(const char **list, size_t *count, const char *value) {
        if (*count == LIST_MAX)
                abort();
        list[(*count)++] = value;
}

static bool set_text(struct options *o, const char *name, const char *value) {
        struct hs_settings *s = &o->settings;
        const struct {
                const char *name;
                const char **place;
        } texts[] = {
                {"listen", &s->listen},      {"certificate", &s->tls_certificate},
                {"key", &s->tls_key},        {"token_file", &o->auth.token_file},
                {"issuer", &o->auth.issuer}, {"audience", &o->auth.audience},
                {"jwks", &o->auth.jwks},     {"metadata_url", &o->auth.metadata_url},
        };

        for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
                if (strcmp(name, texts[i].name) == 0) {
                        *texts[i].place = value;
                        return true;
                }
        if (strcmp(name, "host") == 0)
                add(o->hosts, &o->hosts_count, value);
        else if (strcmp(name, "origin") == 0)
                add(o->origins, &o->origins_count, value);
        else if (strcmp(name, "scope") == 0)
                add(o->scopes, &o->scopes_count, value);
        else if (strcmp(name, "metadata") == 0)
                o->metadata = true;
        else
                return false;
        return true;
}

static void set_number(struct options *o, const char *name, unsigned value) {
        struct hs_settings *s = &o->settings;
        const struct {
                const char *name;
                unsigned *place;
        } numbers[] = {
                {"header_max", &s->header_max},
                {"connections_max", &s->connections_max},
                {"per_address_max", &s->per_address_max},
                {"rate", &s->rate_per_second},
                {"burst", &s->rate_burst},
                {"idle", &s->idle_timeout_ms},
                {"request", &s->request_timeout_ms},
                {"write", &s->write_timeout_ms},
        };

        for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
                if (strcmp(name, numbers[i].name) == 0) {
                        *numbers[i].place = value;
                        return;
                }
        if (strcmp(name, "body_max") == 0)
                s->body_max = value;
        else if (strcmp(name, "stream_max") == 0)
                s->stream_max = value;
        else
                abort();
}

static void parse(struct options *o, char **argv) {
        for (; *argv != NULL; argv++) {
                char *value = strchr(*argv, '=');
                unsigned n = 0;

                if (value == NULL)
                        abort();
                *value++ = '\0';
                if (set_text(o, *argv, value))
                        continue;
                for (; *value >= '0' && *value <= '9'; value++)
                        n = n * 10 + (unsigned)(*value - '0');
                set_number(o, *argv, n);
        }
        o->settings.hosts = o->hosts;
        o->settings.origins = o->origins;
        o->auth.scopes = o->scopes_count > 0 ? o->scopes : NULL;
        o->settings.log = o->auth.log = print_log;
}

static int fail(const struct sbx_error *err) {
        printf("error %s: %s (%s)\n", strerror(-err->code), err->message, err->hint);
        return 1;
}

static void serve(struct hs_server *server) {
        pthread_t threads[ANSWERERS];
        char line[128];

        for (size_t i = 0; i < ANSWERERS; i++)
                if (pthread_create(&threads[i], NULL, answer, NULL) != 0)
                        abort();
        printf("%s\n", hs_server_url(server));
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin) != NULL) {
                unsigned grace_ms = 0;

                if (strncmp(line, "counts", 6) == 0)
                        print_counts(server);
                else if (strncmp(line, "drain", 5) == 0)
                        hs_server_drain(server);
                else if (strncmp(line, "stop", 4) == 0) {
                        for (const char *c = line + 5; *c >= '0' && *c <= '9'; c++)
                                grace_ms = grace_ms * 10 + (unsigned)(*c - '0');
                        hs_server_stop(server, grace_ms);
                        print_counts(server);
                }
        }
        hs_server_stop(server, 0);
        pthread_mutex_lock(&lock);
        ended = true;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        for (size_t i = 0; i < ANSWERERS; i++)
                pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
        struct options options = {.settings = {.listen = "127.0.0.1:0"}};
        struct hs_server *server = NULL;
        struct hs_auth *auth = NULL;
        struct sbx_error err = {0};
        char *metadata = NULL;

        parse(&options, argv + 1);
        if ((options.auth.token_file != NULL || options.auth.issuer != NULL) &&
            hs_auth_new(&options.auth, &auth, &err) < 0)
                return fail(&err);
        options.settings.auth = auth;
        if (options.metadata && auth != NULL && hs_auth_metadata(auth, options.auth.audience, &metadata) == 0)
                printf("%s\n", metadata);
        free(metadata);
        if (hs_server_start(&options.settings, routes, &server, &err) < 0) {
                hs_auth_free(auth);
                return fail(&err);
        }
        serve(server);
        hs_server_free(server);
        hs_auth_free(auth);
        return 0;
}
