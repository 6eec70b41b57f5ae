/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256: the blocks by the x86 SHA extensions where they are there, by libmd elsewhere. */
#include "base/sha256.h"

#include <stdbool.h>
#include <sha256.h>

#define BLOCK 64

static void add_blocks_portable(uint32_t state[8], const unsigned char *data, size_t blocks) {
        for (; blocks > 0; blocks--, data += BLOCK)
                SHA256Transform(state, data);
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

/* Round constants: FIPS 180-4, 4.2.2. */
static const uint32_t rounds[64] __attribute__((aligned(16))) = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* sha256rnds2 does two rounds on the state as (a, b, e, f) and (c, d, g, h). The message schedule lives in four
 * vectors of four words, of which each group of four rounds makes the next one. */
__attribute__((target("sha,sse4.1"))) static void add_blocks_x86(uint32_t state[8], const unsigned char *data,
                                                                 size_t blocks) {
        const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
        __m128i dcba = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)state), 0xb1);
        __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(state + 4)), 0x1b);
        __m128i abef = _mm_alignr_epi8(dcba, hgfe, 8), cdgh = _mm_blend_epi16(hgfe, dcba, 0xf0);

        for (; blocks > 0; blocks--, data += BLOCK) {
                const __m128i abef_before = abef, cdgh_before = cdgh;
                __m128i words[4];

                for (unsigned i = 0; i < 16; i++) {
                        __m128i *now = &words[i % 4], sum;

                        if (i < 4) {
                                *now = _mm_loadu_si128((const __m128i *)(const void *)(data + 16 * (size_t)i));
                                *now = _mm_shuffle_epi8(*now, swap);
                        } else {
                                const __m128i one = words[(i + 1) % 4], two = words[(i + 2) % 4],
                                              three = words[(i + 3) % 4];

                                *now = _mm_add_epi32(_mm_sha256msg1_epu32(*now, one), _mm_alignr_epi8(three, two, 4));
                                *now = _mm_sha256msg2_epu32(*now, three);
                        }
                        sum = _mm_add_epi32(*now, _mm_load_si128((const __m128i *)(const void *)(rounds + 4 * i)));
                        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
                        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
                }
                abef = _mm_add_epi32(abef, abef_before);
                cdgh = _mm_add_epi32(cdgh, cdgh_before);
        }
        dcba = _mm_shuffle_epi32(abef, 0x1b);
        hgfe = _mm_shuffle_epi32(cdgh, 0xb1);
        _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(dcba, hgfe, 0xf0));
        _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(hgfe, dcba, 8));
}

static bool has_instructions(void) {
        unsigned a, b, c, d;

        return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 29)) != 0;
}

static void add_blocks(uint32_t state[8], const unsigned char *data, size_t blocks) {
        static int known; /* 0: not asked yet; any thread finds the same answer */
        int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);

        if (answer == 0) {
                answer = has_instructions() ? 1 : -1;
                __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
        }
        if (answer > 0)
                add_blocks_x86(state, data, blocks);
        else
                add_blocks_portable(state, data, blocks);
}
#else
#define add_blocks add_blocks_portable
#endif

void sbx_sha256_begin(struct sbx_sha256 *hash) {
        static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

        memcpy(hash->state, initial, sizeof(initial));
        hash->size = 0;
}

void sbx_sha256_add(struct sbx_sha256 *hash, struct sbx_bytes bytes) {
        const unsigned char *data = bytes.data;
        size_t left = bytes.size, waiting = hash->size % BLOCK;

        if (left == 0)
                return;
        hash->size += bytes.size;
        if (waiting > 0) {
                size_t some = left < BLOCK - waiting ? left : BLOCK - waiting;

                memcpy(hash->block + waiting, data, some);
                data += some;
                left -= some;
                if (waiting + some < BLOCK)
                        return;
                add_blocks(hash->state, hash->block, 1);
        }
        add_blocks(hash->state, data, left / BLOCK);
        if (left % BLOCK > 0)
                memcpy(hash->block, data + left - left % BLOCK, left % BLOCK);
}

void sbx_sha256_end(struct sbx_sha256 *hash, unsigned char ret_digest[SBX_SHA256_SIZE]) {
        uint64_t bits = hash->size * 8;
        size_t waiting = hash->size % BLOCK, padding = (waiting < 56 ? 56 : 120) - waiting;
        unsigned char tail[72] = {0x80};

        for (size_t i = 0; i < 8; i++)
                tail[padding + i] = (unsigned char)(bits >> (56 - 8 * i));
        sbx_sha256_add(hash, (struct sbx_bytes){tail, padding + 8});
        for (size_t i = 0; i < SBX_SHA256_SIZE; i++)
                ret_digest[i] = (unsigned char)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sbx_sha256_of(struct sbx_bytes bytes, unsigned char ret_digest[SBX_SHA256_SIZE]) {
        struct sbx_sha256 hash;

        sbx_sha256_begin(&hash);
        sbx_sha256_add(&hash, bytes);
        sbx_sha256_end(&hash, ret_digest);
}

void sbx_hex_encode(const unsigned char *data, size_t size, char *ret_text) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < size; i++) {
                ret_text[2 * i] = digits[data[i] >> 4];
                ret_text[2 * i + 1] = digits[data[i] & 15];
        }
        ret_text[2 * size] = '\0';
}

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int sbx_hex_decode(const char *text, unsigned char *ret_data, size_t size) {
        if (strlen(text) != 2 * size)
                return -EINVAL;
        for (size_t i = 0; i < size; i++) {
                int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

                if (high < 0 || low < 0)
                        return -EINVAL;
                ret_data[i] = (unsigned char)(high << 4 | low);
        }
        return 0;
}
