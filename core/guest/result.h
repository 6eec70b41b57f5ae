/* SPDX-License-Identifier: Apache-2.0 */
/* Building the result of an execution. Each string and each piece of bytes in it has an allocation of its own. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/runtime.h>

#include "base/buffer.h"

#define SBX_DISPLAYS_MAX 1000 /* pieces of rich output in one result */

int sbx_result_new(struct sbx_result **ret_result);
/* Puts a copy in place of what is there: repaired UTF-8, NUL shown as U+2400. NULL data: no text. -ENOMEM. */
int sbx_result_set(const char **field, struct sbx_bytes text);
/* Takes the buffer's bytes (repaired UTF-8, NUL kept); `cut`: an end in the middle of a character is dropped. */
int sbx_result_set_output(struct sbx_bytes *field, struct sbx_buffer *text, bool cut);
/* Is rich output of this type given as text, and not as base64? */
bool sbx_result_is_text(const char *mime_type);
/* Adds rich output: text types as repaired UTF-8, others as base64. -ENOMEM; -E2BIG beyond SBX_DISPLAYS_MAX. */
int sbx_result_add_display(struct sbx_result *result, const char *mime_type, struct sbx_bytes data);
