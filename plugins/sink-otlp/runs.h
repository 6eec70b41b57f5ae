/* SPDX-License-Identifier: Apache-2.0 */
/* What must be remembered between events: runs that have begun, and what was told already. Both are bounded. One
 * thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#define OTLP_RUNS_MAX 256u  /* that go on at the same time; beyond it the oldest is forgotten */
#define OTLP_SEEN_MAX 8192u /* spans that are known again when a resumed run tells them once more */

/* A run that has begun, and not ended. */
struct otlp_run {
        char *id; /* NULL: a free place */
        uint64_t start_ns, order;
        char *model, *provider; /* NULL: not told */
        json_t *attributes;     /* of its span, as far as they are known at the start */
};

struct otlp_memory {
        struct otlp_run runs[OTLP_RUNS_MAX];
        uint64_t runs_begun;
        uint64_t seen[OTLP_SEEN_MAX];      /* a ring of hashes; 0: never used */
        uint64_t table[OTLP_SEEN_MAX * 2]; /* the same, to be found: open addressing with linear probing */
        unsigned next_seen;
};

struct otlp_memory *otlp_memory_new(void); /* NULL: no memory */
void otlp_memory_free(struct otlp_memory *memory);

struct otlp_run *otlp_run_find(struct otlp_memory *memory, const char *id); /* NULL: not known */
/* Takes the reference of `attributes`, also when there is no memory: NULL. The place of a run of the same id is reused.
 */
struct otlp_run *otlp_run_begin(struct otlp_memory *memory, const char *id, const char *model, const char *provider,
                                uint64_t start_ns, json_t *attributes);
void otlp_run_end(struct otlp_run *run); /* NULL is fine */

/* Whether this was asked before; the second time it is true. `hash` is not 0. */
bool otlp_seen(struct otlp_memory *memory, uint64_t hash);
