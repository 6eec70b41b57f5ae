/* SPDX-License-Identifier: Apache-2.0 */
/* The two line readers, to each other. */
#pragma once

#include "cli/line.h"

/* Bytes of standard input, waited for together with signals. */
struct sbx_cli_input {
        const struct sbx_cli_signals *signals;
        char bytes[4096];
        size_t at, size;
};
/* Makes at least one byte available. 1; 0: end of file; -EINTR: a signal came; -errno. */
int sbx_cli_input_fill(struct sbx_cli_input *input);

/* line_edit.c; without libedit these are not built. NULL with errno: out of memory, or no such terminal. */
struct sbx_cli_editor;
struct sbx_cli_editor *sbx_cli_editor_new(const struct sbx_cli *cli, const char *history, struct sbx_cli_input *input);
void sbx_cli_editor_free(struct sbx_cli_editor *editor);
int sbx_cli_editor_read(struct sbx_cli_editor *editor, const char *prompt, struct sbx_buffer *out);
