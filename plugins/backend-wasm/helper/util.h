/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers of the helper program. */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <snipara-sandbox/types.h>

#define HELPER_ORIGIN "backend-wasm"

#define _cleanup_(function) __attribute__((cleanup(function)))
static inline void helper_cleanup_close(int *fd) {
        int saved = errno;

        if (*fd >= 0)
                close(*fd);
        errno = saved;
}
#define _cleanup_close_ _cleanup_(helper_cleanup_close)

static inline void close_fd(int *fd) {
        helper_cleanup_close(fd);
        *fd = -1;
}

/* One write to a small file of the kernel, whole or an error. */
static inline int write_whole(int fd, const void *data, size_t size) {
        ssize_t n;

        do
                n = write(fd, data, size);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        return (size_t)n == size ? 0 : -EIO;
}

/* As much of a text as fits. */
static inline void copy_text(char *to, size_t size, const char *from) {
        size_t length = strlen(from);

        if (length >= size)
                length = size - 1;
        memcpy(to, from, length);
        to[length] = '\0';
}
