/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes and durations from text, whole or not at all. -EINVAL: not of the form; -ERANGE: does not fit. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

int sbx_number_int(const char *text, int64_t *ret);
int sbx_number_float(const char *text, double *ret);      /* locale-independent, finite */
int sbx_number_size(const char *text, int64_t *ret_bytes); /* "512m", "2g", "64k", "100", "1.5g"; powers of 1024 */
int sbx_number_duration(const char *text, int64_t *ret_ms); /* "250ms", "30s", "5m", "1h", "30" (seconds) */
int sbx_number_bool(const char *text, bool *ret); /* true/false, yes/no, on/off, 1/0; any case */
