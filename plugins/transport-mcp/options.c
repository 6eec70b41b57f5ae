/* SPDX-License-Identifier: Apache-2.0 */
/* The option table, and what becomes of it. */
#include "options.h"

#include <stdlib.h>

#define KIB INT64_C(1024)
#define MIB (KIB * KIB)
#define SECOND INT64_C(1000) /* durations are in milliseconds */
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)

/* Fixed; see the README. */
#define WAITING_MAX 16u /* each keeps one of the host's threads, of which there are 64 */
#define REPLAY_BYTES (4u << 20)
#define REPLAY_MS (5u * 60u * 1000u)

#define OPTION(type_, name_, ...)                                                                                      \
        { .struct_size = sizeof(struct sbx_option), .type = (type_), .name = (name_), __VA_ARGS__ }

const struct sbx_option mcp_option_table[] = {
        OPTION(SBX_OPTION_SIZE, "max_message", .default_value = "32m", .minimum = 64 * KIB, .maximum = 256 * MIB,
               .unit = "bytes",
               .help = "Longest message taken from a client; a longer one is skipped and answered with an error."),
        OPTION(SBX_OPTION_INT, "max_calls", .default_value = "64", .minimum = 1, .maximum = 1024, .unit = "calls",
               .help = "Most requests under way at once for one client; one more is answered with an error."),
        OPTION(SBX_OPTION_INT, "tasks.max", .default_value = "256", .minimum = 1, .maximum = 65536, .unit = "tasks",
               .help = "Most tasks that are kept for one user or token, ended ones among them."),
        OPTION(SBX_OPTION_DURATION, "tasks.ttl", .default_value = "1h", .minimum = MINUTE, .maximum = 168 * HOUR,
               .help = "How long a task is kept after it was made, and at least for as long as it works."),
        OPTION(SBX_OPTION_DURATION, "input_timeout", .default_value = "10m", .minimum = SECOND, .maximum = 24 * HOUR,
               .help = "How long a call waits for what it has asked the client's user or model."),
        OPTION(SBX_OPTION_INT, "page_size", .default_value = "100", .minimum = 1, .maximum = 1000, .unit = "items",
               .help = "Items of a list in one answer."),
        OPTION(SBX_OPTION_STRING, "http.listen", .default_value = "127.0.0.1:8000",
               .help = "Address and port for HTTP; port 0 takes a free one. Other than loopback needs "
                       "http.token_file or http.issuer."),
        OPTION(SBX_OPTION_STRING, "http.path", .default_value = "/mcp", .help = "Where the protocol is served."),
        OPTION(SBX_OPTION_PATH, "http.tls_certificate",
               .help = "PEM file with the certificate and its chain: HTTPS in the place of HTTP."),
        OPTION(SBX_OPTION_PATH, "http.tls_key", .help = "PEM file with its key; others must not be able to read it."),
        OPTION(SBX_OPTION_PATH, "http.token_file",
               .help = "File of bearer tokens, a line for each: NAME TOKEN, or NAME sha256:HEX."),
        OPTION(SBX_OPTION_STRING, "http.issuer",
               .help = "Whose JSON Web Tokens are taken: the `iss` of an OAuth authorization server."),
        OPTION(SBX_OPTION_STRING, "http.audience",
               .help = "The `aud` that they must have: this server's address as clients know it."),
        OPTION(SBX_OPTION_STRING, "http.jwks", .help = "The issuer's keys: a file, or an https address."),
        OPTION(SBX_OPTION_STRINGS, "http.scopes", .help = "Scopes that a JSON Web Token must have, all of them."),
        OPTION(SBX_OPTION_STRINGS, "http.hosts",
               .help = "Further names that requests may be addressed to (Host), without port."),
        OPTION(SBX_OPTION_STRINGS, "http.origins",
               .help = "Web sites that may call (Origin), \"https://app.example\"."),
        OPTION(SBX_OPTION_INT, "http.max_connections", .default_value = "1024", .minimum = 1, .maximum = 65536,
               .unit = "connections", .help = "Most connections at one time."),
        OPTION(SBX_OPTION_INT, "http.max_sessions", .default_value = "256", .minimum = 1, .maximum = 65536,
               .unit = "sessions", .help = "Most HTTP sessions of legacy clients at one time."),
        OPTION(SBX_OPTION_INT, "http.max_sessions_per_principal", .default_value = "64", .minimum = 1, .maximum = 65536,
               .unit = "sessions", .help = "Most of them for one token or user; clients without a token may have all."),
        OPTION(SBX_OPTION_DURATION, "http.session_ttl", .default_value = "30m", .minimum = SECOND,
               .maximum = 168 * HOUR, .help = "How long an HTTP session that nobody uses is kept."),
        OPTION(SBX_OPTION_INT, "http.rate", .default_value = "0", .minimum = 0, .maximum = 1000000,
               .unit = "requests a second", .help = "Most requests of one token, else of one address; 0 is no limit."),
        OPTION(SBX_OPTION_DURATION, "http.keep_alive", .default_value = "15s", .minimum = 100, .maximum = HOUR,
               .help = "After how much silence an answer becomes a stream, and a stream gets a comment."),
        OPTION(SBX_OPTION_DURATION, "http.shutdown", .default_value = "5s", .minimum = 0, .maximum = HOUR,
               .help = "How long requests may go on when the server is told to end."),
        {.struct_size = sizeof(struct sbx_option)},
};

/* NULL-terminated; the strings are the host's. NULL: out of memory. */
static const char *const *read_list(const struct sbx_host *host, const char *name) {
        size_t count = host->option_count(host->self, name);
        const char **list = calloc(count + 1, sizeof(*list));

        for (size_t i = 0; list != NULL && i < count; i++)
                list[i] = host->option_item(host->self, name, i);
        return list;
}

static void free_list(const char *const *list) {
        free((void *)(uintptr_t)list);
}

static size_t read_size(const struct sbx_host *host, const char *name) {
        return (size_t)host->option_int(host->self, name);
}

static void read_http(const struct sbx_host *host, struct mcp_http_settings *http) {
        struct sbx_host_state *self = host->self;

        *http = (struct mcp_http_settings){
                .listen = host->option_string(self, "http.listen"),
                .path = host->option_string(self, "http.path"),
                .tls_certificate = host->option_string(self, "http.tls_certificate"),
                .tls_key = host->option_string(self, "http.tls_key"),
                .token_file = host->option_string(self, "http.token_file"),
                .issuer = host->option_string(self, "http.issuer"),
                .audience = host->option_string(self, "http.audience"),
                .jwks = host->option_string(self, "http.jwks"),
                .scopes = read_list(host, "http.scopes"),
                .hosts = read_list(host, "http.hosts"),
                .origins = read_list(host, "http.origins"),
                .message_max = read_size(host, "max_message"),
                .sessions_max = read_size(host, "http.max_sessions"),
                .sessions_per_principal = read_size(host, "http.max_sessions_per_principal"),
                .session_ttl_ms = read_size(host, "http.session_ttl"),
                .keep_alive_ms = read_size(host, "http.keep_alive"),
                .replay_bytes = REPLAY_BYTES,
                .replay_ms = REPLAY_MS,
                .connections_max = (unsigned)read_size(host, "http.max_connections"),
                .rate_per_second = (unsigned)read_size(host, "http.rate"),
                .shutdown_ms = read_size(host, "http.shutdown"),
        };
}

int mcp_options_read(const struct sbx_host *host, struct mcp_options *ret_options, struct sbx_error *err) {
        struct mcp_options options = {
                .settings =
                        {
                                .host = host,
                                .calls_max = read_size(host, "max_calls"),
                                .tasks_max = read_size(host, "tasks.max"),
                                .task_ttl_ms = read_size(host, "tasks.ttl"),
                                .waiting_max = WAITING_MAX,
                                .input_timeout_ms = read_size(host, "input_timeout"),
                                .page_size = read_size(host, "page_size"),
                        },
                .message_max = read_size(host, "max_message"),
        };

        read_http(host, &options.http);
        if (options.http.scopes == NULL || options.http.hosts == NULL || options.http.origins == NULL) {
                mcp_options_free(&options);
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for the options");
        }
        *ret_options = options;
        return 0;
}

void mcp_options_free(struct mcp_options *options) {
        free_list(options->http.scopes);
        free_list(options->http.hosts);
        free_list(options->http.origins);
}
