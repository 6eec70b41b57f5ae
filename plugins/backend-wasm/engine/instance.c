/* SPDX-License-Identifier: Apache-2.0 */
/* Instances: the reservation that holds one, its linear memory and the stack that guest code runs on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "image.h"
#include "stack.h"
#include "wasi.h"

/* An access reaches 2^32 - 1 (address) + 2^32 - 1 (offset) + 15 bytes from byte 0 of memory at most. */
#define GUARD_SIZE WASM_PAGE
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define RESERVATION_SIZE (WASM_INSTANCE_SPAN + WASM_RESERVATION + GUARD_SIZE)

_Static_assert(sizeof(struct wasm_instance) <= WASM_INSTANCE_SPAN, "the instance lies before its memory");

static void *reserve(size_t size) {
        void *map = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        return map == MAP_FAILED ? NULL : map;
}

static int map_memory(struct wasm_instance *instance, uint64_t size) {
        const struct wasm_image *image = instance->host->image;

        if (size == 0)
                return 0;
        if (image == NULL)
                return mprotect(instance->memory, size, PROT_READ | PROT_WRITE) == 0 ? 0 : -errno;
        if (mmap(instance->memory, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, image->fd,
                 (off_t)image->memory_offset) == MAP_FAILED)
                return -errno;
        return 0;
}

/* Fills in what code and image say; memory and stack are not there yet. -EINVAL: they don't belong together. */
static int host_begin(struct wasm_host *host, const struct wasm_code *code, const struct wasm_image *image) {
        if (code->global_count > WASM_GLOBALS_MAX || code->initial_pages > WASM_PAGES_MAX)
                return -EINVAL;
        if (image != NULL &&
            (image->global_count != code->global_count || image->memory_pages > WASM_PAGES_MAX ||
             image->memory_pages < code->initial_pages || strcmp(image->module_sha256, code->module_sha256) != 0))
                return -EINVAL;
        host->code = code;
        host->image = image;
        host->memory_base = (uint64_t)(image != NULL ? image->memory_pages : code->initial_pages) * WASM_PAGE;
        host->monotonic_offset_ns = host->cpu_offset_ns = host->cpu_seen_ns = 0;
        host->bake_random = 0;
        host->mark = NULL;
        host->interrupt_count = 0;
        host->inside = host->interrupted = 0;
        host->trap = WASM_TRAP_NONE;
        if (image != NULL) {
                host->interrupt_count = image->interrupt_count;
                memcpy(host->interrupt, image->interrupt, sizeof(host->interrupt));
        }
        return 0;
}

int wasm_instance_new(const struct wasm_code *code, const struct wasm_image *image, struct wasm_host *host,
                      struct wasm_instance **ret_instance) {
        struct wasm_instance *instance;
        int r = host_begin(host, code, image);

        if (r < 0)
                return r;
        instance = reserve(RESERVATION_SIZE);
        if (instance == NULL)
                return -ENOMEM;
        host->stack = wasm_stack_new();
        if (host->stack == NULL || mprotect(instance, WASM_INSTANCE_SPAN, PROT_READ | PROT_WRITE) < 0) {
                wasm_stack_free(host->stack);
                munmap(instance, RESERVATION_SIZE);
                return -ENOMEM;
        }
        instance->memory = (uint8_t *)instance + WASM_INSTANCE_SPAN;
        instance->host = host;
        instance->size = host->memory_base;
        memcpy(instance->globals, image != NULL ? image->globals : code->global_values,
               code->global_count * sizeof(instance->globals[0]));
        r = map_memory(instance, host->memory_base);
        if (r < 0) {
                wasm_instance_free(instance);
                return -ENOMEM;
        }
        wasi_clocks_start(instance);
        *ret_instance = instance;
        return 0;
}

void wasm_instance_free(struct wasm_instance *instance) {
        if (instance == NULL)
                return;
        wasm_signals_forget(instance);
        wasm_stack_free(instance->host->stack);
        instance->host->stack = NULL;
        free(instance->host->mark);
        instance->host->mark = NULL;
        munmap(instance, RESERVATION_SIZE);
}

void wasm_instance_warm(struct wasm_instance *instance) {
        const struct wasm_image *image = instance->host->image;

        for (uint32_t i = 0; image != NULL && i < image->hot_count; i++) {
                const struct wasm_hot_run *run = &image->hot[i];

                /* Linux 5.14 has it. Without it there are faults. */
                if (madvise(instance->memory + (uint64_t)run->first * WASM_HOST_PAGE,
                            (size_t)run->count * WASM_HOST_PAGE, MADV_POPULATE_WRITE) < 0)
                        return;
        }
}

/* Bytes that memory may have now: the server can change the limit while guest code runs. */
static uint64_t size_limit(const struct wasm_host *host) {
        uint64_t limit = host->memory_limit, wished = atomic_load(&host->status->memory_max);
        const uint64_t most = (uint64_t)WASM_PAGES_MAX * WASM_PAGE;

        if (wished != 0 && wished < limit)
                limit = wished;
        return limit > most - host->memory_base ? most : host->memory_base + limit;
}

int wasm_memory_resize(struct wasm_instance *instance, uint64_t size) {
        struct wasm_host *host = instance->host;

        if (size < instance->size || size % WASM_PAGE != 0)
                return -EINVAL;
        if (size == instance->size)
                return 0;
        if (size > size_limit(host) ||
            mprotect(instance->memory + instance->size, size - instance->size, PROT_READ | PROT_WRITE) < 0) {
                atomic_fetch_add(&host->status->memory_refused, 1);
                return -ENOMEM;
        }
        instance->size = size;
        atomic_store(&host->status->memory, size - host->memory_base);
        return 0;
}

uint32_t wasm_memory_grow(struct wasm_instance *instance, uint32_t pages) {
        uint64_t old = instance->size / WASM_PAGE;

        if (wasm_memory_resize(instance, (old + pages) * WASM_PAGE) < 0)
                return UINT32_MAX;
        return (uint32_t)old;
}
