/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 (RFC 4648, section 4), with padding. Pure functions. */
#pragma once

#include "base/buffer.h"

static inline size_t sbx_base64_size(size_t bytes) {
        return (bytes + 2) / 3 * 4;
}
/* -EFBIG, -ENOMEM. */
int sbx_base64_encode(struct sbx_bytes data, struct sbx_buffer *out);
/* Strict: nothing but the alphabet, whole groups of four, padding at the end alone, and unused bits that are zero, so
 * that there is one text for each sequence of bytes. -EINVAL: `*ret_position` (may be NULL) is where it is wrong;
 * nothing is appended then. -EFBIG, -ENOMEM. */
int sbx_base64_decode(struct sbx_bytes text, struct sbx_buffer *out, size_t *ret_position);
