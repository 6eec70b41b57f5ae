/* SPDX-License-Identifier: Apache-2.0 */
/* "key=value,key=value", as OTEL_EXPORTER_OTLP_HEADERS and OTEL_RESOURCE_ATTRIBUTES have it (W3C Baggage without its
 * properties): spaces around are passed over, values are percent-decoded. */
#pragma once

#include <stddef.h>

#include <snipara-sandbox/types.h>

#define OTLP_PAIRS_MAX 128u

/* Calls `each` with every pair; both strings are its for the time of the call. Returns what `each` did when that was
 * negative; -EINVAL: an entry without a key or "=" (`ret_index`, from 0, says which), -ENOMEM. */
int otlp_pairs_read(const char *text, int (*each)(void *data, const char *key, char *value), void *data,
                    size_t *ret_index);
