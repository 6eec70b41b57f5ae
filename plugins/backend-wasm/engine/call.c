/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of guest code: on a stack of their own, which traps leave at once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "stack.h"

#if defined(__SANITIZE_ADDRESS__)
#define WASM_WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WASM_WITH_ASAN 1
#endif
#endif
#ifdef WASM_WITH_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

static const char *const trap_names[] = {
        [WASM_TRAP_NONE] = "none",
        [WASM_TRAP_BOUNDS] = "access beyond its memory",
        [WASM_TRAP_STACK] = "stack exhausted",
        [WASM_TRAP_INDIRECT_CALL] = "call of no function, or of one of another type",
        [WASM_TRAP_INTEGER] = "integer division by zero or overflow",
        [WASM_TRAP_CONVERSION] = "conversion of a number that does not fit",
        [WASM_TRAP_UNREACHABLE] = "unreachable code",
        [WASM_TRAP_EXIT] = "exit",
};

const char *wasm_trap_name(enum wasm_trap trap) {
        if ((size_t)trap >= sizeof(trap_names) / sizeof(trap_names[0]))
                return "unknown";
        return trap_names[trap];
}

uint8_t *wasm_stack_new(void) {
        uint8_t *stack = mmap(NULL, WASM_STACK_GUARD_SIZE + WASM_STACK_SIZE, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

        if (stack == MAP_FAILED)
                return NULL;
        /* Frames that a trap left may have been here. */
        ASAN_UNPOISON_MEMORY_REGION(stack, WASM_STACK_GUARD_SIZE + WASM_STACK_SIZE);
        if (mprotect(stack, WASM_STACK_GUARD_SIZE, PROT_NONE) < 0) {
                wasm_stack_free(stack);
                return NULL;
        }
        return stack;
}

void wasm_stack_free(uint8_t *stack) {
        if (stack != NULL)
                munmap(stack, WASM_STACK_GUARD_SIZE + WASM_STACK_SIZE);
}

/* What runs on the guest's stack. makecontext's arguments are ints: a pointer goes in two halves. */
struct call {
        struct wasm_instance *instance;
        uint32_t (*function)(struct wasm_instance *instance); /* one of these is set */
        void (*procedure)(struct wasm_instance *instance);
        void (*resume)(struct wasm_instance *instance, uint32_t how);
        uint32_t how, value;
};

static void run(unsigned high, unsigned low) {
        struct call *call = (struct call *)(uintptr_t)((uint64_t)high << 32 | low);

        if (call->function != NULL)
                call->value = call->function(call->instance);
        else if (call->procedure != NULL)
                call->procedure(call->instance);
        else
                call->resume(call->instance, call->how);
}

static enum wasm_trap call_on_stack(struct call *call) {
        struct wasm_host *host = call->instance->host;
        uint64_t address = (uintptr_t)call;

        if (host->trap != WASM_TRAP_NONE)
                return host->trap; /* it has ended before */
        getcontext(&host->callee);
        host->callee.uc_stack.ss_sp = host->stack + WASM_STACK_GUARD_SIZE;
        host->callee.uc_stack.ss_size = WASM_STACK_SIZE;
        host->callee.uc_link = &host->caller;
        makecontext(&host->callee, (void (*)(void))run, 2, (unsigned)(address >> 32), (unsigned)address);
        host->interrupted = 0;
        host->inside = 1;
        swapcontext(&host->caller, &host->callee);
        host->inside = 0;
        return host->trap;
}

enum wasm_trap wasm_call(struct wasm_instance *instance, uint32_t (*function)(struct wasm_instance *instance),
                         uint32_t *ret_value) {
        struct call call = {.instance = instance, .function = function};
        enum wasm_trap trap = call_on_stack(&call);

        if (trap == WASM_TRAP_NONE)
                *ret_value = call.value;
        return trap;
}

enum wasm_trap wasm_call_initialize(struct wasm_instance *instance) {
        struct call call = {.instance = instance, .procedure = instance->host->code->initialize};

        return call_on_stack(&call);
}

enum wasm_trap wasm_call_resume(struct wasm_instance *instance, uint32_t how) {
        struct call call = {.instance = instance, .resume = instance->host->code->resume, .how = how};

        wasi_clocks_resume(instance);
        return call_on_stack(&call);
}

uint32_t sbx_stack_left(struct wasm_instance *instance) {
        const uint8_t *end = instance->host->stack + WASM_STACK_GUARD_SIZE, *here = __builtin_frame_address(0);

        return here > end ? (uint32_t)(here - end) : 0;
}

_Noreturn void wasm_trap(struct wasm_instance *instance, enum wasm_trap trap) {
        struct wasm_host *host = instance->host;

        if (!host->inside)
                abort();
        host->inside = 0;
        host->trap = trap;
        atomic_store(&host->status->trap, (uint32_t)trap);
        setcontext(&host->caller);
        abort();
}
