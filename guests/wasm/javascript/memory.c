/* SPDX-License-Identifier: Apache-2.0 */
/* QuickJS's memory: malloc, with the sizes that it really took, by which garbage is collected. QuickJS does not ask for
 * them on this platform. */
#include <stdlib.h>

#include "engine.h"

#define OVERHEAD 8 /* of a block, about */

size_t malloc_usable_size(void *data); /* wasi-libc has it and does not declare it */

static void *allocate(JSMallocState *state, size_t size) {
        void *data = malloc(size);

        if (data != NULL) {
                state->malloc_size += malloc_usable_size(data) + OVERHEAD;
                state->malloc_count++;
        } else
                guest.exhausted = true;
        return data;
}

static void release(JSMallocState *state, void *data) {
        if (data == NULL)
                return;
        state->malloc_size -= malloc_usable_size(data) + OVERHEAD;
        state->malloc_count--;
        free(data);
}

static void *reallocate(JSMallocState *state, void *data, size_t size) {
        size_t old;

        if (data == NULL)
                return size > 0 ? allocate(state, size) : NULL;
        if (size == 0) {
                release(state, data);
                return NULL;
        }
        old = malloc_usable_size(data);
        data = realloc(data, size);
        if (data != NULL)
                state->malloc_size += malloc_usable_size(data) - old;
        else
                guest.exhausted = true;
        return data;
}

static size_t usable_size(const void *data) {
        return malloc_usable_size((void *)data);
}

JSRuntime *engine_new_runtime(void) {
        static const JSMallocFunctions functions = {allocate, release, reallocate, usable_size};

        return JS_NewRuntime2(&functions, NULL);
}
