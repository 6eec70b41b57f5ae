/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of an issuer: from a file, or fetched by a thread of their own; kept, and refreshed with measure. */
#pragma once

#include <rhonabwy.h>
#include <stdbool.h>

#include <snipara-sandbox/types.h>

struct hs_jwks;

/* -EINVAL (neither a file nor an https address; no keys in the file), -ENOENT, -EACCES, -ENOTSUP, -ENOMEM. An address
 * is fetched from then on, in the background. */
int hs_jwks_new(const char *place, void (*log)(void *data, int level, const char *message), void *log_data,
                struct hs_jwks **ret_jwks, struct sbx_error *err);
void hs_jwks_free(struct hs_jwks *jwks); /* NULL is fine; ends a fetch that is under way */

/* The algorithms that are accepted; asymmetric ones alone, so that a public key is never a secret. */
enum hs_algorithm { HS_RS256, HS_PS256, HS_ES256, HS_EDDSA, HS_ALGORITHMS };
const char *hs_algorithm_name(enum hs_algorithm algorithm);

/* The key for a token: by `kid`, or, when that is NULL, the only one that fits the algorithm. The caller frees it with
 * r_jwk_free. -EAGAIN: not at hand now, it is being fetched; -ENOKEY: there is none. Any thread; never waits for a
 * fetch. */
int hs_jwks_find(struct hs_jwks *jwks, const char *kid, enum hs_algorithm algorithm, jwk_t **ret_key);
/* Changes whenever the keys do; 0: there are none. */
uint64_t hs_jwks_generation(struct hs_jwks *jwks);
