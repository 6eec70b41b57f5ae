/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 (RFC 3629): validate, repair, cut. Pure functions. */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"

/* No overlong forms, no surrogates, nothing above U+10FFFF. NUL is valid. */
bool sbx_utf8_valid(struct sbx_bytes text);
/* Appends `text` with each maximal invalid part replaced by U+FFFD, and NUL by U+2400 if `replace_nul`. */
int sbx_utf8_repair(struct sbx_bytes text, bool replace_nul, struct sbx_buffer *out);
/* The largest length <= `limit` that does not cut a character. */
size_t sbx_utf8_cut(struct sbx_bytes text, size_t limit);
