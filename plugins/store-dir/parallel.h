/* SPDX-License-Identifier: Apache-2.0 */
/* The same work on many things, in a few threads. */
#pragma once

#include "util.h"

#define PARALLEL_THREADS 4u /* at most; never more than there are processors */

/* Calls `work` once for each index below `count`, in any order, until one of them fails; the first failure's code. The
 * calling thread takes part. Small work is better done without: `threads` 1. */
int parallel_run(size_t count, unsigned threads, int (*work)(void *data, size_t index), void *data);
unsigned parallel_threads(uint64_t bytes); /* how many are of use for that much */
