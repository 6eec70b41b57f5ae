/* SPDX-License-Identifier: Apache-2.0 */
/* What the transport counts of itself, and how it is told: the Prometheus text format, after the core's figures. */
#include <inttypes.h>

#include "http_private.h"

static const char *const methods[HTTP_METHODS] = {
        "initialize",
        "ping",
        "server/discover",
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "tasks/get",
        "tasks/update",
        "tasks/cancel",
        "batch",
        "other",
};

/* Upper bounds, the same as those of the core's histograms. */
static const struct {
        uint64_t ns;
        const char *seconds;
} bounds[HTTP_BUCKETS] = {
        {UINT64_C(500000), "0.0005"},  {UINT64_C(1000000), "0.001"},  {UINT64_C(2500000), "0.0025"},
        {UINT64_C(5000000), "0.005"},  {UINT64_C(10000000), "0.01"},  {UINT64_C(25000000), "0.025"},
        {UINT64_C(50000000), "0.05"},  {UINT64_C(100000000), "0.1"},  {UINT64_C(250000000), "0.25"},
        {UINT64_C(1000000000), "1"},   {UINT64_C(2500000000), "2.5"}, {UINT64_C(10000000000), "10"},
        {UINT64_C(30000000000), "30"}, {UINT64_C(60000000000), "60"},
};

unsigned http_method_index(const char *method) {
        unsigned i = 0;

        while (i < HTTP_METHODS - 1 && strcmp(methods[i], method) != 0)
                i++;
        return i;
}

void http_count(uint64_t *counter) {
        __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static uint64_t get(const uint64_t *counter) {
        return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void http_figures_answered(struct http_figures *figures, unsigned method, uint64_t duration_ns) {
        size_t at = 0;

        while (at < HTTP_BUCKETS && duration_ns > bounds[at].ns)
                at++;
        http_count(&figures->buckets[method][at]);
        __atomic_fetch_add(&figures->sum_ns[method], duration_ns, __ATOMIC_RELAXED);
}

/* ---- telling ---- */

SBX_PRINTF(2, 3)
static void tell(struct mcp_text *out, const char *format, ...) {
        char line[512];
        va_list arguments;
        int size;

        va_start(arguments, format);
        size = vsnprintf(line, sizeof(line), format, arguments);
        va_end(arguments);
        if (size > 0 && (size_t)size < sizeof(line))
                mcp_text_append(out, line, (size_t)size);
}

static void head(struct mcp_text *out, const char *name, const char *type, const char *help) {
        tell(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void tell_one(struct mcp_text *out, const char *name, const char *type, const char *help, uint64_t value) {
        head(out, name, type, help);
        tell(out, "%s %" PRIu64 "\n", name, value);
}

static void tell_server(struct mcp_http *http, struct mcp_text *out) {
        struct hs_server *server = __atomic_load_n(&http->hs, __ATOMIC_ACQUIRE);
        struct hs_counts counts = {0};

        if (server != NULL)
                hs_server_counts(server, &counts);
        tell_one(out, "snipara_sandbox_http_connections_total", "counter", "TCP connections that were accepted.",
                 counts.connections);
        tell_one(out, "snipara_sandbox_http_connections", "gauge", "TCP connections that are open.",
                 counts.connections_open);
        tell_one(out, "snipara_sandbox_http_requests_total", "counter", "HTTP requests, refused ones among them.",
                 counts.requests);
        tell_one(out, "snipara_sandbox_http_received_bytes_total", "counter", "Bytes of request bodies.",
                 counts.bytes_in);
        tell_one(out, "snipara_sandbox_http_sent_bytes_total", "counter", "Bytes of response bodies.",
                 counts.bytes_out);
        head(out, "snipara_sandbox_http_refused_total", "counter", "HTTP requests that were refused, by reason.");
        for (unsigned i = 0; i < HS_REFUSALS; i++)
                tell(out, "snipara_sandbox_http_refused_total{reason=\"%s\"} %" PRIu64 "\n",
                     hs_refusal_name((enum hs_refusal)i), counts.refused[i]);
}

static void tell_protocol(struct mcp_http *http, struct mcp_text *out) {
        const struct http_figures *figures = &http->figures;
        size_t sessions, streams = 0, unanswered;

        pthread_mutex_lock(&http->lock);
        sessions = http->sessions_open;
        unanswered = http->unanswered;
        for (const struct http_exchange *exchange = http->exchanges; exchange != NULL; exchange = exchange->next)
                streams += !exchange->manner.is_post || exchange->manner.listens;
        pthread_mutex_unlock(&http->lock);
        head(out, "snipara_sandbox_mcp_requests_total", "counter", "MCP messages over HTTP, by era of the protocol.");
        tell(out,
             "snipara_sandbox_mcp_requests_total{era=\"legacy\"} %" PRIu64
             "\nsnipara_sandbox_mcp_requests_total{era=\"modern\"} %" PRIu64 "\n",
             get(&figures->requests[HTTP_LEGACY]), get(&figures->requests[HTTP_MODERN]));
        tell_one(out, "snipara_sandbox_mcp_http_sessions", "gauge", "HTTP sessions of legacy clients.", sessions);
        tell_one(out, "snipara_sandbox_mcp_http_sessions_started_total", "counter", "HTTP sessions that were begun.",
                 get(&figures->sessions_started));
        tell_one(out, "snipara_sandbox_mcp_http_sessions_expired_total", "counter",
                 "HTTP sessions that ended because nobody used them.", get(&figures->sessions_expired));
        tell_one(out, "snipara_sandbox_mcp_http_sessions_refused_total", "counter",
                 "HTTP sessions that were refused for lack of room.", get(&figures->sessions_refused));
        tell_one(out, "snipara_sandbox_mcp_http_streams", "gauge", "Streams that clients listen to.", streams);
        tell_one(out, "snipara_sandbox_mcp_http_streams_resumed_total", "counter", "Streams that clients came back to.",
                 get(&figures->streams_resumed));
        tell_one(out, "snipara_sandbox_mcp_http_clients_lost_total", "counter",
                 "Clients that went away before their answer came.", get(&figures->clients_lost));
        tell_one(out, "snipara_sandbox_mcp_http_unanswered", "gauge", "Requests that clients wait for.", unanswered);
}

static void tell_latency(const struct http_figures *figures, struct mcp_text *out) {
        static const char name[] = "snipara_sandbox_mcp_request_duration_seconds";

        head(out, name, "histogram", "From a request's last byte to its answer, by method.");
        for (unsigned method = 0; method < HTTP_METHODS; method++) {
                uint64_t count = 0, sum = get(&figures->sum_ns[method]);

                for (size_t i = 0; i <= HTTP_BUCKETS; i++)
                        count += get(&figures->buckets[method][i]);
                if (count == 0)
                        continue;
                count = 0;
                for (size_t i = 0; i < HTTP_BUCKETS; i++) {
                        count += get(&figures->buckets[method][i]);
                        tell(out, "%s_bucket{method=\"%s\",le=\"%s\"} %" PRIu64 "\n", name, methods[method],
                             bounds[i].seconds, count);
                }
                count += get(&figures->buckets[method][HTTP_BUCKETS]);
                tell(out, "%s_bucket{method=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", name, methods[method], count);
                tell(out, "%s_sum{method=\"%s\"} %" PRIu64 ".%09" PRIu64 "\n", name, methods[method],
                     sum / HTTP_SECOND_NS, sum % HTTP_SECOND_NS);
                tell(out, "%s_count{method=\"%s\"} %" PRIu64 "\n", name, methods[method], count);
        }
}

int http_figures_tell(struct mcp_http *http, struct mcp_text *out) {
        tell_server(http, out);
        tell_protocol(http, out);
        tell_latency(&http->figures, out);
        return out->error;
}
