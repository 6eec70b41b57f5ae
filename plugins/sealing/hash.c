/* SPDX-License-Identifier: Apache-2.0 */
/* Keyed BLAKE2b (libsodium), with the purpose of each hash in front of what is hashed. */
#include <sodium.h>

#include "sealing.h"

#define WHAT_SIZE 16u

static void hash_pieces(const struct sealing *sealing, const char *what, const struct sbx_bytes *pieces, size_t count,
                        uint8_t ret_hash[SEALING_HASH_SIZE]) {
        crypto_generichash_state state;
        char prefix[WHAT_SIZE] = {0};

        snprintf(prefix, sizeof(prefix), "%s", what);
        crypto_generichash_init(&state, sealing->hash_key, sizeof(sealing->hash_key), SEALING_HASH_SIZE);
        crypto_generichash_update(&state, (const uint8_t *)prefix, sizeof(prefix));
        for (size_t i = 0; i < count; i++)
                crypto_generichash_update(&state, pieces[i].data, pieces[i].size);
        crypto_generichash_final(&state, ret_hash, SEALING_HASH_SIZE);
}

static void put_u64(uint64_t value, uint8_t ret_bytes[8]) {
        for (int i = 0; i < 8; i++)
                ret_bytes[i] = (uint8_t)(value >> (8 * i));
}

void sealing_hash(const struct sealing *sealing, const char *what, struct sbx_bytes first, struct sbx_bytes second,
                  uint8_t ret_hash[SEALING_HASH_SIZE]) {
        uint8_t size[8]; /* so that the border between the pieces counts */

        put_u64(first.size, size);
        hash_pieces(sealing, what, (const struct sbx_bytes[]){{size, sizeof(size)}, first, second}, 3, ret_hash);
}

size_t sealing_chunk_count(uint64_t size) {
        return size == 0 ? 1 : (size_t)((size - 1) / SEALING_CHUNK_MAX + 1);
}

void sealing_chunk_hash(const struct sealing *sealing, struct sbx_bytes chunk, uint8_t ret_hash[SEALING_HASH_SIZE]) {
        hash_pieces(sealing, "chunk", &chunk, 1, ret_hash);
}

void sealing_blob_id(const struct sealing *sealing, uint64_t size, const uint8_t *chunk_hashes, size_t chunk_count,
                     uint8_t ret_id[SEALING_HASH_SIZE]) {
        uint8_t bytes[8];

        put_u64(size, bytes);
        hash_pieces(sealing, "blob",
                    (const struct sbx_bytes[]){{bytes, sizeof(bytes)}, {chunk_hashes, chunk_count * SEALING_HASH_SIZE}},
                    2, ret_id);
}
