/* SPDX-License-Identifier: Apache-2.0 */
/* What tests and the tiny guest (tiny_guest.c) know of each other: the layout of its memory, and its requests. A
 * request is one read of the control stream, of whole struct tiny_command. */
#pragma once

#include <stdint.h>

#define TINY_PAGES 4u
#define TINY_STACK_TOP 65536u /* the guest's stack pointer at the start; data lies above */
#define TINY_SCRATCH 65536u   /* iovecs and such */
#define TINY_PENDING 65792u   /* interrupt words: all 1 when one came */
#define TINY_TRIPPED 65800u
#define TINY_RESULT 66048u /* u64: of the last command */
#define TINY_COUNTER 66056u
#define TINY_RESUMED 66064u /* `how` of the last resume */
#define TINY_DATA 66560u    /* text from the module's data segment */
#define TINY_PRELOAD 67072u /* what /usr/lib/sbx/preload begins with */
#define TINY_INPUT 69632u
#define TINY_INPUT_SIZE 4096u
#define TINY_FREE 131072u /* from here on: the test's own */
#define TINY_TEXT "a tiny guest"

enum tiny_op {
        TINY_NOTHING,
        TINY_ADD,         /* counter += a */
        TINY_GROW,        /* memory by a pages */
        TINY_LOAD,        /* result: byte at a + b */
        TINY_STORE,       /* byte b to a */
        TINY_FILL,        /* b bytes at a, each 7 * address */
        TINY_CALL,        /* the table's entry a, as a function that takes a number and gives one */
        TINY_TRAP,        /* a: enum wasm_trap */
        TINY_RECURSE,     /* on the native stack, for ever */
        TINY_RECURSE_FAR, /* on its own stack, for ever */
        TINY_SPIN,        /* until interrupted; result: 1 */
        TINY_SLEEP,       /* a ms; result: WASI's errno */
        TINY_WAIT,        /* until descriptor a can be read; result: WASI's errno */
        TINY_EXIT,        /* with status a */
        TINY_RANDOM,      /* b bytes at a; result: errno */
        TINY_CLOCK,       /* of clock a; result: ns */
        TINY_WRITE,       /* what is at a, b bytes, to the file /work/tiny; result: errno */
        TINY_POINTER,     /* hands pointer a to every call that takes one; result: how many did not answer EFAULT */
        TINY_LEFT,        /* result: what sbx_stack_left says */
};

struct tiny_command {
        uint32_t op, a, b;
};

/* Its module: nothing but the data segment. code.module_sha256 is its hash. */
#define TINY_MODULE_SIZE 30
extern const uint8_t tiny_module[TINY_MODULE_SIZE];
