/* SPDX-License-Identifier: Apache-2.0 */
/* When a request is sent again, and how long to wait before. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/types.h>

/* Waits before another attempt. `attempt` is 0 after the first request. `asked_ms` is what the server asked for, 0:
 * nothing; without that it is delay_ms * 2^attempt, half of it at random, so that many clients do not come back as one.
 * 1: waited; 0: there is no time for it before the deadline, or the server asks for more than a minute and there is no
 * deadline; -ECANCELED. */
int llm_retry_wait(const struct sbx_call *call, unsigned attempt, uint64_t delay_ms, uint64_t asked_ms);
/* The wait itself, for a random number from 0 to 1. */
uint64_t llm_retry_delay_ms(unsigned attempt, uint64_t delay_ms, uint64_t asked_ms, double random);
