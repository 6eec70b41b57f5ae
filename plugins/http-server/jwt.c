/* SPDX-License-Identifier: Apache-2.0 */
/* Checks JSON Web Tokens: what they claim first, for that is cheap, and the signature last. */
#include "jwt.h"

#include <sha2.h>
#include <stdlib.h>
#include <time.h>

#include "internal.h"
#include "json.h"
#include "jwks.h"

#define LEEWAY_S 60
#define TOKEN_MAX 8192
#define SUBJECT_MAX 1024
#define CACHE_SIZE 256  /* a power of two */
#define CACHE_MAX_S 300 /* a token that was good is good for so long without being looked at again */

/* Tokens that were checked, by their digests: a signature takes longer to check than a request to answer. */
struct remembered {
        uint8_t digest[SHA256_DIGEST_LENGTH];
        uint64_t generation; /* of the keys; 0: empty */
        time_t until;
        char principal[48];
};

struct hs_jwt {
        char *issuer, *audience;
        char **scopes; /* NULL-terminated; may be NULL */
        struct hs_jwks *jwks;
        pthread_mutex_t lock; /* protects cache */
        struct remembered cache[CACHE_SIZE];
};

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static int library_ready = RHN_ERROR;

static void set_up_library(void) {
        library_ready = r_global_init();
}

static int copy_scopes(struct hs_jwt *jwt, const char *const *scopes) {
        size_t count = 0;

        while (scopes != NULL && scopes[count] != NULL)
                count++;
        if (count == 0)
                return 0;
        jwt->scopes = calloc(count + 1, sizeof(*jwt->scopes));
        for (size_t i = 0; jwt->scopes != NULL && i < count; i++)
                if ((jwt->scopes[i] = strdup(scopes[i])) == NULL)
                        return -ENOMEM;
        return jwt->scopes != NULL ? 0 : -ENOMEM;
}

int hs_jwt_new(const struct hs_auth_settings *settings, struct hs_jwt **ret_jwt, struct sbx_error *err) {
        struct hs_jwt *jwt;
        int r;

        if (strncmp(settings->issuer, "https://", 8) != 0 && strncmp(settings->issuer, "http://", 7) != 0)
                return sbx_error_set(err, -EINVAL, HS_ORIGIN, "Give it as the tokens' \"iss\" has it.",
                                     "the issuer is not an https address");
        pthread_once(&library_once, set_up_library);
        if (library_ready != RHN_OK)
                return sbx_error_set(err, -ENOTSUP, HS_ORIGIN, "Check the installation of librhonabwy and libcurl.",
                                     "librhonabwy can't be set up");
        jwt = calloc(1, sizeof(*jwt));
        if (jwt == NULL)
                return sbx_error_set(err, -ENOMEM, HS_ORIGIN, NULL, "out of memory");
        pthread_mutex_init(&jwt->lock, NULL);
        jwt->issuer = strdup(settings->issuer);
        jwt->audience = strdup(settings->audience);
        if (jwt->issuer == NULL || jwt->audience == NULL || copy_scopes(jwt, settings->scopes) < 0)
                r = sbx_error_set(err, -ENOMEM, HS_ORIGIN, NULL, "out of memory");
        else
                r = hs_jwks_new(settings->jwks, settings->log, settings->log_data, &jwt->jwks, err);
        if (r < 0) {
                hs_jwt_free(jwt);
                return r;
        }
        *ret_jwt = jwt;
        return 0;
}

void hs_jwt_free(struct hs_jwt *jwt) {
        if (jwt == NULL)
                return;
        hs_jwks_free(jwt->jwks);
        for (char **scope = jwt->scopes; scope != NULL && *scope != NULL; scope++)
                free(*scope);
        free(jwt->scopes);
        free(jwt->issuer);
        free(jwt->audience);
        pthread_mutex_destroy(&jwt->lock);
        free(jwt);
}

static int base64url_value(char c) {
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        return c == '-' ? 62 : c == '_' ? 63 : -1;
}

/* RFC 4648, 5, without padding and without bits that are left over; `out` has room for 3/4 of `size`. */
static int decode(const char *text, size_t size, char *out, size_t *ret_size) {
        uint32_t bits = 0;
        size_t held = 0, length = 0;

        if (size % 4 == 1)
                return -EINVAL;
        for (size_t i = 0; i < size; i++) {
                int value = base64url_value(text[i]);

                if (value < 0)
                        return -EINVAL;
                bits = bits << 6 | (uint32_t)value;
                held += 6;
                if (held >= 8) {
                        held -= 8;
                        out[length++] = (char)(bits >> held);
                        bits &= (1u << held) - 1;
                }
        }
        if (bits != 0)
                return -EINVAL;
        *ret_size = length;
        return 0;
}

static json_t *decode_json(const char *text, size_t size) {
        char *bytes = malloc(size + 1);
        json_t *json = NULL;
        size_t length = 0;

        if (bytes != NULL && decode(text, size, bytes, &length) == 0)
                json = hs_json_parse(bytes, length);
        free(bytes);
        if (json != NULL && !json_is_object(json)) {
                json_decref(json);
                return NULL;
        }
        return json;
}

/* A token in parts: its header and claims, if it has the form of one. */
struct parts {
        json_t *header, *claims;
};

static void clear_parts(struct parts *parts) {
        json_decref(parts->header);
        json_decref(parts->claims);
}

static int split(const char *token, struct parts *parts) {
        const char *first = strchr(token, '.');
        const char *second = first != NULL ? strchr(first + 1, '.') : NULL;

        if (second == NULL || second[1] == '\0' || strchr(second + 1, '.') != NULL || strlen(token) > TOKEN_MAX)
                return -EINVAL;
        for (const char *c = second + 1; *c != '\0'; c++)
                if (base64url_value(*c) < 0)
                        return -EINVAL;
        parts->header = decode_json(token, (size_t)(first - token));
        parts->claims = decode_json(first + 1, (size_t)(second - first - 1));
        return parts->header != NULL && parts->claims != NULL ? 0 : -EINVAL;
}

/* Fields that change what the rest means are not understood, and so refused (RFC 7515, 4.1.11). */
static int check_header(const json_t *header, enum hs_algorithm *ret_algorithm) {
        const char *name = json_string_value(json_object_get(header, "alg"));
        const json_t *type = json_object_get(header, "typ");
        const char *text = json_string_value(type);

        if (name == NULL || json_object_get(header, "crit") != NULL || json_object_get(header, "zip") != NULL ||
            json_object_get(header, "b64") != NULL || json_object_get(header, "enc") != NULL)
                return -EINVAL;
        if (type != NULL && (text == NULL || (strcasecmp(text, "at+jwt") != 0 && strcasecmp(text, "JWT") != 0 &&
                                              strcasecmp(text, "application/at+jwt") != 0)))
                return -EINVAL;
        for (size_t i = 0; i < HS_ALGORITHMS; i++)
                if (strcmp(name, hs_algorithm_name((enum hs_algorithm)i)) == 0) {
                        *ret_algorithm = (enum hs_algorithm)i;
                        return 0;
                }
        return -EINVAL;
}

/* A time of RFC 7519: seconds, maybe with a fraction. */
static bool get_time(const json_t *claims, const char *name, double *ret) {
        const json_t *value = json_object_get(claims, name);

        if (!json_is_number(value))
                return false;
        *ret = json_number_value(value);
        return *ret > 0 && *ret < 1e12;
}

static int check_times(const json_t *claims, double now, time_t *ret_end) {
        double expires, begins;

        if (!get_time(claims, "exp", &expires) || expires + LEEWAY_S <= now)
                return -EINVAL;
        if (json_object_get(claims, "nbf") != NULL && (!get_time(claims, "nbf", &begins) || begins - LEEWAY_S > now))
                return -EINVAL;
        *ret_end = (time_t)expires + LEEWAY_S;
        return 0;
}

static bool is_audience(const json_t *audience, const char *wanted) {
        if (json_is_string(audience))
                return strcmp(json_string_value(audience), wanted) == 0;
        for (size_t i = 0; i < json_array_size(audience); i++) {
                const char *one = json_string_value(json_array_get(audience, i));

                if (one != NULL && strcmp(one, wanted) == 0)
                        return true;
        }
        return false;
}

static int check_claims(const struct hs_jwt *jwt, const json_t *claims) {
        const char *issuer = json_string_value(json_object_get(claims, "iss"));
        const json_t *subject = json_object_get(claims, "sub");

        if (issuer == NULL || strcmp(issuer, jwt->issuer) != 0 ||
            !is_audience(json_object_get(claims, "aud"), jwt->audience))
                return -EINVAL;
        if (!json_is_string(subject) || json_string_length(subject) == 0 || json_string_length(subject) > SUBJECT_MAX ||
            strlen(json_string_value(subject)) != json_string_length(subject))
                return -EINVAL;
        return 0;
}

static bool has_scope(const char *granted, const char *scope) {
        size_t size = strlen(scope);

        while (granted != NULL && *granted != '\0') {
                size_t length = strcspn(granted, " ");

                if (length == size && memcmp(granted, scope, size) == 0)
                        return true;
                granted += length;
                granted += strspn(granted, " ");
        }
        return false;
}

static bool has_scopes(const struct hs_jwt *jwt, const json_t *claims) {
        const char *granted = json_string_value(json_object_get(claims, "scope"));

        for (char **scope = jwt->scopes; scope != NULL && *scope != NULL; scope++)
                if (!has_scope(granted, *scope))
                        return false;
        return true;
}

static bool verify(const char *token, jwk_t *key) {
        jws_t *jws = NULL;
        bool good = false;

        if (r_jws_init(&jws) != RHN_OK)
                return false;
        /* Keys and addresses that the token itself brings are never looked at. */
        if (r_jws_advanced_compact_parse(jws, token, R_PARSE_NONE, R_FLAG_IGNORE_REMOTE) == RHN_OK)
                good = r_jws_verify_signature(jws, key, R_FLAG_IGNORE_REMOTE) == RHN_OK;
        r_jws_free(jws);
        return good;
}

static enum hs_auth_result check_signature(const struct hs_jwt *jwt, const char *token, const json_t *header,
                                           enum hs_algorithm algorithm) {
        const json_t *kid = json_object_get(header, "kid");
        jwk_t *key = NULL;
        bool good;
        int r;

        if (kid != NULL && !json_is_string(kid))
                return HS_AUTH_INVALID;
        r = hs_jwks_find(jwt->jwks, json_string_value(kid), algorithm, &key);
        if (r < 0)
                return r == -EAGAIN ? HS_AUTH_LATER : HS_AUTH_INVALID;
        good = verify(token, key);
        r_jwk_free(key);
        return good ? HS_AUTH_OK : HS_AUTH_INVALID;
}

/* Whoever the issuer calls so; the subject itself may be a name or an address of somebody, and stays here. */
static void set_principal(const struct hs_jwt *jwt, const json_t *claims, char ret_principal[HS_PRINCIPAL_SIZE]) {
        const char *subject = json_string_value(json_object_get(claims, "sub"));
        uint8_t digest[SHA256_DIGEST_LENGTH];
        char hex[33];
        SHA2_CTX context;

        SHA256Init(&context);
        SHA256Update(&context, (const uint8_t *)jwt->issuer, strlen(jwt->issuer));
        SHA256Update(&context, (const uint8_t *)"\n", 1);
        SHA256Update(&context, (const uint8_t *)subject, strlen(subject));
        SHA256Final(digest, &context);
        for (size_t i = 0; i < 16; i++)
                snprintf(hex + 2 * i, 3, "%02x", digest[i]);
        snprintf(ret_principal, HS_PRINCIPAL_SIZE, "jwt:%s", hex);
}

static enum hs_auth_result check_whole(const struct hs_jwt *jwt, const char *token,
                                       char ret_principal[HS_PRINCIPAL_SIZE], time_t *ret_end) {
        __attribute__((cleanup(clear_parts))) struct parts parts = {0};
        enum hs_algorithm algorithm;
        enum hs_auth_result result;

        if (split(token, &parts) < 0 || check_header(parts.header, &algorithm) < 0 ||
            check_claims(jwt, parts.claims) < 0 || check_times(parts.claims, (double)time(NULL), ret_end) < 0)
                return HS_AUTH_INVALID;
        result = check_signature(jwt, token, parts.header, algorithm);
        if (result != HS_AUTH_OK)
                return result;
        if (!has_scopes(jwt, parts.claims))
                return HS_AUTH_FORBIDDEN;
        set_principal(jwt, parts.claims, ret_principal);
        return HS_AUTH_OK;
}

static struct remembered *place_of(struct hs_jwt *jwt, const uint8_t digest[SHA256_DIGEST_LENGTH]) {
        return &jwt->cache[digest[0] % CACHE_SIZE];
}

static bool recall(struct hs_jwt *jwt, const uint8_t *digest, uint64_t generation,
                   char ret_principal[HS_PRINCIPAL_SIZE]) {
        const struct remembered *place = place_of(jwt, digest);
        bool known;

        pthread_mutex_lock(&jwt->lock);
        known = generation != 0 && place->generation == generation && place->until > time(NULL) &&
                memcmp(place->digest, digest, SHA256_DIGEST_LENGTH) == 0;
        if (known)
                memcpy(ret_principal, place->principal, sizeof(place->principal));
        pthread_mutex_unlock(&jwt->lock);
        return known;
}

static void remember(struct hs_jwt *jwt, const uint8_t *digest, uint64_t generation, time_t end,
                     const char *principal) {
        struct remembered *place = place_of(jwt, digest);
        time_t now = time(NULL);

        pthread_mutex_lock(&jwt->lock);
        memcpy(place->digest, digest, SHA256_DIGEST_LENGTH);
        place->generation = generation;
        place->until = end < now + CACHE_MAX_S ? end : now + CACHE_MAX_S;
        snprintf(place->principal, sizeof(place->principal), "%s", principal);
        pthread_mutex_unlock(&jwt->lock);
}

enum hs_auth_result hs_jwt_check(struct hs_jwt *jwt, const char *token, char ret_principal[HS_PRINCIPAL_SIZE]) {
        uint64_t generation = hs_jwks_generation(jwt->jwks);
        uint8_t digest[SHA256_DIGEST_LENGTH];
        enum hs_auth_result result;
        SHA2_CTX context;
        time_t end = 0;

        SHA256Init(&context);
        SHA256Update(&context, (const uint8_t *)token, strlen(token));
        SHA256Final(digest, &context);
        if (recall(jwt, digest, generation, ret_principal))
                return HS_AUTH_OK;
        result = check_whole(jwt, token, ret_principal, &end);
        if (result == HS_AUTH_OK && generation != 0)
                remember(jwt, digest, generation, end, ret_principal);
        return result;
}

int hs_jwt_metadata(const struct hs_jwt *jwt, const char *resource, char **ret_json) {
        json_t *scopes = json_array(), *document;
        char *text = NULL;

        for (char **scope = jwt->scopes; scope != NULL && *scope != NULL; scope++)
                json_array_append_new(scopes, json_string(*scope));
        document = json_pack("{s:s, s:[s], s:O, s:[s]}", "resource", resource, "authorization_servers", jwt->issuer,
                             "scopes_supported", scopes, "bearer_methods_supported", "header");
        if (document != NULL && json_array_size(scopes) == 0)
                json_object_del(document, "scopes_supported");
        if (document != NULL)
                text = json_dumps(document, JSON_COMPACT);
        json_decref(document);
        json_decref(scopes);
        if (text == NULL)
                return -ENOMEM;
        *ret_json = text;
        return 0;
}
