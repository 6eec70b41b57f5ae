/* SPDX-License-Identifier: Apache-2.0 */
/* Time: waiting for a deadline, and timestamps for people. */
#include "base/clock.h"

#include <limits.h>
#include <stdio.h>

int sbx_clock_poll_ms(uint64_t deadline_ns) {
        uint64_t now, left_ms;

        if (deadline_ns == 0)
                return -1;
        now = sbx_clock_ns();
        if (now >= deadline_ns)
                return 0;
        /* Rounded up without an overflow near UINT64_MAX: rounding down would spin until the deadline. */
        left_ms = (deadline_ns - now - 1) / SBX_NS_PER_MS + 1;
        return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

void sbx_clock_timestamp(char ret_text[SBX_TIMESTAMP_SIZE]) {
        struct timespec now = {0};
        struct tm utc = {0};
        size_t length;

        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &utc);
        length = strftime(ret_text, SBX_TIMESTAMP_SIZE - 5, "%Y-%m-%dT%H:%M:%S", &utc);
        snprintf(ret_text + length, SBX_TIMESTAMP_SIZE - length, ".%03uZ",
                 (unsigned)(now.tv_nsec / (long)SBX_NS_PER_MS) % 1000u);
}
