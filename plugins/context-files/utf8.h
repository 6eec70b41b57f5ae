/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 (RFC 3629) of what was read: is it text, repair, cut; and JSON strings of it. */
#pragma once

#include <jansson.h>

#include "util.h"

/* No NUL and no invalid byte; a character that the end cuts is fine if `cut`. */
bool utf8_is_text(const char *data, size_t size, bool cut);
/* A copy with every invalid byte and NUL as U+FFFD, to be freed; NUL-terminated. NULL: -ENOMEM. */
char *utf8_repair(const char *data, size_t size, size_t *ret_size);
/* The largest size up to `limit` that cuts no character. */
size_t utf8_cut(const char *data, size_t size, size_t limit);
/* A JSON string, repaired if it must be. NULL: -ENOMEM. */
json_t *utf8_json(const char *data, size_t size);
