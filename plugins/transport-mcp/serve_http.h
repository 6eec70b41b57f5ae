/* SPDX-License-Identifier: Apache-2.0 */
/* MCP over Streamable HTTP: both eras on one path, and what an operator asks of a server (health, figures). */
#pragma once

#include "connection.h"
#include "server.h"

struct mcp_http_settings {
        const char *listen, *path; /* "127.0.0.1:8000", "/mcp" */
        const char *tls_certificate, *tls_key, *token_file;
        const char *issuer, *audience, *jwks; /* of JSON Web Tokens; all or none */
        const char *const *scopes, *const *hosts, *const *origins;
        size_t message_max;
        size_t sessions_max, sessions_per_principal; /* HTTP sessions of legacy clients */
        uint64_t session_ttl_ms;                     /* of one that nobody uses */
        uint64_t keep_alive_ms;                      /* a comment on a stream that is silent */
        size_t replay_bytes, replay_ms; /* what a stream keeps for Last-Event-ID: of each session, and how long */
        unsigned connections_max, rate_per_second;
        uint64_t shutdown_ms; /* what is under way may end within it */
};

/* Serves until `call` is cancelled (0) or its deadline passes (-ETIMEDOUT). When it listens, the address is written to
 * `output_fd` in one line, "http://127.0.0.1:8000/mcp"; -1: nowhere. */
int mcp_http_serve(struct mcp_server *server, const struct mcp_http_settings *settings, int output_fd,
                   const struct sbx_call *call, struct sbx_error *err);
