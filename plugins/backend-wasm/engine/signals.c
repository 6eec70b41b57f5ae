/* SPDX-License-Identifier: Apache-2.0 */
/* Signals of a process that runs guest code: memory faults become traps, SIGINT becomes the guest's interrupt. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "stack.h"

#define HANDLER_STACK_SIZE ((size_t)64 << 10)
#define WASM_SHADOW_STACK_MAX ((uint64_t)64 << 20)

static struct wasm_instance *active; /* the one that handlers act for */

/* Where a guest's access went. It has no null page: its own stack lies at the bottom of memory and runs out downwards,
 * around to the top of the 32-bit addresses. */
static enum wasm_trap classify_fault(const struct wasm_instance *instance, const uint8_t *address) {
        const uint8_t *stack = instance->host->stack;

        if (address >= stack && address < stack + WASM_STACK_GUARD_SIZE)
                return WASM_TRAP_STACK;
        if (address < instance->memory || address >= instance->memory + WASM_RESERVATION + WASM_PAGE)
                return WASM_TRAP_NONE;
        if (address >= instance->memory + (UINT64_C(1) << 32) - WASM_SHADOW_STACK_MAX &&
            address < instance->memory + (UINT64_C(1) << 32))
                return WASM_TRAP_STACK;
        return WASM_TRAP_BOUNDS;
}

static void on_fault(int number, siginfo_t *info, void *context) {
        struct wasm_instance *instance = active;
        enum wasm_trap trap = WASM_TRAP_NONE;

        if (instance != NULL && instance->host->inside && info->si_code > 0)
                trap = classify_fault(instance, info->si_addr);
        if (trap != WASM_TRAP_NONE)
                wasm_trap(instance, trap);
        /* A defect of the engine's own: let it be seen as what it is, when the instruction is tried again. */
        signal(number, SIG_DFL);
}

static void on_interrupt(int number) {
        int saved = errno;

        if (active != NULL)
                wasm_interrupt(active);
        errno = saved;
}

void wasm_signals_forget(const struct wasm_instance *instance) {
        if (active == instance)
                active = NULL;
}

/* Handlers need a stack that guest code can't have used up. One for the process, for ever. */
static int install_stack(void) {
        static void *memory;
        stack_t stack = {.ss_size = HANDLER_STACK_SIZE};

        if (memory == NULL) {
                memory = mmap(NULL, HANDLER_STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK,
                              -1, 0);
                if (memory == MAP_FAILED) {
                        memory = NULL;
                        return -errno;
                }
        }
        stack.ss_sp = memory;
        return sigaltstack(&stack, NULL) == 0 ? 0 : -errno;
}

int wasm_signals_install(struct wasm_instance *instance) {
        struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        /* Not SA_RESTART: a call that waits is to end. */
        struct sigaction interrupt = {.sa_handler = on_interrupt, .sa_flags = SA_ONSTACK};
        int r = install_stack();

        if (r < 0)
                return r;
        /* An interrupt during a fault's handler would be lost with it. */
        sigemptyset(&fault.sa_mask);
        sigaddset(&fault.sa_mask, SIGINT);
        sigemptyset(&interrupt.sa_mask);
        active = instance;
        if (sigaction(SIGSEGV, &fault, NULL) < 0 || sigaction(SIGINT, &interrupt, NULL) < 0)
                return -errno;
        return 0;
}
