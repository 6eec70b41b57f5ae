/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that prepare images: run, listened to, ended with the call. */
#pragma once

#include <snipara-sandbox/types.h>

#define PROGRAM_TAIL_MAX 700

struct program_result {
        int exit_code;               /* 0..255, -signal */
        char tail[PROGRAM_TAIL_MAX]; /* the last it printed; printable, lines ended by \n */
};

/* Runs argv[0], an absolute path, with a small environment of its own until it ends. Its lines of output are the call's
 * progress, behind `doing`. -ECANCELED, -ETIMEDOUT: the call ended first; the program was killed. */
int program_run(const char *const argv[], const char *doing, const struct sbx_call *call,
                struct program_result *ret_result);
/* The absolute path of a program of $PATH's usual directories, malloc'ed; NULL: there is none. */
char *program_find(const char *name);
