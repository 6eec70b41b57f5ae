/* SPDX-License-Identifier: Apache-2.0 */
/* How often somebody may come: a token bucket for each key, in a table that does not grow. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct hs_rate;

/* NULL: out of memory. */
struct hs_rate *hs_rate_new(unsigned per_second, unsigned burst);
void hs_rate_free(struct hs_rate *rate); /* NULL is fine */
/* 0: it may, and one token is taken. Else the whole seconds after which it may. */
unsigned hs_rate_take(struct hs_rate *rate, const char *key, uint64_t now_ns);
/* Whether it could take one. */
unsigned hs_rate_peek(const struct hs_rate *rate, const char *key, uint64_t now_ns);
