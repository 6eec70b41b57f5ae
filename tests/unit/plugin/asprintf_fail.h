/* SPDX-License-Identifier: Apache-2.0 */
/* asprintf() for allocation-failure sweeps, on top of ../alloc_fail.h. */
#pragma once

#include "../alloc_fail.h"

int __wrap_asprintf(char **ret, const char *format, ...) __attribute__((format(printf, 2, 3)));

int __wrap_asprintf(char **ret, const char *format, ...) {
        va_list args;
        int length;

        va_start(args, format);
        length = __wrap_vasprintf(ret, format, args);
        va_end(args);
        return length;
}
