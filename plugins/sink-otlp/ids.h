/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of traces and spans, from the ids of runs and calls: the same event always gets the same ids. */
#pragma once

#include <stdint.h>

#define OTLP_TRACE_ID_SIZE 33 /* 16 bytes as hexadecimal digits, and the NUL */
#define OTLP_SPAN_ID_SIZE 17  /* 8 bytes */

/* A UUID without its dashes; of a text that is none, a hash. Never all zeros, which W3C Trace Context forbids. */
void otlp_trace_id(const char *run_id, char ret_id[OTLP_TRACE_ID_SIZE]);
/* The first 8 bytes of a UUID; of a text that is none, a hash. */
void otlp_span_id(const char *call_id, char ret_id[OTLP_SPAN_ID_SIZE]);
/* The id of what has none of its own: a part of `of`, such as "run" or the third tool call of a completion. */
void otlp_part_id(const char *of, const char *part, uint64_t number, char ret_id[OTLP_SPAN_ID_SIZE]);
/* The same for a trace. */
void otlp_part_trace_id(const char *of, uint64_t number, char ret_id[OTLP_TRACE_ID_SIZE]);
uint64_t otlp_hash(const char *text, uint64_t seed);
