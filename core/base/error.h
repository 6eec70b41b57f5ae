/* SPDX-License-Identifier: Apache-2.0 */
/* Short ways to report an error. The struct and sbx_error_set() are in <snipara-sandbox/types.h>. */
#pragma once

#include <snipara-sandbox/types.h>

#define SBX_NOMEM(err, origin) sbx_error_set((err), -ENOMEM, (origin), NULL, "out of memory")

/* Puts "context: " before the message of an error that is set; a no-op on NULL or an empty error. */
void sbx_error_wrap(struct sbx_error *err, const char *format, ...) SBX_PRINTF(2, 3);
/* strerror() of a negative errno that is safe with threads; writes to `text`, returns it. */
const char *sbx_errno_text(int code, char *text, size_t size);
#define SBX_ERRNO_TEXT(code) sbx_errno_text((code), (char[96]){0}, 96)
