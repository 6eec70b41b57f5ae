/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of traces and spans. */
#include "ids.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define UUID_DIGITS 32

/* FNV-1a of 64 bits, with the finalizer of MurmurHash3, so that texts that differ in the last character differ in every
 * digit. Nobody attacks with it: whoever writes trajectories could write any id. */
uint64_t otlp_hash(const char *text, uint64_t seed) {
        uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ seed;

        for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++)
                hash = (hash ^ *p) * UINT64_C(0x100000001b3);
        hash ^= hash >> 33;
        hash *= UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 33;
        hash *= UINT64_C(0xc4ceb9fe1a85ec53);
        hash ^= hash >> 33;
        return hash != 0 ? hash : 1;
}

/* The 32 digits of a UUID, with its dashes or without them. False: it is none, or one of zeros. */
static bool uuid_digits(const char *text, char ret_digits[UUID_DIGITS + 1]) {
        size_t count = 0;
        bool zero = true;

        for (const char *p = text; *p != '\0'; p++) {
                char c = *p >= 'A' && *p <= 'F' ? (char)(*p - 'A' + 'a') : *p;

                if (c == '-' && (count == 8 || count == 12 || count == 16 || count == 20) && p[-1] != '-')
                        continue;
                if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) || count == UUID_DIGITS)
                        return false;
                zero = zero && c == '0';
                ret_digits[count++] = c;
        }
        ret_digits[count] = '\0';
        return count == UUID_DIGITS && !zero;
}

static void hexadecimal(uint64_t number, char *ret_digits) {
        snprintf(ret_digits, OTLP_SPAN_ID_SIZE, "%016" PRIx64, number);
}

void otlp_trace_id(const char *run_id, char ret_id[OTLP_TRACE_ID_SIZE]) {
        if (!uuid_digits(run_id, ret_id))
                otlp_part_trace_id(run_id, 0, ret_id);
}

void otlp_part_trace_id(const char *of, uint64_t number, char ret_id[OTLP_TRACE_ID_SIZE]) {
        hexadecimal(otlp_hash(of, number * 2 + 1), ret_id);
        hexadecimal(otlp_hash(of, number * 2 + 2), ret_id + UUID_DIGITS / 2);
}

void otlp_span_id(const char *call_id, char ret_id[OTLP_SPAN_ID_SIZE]) {
        char digits[UUID_DIGITS + 1];

        if (!uuid_digits(call_id, digits) || strspn(digits, "0") >= OTLP_SPAN_ID_SIZE - 1) {
                hexadecimal(otlp_hash(call_id, 0), ret_id);
                return;
        }
        memcpy(ret_id, digits, OTLP_SPAN_ID_SIZE - 1);
        ret_id[OTLP_SPAN_ID_SIZE - 1] = '\0';
}

void otlp_part_id(const char *of, const char *part, uint64_t number, char ret_id[OTLP_SPAN_ID_SIZE]) {
        hexadecimal(otlp_hash(of, otlp_hash(part, number)), ret_id);
}
