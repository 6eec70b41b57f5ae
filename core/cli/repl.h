/* SPDX-License-Identifier: Apache-2.0 */
/* The repl's state, shared by its loop (repl.c) and its % commands (repl_meta.c). */
#pragma once

#include "base/buffer.h"
#include "cli/cli.h"
#include "cli/runtime.h"
#include "cli/signals.h"
#include "runtime/runtime.h"

struct sbx_cli_repl {
        struct sbx_cli *cli;
        struct sbx_runtime *runtime;
        struct sbx_cli_signals signals;
        struct sbx_cli_line *line;
        char *session; /* never NULL in the loop */
        const char *profile;
        uint64_t timeout_ms;
        struct sbx_buffer prompt;
        bool leave;
        int exit;
};

/* Goes on in another session. 0 or -ENOMEM. */
int sbx_cli_repl_session(struct sbx_cli_repl *repl, const char *name);
/* Runs a line that begins with '%' and ends with a newline, which it changes. */
void sbx_cli_repl_meta(struct sbx_cli_repl *repl, char *line);
