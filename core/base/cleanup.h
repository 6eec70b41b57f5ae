/* SPDX-License-Identifier: Apache-2.0 */
/* Scope-bound cleanup and ownership transfer. */
#pragma once

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(function) __attribute__((cleanup(function)))

#define SBX_DEFINE_CLEANUP(type, function, name)   \
        static inline void name(type *pointer) {   \
                if (*pointer != NULL)              \
                        function(*pointer);        \
        }

static inline void sbx_cleanup_free(void *pointer) {
        free(*(void **)pointer);
}
static inline void sbx_cleanup_close(int *fd) {
        if (*fd >= 0)
                close(*fd);
}
static inline void sbx_cleanup_closedir(DIR **dir) {
        if (*dir != NULL)
                closedir(*dir);
}
#define _cleanup_free_ _cleanup_(sbx_cleanup_free)
#define _cleanup_close_ _cleanup_(sbx_cleanup_close)
#define _cleanup_closedir_ _cleanup_(sbx_cleanup_closedir)

/* Takes the value out of a variable and leaves it empty: the mark of an ownership transfer. */
#define steal_pointer(variable)                          \
        ({                                               \
                __typeof__(variable) stolen_ = (variable); \
                (variable) = NULL;                       \
                stolen_;                                 \
        })
static inline int steal_fd(int *fd) {
        int stolen = *fd;

        *fd = -1;
        return stolen;
}
