/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting between attempts, with an eye on the deadline and the cancel descriptor. */
#include "retry.h"

#include <poll.h>
#include <sys/random.h>

#include "util.h"

#define DELAY_MAX_MS UINT64_C(60000)

uint64_t llm_retry_delay_ms(unsigned attempt, uint64_t delay_ms, uint64_t asked_ms, double random) {
        uint64_t full = delay_ms, half;

        if (asked_ms > 0)
                return asked_ms;
        for (unsigned i = 0; i < attempt && full < DELAY_MAX_MS; i++)
                full *= 2;
        if (full > DELAY_MAX_MS)
                full = DELAY_MAX_MS;
        half = full / 2;
        return half + (uint64_t)((double)(full - half) * random);
}

static double random_fraction(void) {
        uint32_t number = 0;

        if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number))
                number = (uint32_t)llm_now_ns(); /* it only spreads clients over time */
        return (double)number / (double)UINT32_MAX;
}

int llm_retry_wait(const struct sbx_call *call, unsigned attempt, uint64_t delay_ms, uint64_t asked_ms) {
        uint64_t wait_ms = llm_retry_delay_ms(attempt, delay_ms, asked_ms, random_fraction());
        uint64_t now = llm_now_ns(), until;
        struct pollfd cancel = {.fd = call->cancel_fd, .events = POLLIN};

        if (call->deadline_ns == 0 && wait_ms > DELAY_MAX_MS)
                return 0;
        if (wait_ms > UINT64_MAX / LLM_NS_PER_MS / 2)
                return 0;
        until = now + wait_ms * LLM_NS_PER_MS;
        if (call->deadline_ns != 0 && until >= call->deadline_ns)
                return 0;
        while (now < until) {
                uint64_t left = (until - now + LLM_NS_PER_MS - 1) / LLM_NS_PER_MS;

                if (poll(&cancel, 1, left < DELAY_MAX_MS ? (int)left : (int)DELAY_MAX_MS) > 0)
                        return -ECANCELED;
                now = llm_now_ns();
        }
        return 1;
}
