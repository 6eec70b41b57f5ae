/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, keeps and refreshes the keys of an issuer (RFC 7517). */
#include "jwks.h"

#include <http.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "file.h"
#include "internal.h"
#include "json.h"

#define DOCUMENT_MAX (256u * 1024u)
#define KEYS_MAX 64
#define KID_MAX 256
#define RSA_BITS_MIN 2048
#define FETCH_TIMEOUT_NS (UINT64_C(10000) * HS_NS_PER_MS)
#define S_NS (UINT64_C(1000) * HS_NS_PER_MS)
#define UNKNOWN_EVERY_NS (60 * S_NS)      /* a key that is not known makes it look again, no oftener */
#define NOTHING_EVERY_NS (5 * S_NS)       /* ... while there are no keys at all */
#define FRESH_NS (600 * S_NS)             /* older keys are fetched again, and used meanwhile */
#define STALE_NS (UINT64_C(86400) * S_NS) /* older keys are not used: the issuer may have withdrawn them */

struct key {
        jwk_t *jwk;
        char *kid; /* NULL: it has none */
        bool fits[HS_ALGORITHMS];
};

struct keys {
        struct key list[KEYS_MAX];
        size_t count;
};

struct hs_jwks {
        char *place;
        bool is_file;
        void (*log)(void *data, int level, const char *message);
        void *log_data;
        struct sbx_http *http; /* NULL for a file */
        int cancel_fd;
        pthread_t thread;
        bool running;

        pthread_mutex_t lock; /* protects what follows */
        pthread_cond_t wanted_changed;
        struct keys *keys; /* NULL: none yet */
        uint64_t generation, loaded_ns, tried_ns;
        bool wanted, busy, ending;
};

const char *hs_algorithm_name(enum hs_algorithm algorithm) {
        static const char *const names[HS_ALGORITHMS] = {
                [HS_RS256] = "RS256", [HS_PS256] = "PS256", [HS_ES256] = "ES256", [HS_EDDSA] = "EdDSA"};

        return names[algorithm];
}

static void free_keys(struct keys *keys) {
        if (keys == NULL)
                return;
        for (size_t i = 0; i < keys->count; i++) {
                r_jwk_free(keys->list[i].jwk);
                free(keys->list[i].kid);
        }
        free(keys);
}

/* Which of the algorithms a key is for, by its kind, and by what it says of itself. */
static bool set_fits(struct key *key, const json_t *json) {
        const char *use = json_string_value(json_object_get(json, "use"));
        const char *own = json_string_value(json_object_get(json, "alg"));
        const char *curve = json_string_value(json_object_get(json, "crv"));
        unsigned bits = 0;
        int type = r_jwk_key_type(key->jwk, &bits, R_FLAG_IGNORE_REMOTE);
        bool any = false;

        if ((type & R_KEY_TYPE_PUBLIC) == 0 || (use != NULL && strcmp(use, "sig") != 0))
                return false;
        key->fits[HS_RS256] = key->fits[HS_PS256] = (type & R_KEY_TYPE_RSA) != 0 && bits >= RSA_BITS_MIN;
        key->fits[HS_ES256] = (type & R_KEY_TYPE_EC) != 0 && curve != NULL && strcmp(curve, "P-256") == 0;
        key->fits[HS_EDDSA] = (type & R_KEY_TYPE_EDDSA) != 0 && curve != NULL && strcmp(curve, "Ed25519") == 0;
        for (size_t i = 0; i < HS_ALGORITHMS; i++) {
                if (own != NULL && strcmp(own, hs_algorithm_name((enum hs_algorithm)i)) != 0)
                        key->fits[i] = false;
                any |= key->fits[i];
        }
        return any;
}

/* Only what a public key consists of is handed on: no addresses to fetch certificates from, no private parts. */
static json_t *public_part(const json_t *json) {
        static const char *const members[] = {"kty", "n", "e", "crv", "x", "y"};
        json_t *part = json_object();

        for (size_t i = 0; part != NULL && i < sizeof(members) / sizeof(*members); i++) {
                json_t *member = json_object_get(json, members[i]);

                if (member != NULL && json_object_set(part, members[i], member) < 0) {
                        json_decref(part);
                        return NULL;
                }
        }
        return part;
}

/* Keys of other kinds are passed over, as RFC 7517, 5 has it. -ENOMEM. */
static int add_key(struct keys *keys, const json_t *json) {
        const char *kid = json_string_value(json_object_get(json, "kid"));
        struct key *key = &keys->list[keys->count];
        json_t *part;
        int r = 0;

        if (!json_is_object(json) || (kid != NULL && strlen(kid) > KID_MAX))
                return 0;
        part = public_part(json);
        *key = (struct key){0};
        if (part == NULL || r_jwk_init(&key->jwk) != RHN_OK) {
                json_decref(part);
                return -ENOMEM;
        }
        if (r_jwk_import_from_json_t(key->jwk, part) != RHN_OK || !set_fits(key, json))
                r = -EINVAL;
        else if (kid != NULL && (key->kid = strdup(kid)) == NULL)
                r = -ENOMEM;
        json_decref(part);
        if (r < 0)
                r_jwk_free(key->jwk);
        else
                keys->count++;
        return r == -EINVAL ? 0 : r;
}

static int parse(const char *text, size_t size, struct keys **ret_keys, const char **ret_why) {
        json_t *document = hs_json_parse(text, size);
        struct keys *keys;
        const json_t *list;
        size_t count;

        list = document != NULL ? json_object_get(document, "keys") : NULL;
        if (!json_is_array(list)) {
                json_decref(document);
                *ret_why = "it is not a JSON object with a list of \"keys\"";
                return -EINVAL;
        }
        keys = calloc(1, sizeof(*keys));
        count = json_array_size(list);
        for (size_t i = 0; keys != NULL && i < count && keys->count < KEYS_MAX; i++)
                if (add_key(keys, json_array_get(list, i)) < 0) {
                        free_keys(keys);
                        keys = NULL;
                }
        json_decref(document);
        if (keys == NULL) {
                *ret_why = "out of memory";
                return -ENOMEM;
        }
        if (keys->count == 0) {
                free_keys(keys);
                *ret_why = "it has no public key for RS256, PS256, ES256 or EdDSA";
                return -EINVAL;
        }
        *ret_keys = keys;
        return 0;
}

static int parse_report(const char *place, const char *text, size_t size, struct keys **ret_keys,
                        struct sbx_error *err) {
        const char *why = "";
        int r = parse(text, size, ret_keys, &why);

        if (r < 0)
                return sbx_error_set(err, r, HS_ORIGIN,
                                     "It has to be the JWK set that the issuer publishes (jwks_uri).",
                                     "the keys of %s can't be used: %s", place, why);
        return 0;
}

static int load_file(const char *path, struct keys **ret_keys, struct sbx_error *err) {
        char *text = NULL;
        size_t size = 0;
        int r = hs_file_read(path, "key set", DOCUMENT_MAX, false, &text, &size, NULL, err);

        if (r == 0)
                r = parse_report(path, text, size, ret_keys, err);
        free(text);
        return r;
}

static int fetch(const struct hs_jwks *jwks, struct keys **ret_keys, struct sbx_error *err) {
        static const char *const headers[] = {"Accept: application/jwk-set+json, application/json", NULL};
        const struct sbx_http_request request = {
                .method = "GET",
                .url = jwks->place,
                .headers = headers,
                .response_max_bytes = DOCUMENT_MAX,
        };
        const struct sbx_call call = {
                .struct_size = sizeof(call),
                .cancel_fd = jwks->cancel_fd,
                .deadline_ns = hs_now_ns() + FETCH_TIMEOUT_NS,
        };
        struct sbx_http_response response;
        int r = sbx_http_perform(jwks->http, &request, &call, &response, err);

        if (r < 0)
                return r;
        if (response.status != 200)
                r = sbx_error_set(err, -EPROTO, HS_ORIGIN, "Check the address of the issuer's keys.",
                                  "the issuer's keys can't be fetched: HTTP status %u", response.status);
        else
                r = parse_report("the issuer", response.body != NULL ? response.body : "", response.body_size, ret_keys,
                                 err);
        sbx_http_response_clear(&response);
        return r;
}

/* The lock is held, and let go meanwhile. */
static void refresh(struct hs_jwks *jwks) {
        struct sbx_error err = {0};
        struct keys *keys = NULL;
        int r;

        jwks->wanted = false;
        jwks->busy = true;
        jwks->tried_ns = hs_now_ns();
        pthread_mutex_unlock(&jwks->lock);
        r = jwks->is_file ? load_file(jwks->place, &keys, &err) : fetch(jwks, &keys, &err);
        pthread_mutex_lock(&jwks->lock);
        jwks->busy = false;
        if (r == 0) {
                free_keys(jwks->keys);
                jwks->keys = keys;
                jwks->generation++;
                jwks->loaded_ns = jwks->tried_ns;
        } else if (!jwks->ending && jwks->log != NULL) {
                jwks->log(jwks->log_data, SBX_LOG_WARNING, err.message);
        }
}

static void *run(void *data) {
        struct hs_jwks *jwks = data;

        pthread_setname_np(pthread_self(), "issuer-keys");
        pthread_mutex_lock(&jwks->lock);
        while (!jwks->ending) {
                if (jwks->wanted)
                        refresh(jwks);
                else
                        pthread_cond_wait(&jwks->wanted_changed, &jwks->lock);
        }
        pthread_mutex_unlock(&jwks->lock);
        return NULL;
}

/* https, or http on loopback: who can change the keys can be anybody. */
static int check_url(const char *place, struct sbx_error *err) {
        bool plain = strncasecmp(place, "http://", 7) == 0;
        const char *host = place + (plain ? 7 : 8);
        size_t size = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");

        if (host[strcspn(host, "@/?#")] == '@')
                return sbx_error_set(err, -EINVAL, HS_ORIGIN, "Leave it out.",
                                     "the address of the issuer's keys has a user in it");
        if (plain && !hs_is_loopback_host(host, size))
                return sbx_error_set(err, -EINVAL, HS_ORIGIN, "Use https; http is for this machine's own addresses.",
                                     "the address of the issuer's keys is not safe: http");
        return 0;
}

static int open_source(struct hs_jwks *jwks, struct sbx_error *err) {
        const struct sbx_http_options options = {.origin = HS_ORIGIN, .user_agent = "snipara-sandbox/" SBX_VERSION};
        int r;

        jwks->is_file = strncasecmp(jwks->place, "https://", 8) != 0 && strncasecmp(jwks->place, "http://", 7) != 0;
        if (jwks->is_file) {
                r = load_file(jwks->place, &jwks->keys, err);
                jwks->generation = 1;
                jwks->loaded_ns = jwks->tried_ns = hs_now_ns();
                return r;
        }
        r = check_url(jwks->place, err);
        jwks->wanted = true;
        return r < 0 ? r : sbx_http_new(&options, &jwks->http, err);
}

int hs_jwks_new(const char *place, void (*log)(void *data, int level, const char *message), void *log_data,
                struct hs_jwks **ret_jwks, struct sbx_error *err) {
        struct hs_jwks *jwks = calloc(1, sizeof(*jwks));
        int r;

        if (jwks == NULL)
                return sbx_error_set(err, -ENOMEM, HS_ORIGIN, NULL, "out of memory");
        pthread_mutex_init(&jwks->lock, NULL);
        pthread_cond_init(&jwks->wanted_changed, NULL);
        jwks->log = log;
        jwks->log_data = log_data;
        jwks->place = strdup(place);
        jwks->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r = jwks->place != NULL && jwks->cancel_fd >= 0 ? open_source(jwks, err)
                                                        : sbx_error_set(err, -ENOMEM, HS_ORIGIN, NULL, "out of memory");
        if (r == 0) {
                r = hs_thread_start(&jwks->thread, run, jwks, err);
                jwks->running = r == 0;
        }
        if (r < 0) {
                hs_jwks_free(jwks);
                return r;
        }
        *ret_jwks = jwks;
        return 0;
}

void hs_jwks_free(struct hs_jwks *jwks) {
        const uint64_t one = 1;

        if (jwks == NULL)
                return;
        if (jwks->running) {
                pthread_mutex_lock(&jwks->lock);
                jwks->ending = true;
                pthread_cond_signal(&jwks->wanted_changed);
                pthread_mutex_unlock(&jwks->lock);
                (void)!write(jwks->cancel_fd, &one, sizeof(one));
                pthread_join(jwks->thread, NULL);
        }
        sbx_http_free(jwks->http);
        free_keys(jwks->keys);
        if (jwks->cancel_fd >= 0)
                close(jwks->cancel_fd);
        pthread_cond_destroy(&jwks->wanted_changed);
        pthread_mutex_destroy(&jwks->lock);
        free(jwks->place);
        free(jwks);
}

/* The lock is held. True: it is being loaded, or will be. */
static bool want(struct hs_jwks *jwks, uint64_t every_ns) {
        if (jwks->busy || jwks->wanted)
                return true;
        if (jwks->tried_ns != 0 && hs_now_ns() - jwks->tried_ns < every_ns)
                return false;
        jwks->wanted = true;
        pthread_cond_signal(&jwks->wanted_changed);
        return true;
}

static const struct key *find(const struct keys *keys, const char *kid, enum hs_algorithm algorithm) {
        const struct key *found = NULL;

        for (size_t i = 0; i < keys->count; i++) {
                const struct key *key = &keys->list[i];

                if (!key->fits[algorithm])
                        continue;
                if (kid != NULL && (key->kid == NULL || strcmp(key->kid, kid) != 0))
                        continue;
                if (found != NULL)
                        return NULL; /* which of them is not for us to guess */
                found = key;
        }
        return found;
}

int hs_jwks_find(struct hs_jwks *jwks, const char *kid, enum hs_algorithm algorithm, jwk_t **ret_key) {
        const struct key *key;
        uint64_t age;
        int r = 0;

        pthread_mutex_lock(&jwks->lock);
        age = hs_now_ns() - jwks->loaded_ns;
        if (jwks->keys == NULL || age > STALE_NS) {
                want(jwks, NOTHING_EVERY_NS);
                r = -EAGAIN;
        } else {
                if (age > FRESH_NS)
                        want(jwks, UNKNOWN_EVERY_NS);
                key = find(jwks->keys, kid, algorithm);
                if (key == NULL)
                        r = want(jwks, UNKNOWN_EVERY_NS) ? -EAGAIN : -ENOKEY;
                else if ((*ret_key = r_jwk_copy(key->jwk)) == NULL)
                        r = -EAGAIN;
        }
        pthread_mutex_unlock(&jwks->lock);
        return r;
}

uint64_t hs_jwks_generation(struct hs_jwks *jwks) {
        uint64_t generation;

        pthread_mutex_lock(&jwks->lock);
        generation = jwks->generation;
        if (jwks->keys != NULL && hs_now_ns() - jwks->loaded_ns > FRESH_NS)
                want(jwks, UNKNOWN_EVERY_NS);
        if (hs_now_ns() - jwks->loaded_ns > STALE_NS)
                generation = 0;
        pthread_mutex_unlock(&jwks->lock);
        return generation;
}
