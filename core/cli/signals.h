/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C, SIGTERM and SIGHUP as a descriptor that a struct sbx_call can wait for. One user at a time in the process:
 * a signal handler has no argument to find its state by. */
#pragma once

#include <stdbool.h>

struct sbx_cli_signals {
        int fd; /* readable since a signal came; for sbx_call.cancel_fd */
};

/* Catches SIGINT, SIGTERM and SIGHUP and ignores SIGPIPE. With `once`, the second of a kind has its ordinary effect, so
 * that an impatient user gets out at once. 0 or -errno. */
int sbx_cli_signals_open(struct sbx_cli_signals *ret_signals, bool once);
/* Back to how signals were. Fine on an all-zero or a closed struct. */
void sbx_cli_signals_close(struct sbx_cli_signals *signals);

/* Makes the descriptor readable as a signal would: to cancel for reasons of our own. Any thread. */
void sbx_cli_signals_raise(const struct sbx_cli_signals *signals, int number);
/* The last signal since the last call, SIGTERM and SIGHUP before SIGINT; 0: none. The descriptor is quiet again. */
int sbx_cli_signals_take(struct sbx_cli_signals *signals);
#define _cleanup_signals_ __attribute__((cleanup(sbx_cli_signals_close)))
