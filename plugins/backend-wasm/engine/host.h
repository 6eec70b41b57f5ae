/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: one instance of a guest's code in this process, its memory, clocks, traps and interrupts. One thread.
 *
 * The life of a session: an image is mapped and an instance made of it (once, in the zygote), the process forks, and the
 * fork serves one session until it ends. Everything of a session that is not in linear memory and globals is in here and
 * in the file system (vfs.h); snapshot.h writes and reads all of it. */
#pragma once

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "code.h"

struct vfs;
struct wasm_image;

/* Shared with the server, one page for each session: what each side tells the other while code runs. A guest that has
 * left its sandbox can lie in it about itself alone; the server bounds what it reads. */
struct wasm_status {
        /* by the server */
        _Atomic uint64_t memory_max; /* bytes of linear memory beyond the image's; 0: the configured maximum */
        /* by the session */
        _Atomic uint64_t memory;      /* bytes of linear memory beyond the image's: it never shrinks, so this is the peak */
        _Atomic uint64_t files;       /* bytes in files now */
        _Atomic uint64_t files_peak;
        _Atomic uint32_t memory_refused; /* times that growing was refused */
        _Atomic uint32_t trap;           /* enum wasm_trap that ended it */
        _Atomic uint32_t exit_code;      /* with WASM_TRAP_EXIT */
        _Atomic uint32_t executing;      /* 1 while a request is served */
};

#define WASM_INTERRUPT_WORDS_MAX 32
struct wasm_interrupt_word {
        uint32_t address, value;
};

struct wasm_host {
        const struct wasm_code *code;
        const struct wasm_image *image;
        struct vfs *vfs;
        struct wasm_status *status; /* never NULL */
        uint64_t memory_limit;      /* bytes beyond the image's that status->memory_max can't exceed */
        int64_t monotonic_offset_ns; /* added to the host's clock: time never goes back over a restore */
        bool baking;                 /* clocks stand still and random is a fixed sequence: the same image every time */
        uint64_t bake_random;
        sigjmp_buf trapped;
        volatile sig_atomic_t inside;      /* guest code is running */
        volatile sig_atomic_t interrupted; /* an interrupt came that no waiting call has told of yet */
        uint32_t interrupt_count;
        struct wasm_interrupt_word interrupt[WASM_INTERRUPT_WORDS_MAX];
};

/* Reserves and maps an instance: of `image`, copy on write; or, where `image` is NULL, of zeroed memory with `code`'s
 * initial size, for a bake. -ENOMEM, -EINVAL. */
int wasm_instance_new(const struct wasm_code *code, const struct wasm_image *image, struct wasm_host *host,
                      struct wasm_instance **ret_instance);
void wasm_instance_free(struct wasm_instance *instance);
/* Alternate stack and handlers for memory faults and SIGINT; once for a process, before guest code runs. */
int wasm_signals_install(struct wasm_instance *instance);
/* Runs an export on a stack of its own size. After a trap the instance can't be used any more.
 * 0 and what it returned, or the trap. */
enum wasm_trap wasm_call(struct wasm_instance *instance, uint32_t (*function)(struct wasm_instance *instance),
                         uint32_t *ret_value);
enum wasm_trap wasm_call_resume(struct wasm_instance *instance, uint32_t how);
const char *wasm_trap_name(enum wasm_trap trap);

/* A range of guest memory as the host may touch it; NULL: it is not all inside. `size` 0 gives a valid pointer. */
static inline void *wasm_range(struct wasm_instance *instance, uint32_t address, uint64_t size) {
        if ((uint64_t)address + size > instance->size)
                return NULL;
        return instance->memory + address;
}
