/* SPDX-License-Identifier: Apache-2.0 */
/* Python source: where it comes from, and whether what was typed so far is a whole statement. */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"

/* A file's or (path "-") standard input's content, at most SBX_CODE_MAX_BYTES. The error names the path. */
int sbx_cli_source_read(const char *path, struct sbx_buffer *out, struct sbx_error *err);

/* True when the interactive reader of Python would ask for another line: a bracket, a string or a backslash is open, or
 * a compound statement has not been ended by an empty line. `text` ends with the newline of the last line typed. */
bool sbx_cli_source_incomplete(struct sbx_bytes text);
