/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a store: {"snipara-sandbox store": 1, "salt": HEX, "encrypted": BOOL, "check": HEX}. The keys are
 * derived from the key file and the salt; of a store without a key file from the salt alone, which then serves to find
 * damage and not to keep secrets. "check" is a hash under the derived keys: with another key, or if one digit of this
 * text has changed, it is another. */
#include <jansson.h>
#include <sodium.h>

#include "key.h"

#define VERSION 1
#define VERSION_MEMBER "snipara-sandbox store"
#define SALT_SIZE 32u
#define HEX_SIZE(bytes) (2 * (bytes) + 1)

static void derive(const uint8_t salt[SALT_SIZE], const uint8_t key[SEALING_KEY_SIZE], const char *what,
                   uint8_t ret_key[SEALING_KEY_SIZE]) {
        crypto_generichash_state state;

        crypto_generichash_init(&state, key, key != NULL ? SEALING_KEY_SIZE : 0, SEALING_KEY_SIZE);
        crypto_generichash_update(&state, (const uint8_t *)"snipara-sandbox store 1",
                                  sizeof("snipara-sandbox store 1"));
        crypto_generichash_update(&state, salt, SALT_SIZE);
        crypto_generichash_update(&state, (const uint8_t *)what, strlen(what));
        crypto_generichash_final(&state, ret_key, SEALING_KEY_SIZE);
        sodium_memzero(&state, sizeof(state));
}

/* `key_file` NULL: not encrypted. */
static int make_keys(const uint8_t salt[SALT_SIZE], const char *key_file, const char *origin,
                     struct sealing *ret_sealing, struct sbx_error *err) {
        uint8_t key[SEALING_KEY_SIZE];
        int r = key_file != NULL ? sealing_key_read(key_file, origin, key, err) : 0;

        if (r < 0)
                return r;
        derive(salt, key_file != NULL ? key : NULL, "hash", ret_sealing->hash_key);
        derive(salt, key_file != NULL ? key : NULL, "seal", ret_sealing->seal_key);
        ret_sealing->encrypted = key_file != NULL;
        sodium_memzero(key, sizeof(key));
        return 0;
}

static void check_value(const struct sealing *sealing, const uint8_t salt[SALT_SIZE],
                        uint8_t ret_check[SEALING_HASH_SIZE]) {
        sealing_hash(sealing, "identity", (struct sbx_bytes){salt, SALT_SIZE},
                     (struct sbx_bytes){&sealing->encrypted, 1}, ret_check);
}

int sealing_create(const char *key_file, const char *origin, char ret_identity[SEALING_IDENTITY_MAX],
                   struct sealing *ret_sealing, struct sbx_error *err) {
        uint8_t salt[SALT_SIZE], check[SEALING_HASH_SIZE];
        char salt_hex[HEX_SIZE(SALT_SIZE)], check_hex[HEX_SIZE(SEALING_HASH_SIZE)];
        struct sealing made;
        int r;

        if (sodium_init() < 0)
                return sbx_error_set(err, -EIO, origin, NULL, "libsodium can't be used");
        randombytes_buf(salt, sizeof(salt));
        r = make_keys(salt, key_file, origin, &made, err);
        if (r < 0)
                return r;
        check_value(&made, salt, check);
        sodium_bin2hex(salt_hex, sizeof(salt_hex), salt, sizeof(salt));
        sodium_bin2hex(check_hex, sizeof(check_hex), check, sizeof(check));
        snprintf(ret_identity, SEALING_IDENTITY_MAX,
                 "{\"" VERSION_MEMBER "\": %d, \"salt\": \"%s\", \"encrypted\": %s, \"check\": \"%s\"}\n", VERSION,
                 salt_hex, made.encrypted ? "true" : "false", check_hex);
        *ret_sealing = made;
        sealing_clear(&made);
        return 0;
}

static bool read_hex(const json_t *value, uint8_t *ret_bytes, size_t size) {
        const char *text = json_string_value(value), *end = NULL;
        size_t decoded = 0;

        return text != NULL && strlen(text) == 2 * size &&
               sodium_hex2bin(ret_bytes, size, text, 2 * size, NULL, &decoded, &end) == 0 && decoded == size;
}

struct identity {
        uint8_t salt[SALT_SIZE], check[SEALING_HASH_SIZE];
        bool encrypted;
};

static int not_one(const char *place, const char *origin, struct sbx_error *err) {
        return sbx_error_set(err, -EBADMSG, origin,
                             "Put it back from a copy of the store; without it nothing in the store can be read.",
                             "%s is damaged, or not a store's identity", place);
}

static int parse_identity(struct sbx_bytes text, const char *place, const char *origin, struct identity *ret_identity,
                          struct sbx_error *err) {
        json_t *parsed = text.size < SEALING_IDENTITY_MAX
                                 ? json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, NULL)
                                 : NULL;
        const json_t *version = json_object_get(parsed, VERSION_MEMBER);
        const json_t *encrypted = json_object_get(parsed, "encrypted");
        int r = 0;

        if (json_integer_value(version) > VERSION)
                r = sbx_error_set(err, -EPROTONOSUPPORT, origin, "Use a newer snipara-sandbox for this store.",
                                  "%s is of version %" JSON_INTEGER_FORMAT ", this program knows version %d", place,
                                  json_integer_value(version), VERSION);
        else if (json_integer_value(version) != VERSION || !json_is_boolean(encrypted) ||
                 !read_hex(json_object_get(parsed, "salt"), ret_identity->salt, SALT_SIZE) ||
                 !read_hex(json_object_get(parsed, "check"), ret_identity->check, SEALING_HASH_SIZE))
                r = not_one(place, origin, err);
        else
                ret_identity->encrypted = json_is_true(encrypted);
        json_decref(parsed);
        return r;
}

int sealing_open(struct sbx_bytes identity, const char *key_file, const char *place, const char *origin,
                 struct sealing *ret_sealing, struct sbx_error *err) {
        struct identity parsed;
        struct sealing made;
        uint8_t check[SEALING_HASH_SIZE];
        int r;

        if (sodium_init() < 0)
                return sbx_error_set(err, -EIO, origin, NULL, "libsodium can't be used");
        r = parse_identity(identity, place, origin, &parsed, err);
        if (r < 0)
                return r;
        if (parsed.encrypted && key_file == NULL)
                return sbx_error_set(err, -ENOKEY, origin, "Set the option key_file to the key it was made with.",
                                     "the store is encrypted (%s), and there is no key", place);
        if (!parsed.encrypted && key_file != NULL)
                return sbx_error_set(err, -EKEYREJECTED, origin,
                                     "Take the option key_file away, or use a new place for an encrypted store.",
                                     "the store is not encrypted (%s), but there is a key for it", place);
        r = make_keys(parsed.salt, key_file, origin, &made, err);
        if (r < 0)
                return r;
        check_value(&made, parsed.salt, check);
        if (sodium_memcmp(check, parsed.check, sizeof(check)) != 0) {
                sealing_clear(&made);
                if (!parsed.encrypted)
                        return not_one(place, origin, err);
                return sbx_error_set(err, -EKEYREJECTED, origin, "Set the option key_file to the key it was made with.",
                                     "the key in %s is not the one of this store (%s)", key_file, place);
        }
        *ret_sealing = made;
        sealing_clear(&made);
        return 0;
}

void sealing_clear(struct sealing *sealing) {
        sodium_memzero(sealing, sizeof(*sealing));
}
