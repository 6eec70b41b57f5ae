/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256, so that an event can name what was run without holding it. FIPS 180-4, section 6.2; its names are kept. */
#include "trajectory/trajectory.h"

static const uint32_t K[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

#define BLOCK_SIZE 64u

static uint32_t rotr(uint32_t x, unsigned n) {
        return x >> n | x << (32 - n);
}

static void schedule(const uint8_t *block, uint32_t W[64]) {
        for (size_t t = 0; t < 16; t++)
                W[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
                       (uint32_t)block[4 * t + 2] << 8 | (uint32_t)block[4 * t + 3];
        for (size_t t = 16; t < 64; t++) {
                uint32_t s0 = rotr(W[t - 15], 7) ^ rotr(W[t - 15], 18) ^ W[t - 15] >> 3;
                uint32_t s1 = rotr(W[t - 2], 17) ^ rotr(W[t - 2], 19) ^ W[t - 2] >> 10;

                W[t] = s1 + W[t - 7] + s0 + W[t - 16];
        }
}

static void compress(uint32_t H[8], const uint8_t *block) {
        uint32_t W[64], v[8]; /* v: a to h */

        schedule(block, W);
        memcpy(v, H, sizeof(v));
        for (size_t t = 0; t < 64; t++) {
                uint32_t S1 = rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25);
                uint32_t S0 = rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22);
                uint32_t T1 = v[7] + S1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + K[t] + W[t];
                uint32_t T2 = S0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));

                memmove(&v[1], &v[0], 7 * sizeof(v[0]));
                v[4] += T1;
                v[0] = T1 + T2;
        }
        for (size_t i = 0; i < 8; i++)
                H[i] += v[i];
}

void sbx_sha256_text(struct sbx_bytes bytes, char ret_text[SBX_SHA256_TEXT_SIZE]) {
        uint32_t H[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
        const uint8_t *data = bytes.data;
        uint8_t tail[2 * BLOCK_SIZE] = {0};
        size_t whole = bytes.size / BLOCK_SIZE * BLOCK_SIZE, rest = bytes.size - whole;
        size_t tail_size = rest < BLOCK_SIZE - 8 ? BLOCK_SIZE : 2 * BLOCK_SIZE;
        uint64_t bits = (uint64_t)bytes.size * 8;

        for (size_t at = 0; at < whole; at += BLOCK_SIZE)
                compress(H, data + at);
        if (rest > 0)
                memcpy(tail, data + whole, rest);
        tail[rest] = 0x80;
        for (size_t i = 0; i < 8; i++)
                tail[tail_size - 1 - i] = (uint8_t)(bits >> (8 * i));
        for (size_t at = 0; at < tail_size; at += BLOCK_SIZE)
                compress(H, tail + at);
        for (size_t i = 0; i < 8; i++)
                snprintf(ret_text + 8 * i, SBX_SHA256_TEXT_SIZE - 8 * i, "%08x", H[i]);
}
