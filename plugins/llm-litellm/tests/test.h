/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka with the headers that it wants before it, and a host with settings and variables that a test sets. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "route.h"

#define BYTES(literal) ((struct sbx_bytes){(literal), sizeof(literal) - 1})

#define assert_contains(text, part)                                                                                    \
        do {                                                                                                           \
                if (strstr((text), (part)) == NULL)                                                                    \
                        fail_msg("\"%s\" was expected in \"%s\"", (part), (text));                                     \
        } while (0)

/* "NAME=value" entries, NULL-terminated; the first letter says what it is: an upper-case one a variable. */
struct sbx_host_state {
        const char *const *values;
};
void fake_host_init(struct sbx_host *host, struct sbx_host_state *state, const char *const *values);
