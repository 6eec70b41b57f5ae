/* SPDX-License-Identifier: Apache-2.0 */
/* Points in time as OTLP has them: nanoseconds since 1970, UTC. */
#pragma once

#include <stdint.h>

/* An RFC 3339 timestamp, with a fraction of up to nanoseconds and "Z" or an offset; 0: it is none, or before 1970. */
uint64_t otlp_timestamp(const char *text);
