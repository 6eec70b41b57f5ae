/* SPDX-License-Identifier: Apache-2.0 */
/* Who a client is: bearer tokens of a file, and JSON Web Tokens of an OAuth issuer (RFC 6750, RFC 9068, RFC 8707).
 * Tokens are taken from the Authorization header alone, compared in constant time, and never logged or handed on. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/types.h>

struct hs_auth;

struct hs_auth_settings {
        /* A file of the user's own, not readable by others: a line for each token, `NAME TOKEN` or `NAME sha256:HEX`;
         * '#' begins a comment; NAME is [A-Za-z0-9._-]{1,64}. Read again when it has changed. NULL: none. */
        const char *token_file;
        /* JWT: all three of these, or none. */
        const char *issuer;   /* `iss`, an https address */
        const char *audience; /* `aud`: the address that this server is known by, "https://host/mcp" */
        const char *jwks; /* the issuer's keys: a file, or an https address (http on loopback), fetched when needed */
        const char *const *scopes; /* each must be in `scope`; NULL-terminated; may be NULL */
        /* RFC 9728: where the metadata of the protected resource is; goes into WWW-Authenticate. May be NULL. */
        const char *metadata_url;
        /* Tells of a token file that can't be used any more and of keys that can't be fetched; never of tokens. NULL:
         * nobody wants to know. By any thread. */
        void (*log)(void *data, int level, const char *message); /* SBX_LOG_* */
        void *log_data;
};

/* -EINVAL, -ENOENT, -EACCES (others can read the token file), -ENOTSUP (JWT was left out of the build), -ENOMEM. */
int hs_auth_new(const struct hs_auth_settings *settings, struct hs_auth **ret_auth, struct sbx_error *err);
void hs_auth_free(struct hs_auth *auth); /* NULL is fine */

enum hs_auth_result {
        HS_AUTH_OK = 0,
        HS_AUTH_MISSING = 1,   /* 401, no error in the challenge */
        HS_AUTH_INVALID = 2,   /* 401 invalid_token */
        HS_AUTH_FORBIDDEN = 3, /* 403 insufficient_scope */
        HS_AUTH_LATER = 4,     /* 503: the issuer's keys can't be had now */
};
#define HS_PRINCIPAL_SIZE 320

/* `authorization`: the header's value, NULL if there is none. `ret_principal`: "token:NAME", or "jwt:" and 32
 * hexadecimal digits of the SHA-256 of issuer, a newline and subject. `ret_challenge` (of any size): the value of
 * WWW-Authenticate when it is not OK. Any thread. Never waits: keys that are missing are fetched by a thread of its
 * own, meanwhile it is HS_AUTH_LATER. */
enum hs_auth_result hs_auth_check(const struct hs_auth *auth, const char *authorization,
                                  char ret_principal[HS_PRINCIPAL_SIZE], char *ret_challenge, size_t challenge_size);

/* The RFC 9728 document for `resource`; empty without an issuer. The caller frees. -ENOMEM. */
int hs_auth_metadata(const struct hs_auth *auth, const char *resource, char **ret_json);
