/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the rogue guest (rogue_guest.c), and its answers: an int64_t for each struct rogue_command.
 * test_helper.py has the same numbers. */
#pragma once

#include <stdint.h>

enum rogue_op {
        ROGUE_ADD,     /* args[0] to a counter; answer: the counter */
        ROGUE_RESUMED, /* answer: `how` of the last resume, 0 if none */
        ROGUE_TRAP,    /* args[0]: enum wasm_trap */
        ROGUE_EXIT,    /* with status args[0] */
        ROGUE_SPIN,    /* until interrupted; answer: 1 */
        ROGUE_SLEEP,   /* until interrupted; answer: WASI's errno */
        ROGUE_GROW,    /* by args[0] pages; answer: the old size or -1 */
        ROGUE_FILL,    /* args[0] bytes of memory from args[1] with args[2] */
        ROGUE_PRINT,   /* args[0] bytes to stdout; answer: WASI's errno */
        /* What a guest can't do that has not left its sandbox. */
        ROGUE_BUFFER,  /* answer: the host's address of args[0] bytes that it keeps, filled with args[1] */
        ROGUE_TEXT,    /* six words of text to the buffer; answer: its address */
        ROGUE_SYSCALL, /* number, then args; answer: what it returned */
        ROGUE_INT80,   /* the same by the 32-bit table */
        ROGUE_COPIES,  /* clones args[0] times with flags args[1]: children wait; answer: how many there are */
        ROGUE_PEEK,    /* answer: 8 bytes at address args[0] */
};

struct rogue_command {
        uint64_t op, number, args[6];
};
