/* SPDX-License-Identifier: Apache-2.0 */
/* What every test of the plugin includes first. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <snipara-sandbox/types.h>

#define BYTES(literal) ((struct sbx_bytes){(literal), sizeof(literal) - 1})

static inline struct sbx_bytes text_bytes(const char *text) {
        return (struct sbx_bytes){text, strlen(text)};
}
