/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka, with the headers that it wants before it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <snipara-sandbox/types.h>

#define BYTES(literal) ((struct sbx_bytes){(literal), sizeof(literal) - 1})

/* `part` occurs in `text`; shows both when it does not. */
#define assert_contains(text, part)                                                                                    \
        do {                                                                                                           \
                if (strstr((text), (part)) == NULL)                                                                    \
                        fail_msg("\"%s\" was expected in \"%s\"", (part), (text));                                     \
        } while (0)
