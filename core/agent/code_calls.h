/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of core/agent: calls that code made in an earlier life of the run. */
#pragma once

#include "agent/run.h"

/* Counts and tells again the first `count` calls of the execution at `place` (whose call_id is the execution's own),
 * with all below them; an answer that one of them gave is given again. */
int sbx_code_calls_recall(const struct sbx_place *place, unsigned count, struct sbx_error *err);
