/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers of this plugin: scope-bound cleanup, ownership transfer, the clock. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <snipara-sandbox/types.h>

#define LLM_ORIGIN "llm-litellm"
#define LLM_NS_PER_MS UINT64_C(1000000)

#define _cleanup_(function) __attribute__((cleanup(function)))
static inline void llm_cleanup_free(void *pointer) {
        free(*(void **)pointer);
}
#define _cleanup_free_ _cleanup_(llm_cleanup_free)

#define steal_pointer(variable)                                                                                        \
        ({                                                                                                             \
                __typeof__(variable) stolen_ = (variable);                                                             \
                (variable) = NULL;                                                                                     \
                stolen_;                                                                                               \
        })

static inline int llm_nomem(struct sbx_error *err) {
        return sbx_error_set(err, -ENOMEM, LLM_ORIGIN, NULL, "out of memory");
}

static inline uint64_t llm_now_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
