/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation-failure sweeps: runs a test body with the first, the second, the third ... allocation failing, until it
 * gets through without meeting a failure. Include once in a test program that is linked with alloc_fail_link_args. */
#pragma once

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
        bool armed, failed;
        unsigned left; /* allocations that still succeed */
} alloc_fail;

/* True: this allocation fails, and every one after it until the sweep's next round. */
static inline bool alloc_fail_now(void) {
        if (!alloc_fail.armed)
                return false;
        if (alloc_fail.left > 0) {
                alloc_fail.left--;
                return false;
        }
        alloc_fail.failed = true;
        errno = ENOMEM;
        return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_reallocarray(void *memory, size_t count, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
int __real_vasprintf(char **ret, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
char *__real_realpath(const char *path, char *resolved);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_reallocarray(void *memory, size_t count, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);
int __wrap_vasprintf(char **ret, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
char *__wrap_realpath(const char *path, char *resolved);

void *__wrap_malloc(size_t size) {
        return alloc_fail_now() ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
        return alloc_fail_now() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *memory, size_t size) {
        return alloc_fail_now() ? NULL : __real_realloc(memory, size);
}
void *__wrap_reallocarray(void *memory, size_t count, size_t size) {
        return alloc_fail_now() ? NULL : __real_reallocarray(memory, count, size);
}
char *__wrap_strdup(const char *text) {
        return alloc_fail_now() ? NULL : __real_strdup(text);
}
char *__wrap_strndup(const char *text, size_t size) {
        return alloc_fail_now() ? NULL : __real_strndup(text, size);
}
int __wrap_vasprintf(char **ret, const char *format, va_list args) {
        return alloc_fail_now() ? -1 : __real_vasprintf(ret, format, args);
}
char *__wrap_realpath(const char *path, char *resolved) {
        return alloc_fail_now() ? NULL : __real_realpath(path, resolved);
}

/* Calls `body(data)` round after round; the last one meets no failure. `body` answers -ENOMEM when it gave up, 0 when
 * it got through, and frees all that it got either way (the leak sanitizer checks). Returns the number of rounds; 0
 * when one of them ended with another answer. */
static inline unsigned alloc_fail_sweep(int (*body)(void *data), void *data) {
        for (unsigned round = 0; round < 100000; round++) {
                int r;

                alloc_fail.failed = false;
                alloc_fail.left = round;
                alloc_fail.armed = true;
                r = body(data);
                alloc_fail.armed = false;
                if (r != 0 && !(alloc_fail.failed && r == -ENOMEM)) {
                        fprintf(stderr, "# allocation %u failed: the answer was %d\n", round, r);
                        return 0;
                }
                if (!alloc_fail.failed)
                        return round + 1;
        }
        return 0;
}
