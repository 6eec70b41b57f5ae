/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4), with the processor's own instructions where it has them. Pure functions. */
#pragma once

#include <stdint.h>

#include <snipara-sandbox/types.h>

#define SBX_SHA256_SIZE 32

struct sbx_sha256 {
        uint32_t state[8];
        uint64_t size;
        unsigned char block[64]; /* what does not fill one yet: `size` modulo 64 bytes */
};
void sbx_sha256_begin(struct sbx_sha256 *hash);
void sbx_sha256_add(struct sbx_sha256 *hash, struct sbx_bytes bytes);
void sbx_sha256_end(struct sbx_sha256 *hash, unsigned char ret_digest[SBX_SHA256_SIZE]);
/* All at once. */
void sbx_sha256_of(struct sbx_bytes bytes, unsigned char ret_digest[SBX_SHA256_SIZE]);
/* Lower-case hexadecimal digits and NUL: 2 * size + 1 bytes. */
void sbx_hex_encode(const unsigned char *data, size_t size, char *ret_text);
/* -EINVAL: not exactly so many bytes of lower-case digits. */
int sbx_hex_decode(const char *text, unsigned char *ret_data, size_t size);
