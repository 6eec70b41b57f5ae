/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4) of lines, by libmd. */
#include "chain.h"

_Static_assert(JSONL_HASH_SIZE == SHA256_DIGEST_STRING_LENGTH, "64 digits and a NUL");

void jsonl_hash_begin(struct jsonl_hash *hash) {
        SHA256Init(&hash->context);
}

void jsonl_hash_add(struct jsonl_hash *hash, struct sbx_bytes bytes) {
        if (bytes.size > 0)
                SHA256Update(&hash->context, bytes.data, bytes.size);
}

void jsonl_hash_end(struct jsonl_hash *hash, char ret_hash[JSONL_HASH_SIZE]) {
        SHA256End(&hash->context, ret_hash);
}

void jsonl_hash_line(struct sbx_bytes line, char ret_hash[JSONL_HASH_SIZE]) {
        struct jsonl_hash hash;

        jsonl_hash_begin(&hash);
        jsonl_hash_add(&hash, line);
        jsonl_hash_end(&hash, ret_hash);
}
