/* SPDX-License-Identifier: Apache-2.0 */
/* What a guest's native code and the engine know of each other. The code is a WebAssembly module that wasm2c turned into
 * C (guests/wasm/ builds it into a shared object without data segments); the engine is all that it can call.
 *
 * Linear memory begins WASM_INSTANCE_SPAN bytes after the instance, so that an access is one addition away from the
 * pointer that every function has. It lies in a reservation of 8 GiB and a guard: a 32-bit address plus a 32-bit offset
 * can't leave it. Included by generated code: C11, no other header of the project. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define WASM_CODE_ABI 1
#define WASM_CODE_SYMBOL "sbx_wasm_code_v1" /* const struct wasm_code, the object's one exported symbol */
#define WASM_PAGE 65536u
#define WASM_PAGES_MAX 65535u    /* the size stays below 4 GiB */
#define WASM_INSTANCE_SPAN 4096u /* from the instance to byte 0 of its memory */
#define WASM_RESERVATION (UINT64_C(8) << 30)
#define WASM_GLOBALS_MAX 16

struct wasm_host; /* the engine's own state of a session: host.h */

struct wasm_instance {
        uint8_t *memory; /* == (uint8_t *)this + WASM_INSTANCE_SPAN */
        uint64_t size;   /* of the memory now, in bytes */
        struct wasm_host *host;
        uint64_t globals[WASM_GLOBALS_MAX]; /* mutable ones, in the module's order: [0] is the stack pointer */
};

enum wasm_trap {
        WASM_TRAP_NONE,
        WASM_TRAP_BOUNDS,        /* beyond linear memory */
        WASM_TRAP_STACK,         /* native stack exhausted */
        WASM_TRAP_INDIRECT_CALL, /* no function there, or one of another type */
        WASM_TRAP_INTEGER,       /* division by zero, overflow */
        WASM_TRAP_CONVERSION,
        WASM_TRAP_UNREACHABLE,
        WASM_TRAP_EXIT, /* the guest ended by proc_exit */
};

/* A funcref table as static data; calls through it check index and type. */
struct wasm_table_entry {
        uint32_t type; /* 0: no function */
        void (*function)(void);
};

struct wasm_code {
        uint32_t struct_size;
        uint32_t abi; /* WASM_CODE_ABI */
        const char *name;          /* "python" */
        const char *module_sha256; /* of the .wasm, in hex: images are bound to it */
        uint32_t initial_pages;
        uint32_t global_count;
        const uint64_t *global_values; /* at the start of a bake */

        /* The module's exports; each may end in a trap. */
        void (*initialize)(struct wasm_instance *instance); /* `_initialize`: constructors; at bake time */
        /* Boots the language and the worker, from files of the image's tree; at bake time. 0, or the bake has failed. */
        uint32_t (*start)(struct wasm_instance *instance);
        /* Imports the modules that /usr/lib/sbx/preload names, one a line, and settles the heap; the last step of every
         * bake, also of one that starts from an image. 0, or the bake has failed: stderr says why. */
        uint32_t (*prepare)(struct wasm_instance *instance);
        /* The control stream is readable: takes requests until none is left of what it has read. 0: goes on; 1: the host
         * closed it, or the worker ended. */
        uint32_t (*request)(struct wasm_instance *instance);
        /* The state was forked (1) or restored (2): takes new random seeds. */
        void (*resume)(struct wasm_instance *instance, uint32_t how);
};

/* ---- what generated code calls; the helper program exports these. Imports of WASI are `wasi_NAME`, see wasi.h ---- */

#pragma GCC visibility push(default)
_Noreturn void wasm_trap(struct wasm_instance *instance, enum wasm_trap trap);
/* memory.grow: the old size in pages, or ~0: beyond the limit. */
uint32_t wasm_memory_grow(struct wasm_instance *instance, uint32_t pages);
/* Import "sbx" "interrupt_mark": around what a guest does to itself at bake time as an interrupt would (1 before, 2
 * after). The words that differ are what the engine stores to interrupt a running guest. */
void sbx_interrupt_mark(struct wasm_instance *instance, uint32_t phase);
/* Import "sbx" "stack_left": bytes of the native stack that wasm_call runs on which are free now, so that a guest can
 * refuse recursion before it is a trap. */
uint32_t sbx_stack_left(struct wasm_instance *instance);
#pragma GCC visibility pop
