/* SPDX-License-Identifier: Apache-2.0 */
/* Time: monotonic for waiting, UTC for showing. */
#pragma once

#include <stdint.h>
#include <time.h>

#define SBX_NS_PER_MS UINT64_C(1000000)
#define SBX_NS_PER_S UINT64_C(1000000000)

static inline uint64_t sbx_clock_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * SBX_NS_PER_S + (uint64_t)now.tv_nsec;
}
static inline uint64_t sbx_clock_deadline_ms(uint64_t from_now_ms) {
        return sbx_clock_ns() + from_now_ms * SBX_NS_PER_MS;
}
/* Milliseconds until a deadline for poll(): -1 for no deadline (0), 0 when it has passed, rounded up. */
int sbx_clock_poll_ms(uint64_t deadline_ns);
/* RFC 3339 with milliseconds, UTC: "2026-01-02T03:04:05.678Z". */
#define SBX_TIMESTAMP_SIZE 32
void sbx_clock_timestamp(char ret_text[SBX_TIMESTAMP_SIZE]);
