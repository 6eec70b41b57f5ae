/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers of this plugin: scope-bound cleanup, errors of the system, limits. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>
#include <snipara-sandbox/types.h>

#define JSONL_ORIGIN "sink-jsonl"
#define JSONL_ID_MAX 64u                           /* bytes of a trajectory's id */
#define JSONL_LINE_MAX (((size_t)32 << 20) + 4096) /* an event as sink.h bounds it, and what is added to it */

#define _cleanup_(function) __attribute__((cleanup(function)))
static inline void jsonl_cleanup_free(void *pointer) {
        free(*(void **)pointer);
}
static inline void jsonl_cleanup_close(int *fd) {
        int saved = errno;

        if (*fd >= 0)
                close(*fd);
        errno = saved;
}
static inline void jsonl_cleanup_json(json_t **value) {
        json_decref(*value);
}
#define _cleanup_free_ _cleanup_(jsonl_cleanup_free)
#define _cleanup_close_ _cleanup_(jsonl_cleanup_close)
#define _cleanup_json_ _cleanup_(jsonl_cleanup_json)

#define steal_pointer(variable)                                                                                        \
        ({                                                                                                             \
                __typeof__(variable) stolen_ = (variable);                                                             \
                (variable) = NULL;                                                                                     \
                stolen_;                                                                                               \
        })
static inline int steal_fd(int *fd) {
        int stolen = *fd;

        *fd = -1;
        return stolen;
}

static inline int jsonl_no_memory(struct sbx_error *err) {
        return sbx_error_set(err, -ENOMEM, JSONL_ORIGIN, NULL, "out of memory");
}

/* Whether a text could not be parsed for want of memory. */
static inline bool jsonl_parse_ran_out(const json_error_t *problem) {
        enum json_error_code code = json_error_code(problem);

        return code == json_error_out_of_memory || code == json_error_unknown;
}

/* Sets `err` to "can't <what> <directory>/<name>: <reason>" from errno, and returns -errno. `name` NULL: the directory
 * itself. */
static inline int jsonl_system_error(const char *what, const char *directory, const char *name, const char *hint,
                                     struct sbx_error *err) {
        int code = -errno;
        char reason[96];

        return sbx_error_set(err, code, JSONL_ORIGIN, hint, "can't %s %s%s%s: %s", what, directory,
                             name != NULL ? "/" : "", name != NULL ? name : "",
                             strerror_r(-code, reason, sizeof(reason)));
}
