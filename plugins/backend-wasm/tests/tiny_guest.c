/* SPDX-License-Identifier: Apache-2.0 */
/* A guest's code as wasm2c would write it, by hand: it does what requests say (tiny_guest.h) and nothing else. Tests
 * link it, and it is a shared object that the helper program can load. */
#include <string.h>

#include "engine/code.h"
#include "engine/wasi.h"
#include "tiny_guest.h"

const uint8_t tiny_module[TINY_MODULE_SIZE] = {
        0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, /* magic, version */
        0x0b, 0x14, 0x01,                               /* data section: one segment */
        0x00, 0x41, 0x80, 0x88, 0x04, 0x0b, 0x0c,       /* active, at TINY_DATA, 12 bytes */
        'a',  ' ',  't',  'i',  'n',  'y',  ' ',  'g',  'u', 'e', 's', 't',
};

#define ADDRESS(instance, address) ((instance)->memory + (uint64_t)(address))

static void put_u32(struct wasm_instance *instance, uint64_t address, uint32_t value) {
        memcpy(ADDRESS(instance, address), &value, sizeof(value));
}

static uint32_t get_u32(struct wasm_instance *instance, uint64_t address) {
        uint32_t value;

        memcpy(&value, ADDRESS(instance, address), sizeof(value));
        return value;
}

static void put_u64(struct wasm_instance *instance, uint64_t address, uint64_t value) {
        memcpy(ADDRESS(instance, address), &value, sizeof(value));
}

/* ---- a table of functions ---- */

static uint32_t twice(struct wasm_instance *instance, uint32_t number) {
        return 2 * number;
}

static void nothing(struct wasm_instance *instance) {
}

#define TYPE_NUMBER 1
#define TYPE_NOTHING 2
static const struct wasm_table_entry table[] = {
        {0, NULL}, {TYPE_NUMBER, (void (*)(void))twice}, {TYPE_NOTHING, (void (*)(void))nothing}};

static uint32_t call_number(struct wasm_instance *instance, uint32_t index, uint32_t number) {
        if (index >= sizeof(table) / sizeof(table[0]) || table[index].type != TYPE_NUMBER)
                wasm_trap(instance, WASM_TRAP_INDIRECT_CALL);
        return ((uint32_t(*)(struct wasm_instance *, uint32_t))table[index].function)(instance, number);
}

/* ---- commands ---- */

static volatile uint32_t depth; /* what keeps a compiler from making loops of the two below */

static uint32_t recurse(struct wasm_instance *instance, uint32_t level) {
        volatile uint8_t frame[4096];

        frame[level % sizeof(frame)] = (uint8_t)level;
        depth = level;
        if (level == UINT32_MAX)
                return 0;
        return recurse(instance, level + 1) + frame[depth % sizeof(frame)];
}

static void recurse_far(struct wasm_instance *instance) {
        for (;;) {
                uint32_t pointer = (uint32_t)instance->globals[0] - 4096;

                instance->globals[0] = pointer;
                put_u32(instance, pointer, 1);
        }
}

static void spin(struct wasm_instance *instance) {
        while (*(volatile uint32_t *)(void *)ADDRESS(instance, TINY_PENDING) == 0)
                ;
        put_u32(instance, TINY_PENDING, 0);
        put_u32(instance, TINY_TRIPPED, 0);
}

static uint32_t poll(struct wasm_instance *instance, uint32_t type, uint32_t fd, uint64_t timeout_ns) {
        memset(ADDRESS(instance, TINY_SCRATCH), 0, 80);
        *ADDRESS(instance, TINY_SCRATCH + 8) = (uint8_t)type;
        if (type == WASI_EVENT_CLOCK) {
                put_u32(instance, TINY_SCRATCH + 16, WASI_CLOCK_MONOTONIC);
                put_u64(instance, TINY_SCRATCH + 24, timeout_ns);
        } else {
                put_u32(instance, TINY_SCRATCH + 16, fd);
        }
        return wasi_poll_oneoff(instance, TINY_SCRATCH, TINY_SCRATCH + 48, 1, TINY_SCRATCH + 96);
}

static uint32_t write_file(struct wasm_instance *instance, uint32_t address, uint32_t size) {
        static const char path[] = "work/tiny";
        uint32_t error;

        memcpy(ADDRESS(instance, TINY_SCRATCH), path, sizeof(path));
        error = wasi_path_open(instance, 3, 0, TINY_SCRATCH, sizeof(path) - 1, WASI_OPEN_CREATE | WASI_OPEN_TRUNCATE,
                               WASI_RIGHT_FD_WRITE, 0, 0, TINY_SCRATCH + 64);
        if (error != WASI_SUCCESS)
                return error;
        put_u32(instance, TINY_SCRATCH, address);
        put_u32(instance, TINY_SCRATCH + 4, size);
        error = wasi_fd_write(instance, get_u32(instance, TINY_SCRATCH + 64), TINY_SCRATCH, 1, TINY_SCRATCH + 68);
        wasi_fd_close(instance, get_u32(instance, TINY_SCRATCH + 64));
        return error;
}

/* Every call that takes a pointer gets a bad one in each place, the others being good. */
static uint32_t try_pointer(struct wasm_instance *instance, uint32_t bad) {
        const uint32_t good = TINY_SCRATCH + 256;
        uint32_t missed = 0;

#define BAD(call) missed += (call) != WASI_EFAULT
        BAD(wasi_args_get(instance, bad, good));
        BAD(wasi_args_get(instance, good, bad));
        BAD(wasi_args_sizes_get(instance, bad, good));
        BAD(wasi_args_sizes_get(instance, good, bad));
        BAD(wasi_environ_get(instance, bad, good));
        BAD(wasi_environ_get(instance, good, bad));
        BAD(wasi_environ_sizes_get(instance, bad, good));
        BAD(wasi_environ_sizes_get(instance, good, bad));
        BAD(wasi_clock_res_get(instance, WASI_CLOCK_REALTIME, bad));
        BAD(wasi_clock_time_get(instance, WASI_CLOCK_REALTIME, 1, bad));
        BAD(wasi_random_get(instance, bad, 64));
        BAD(wasi_poll_oneoff(instance, bad, good, 1, good));
        BAD(wasi_poll_oneoff(instance, good, bad, 1, good));
        BAD(wasi_poll_oneoff(instance, good, good, 1, bad));
        BAD(wasi_fd_fdstat_get(instance, 3, bad));
        BAD(wasi_fd_filestat_get(instance, 3, bad));
        BAD(wasi_fd_prestat_get(instance, 3, bad));
        BAD(wasi_path_open(instance, 3, 0, bad, 64, 0, 0, 0, 0, good));
        BAD(wasi_path_create_directory(instance, 3, bad, 64));
        BAD(wasi_path_rename(instance, 3, good, 1, 3, bad, 64));
#undef BAD
        return missed;
}

static uint64_t run_waiting(struct wasm_instance *instance, const struct tiny_command *command) {
        switch (command->op) {
        case TINY_SPIN:
                spin(instance);
                return 1;
        case TINY_SLEEP:
                return poll(instance, WASI_EVENT_CLOCK, 0, (uint64_t)command->a * 1000000);
        case TINY_WAIT:
                return poll(instance, WASI_EVENT_FD_READ, command->a, 0);
        case TINY_RANDOM:
                return wasi_random_get(instance, command->a, command->b);
        case TINY_CLOCK:
                if (wasi_clock_time_get(instance, command->a, 1, TINY_RESULT) != WASI_SUCCESS)
                        return 0;
                return (uint64_t)get_u32(instance, TINY_RESULT) | (uint64_t)get_u32(instance, TINY_RESULT + 4) << 32;
        case TINY_WRITE:
                return write_file(instance, command->a, command->b);
        case TINY_POINTER:
                return try_pointer(instance, command->a);
        case TINY_LEFT:
                return sbx_stack_left(instance);
        default:
                return 0;
        }
}

static uint64_t run(struct wasm_instance *instance, const struct tiny_command *command) {
        switch (command->op) {
        case TINY_ADD:
                put_u32(instance, TINY_COUNTER, get_u32(instance, TINY_COUNTER) + command->a);
                return get_u32(instance, TINY_COUNTER);
        case TINY_GROW:
                return wasm_memory_grow(instance, command->a);
        case TINY_LOAD:
                return *ADDRESS(instance, (uint64_t)command->a + command->b);
        case TINY_STORE:
                *ADDRESS(instance, command->a) = (uint8_t)command->b;
                return command->b;
        case TINY_FILL:
                for (uint32_t i = 0; i < command->b; i++)
                        *ADDRESS(instance, command->a + i) = (uint8_t)(7 * (command->a + i));
                return command->b;
        case TINY_CALL:
                return call_number(instance, command->a, command->b);
        case TINY_TRAP:
                wasm_trap(instance, command->a);
        case TINY_RECURSE:
                return recurse(instance, 0);
        case TINY_RECURSE_FAR:
                recurse_far(instance);
                return 0;
        case TINY_EXIT:
                wasi_proc_exit(instance, command->a);
        default:
                return run_waiting(instance, command);
        }
}

/* ---- exports ---- */

static void initialize(struct wasm_instance *instance) {
        put_u32(instance, TINY_COUNTER, 100);
}

static uint32_t start(struct wasm_instance *instance) {
        if (memcmp(ADDRESS(instance, TINY_DATA), TINY_TEXT, strlen(TINY_TEXT)) != 0)
                return 2; /* its data segment is not there */
        sbx_interrupt_mark(instance, 1);
        put_u32(instance, 64, 1); /* its stack changes, too */
        put_u32(instance, TINY_PENDING, 1);
        put_u32(instance, TINY_TRIPPED, 1);
        sbx_interrupt_mark(instance, 2);
        put_u32(instance, TINY_PENDING, 0);
        put_u32(instance, TINY_TRIPPED, 0);
        return 0;
}

static uint32_t prepare(struct wasm_instance *instance) {
        static const char path[] = "usr/lib/sbx/preload";
        uint32_t fd;

        memcpy(ADDRESS(instance, TINY_SCRATCH), path, sizeof(path));
        if (wasi_path_open(instance, 3, 0, TINY_SCRATCH, sizeof(path) - 1, 0, WASI_RIGHT_FD_READ, 0, 0,
                           TINY_SCRATCH + 64) != WASI_SUCCESS)
                return 0;
        fd = get_u32(instance, TINY_SCRATCH + 64);
        put_u32(instance, TINY_SCRATCH, TINY_PRELOAD);
        put_u32(instance, TINY_SCRATCH + 4, 64);
        wasi_fd_read(instance, fd, TINY_SCRATCH, 1, TINY_SCRATCH + 68);
        wasi_fd_close(instance, fd);
        return *ADDRESS(instance, TINY_PRELOAD) == '!'; /* what tests make it fail with */
}

static uint32_t request(struct wasm_instance *instance) {
        struct tiny_command command;
        uint32_t size;

        put_u32(instance, TINY_SCRATCH, TINY_INPUT);
        put_u32(instance, TINY_SCRATCH + 4, TINY_INPUT_SIZE);
        if (wasi_fd_read(instance, 4, TINY_SCRATCH, 1, TINY_SCRATCH + 8) != WASI_SUCCESS)
                return 1;
        size = get_u32(instance, TINY_SCRATCH + 8);
        if (size == 0)
                return 1;
        for (uint32_t at = 0; at + sizeof(command) <= size; at += sizeof(command)) {
                memcpy(&command, ADDRESS(instance, TINY_INPUT + at), sizeof(command));
                put_u64(instance, TINY_RESULT, run(instance, &command));
        }
        return 0;
}

static void resume(struct wasm_instance *instance, uint32_t how) {
        put_u32(instance, TINY_RESUMED, how);
}

static const uint64_t global_values[] = {TINY_STACK_TOP};

__attribute__((visibility("default"))) extern const struct wasm_code sbx_wasm_code_v1;
const struct wasm_code sbx_wasm_code_v1 = {
        .struct_size = sizeof(struct wasm_code),
        .abi = WASM_CODE_ABI,
        .name = "tiny",
        .module_sha256 = "93dc3a96ab65324100b0f71185e26f82c5d3618154bbcd1184bb7b7fc9ba9aba",
        .initial_pages = TINY_PAGES,
        .global_count = 1,
        .global_values = global_values,
        .initialize = initialize,
        .start = start,
        .prepare = prepare,
        .request = request,
        .resume = resume,
};
