/* SPDX-License-Identifier: Apache-2.0 */
/* Token buckets. Keys are hashed with a key of this table's own, so that nobody can choose keys that share a place;
 * when all places for a hash are taken, the bucket that was used longest ago makes room. */
#include "rate.h"

#include <sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SETS 512 /* a power of two */
#define WAYS 8
#define NS_PER_S UINT64_C(1000000000)

struct bucket {
        uint8_t key[16];
        uint64_t used_ns; /* 0: empty */
        double tokens;
};

struct hs_rate {
        double per_second, burst;
        uint8_t secret[32];
        struct bucket sets[SETS][WAYS];
};

struct hs_rate *hs_rate_new(unsigned per_second, unsigned burst) {
        struct hs_rate *rate = calloc(1, sizeof(*rate));

        if (rate == NULL)
                return NULL;
        rate->per_second = per_second;
        rate->burst = burst > 0 ? burst : 1;
        if (getrandom(rate->secret, sizeof(rate->secret), 0) != (ssize_t)sizeof(rate->secret)) {
                free(rate);
                return NULL;
        }
        return rate;
}

void hs_rate_free(struct hs_rate *rate) {
        free(rate);
}

static void hash_key(const struct hs_rate *rate, const char *key, uint8_t digest[SHA256_DIGEST_LENGTH]) {
        SHA2_CTX context;

        SHA256Init(&context);
        SHA256Update(&context, rate->secret, sizeof(rate->secret));
        SHA256Update(&context, (const uint8_t *)key, strlen(key));
        SHA256Final(digest, &context);
}

static size_t set_of(const uint8_t *digest) {
        return ((size_t)digest[30] << 8 | digest[31]) % SETS;
}

static const struct bucket *find(const struct hs_rate *rate, const uint8_t *digest) {
        const struct bucket *set = rate->sets[set_of(digest)];

        for (size_t i = 0; i < WAYS; i++)
                if (set[i].used_ns != 0 && memcmp(set[i].key, digest, sizeof(set[i].key)) == 0)
                        return &set[i];
        return NULL;
}

/* The bucket of the key, made if need be. */
static struct bucket *find_or_make(struct hs_rate *rate, const uint8_t *digest) {
        struct bucket *set = rate->sets[set_of(digest)];
        struct bucket *oldest = &set[0];

        for (size_t i = 0; i < WAYS; i++) {
                if (set[i].used_ns != 0 && memcmp(set[i].key, digest, sizeof(set[i].key)) == 0)
                        return &set[i];
                if (set[i].used_ns < oldest->used_ns)
                        oldest = &set[i];
        }
        *oldest = (struct bucket){.tokens = rate->burst};
        memcpy(oldest->key, digest, sizeof(oldest->key));
        return oldest;
}

static double tokens_at(const struct hs_rate *rate, const struct bucket *bucket, uint64_t now_ns) {
        double tokens = bucket->tokens;

        if (bucket->used_ns != 0 && now_ns > bucket->used_ns)
                tokens += (double)(now_ns - bucket->used_ns) / (double)NS_PER_S * rate->per_second;
        return tokens < rate->burst ? tokens : rate->burst;
}

static unsigned wait_for(const struct hs_rate *rate, double tokens) {
        if (tokens >= 1.0)
                return 0;
        return (unsigned)((1.0 - tokens) / rate->per_second) + 1;
}

unsigned hs_rate_take(struct hs_rate *rate, const char *key, uint64_t now_ns) {
        uint8_t digest[SHA256_DIGEST_LENGTH];
        struct bucket *bucket;
        unsigned wait;

        hash_key(rate, key, digest);
        bucket = find_or_make(rate, digest);
        bucket->tokens = tokens_at(rate, bucket, now_ns);
        bucket->used_ns = now_ns;
        wait = wait_for(rate, bucket->tokens);
        if (wait == 0)
                bucket->tokens -= 1.0;
        return wait;
}

unsigned hs_rate_peek(const struct hs_rate *rate, const char *key, uint64_t now_ns) {
        uint8_t digest[SHA256_DIGEST_LENGTH];
        const struct bucket *bucket;

        hash_key(rate, key, digest);
        bucket = find(rate, digest);
        return bucket != NULL ? wait_for(rate, tokens_at(rate, bucket, now_ns)) : 0;
}
