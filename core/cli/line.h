/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lines for the repl: with editing and history where libedit was built in and a terminal is there, or plainly. */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "cli/cli.h"
#include "cli/signals.h"

struct sbx_cli_line;

/* `history` is the path of the history file, NULL for none; `signals` ends a read, and outlives the reader. */
int sbx_cli_line_open(const struct sbx_cli *cli, const char *history, const struct sbx_cli_signals *signals,
                      struct sbx_cli_line **ret_line, struct sbx_error *err);
void sbx_cli_line_free(struct sbx_cli_line *line); /* saves the history */

/* One line with its newline, appended to `out`; the last one of a file may lack it. 1; 0: end of file; -EINTR: a signal
 * came (sbx_cli_signals_take tells which); -EFBIG: beyond the maximum of `out`; -errno. */
int sbx_cli_line_read(struct sbx_cli_line *line, const char *prompt, struct sbx_buffer *out);

bool sbx_cli_line_edits(const struct sbx_cli_line *line); /* false: the plain reader */
