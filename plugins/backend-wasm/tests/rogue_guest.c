/* SPDX-License-Identifier: Apache-2.0 */
/* A guest's code that has broken out of its sandbox: whoever writes to its control stream says which system calls it
 * makes. For tests of the jail; the well-behaved requests are for tests of the helper. Built as a shared object. */
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/code.h"
#include "engine/wasi.h"
#include "rogue_guest.h"

#define PAGES 16u
#define STACK_TOP 65536u
#define IOVEC 65536u
#define PENDING 65792u /* interrupt word */
#define COUNTER 66048u
#define RESUMED 66056u
#define INPUT 69632u
#define INPUT_SIZE 4096u
#define ANSWER 73728u
#define OUTPUT 131072u

#define AT(instance, address) ((instance)->memory + (uint64_t)(address))

static void put_u32(struct wasm_instance *instance, uint64_t address, uint32_t value) {
        memcpy(AT(instance, address), &value, sizeof(value));
}

static uint32_t get_u32(struct wasm_instance *instance, uint64_t address) {
        uint32_t value;

        memcpy(&value, AT(instance, address), sizeof(value));
        return value;
}

static uint32_t transfer(struct wasm_instance *instance, uint32_t fd, uint32_t address, uint32_t size, bool out,
                         uint32_t *ret_size) {
        uint32_t error;

        put_u32(instance, IOVEC, address);
        put_u32(instance, IOVEC + 4, size);
        error = out ? wasi_fd_write(instance, fd, IOVEC, 1, IOVEC + 8)
                    : wasi_fd_read(instance, fd, IOVEC, 1, IOVEC + 8);
        *ret_size = get_u32(instance, IOVEC + 8);
        return error;
}

/* ---- as any guest ---- */

static uint32_t sleep_long(struct wasm_instance *instance) {
        uint64_t hour_ns = UINT64_C(3600000000000);

        memset(AT(instance, IOVEC), 0, 80);
        put_u32(instance, IOVEC + 16, WASI_CLOCK_MONOTONIC);
        memcpy(AT(instance, IOVEC + 24), &hour_ns, sizeof(hour_ns));
        return wasi_poll_oneoff(instance, IOVEC, IOVEC + 48, 1, IOVEC + 96);
}

static int64_t spin(struct wasm_instance *instance) {
        while (*(volatile uint32_t *)(void *)AT(instance, PENDING) == 0)
                ;
        put_u32(instance, PENDING, 0);
        return 1;
}

static int64_t behave(struct wasm_instance *instance, const struct rogue_command *command) {
        const uint64_t *args = command->args;
        uint32_t size;

        switch (command->op) {
        case ROGUE_ADD:
                put_u32(instance, COUNTER, get_u32(instance, COUNTER) + (uint32_t)args[0]);
                return get_u32(instance, COUNTER);
        case ROGUE_RESUMED:
                return get_u32(instance, RESUMED);
        case ROGUE_TRAP:
                wasm_trap(instance, (enum wasm_trap)args[0]);
        case ROGUE_EXIT:
                wasi_proc_exit(instance, (uint32_t)args[0]);
        case ROGUE_SPIN:
                return spin(instance);
        case ROGUE_SLEEP:
                return sleep_long(instance);
        case ROGUE_GROW:
                return (int32_t)wasm_memory_grow(instance, (uint32_t)args[0]);
        case ROGUE_FILL:
                memset(AT(instance, args[1]), (int)args[2], args[0]);
                return 0;
        case ROGUE_PRINT:
                memset(AT(instance, OUTPUT), 'x', args[0]);
                return transfer(instance, 1, OUTPUT, (uint32_t)args[0], true, &size);
        default:
                return -1;
        }
}

/* ---- as no guest ---- */

static uint8_t buffer[65536];

static int64_t raw(uint64_t number, const uint64_t args[6]) {
        register uint64_t r10 __asm__("r10") = args[3];
        register uint64_t r8 __asm__("r8") = args[4];
        register uint64_t r9 __asm__("r9") = args[5];
        int64_t result;

        __asm__ volatile("syscall"
                         : "=a"(result)
                         : "a"(number), "D"(args[0]), "S"(args[1]), "d"(args[2]), "r"(r10), "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
        return result;
}

static int64_t raw_32(uint64_t number, const uint64_t args[6]) {
        int64_t result;

        __asm__ volatile("int $0x80"
                         : "=a"(result)
                         : "a"(number), "b"(args[0]), "c"(args[1]), "d"(args[2]), "S"(args[3]), "D"(args[4])
                         : "r8", "r9", "r10", "r11", "memory");
        return result;
}

static int64_t make_copies(const uint64_t args[6]) {
        const uint64_t clone_args[6] = {args[1]}, wait_args[6] = {0, 0, UINT64_MAX};
        int64_t count = 0;

        for (uint64_t i = 0; i < args[0]; i++) {
                int64_t pid = raw(SYS_clone, clone_args);

                while (pid == 0)
                        raw(SYS_poll, wait_args);
                if (pid < 0)
                        return count > 0 ? count : pid;
                count++;
        }
        return count;
}

static int64_t misbehave(const struct rogue_command *command) {
        const uint64_t *args = command->args;
        int64_t value;

        switch (command->op) {
        case ROGUE_BUFFER:
                memset(buffer, (int)args[1], args[0] < sizeof(buffer) ? args[0] : sizeof(buffer));
                return (int64_t)(uintptr_t)buffer;
        case ROGUE_TEXT:
                memcpy(buffer, args, sizeof(command->args));
                return (int64_t)(uintptr_t)buffer;
        case ROGUE_SYSCALL:
                return raw(command->number, args);
        case ROGUE_INT80:
                return raw_32(command->number, args);
        case ROGUE_COPIES:
                return make_copies(args);
        case ROGUE_PEEK:
                memcpy(&value, (const void *)(uintptr_t)args[0], sizeof(value));
                return value;
        default:
                return -1;
        }
}

/* ---- exports ---- */

static void initialize(struct wasm_instance *instance) {
        put_u32(instance, COUNTER, 100);
}

static uint32_t start(struct wasm_instance *instance) {
        sbx_interrupt_mark(instance, 1);
        put_u32(instance, PENDING, 1);
        sbx_interrupt_mark(instance, 2);
        put_u32(instance, PENDING, 0);
        return 0;
}

static uint32_t prepare(struct wasm_instance *instance) {
        (void)instance;
        return 0;
}

static uint32_t request(struct wasm_instance *instance) {
        struct rogue_command command;
        uint32_t size, written;

        if (transfer(instance, 4, INPUT, INPUT_SIZE, false, &size) != WASI_SUCCESS || size == 0)
                return 1;
        for (uint32_t at = 0; at + sizeof(command) <= size; at += sizeof(command)) {
                int64_t answer;

                memcpy(&command, AT(instance, INPUT + at), sizeof(command));
                answer = command.op < ROGUE_BUFFER ? behave(instance, &command) : misbehave(&command);
                memcpy(AT(instance, ANSWER), &answer, sizeof(answer));
                if (transfer(instance, 4, ANSWER, sizeof(answer), true, &written) != WASI_SUCCESS)
                        return 1;
        }
        return 0;
}

static void resume(struct wasm_instance *instance, uint32_t how) {
        put_u32(instance, RESUMED, how);
}

static const uint64_t global_values[] = {STACK_TOP};

/* Its module is the eight bytes that every module begins with, and nothing else. */
__attribute__((visibility("default"))) extern const struct wasm_code sbx_wasm_code_v1;
const struct wasm_code sbx_wasm_code_v1 = {
        .struct_size = sizeof(struct wasm_code),
        .abi = WASM_CODE_ABI,
        .name = "rogue",
        .module_sha256 = "93a44bbb96c751218e4c00d479e4c14358122a389acca16205b1e4d0dc5f9476",
        .initial_pages = PAGES,
        .global_count = 1,
        .global_values = global_values,
        .initialize = initialize,
        .start = start,
        .prepare = prepare,
        .request = request,
        .resume = resume,
};
