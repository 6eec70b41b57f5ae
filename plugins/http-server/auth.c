/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out who a client is from its Authorization header. */
#include "auth.h"

#include <stdlib.h>

#include "internal.h"
#include "jwt.h"
#include "tokens.h"

#define BEARER_MAX 8192

struct hs_auth {
        struct hs_tokens *tokens;   /* NULL: none */
        struct hs_jwt *jwt;         /* NULL: none */
        char *metadata_url, *scope; /* NULL: none */
};

static int set_jwt(struct hs_auth *auth, const struct hs_auth_settings *settings, struct sbx_error *err) {
        if (settings->issuer == NULL && settings->audience == NULL && settings->jwks == NULL)
                return 0;
        if (settings->issuer == NULL || settings->audience == NULL || settings->jwks == NULL)
                return sbx_error_set(err, -EINVAL, HS_ORIGIN, "Set all three, or none.",
                                     "the issuer, the audience and the keys of JSON Web Tokens belong together");
        return hs_jwt_new(settings, &auth->jwt, err);
}

/* "a b": as a challenge names them. */
static int join_scopes(const char *const *scopes, char **ret, struct sbx_error *err) {
        char *text = NULL;
        size_t size = 0;
        FILE *stream;

        if (scopes == NULL || *scopes == NULL)
                return 0;
        stream = open_memstream(&text, &size);
        if (stream == NULL)
                return sbx_error_set(err, -ENOMEM, HS_ORIGIN, NULL, "out of memory");
        for (const char *const *scope = scopes; *scope != NULL; scope++) {
                for (const char *c = *scope; *c != '\0'; c++)
                        if (*c <= 0x20 || *c >= 0x7f || *c == '"' || *c == '\\') {
                                fclose(stream);
                                free(text);
                                return sbx_error_set(err, -EINVAL, HS_ORIGIN, "Scopes have no blanks and quotes.",
                                                     "\"%s\" is no scope", *scope);
                        }
                fprintf(stream, "%s%s", scope != scopes ? " " : "", *scope);
        }
        if (fclose(stream) != 0) {
                free(text);
                return sbx_error_set(err, -ENOMEM, HS_ORIGIN, NULL, "out of memory");
        }
        *ret = text;
        return 0;
}

static int set_metadata_url(struct hs_auth *auth, const char *url, struct sbx_error *err) {
        if (url == NULL)
                return 0;
        for (const char *c = url; *c != '\0'; c++)
                if (*c <= 0x20 || *c >= 0x7f || *c == '"' || *c == '\\')
                        return sbx_error_set(err, -EINVAL, HS_ORIGIN, NULL, "the address of the metadata is malformed");
        auth->metadata_url = strdup(url);
        return auth->metadata_url != NULL ? 0 : sbx_error_set(err, -ENOMEM, HS_ORIGIN, NULL, "out of memory");
}

int hs_auth_new(const struct hs_auth_settings *settings, struct hs_auth **ret_auth, struct sbx_error *err) {
        struct hs_auth *auth = calloc(1, sizeof(*auth));
        int r = 0;

        if (auth == NULL)
                return sbx_error_set(err, -ENOMEM, HS_ORIGIN, NULL, "out of memory");
        if (settings->token_file == NULL && settings->issuer == NULL)
                r = sbx_error_set(err, -EINVAL, HS_ORIGIN, "Give a token file, or an issuer with audience and keys.",
                                  "nothing says which tokens are valid");
        if (r == 0 && settings->token_file != NULL)
                r = hs_tokens_new(settings->token_file, settings->log, settings->log_data, &auth->tokens, err);
        if (r == 0)
                r = set_jwt(auth, settings, err);
        if (r == 0)
                r = join_scopes(settings->scopes, &auth->scope, err);
        if (r == 0)
                r = set_metadata_url(auth, settings->metadata_url, err);
        if (r < 0) {
                hs_auth_free(auth);
                return r;
        }
        *ret_auth = auth;
        return 0;
}

void hs_auth_free(struct hs_auth *auth) {
        if (auth == NULL)
                return;
        hs_tokens_free(auth->tokens);
        hs_jwt_free(auth->jwt);
        free(auth->metadata_url);
        free(auth->scope);
        free(auth);
}

/* RFC 6750: "Bearer", blanks, b64token. NULL: something else. */
static const char *bearer(const char *authorization) {
        const char *token;
        size_t size;

        if (strncasecmp(authorization, "Bearer ", 7) != 0)
                return NULL;
        token = authorization + 7 + strspn(authorization + 7, " ");
        size = strlen(token);
        if (size == 0 || size > BEARER_MAX)
                return NULL;
        for (const char *c = token; *c != '\0'; c++)
                if (*c <= 0x20 || *c >= 0x7f || *c == ',' || *c == '"')
                        return NULL;
        return token;
}

static void write_challenge(const struct hs_auth *auth, enum hs_auth_result result, char *ret, size_t size) {
        const char *error = result == HS_AUTH_INVALID     ? "invalid_token"
                            : result == HS_AUTH_FORBIDDEN ? "insufficient_scope"
                                                          : NULL;
        const char *scope = result == HS_AUTH_LATER ? NULL : auth->scope;
        int length = 0;

        if (size > 0)
                length = snprintf(
                        ret, size, "Bearer realm=\"snipara-sandbox\"%s%s%s%s%s%s%s%s%s",
                        error != NULL ? ", error=\"" : "", error != NULL ? error : "", error != NULL ? "\"" : "",
                        scope != NULL ? ", scope=\"" : "", scope != NULL ? scope : "", scope != NULL ? "\"" : "",
                        auth->metadata_url != NULL ? ", resource_metadata=\"" : "",
                        auth->metadata_url != NULL ? auth->metadata_url : "", auth->metadata_url != NULL ? "\"" : "");
        if (size > 0 && (length < 0 || (size_t)length >= size))
                snprintf(ret, size, "Bearer"); /* rather less than half a parameter */
}

static enum hs_auth_result check(const struct hs_auth *auth, const char *authorization,
                                 char ret_principal[HS_PRINCIPAL_SIZE]) {
        char name[HS_TOKEN_NAME_MAX + 1];
        const char *token;

        if (authorization == NULL)
                return HS_AUTH_MISSING;
        token = bearer(authorization);
        if (token == NULL)
                return HS_AUTH_INVALID;
        if (auth->tokens != NULL && hs_tokens_find(auth->tokens, token, name)) {
                snprintf(ret_principal, HS_PRINCIPAL_SIZE, "token:%s", name);
                return HS_AUTH_OK;
        }
        return auth->jwt != NULL ? hs_jwt_check(auth->jwt, token, ret_principal) : HS_AUTH_INVALID;
}

enum hs_auth_result hs_auth_check(const struct hs_auth *auth, const char *authorization,
                                  char ret_principal[HS_PRINCIPAL_SIZE], char *ret_challenge, size_t challenge_size) {
        enum hs_auth_result result = check(auth, authorization, ret_principal);

        if (result != HS_AUTH_OK) {
                ret_principal[0] = '\0';
                write_challenge(auth, result, ret_challenge, challenge_size);
        }
        return result;
}

int hs_auth_metadata(const struct hs_auth *auth, const char *resource, char **ret_json) {
        if (auth->jwt != NULL)
                return hs_jwt_metadata(auth->jwt, resource, ret_json);
        *ret_json = strdup("");
        return *ret_json != NULL ? 0 : -ENOMEM;
}
