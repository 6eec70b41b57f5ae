/* SPDX-License-Identifier: Apache-2.0 */
/* Requests over HTTP in which each allocation in turn fails: no crash, no leak, and every request has a response. Under
 * the plugin's own files stands a server without a network. Linked with wrapped malloc, calloc and realloc. */
#include "test.h"

#include <http_server.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "failing_alloc.h"
#include "fake_host.h"
#include "options.h"

/* Of the thread that makes requests: how many allocations succeed before one fails; negative: all do. */
static _Thread_local long failing = -1;
static _Thread_local bool failed;

static bool fail_now(void) {
        if (failing < 0 || failing-- > 0)
                return false;
        failed = true;
        return true;
}

/* ---- a server without a network ---- */

struct hs_exchange {
        const char *method, *body;
        struct hs_header headers[8]; /* of the request; ends with a NULL name */
        pthread_mutex_t lock;        /* protects what follows */
        int refs;                    /* the test's own among them */
        unsigned status;             /* 0: no response */
        bool streaming, ended;
        char session[64]; /* Mcp-Session-Id of the response */
        size_t written;
};

static pthread_mutex_t server_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t server_started = PTHREAD_COND_INITIALIZER;
static const struct hs_route *server_routes; /* under the lock */

int hs_auth_new(const struct hs_auth_settings *settings, struct hs_auth **ret_auth, struct sbx_error *err) {
        return -ENOTSUP;
}

void hs_auth_free(struct hs_auth *auth) {
}

int hs_auth_metadata(const struct hs_auth *auth, const char *resource, char **ret_json) {
        return -ENOTSUP;
}

int hs_server_start(const struct hs_settings *settings, const struct hs_route *routes, struct hs_server **ret_server,
                    struct sbx_error *err) {
        pthread_mutex_lock(&server_lock);
        server_routes = routes;
        pthread_cond_broadcast(&server_started);
        pthread_mutex_unlock(&server_lock);
        *ret_server = NULL;
        return 0;
}

const char *hs_server_url(const struct hs_server *server) {
        return "http://none";
}

void hs_server_drain(struct hs_server *server) {
}

/* No handler runs any more: this thread has seen all that they did. */
void hs_server_stop(struct hs_server *server, unsigned grace_ms) {
        pthread_mutex_lock(&server_lock);
        server_routes = NULL;
        pthread_mutex_unlock(&server_lock);
}

void hs_server_free(struct hs_server *server) {
}

void hs_server_counts(struct hs_server *server, struct hs_counts *ret) {
}

const char *hs_refusal_name(enum hs_refusal refusal) {
        return "any";
}

struct hs_exchange *hs_ref(struct hs_exchange *exchange) {
        pthread_mutex_lock(&exchange->lock);
        exchange->refs++;
        pthread_mutex_unlock(&exchange->lock);
        return exchange;
}

void hs_unref(struct hs_exchange *exchange) {
        pthread_mutex_lock(&exchange->lock);
        exchange->refs--;
        pthread_mutex_unlock(&exchange->lock);
}

const char *hs_method(const struct hs_exchange *exchange) {
        return exchange->method;
}

const char *hs_header(const struct hs_exchange *exchange, const char *name) {
        for (const struct hs_header *header = exchange->headers; header->name != NULL; header++)
                if (strcasecmp(header->name, name) == 0)
                        return header->value;
        return NULL;
}

struct sbx_bytes hs_body(const struct hs_exchange *exchange) {
        return text_bytes(exchange->body);
}

const char *hs_principal(const struct hs_exchange *exchange) {
        return "";
}

static void begin_response(struct hs_exchange *exchange, unsigned status, const struct hs_header *headers) {
        assert_int_equal(exchange->status, 0);
        exchange->status = status;
        for (; headers != NULL && headers->name != NULL; headers++)
                if (strcmp(headers->name, "Mcp-Session-Id") == 0)
                        snprintf(exchange->session, sizeof(exchange->session), "%s", headers->value);
}

void hs_respond(struct hs_exchange *exchange, unsigned status, const struct hs_header *headers, struct sbx_bytes body) {
        pthread_mutex_lock(&exchange->lock);
        begin_response(exchange, status, headers);
        exchange->written += body.size;
        exchange->ended = true;
        pthread_mutex_unlock(&exchange->lock);
}

void hs_stream(struct hs_exchange *exchange, unsigned status, const struct hs_header *headers) {
        pthread_mutex_lock(&exchange->lock);
        begin_response(exchange, status, headers);
        exchange->streaming = true;
        pthread_mutex_unlock(&exchange->lock);
}

int hs_write(struct hs_exchange *exchange, const struct sbx_bytes *parts, size_t count) {
        int r = -EPIPE;

        pthread_mutex_lock(&exchange->lock);
        if (exchange->streaming && !exchange->ended) {
                for (size_t i = 0; i < count; i++)
                        exchange->written += parts[i].size;
                r = 0;
        }
        pthread_mutex_unlock(&exchange->lock);
        return r;
}

void hs_end(struct hs_exchange *exchange) {
        pthread_mutex_lock(&exchange->lock);
        exchange->ended = true;
        pthread_mutex_unlock(&exchange->lock);
}

void hs_on_gone(struct hs_exchange *exchange, void (*gone)(void *data), void *data) {
}

/* ---- serving ---- */

struct serving {
        struct mcp_server *server;
        struct mcp_options options;
        struct sbx_call call;
        pthread_t thread;
        int result;
};

static void *serve(void *data) {
        struct serving *serving = data;

        serving->result = mcp_http_serve(serving->server, &serving->options.http, -1, &serving->call, NULL);
        return NULL;
}

static void start(struct serving *serving, struct sbx_host_state *fake) {
        fake_host_init(fake);
        fake->options = mcp_option_table;
        fake->end_in_submit = true;
        fake->submit_result = "{\"content\":[],\"isError\":false}";
        assert_int_equal(mcp_options_read(&fake->services, &serving->options, NULL), 0);
        assert_int_equal(mcp_server_new(&serving->options.settings, &serving->server, NULL), 0);
        serving->call = (struct sbx_call){.struct_size = sizeof(serving->call), .cancel_fd = eventfd(0, EFD_CLOEXEC)};
        server_routes = NULL;
        assert_int_equal(pthread_create(&serving->thread, NULL, serve, serving), 0);
        pthread_mutex_lock(&server_lock);
        while (server_routes == NULL)
                pthread_cond_wait(&server_started, &server_lock);
        pthread_mutex_unlock(&server_lock);
}

static void stop(struct serving *serving, struct sbx_host_state *fake) {
        pthread_mutex_lock(&server_lock); /* see hs_server_stop */
        pthread_mutex_unlock(&server_lock);
        assert_int_equal(eventfd_write(serving->call.cancel_fd, 1), 0);
        pthread_join(serving->thread, NULL);
        assert_int_equal(serving->result, 0);
        mcp_server_stop(serving->server);
        mcp_server_free(serving->server);
        mcp_options_free(&serving->options);
        close(serving->call.cancel_fd);
        fake_host_check(fake);
        fake_host_free(fake);
}

/* ---- requests ---- */

#define META                                                                                                           \
        "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                       \
        "\"io.modelcontextprotocol/clientCapabilities\":{}}"

struct request {
        const char *method, *mcp_method, *name, *body;
        bool legacy;
};

static const struct request requests[] = {
        {"POST", "tools/list", NULL, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{" META "}}",
         false},
        {"POST", "tools/call", "echo",
         "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"," META "}}", false},
        {"POST", "tools/list", NULL, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}", false},
        {"POST", "tools/call", "=?base64?ZWNobw==?=",
         "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"," META "}}", false},
        {"POST", "x", NULL, "nonsense", false},
        {"POST", NULL, NULL,
         "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\","
         "\"capabilities\":{},\"clientInfo\":{\"name\":\"x\",\"version\":\"1\"}}}",
         true},
        {"POST", NULL, NULL, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", true},
        {"GET", NULL, NULL, "", true},
        {"POST", NULL, NULL, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}", true},
        {"POST", NULL, NULL,
         "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\",\"_meta\":{"
         "\"progressToken\":1}}}",
         true},
        {"GET", NULL, NULL, "", true},
        {"DELETE", NULL, NULL, "", true},
};
#define REQUESTS (sizeof(requests) / sizeof(requests[0]))

static void make(struct hs_exchange *exchange, const struct request *request, const char *session) {
        size_t count = 0;

        *exchange = (struct hs_exchange){.method = request->method, .body = request->body, .refs = 1};
        pthread_mutex_init(&exchange->lock, NULL);
        exchange->headers[count++] = (struct hs_header){"Content-Type", "application/json"};
        exchange->headers[count++] = (struct hs_header){"Accept", "application/json, text/event-stream"};
        if (!request->legacy)
                exchange->headers[count++] = (struct hs_header){"MCP-Protocol-Version", "2026-07-28"};
        if (request->mcp_method != NULL)
                exchange->headers[count++] = (struct hs_header){"Mcp-Method", request->mcp_method};
        if (request->name != NULL)
                exchange->headers[count++] = (struct hs_header){"Mcp-Name", request->name};
        if (request->legacy && session[0] != '\0')
                exchange->headers[count++] = (struct hs_header){"Mcp-Session-Id", session};
}

/* Returns whether an allocation failed; `ret_good`: responses without an error of HTTP. */
static bool talk(long allocations, size_t *ret_good) {
        struct hs_exchange exchanges[REQUESTS];
        struct sbx_host_state *fake = calloc(1, sizeof(*fake));
        struct serving serving = {0};
        char session[64] = "";

        *ret_good = 0;
        assert_non_null(fake);
        start(&serving, fake);
        failed = false;
        for (size_t i = 0; i < REQUESTS; i++) {
                make(&exchanges[i], &requests[i], session);
                failing = i == 0 ? allocations : failing;
                server_routes[0].handle(server_routes[0].data, &exchanges[i]);
                if (exchanges[i].session[0] != '\0')
                        memcpy(session, exchanges[i].session, sizeof(session));
        }
        failing = -1;
        stop(&serving, fake);
        free(fake);
        for (size_t i = 0; i < REQUESTS; i++) {
                assert_int_equal(exchanges[i].refs, 1);
                assert_int_not_equal(exchanges[i].status, 0);
                assert_true(exchanges[i].ended);
                *ret_good += exchanges[i].status < 300;
                pthread_mutex_destroy(&exchanges[i].lock);
        }
        return failed;
}

static void test_sweep(void **test) {
        size_t good, all;
        long allocations = 0;

        assert_false(talk(-1, &all));
        assert_int_equal(all, REQUESTS - 3); /* without _meta, nonsense, a second stream to listen to */
        while (talk(allocations++, &good))
                assert_true(allocations < 10000);
        assert_int_equal(good, all); /* the last round had all the memory that it asked for */
        assert_in_range(allocations, 50, 9999);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_sweep)};

        json_set_alloc_funcs(__wrap_malloc, free);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
