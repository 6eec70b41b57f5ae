/* SPDX-License-Identifier: Apache-2.0 */
/* Seals a chunk: one byte that says how (compressed, encrypted), of encrypted ones a random nonce, the bytes. First
 * compressed with zstd, then encrypted with XChaCha20-Poly1305, whose tag also covers the first byte and the context.
 */
#include <sodium.h>
#include <stdlib.h>
#include <zstd.h>

#include "sealing.h"

#define FLAG_ZSTD 1u
#define FLAG_ENCRYPTED 2u
#define NONCE_SIZE crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_SIZE crypto_aead_xchacha20poly1305_ietf_ABYTES
#define CONTEXT_MAX 512u
#define SAMPLE_SIZE ((size_t)16 << 10) /* of a large chunk, to see whether it shrinks at all */

_Static_assert(1 + NONCE_SIZE + TAG_SIZE <= SEALING_OVERHEAD, "room for what is added");

/* Where compressed bytes may go before they are encrypted. */
struct work {
        ZSTD_CCtx *compressor;
        uint8_t *compressed;
        size_t capacity;
};

static void work_clear(struct work *work) {
        ZSTD_freeCCtx(work->compressor);
        free(work->compressed);
}

static bool shrinks(size_t compressed, size_t raw) {
        return !ZSTD_isError(compressed) && compressed < raw - raw / 16;
}

/* The size of the compressed bytes; 0: they are better kept as they are; -ENOMEM. */
static ssize_t compress(struct work *work, int level, struct sbx_bytes raw) {
        size_t size;

        if (level == 0 || raw.size < 64)
                return 0;
        work->capacity = raw.size; /* more would not be of use */
        work->compressor = ZSTD_createCCtx();
        work->compressed = malloc(work->capacity);
        if (work->compressor == NULL || work->compressed == NULL)
                return -ENOMEM;
        if (raw.size > 4 * SAMPLE_SIZE) {
                const uint8_t *middle = (const uint8_t *)raw.data + raw.size / 2;

                size = ZSTD_compressCCtx(work->compressor, work->compressed, work->capacity, middle, SAMPLE_SIZE,
                                         level);
                if (!shrinks(size, SAMPLE_SIZE))
                        return 0;
        }
        size = ZSTD_compressCCtx(work->compressor, work->compressed, work->capacity, raw.data, raw.size, level);
        return shrinks(size, raw.size) ? (ssize_t)size : 0;
}

static size_t join_context(uint8_t flags, struct sbx_bytes context, uint8_t ret_joined[1 + CONTEXT_MAX]) {
        ret_joined[0] = flags;
        if (context.size > 0)
                memcpy(ret_joined + 1, context.data, context.size);
        return 1 + context.size;
}

static void encrypt(const struct sealing *sealing, uint8_t flags, struct sbx_bytes context, struct sbx_bytes plain,
                    uint8_t *ret_sealed, size_t *ret_size) {
        uint8_t joined[1 + CONTEXT_MAX], *nonce = ret_sealed + 1;
        size_t joined_size = join_context(flags, context, joined);
        unsigned long long size = 0;

        randombytes_buf(nonce, NONCE_SIZE);
        crypto_aead_xchacha20poly1305_ietf_encrypt(nonce + NONCE_SIZE, &size, plain.data, plain.size, joined,
                                                   joined_size, NULL, nonce, sealing->seal_key);
        *ret_size = 1 + NONCE_SIZE + (size_t)size;
}

int sealing_seal(const struct sealing *sealing, int level, struct sbx_bytes context, struct sbx_bytes raw,
                 uint8_t *ret_sealed, size_t *ret_size) {
        __attribute__((cleanup(work_clear))) struct work work = {0};
        struct sbx_bytes plain = raw;
        uint8_t flags = sealing->encrypted ? FLAG_ENCRYPTED : 0;
        ssize_t compressed;

        if (raw.size > SEALING_CHUNK_MAX || context.size > CONTEXT_MAX)
                return -EINVAL;
        compressed = compress(&work, level, raw);
        if (compressed < 0)
                return (int)compressed;
        if (compressed > 0) {
                plain = (struct sbx_bytes){work.compressed, (size_t)compressed};
                flags |= FLAG_ZSTD;
        }
        ret_sealed[0] = flags;
        if (sealing->encrypted) {
                encrypt(sealing, flags, context, plain, ret_sealed, ret_size);
                return 0;
        }
        if (plain.size > 0)
                memcpy(ret_sealed + 1, plain.data, plain.size);
        *ret_size = 1 + plain.size;
        return 0;
}

/* Into `ret_plain`, which has room for the sealed size. */
static int decrypt(const struct sealing *sealing, struct sbx_bytes context, struct sbx_bytes sealed, uint8_t *ret_plain,
                   size_t *ret_size) {
        const uint8_t *bytes = sealed.data, *nonce = bytes + 1;
        uint8_t joined[1 + CONTEXT_MAX];
        size_t joined_size = join_context(bytes[0], context, joined);
        unsigned long long size = 0;

        if (sealed.size < 1 + NONCE_SIZE + TAG_SIZE)
                return -EBADMSG;
        if (crypto_aead_xchacha20poly1305_ietf_decrypt(ret_plain, &size, NULL, nonce + NONCE_SIZE,
                                                       sealed.size - 1 - NONCE_SIZE, joined, joined_size, nonce,
                                                       sealing->seal_key) < 0)
                return -EBADMSG;
        *ret_size = (size_t)size;
        return 0;
}

/* What is unpacked never takes more than `raw_size` bytes, whatever the bytes say. */
static int unpack(uint8_t flags, struct sbx_bytes plain, size_t raw_size, uint8_t *ret_raw) {
        if ((flags & FLAG_ZSTD) != 0)
                return ZSTD_decompress(ret_raw, raw_size, plain.data, plain.size) == raw_size ? 0 : -EBADMSG;
        if (plain.size != raw_size)
                return -EBADMSG;
        if (raw_size > 0)
                memcpy(ret_raw, plain.data, raw_size);
        return 0;
}

int sealing_unseal(const struct sealing *sealing, struct sbx_bytes context, struct sbx_bytes sealed, size_t raw_size,
                   uint8_t *ret_raw) {
        const uint8_t *bytes = sealed.data;
        size_t size = 0;
        uint8_t *plain;
        int r;

        if (sealed.size < 1 || sealed.size > SEALING_CHUNK_MAX + SEALING_OVERHEAD || raw_size > SEALING_CHUNK_MAX ||
            context.size > CONTEXT_MAX || (bytes[0] & ~(FLAG_ZSTD | FLAG_ENCRYPTED)) != 0 ||
            ((bytes[0] & FLAG_ENCRYPTED) != 0) != sealing->encrypted)
                return -EBADMSG;
        if (!sealing->encrypted)
                return unpack(bytes[0], (struct sbx_bytes){bytes + 1, sealed.size - 1}, raw_size, ret_raw);
        plain = malloc(sealed.size);
        if (plain == NULL)
                return -ENOMEM;
        r = decrypt(sealing, context, sealed, plain, &size);
        if (r == 0)
                r = unpack(bytes[0], (struct sbx_bytes){plain, size}, raw_size, ret_raw);
        sodium_memzero(plain, sealed.size);
        free(plain);
        return r;
}
