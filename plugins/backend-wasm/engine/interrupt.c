/* SPDX-License-Identifier: Apache-2.0 */
/* Soft interrupts: a few words of a guest's memory, found at bake time by looking at what the guest changes when it
 * interrupts itself, and stored again whenever one is to be interrupted. No guest code runs in a signal handler. */
#include <stdlib.h>
#include <string.h>

#include "host.h"

/* The guest's stack lies below the stack pointer's first value and changes anyway. */
static uint32_t data_begin(const struct wasm_instance *instance) {
        const struct wasm_code *code = instance->host->code;

        return code->global_count > 0 ? (uint32_t)code->global_values[0] : 0;
}

static void find_words(struct wasm_instance *instance) {
        struct wasm_host *host = instance->host;

        for (uint64_t at = data_begin(instance) & ~3u; at + 4 <= host->mark_size; at += 4) {
                struct wasm_interrupt_word word = {.address = (uint32_t)at};

                if (memcmp(host->mark + at, instance->memory + at, 4) == 0)
                        continue;
                if (host->interrupt_count == WASM_INTERRUPT_WORDS_MAX) {
                        host->interrupt_count = 0; /* whatever that was, it was no interrupt: the bake fails */
                        return;
                }
                memcpy(&word.value, instance->memory + at, 4);
                host->interrupt[host->interrupt_count++] = word;
        }
}

void sbx_interrupt_mark(struct wasm_instance *instance, uint32_t phase) {
        struct wasm_host *host = instance->host;

        if (!host->baking)
                return;
        if (phase == 2 && host->mark != NULL)
                find_words(instance);
        free(host->mark);
        host->mark = NULL;
        if (phase == 1) {
                host->interrupt_count = 0;
                host->mark_size = (size_t)instance->size;
                host->mark = malloc(host->mark_size);
                if (host->mark != NULL)
                        memcpy(host->mark, instance->memory, host->mark_size);
        }
}

void wasm_interrupt(struct wasm_instance *instance) {
        struct wasm_host *host = instance->host;

        if (!host->inside)
                return;
        for (uint32_t i = 0; i < host->interrupt_count; i++)
                __atomic_store_n((uint32_t *)(void *)(instance->memory + host->interrupt[i].address),
                                 host->interrupt[i].value, __ATOMIC_SEQ_CST);
        host->interrupted = 1;
}

bool wasm_interrupted(struct wasm_instance *instance) {
        struct wasm_host *host = instance->host;

        if (!host->interrupted)
                return false;
        host->interrupted = 0;
        for (uint32_t i = 0; i < host->interrupt_count; i++)
                if (memcmp(instance->memory + host->interrupt[i].address, &host->interrupt[i].value, 4) != 0)
                        return false; /* it has run its handler since */
        return host->interrupt_count > 0;
}
