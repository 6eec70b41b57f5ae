/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers of this plugin: scope-bound cleanup, transfer of ownership. */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#define REPLAY_ORIGIN "llm-replay"

#define _cleanup_(function) __attribute__((cleanup(function)))
static inline void replay_cleanup_free(void *pointer) {
        free(*(void **)pointer);
}
static inline void replay_cleanup_json(json_t **value) {
        json_decref(*value);
}
static inline void replay_cleanup_close(int *fd) {
        if (*fd >= 0)
                close(*fd);
}
#define _cleanup_free_ _cleanup_(replay_cleanup_free)
#define _cleanup_json_ _cleanup_(replay_cleanup_json)
#define _cleanup_close_ _cleanup_(replay_cleanup_close)

#define steal_pointer(variable)                                                                                        \
        ({                                                                                                             \
                __typeof__(variable) stolen_ = (variable);                                                             \
                (variable) = NULL;                                                                                     \
                stolen_;                                                                                               \
        })
