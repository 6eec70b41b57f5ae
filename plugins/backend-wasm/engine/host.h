/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: one instance of a guest's code in this process, its memory, clocks, traps and interrupts. One thread.
 *
 * The life of a session: an image is mapped and an instance made of it (once, in the zygote), the process forks, and the
 * fork serves one session until it ends. Everything of a session that is not in linear memory and globals is in here and
 * in the file system (vfs.h); snapshot.h writes and reads all of it. */
#pragma once

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <ucontext.h>

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
        _Atomic uint32_t memory_refused; /* times that growing was refused, since the last request began */
        _Atomic uint32_t trap;           /* enum wasm_trap that ended it */
        _Atomic uint32_t exit_code;      /* with WASM_TRAP_EXIT */
        _Atomic uint32_t executing;      /* 1 while a request is served */
};

#define WASM_INTERRUPT_WORDS_MAX 32
struct wasm_interrupt_word {
        uint32_t address, value;
};

/* The caller sets vfs, status, memory_limit and baking; the rest is wasm_instance_new's. */
struct wasm_host {
        struct vfs *vfs;            /* not owned */
        struct wasm_status *status; /* never NULL */
        uint64_t memory_limit;      /* bytes beyond the image's that status->memory_max can't exceed */
        bool baking; /* clocks stand still and random is a fixed sequence: the same image every time */

        const struct wasm_code *code;
        const struct wasm_image *image; /* NULL: the instance began with zeroed memory */
        uint64_t memory_base;           /* bytes that the limit does not count: the image's */
        /* Added to the host's clocks, modulo 2^64: time never goes back over a fork or a restore. */
        uint64_t monotonic_offset_ns, cpu_offset_ns;
        uint64_t cpu_seen_ns; /* what the guest was told last */
        uint64_t bake_random;
        uint8_t *mark; /* memory as it was at the first interrupt_mark; malloc'ed */
        size_t mark_size;
        uint32_t interrupt_count;
        struct wasm_interrupt_word interrupt[WASM_INTERRUPT_WORDS_MAX];
        uint8_t *stack; /* of guest code, with a guard below */
        ucontext_t caller, callee;
        enum wasm_trap trap;               /* that ended the call */
        volatile sig_atomic_t inside;      /* guest code is running */
        volatile sig_atomic_t interrupted; /* an interrupt came that no waiting call has told of yet */
};

/* Opens a guest's native code. Run it in a process that can be given up: a shared object runs code when it is loaded.
 * The object stays loaded. -EINVAL: not one, or of another ABI: `message` (of `size` bytes, one line) says what. */
int wasm_code_load(const char *path, const struct wasm_code **ret_code, char *message, size_t size);
/* Reserves and maps an instance: of `image`, copy on write; or, where `image` is NULL, of zeroed memory with `code`'s
 * initial size, for a bake. -ENOMEM, -EINVAL: code and image are not of one module. */
int wasm_instance_new(const struct wasm_code *code, const struct wasm_image *image, struct wasm_host *host,
                      struct wasm_instance **ret_instance);
void wasm_instance_free(struct wasm_instance *instance);
/* In a new session's process: makes the pages its own that the image's list says are written to at once, which is
 * cheaper than a fault for each. */
void wasm_instance_warm(struct wasm_instance *instance);
/* Makes memory larger, to `size` bytes in all (a multiple of WASM_PAGE), within the limits. -ENOMEM. */
int wasm_memory_resize(struct wasm_instance *instance, uint64_t size);
/* Alternate stack and handlers for memory faults and SIGINT, on behalf of `instance`; before guest code runs, and again
 * when another instance is to run. They live on in forks. */
int wasm_signals_install(struct wasm_instance *instance);
/* Runs an export on a stack of its own size. After a trap the instance can't be used any more.
 * WASM_TRAP_NONE and what it returned, or the trap, which is in `status`, too. */
enum wasm_trap wasm_call(struct wasm_instance *instance, uint32_t (*function)(struct wasm_instance *instance),
                         uint32_t *ret_value);
enum wasm_trap wasm_call_initialize(struct wasm_instance *instance);
/* `how`: 1 forked, 2 restored. Settles the clocks, too. */
enum wasm_trap wasm_call_resume(struct wasm_instance *instance, uint32_t how);
const char *wasm_trap_name(enum wasm_trap trap);
/* What SIGINT does: async-signal-safe. Without guest code running it does nothing. */
void wasm_interrupt(struct wasm_instance *instance);
/* True once for each interrupt that the guest has not taken notice of yet: a waiting call is to end with WASI_EINTR. */
bool wasm_interrupted(struct wasm_instance *instance);

/* How many bytes from byte 0 of memory hold nothing alive while no call is under way: the unused part of the guest's
 * stack, which lies first and grows down. */
static inline uint64_t wasm_dead_stack(const struct wasm_instance *instance) {
        uint64_t pointer = (uint32_t)instance->globals[0];

        /* A guest can have put anything into its globals. */
        return pointer <= instance->host->code->global_values[0] && pointer <= instance->size ? pointer : 0;
}

/* A range of guest memory as the host may touch it; NULL: it is not all inside. `size` 0 gives a valid pointer. */
static inline void *wasm_range(struct wasm_instance *instance, uint32_t address, uint64_t size) {
        if (size > instance->size || address > instance->size - size)
                return NULL;
        return instance->memory + address;
}
