/* SPDX-License-Identifier: Apache-2.0 */
/* Small things that every file of the plugin needs: scope-bound cleanup, ownership transfer, JSON ownership. */
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#define SNIPARA_ORIGIN "context-snipara"
#define _cleanup_(function) __attribute__((cleanup(function)))

static inline void snipara_cleanup_free(void *pointer) {
        free(*(void **)pointer);
}
static inline void snipara_cleanup_json(json_t **value) {
        json_decref(*value);
}
static inline void snipara_cleanup_close(int *fd) {
        if (*fd >= 0)
                close(*fd);
}
#define _cleanup_free_ _cleanup_(snipara_cleanup_free)
#define _cleanup_json_ _cleanup_(snipara_cleanup_json)
#define _cleanup_close_ _cleanup_(snipara_cleanup_close)

/* Takes the value out of a variable and leaves it empty: the mark of an ownership transfer. */
#define steal_pointer(variable)                                                                                        \
        ({                                                                                                             \
                __typeof__(variable) stolen_ = (variable);                                                             \
                (variable) = NULL;                                                                                     \
                stolen_;                                                                                               \
        })
