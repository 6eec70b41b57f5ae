/* SPDX-License-Identifier: Apache-2.0 */
/* Text that goes through a client's hands and must come back as it was: HMAC-SHA-256 (RFC 2104) in URL-safe base64
 * (RFC 4648), and random ids. */
#include <sha2.h>
#include <stdlib.h>
#include <sys/random.h>

#include "server_private.h"

#define PAYLOAD_MAX 2048u
#define MAC_SIZE SHA256_DIGEST_LENGTH
#define TOKEN_MAX ((PAYLOAD_MAX + MAC_SIZE + 2) / 3 * 4)

/* All of `size` bytes; false: the kernel has none, which no Linux of this century says of so few. */
static bool fill_random(void *data, size_t size) {
        ssize_t got;

        do
                got = getrandom(data, size, 0);
        while (got < 0 && errno == EINTR);
        return got == (ssize_t)size;
}

int mcp_key_new(struct mcp_key *ret_key, struct sbx_error *err) {
        if (!fill_random(ret_key->bytes, sizeof(ret_key->bytes)))
                return sbx_error_set(err, -EIO, "transport-mcp", NULL, "the system gives no random numbers");
        return 0;
}

/* ---- the code ------------------------------------------------------------------------------------------ */

/* A length before each part, so that no two rows of parts are the same bytes. */
static void hash_part(SHA2_CTX *hash, struct sbx_bytes part) {
        unsigned char size[8];

        for (size_t i = 0; i < sizeof(size); i++)
                size[i] = (unsigned char)((uint64_t)part.size >> (8 * i));
        SHA256Update(hash, size, sizeof(size));
        if (part.size > 0)
                SHA256Update(hash, part.data, part.size);
}

static void begin_hash(SHA2_CTX *hash, const struct mcp_key *key, unsigned char pad) {
        unsigned char block[SHA256_BLOCK_LENGTH];

        memset(block, pad, sizeof(block));
        for (size_t i = 0; i < sizeof(key->bytes); i++)
                block[i] = key->bytes[i] ^ pad;
        SHA256Init(hash);
        SHA256Update(hash, block, sizeof(block));
        explicit_bzero(block, sizeof(block));
}

static void make_mac(const struct mcp_key *key, const char *purpose, const char *principal, struct sbx_bytes payload,
                     unsigned char ret_mac[MAC_SIZE]) {
        SHA2_CTX hash;

        begin_hash(&hash, key, 0x36);
        hash_part(&hash, (struct sbx_bytes){purpose, strlen(purpose)});
        hash_part(&hash, (struct sbx_bytes){principal, strlen(principal)});
        hash_part(&hash, payload);
        SHA256Final(ret_mac, &hash);
        begin_hash(&hash, key, 0x5c);
        SHA256Update(&hash, ret_mac, MAC_SIZE);
        SHA256Final(ret_mac, &hash);
        explicit_bzero(&hash, sizeof(hash));
}

/* In a time that does not depend on where they differ. */
static bool same_mac(const unsigned char *a, const unsigned char *b) {
        volatile unsigned char difference = 0;

        for (size_t i = 0; i < MAC_SIZE; i++)
                difference |= a[i] ^ b[i];
        return difference == 0;
}

/* ---- base64 -------------------------------------------------------------------------------------------- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* `ret` has room for size * 4 / 3 + 2 characters and a NUL. */
static void encode(const unsigned char *data, size_t size, char *ret) {
        uint32_t bits = 0;
        unsigned count = 0;

        for (size_t i = 0; i < size; i++) {
                bits = bits << 8 | data[i];
                for (count += 8; count >= 6; count -= 6)
                        *ret++ = alphabet[bits >> (count - 6) & 63];
        }
        if (count > 0)
                *ret++ = alphabet[bits << (6 - count) & 63];
        *ret = '\0';
}

/* Only what encode() writes: no padding, no spare bits. False: it is not that. */
static bool decode(const char *text, size_t length, unsigned char *ret, size_t *ret_size) {
        uint32_t bits = 0;
        unsigned count = 0;
        size_t size = 0;

        for (size_t i = 0; i < length; i++) {
                const char *found = memchr(alphabet, text[i], sizeof(alphabet) - 1);

                if (found == NULL)
                        return false;
                bits = bits << 6 | (uint32_t)(found - alphabet);
                count += 6;
                if (count >= 8) {
                        count -= 8;
                        ret[size++] = (unsigned char)(bits >> count);
                }
        }
        *ret_size = size;
        return count < 6 && (bits & ((1u << count) - 1)) == 0;
}

/* ---- tokens -------------------------------------------------------------------------------------------- */

int mcp_sign(const struct mcp_server *server, const char *purpose, const char *principal, struct sbx_bytes payload,
             char **ret_token) {
        unsigned char raw[PAYLOAD_MAX + MAC_SIZE];
        char *token;

        if (payload.size > PAYLOAD_MAX)
                return -EINVAL;
        if (payload.size > 0)
                memcpy(raw, payload.data, payload.size);
        make_mac(mcp_server_key(server), purpose, principal, payload, raw + payload.size);
        token = malloc(TOKEN_MAX + 1);
        if (token == NULL)
                return -ENOMEM;
        encode(raw, payload.size + MAC_SIZE, token);
        *ret_token = token;
        return 0;
}

int mcp_verify(const struct mcp_server *server, const char *purpose, const char *principal, const char *token,
               char **ret_payload, size_t *ret_size) {
        unsigned char raw[TOKEN_MAX], mac[MAC_SIZE];
        size_t length = strnlen(token, TOKEN_MAX + 1), size;
        char *payload;

        if (length > TOKEN_MAX || !decode(token, length, raw, &size) || size < MAC_SIZE)
                return -EINVAL;
        size -= MAC_SIZE;
        make_mac(mcp_server_key(server), purpose, principal, (struct sbx_bytes){raw, size}, mac);
        if (!same_mac(mac, raw + size))
                return -EINVAL;
        payload = malloc(size + 1);
        if (payload == NULL)
                return -ENOMEM;
        memcpy(payload, raw, size);
        payload[size] = '\0';
        *ret_payload = payload;
        *ret_size = size;
        return 0;
}

void mcp_random_id(char ret_id[MCP_RANDOM_ID_SIZE]) {
        static const char digits[] = "0123456789abcdef";
        unsigned char bytes[(MCP_RANDOM_ID_SIZE - 1) / 2];

        /* The key came from the same place, so there are numbers; an id that can be guessed must never go out. */
        if (!fill_random(bytes, sizeof(bytes)))
                abort();
        for (size_t i = 0; i < sizeof(bytes); i++) {
                ret_id[2 * i] = digits[bytes[i] >> 4];
                ret_id[2 * i + 1] = digits[bytes[i] & 15];
        }
        ret_id[MCP_RANDOM_ID_SIZE - 1] = '\0';
}
