/* SPDX-License-Identifier: Apache-2.0 */
/* Makes untrusted bytes harmless for a terminal: a guest's output could else change the title, write the clipboard, or
 * ask the terminal for a report that arrives as typed input. Colours, line and in-line cursor movement pass; every
 * other escape sequence and control character is shown instead of obeyed; what is not UTF-8 becomes U+FFFD. */
#pragma once

#include "base/buffer.h"

/* Carries what a chunk left unfinished into the next one. All zero to begin with. */
struct sbx_cli_filter {
        unsigned char pending[32]; /* an escape sequence or a character not yet complete */
        size_t pending_size;
};

/* Appends the harmless form of `bytes`. 0 or -ENOMEM / -EFBIG. */
int sbx_cli_filter_append(struct sbx_cli_filter *filter, struct sbx_bytes bytes, struct sbx_buffer *out);
/* What is unfinished at the end, shown. */
int sbx_cli_filter_finish(struct sbx_cli_filter *filter, struct sbx_buffer *out);
