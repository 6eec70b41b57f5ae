/* SPDX-License-Identifier: Apache-2.0 */
/* Numbered jobs, at most so many at a time. */
#pragma once

#include <stddef.h>

#define SBX_WORKERS_MAX 256u

/* Calls run(data, 0) ... run(data, count - 1), each once, in the order of the numbers, at most `parallel` (and
 * SBX_WORKERS_MAX) at a time; the calling thread is one of those that do. When no more threads can be had, it goes on
 * with those that there are. */
void sbx_workers_run(void (*run)(void *data, size_t index), void *data, size_t count, unsigned parallel);
