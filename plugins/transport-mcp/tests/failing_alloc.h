/* SPDX-License-Identifier: Apache-2.0 */
/* malloc, calloc and realloc of a test that is linked with --wrap for each: they fail when its own fail_now() says so.
 * Included once by such a test, before it defines fail_now(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Asked at each allocation. */
static bool fail_now(void);

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size) {
        return fail_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
        return fail_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
        return fail_now() ? NULL : __real_realloc(old, size);
}
