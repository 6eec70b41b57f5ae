/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers of this plugin: scope-bound cleanup, transfer of ownership. */
#pragma once

#include <errno.h>
#include <stdlib.h>

#include <jansson.h>

#define OTLP_ORIGIN "sink-otlp"

#define _cleanup_(function) __attribute__((cleanup(function)))
static inline void otlp_cleanup_free(void *pointer) {
        free(*(void **)pointer);
}
static inline void otlp_cleanup_json(json_t **value) {
        json_decref(*value);
}
#define _cleanup_free_ _cleanup_(otlp_cleanup_free)
#define _cleanup_json_ _cleanup_(otlp_cleanup_json)

#define steal_pointer(variable)                                                                                        \
        ({                                                                                                             \
                __typeof__(variable) stolen_ = (variable);                                                             \
                (variable) = NULL;                                                                                     \
                stolen_;                                                                                               \
        })
