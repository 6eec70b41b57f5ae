/* SPDX-License-Identifier: Apache-2.0 */
/* The tools of sub-calls, and FINAL: which they are, and whether a place may use them. */
#pragma once

#include "agent/run.h"

bool sbx_is_subcall_tool(const char *name); /* snipara_sub_complete, snipara_batch_complete, and their old names */
bool sbx_is_final_tool(const char *name);   /* FINAL, FINAL_VAR */
/* By the configuration and the depth: a completion below this place may be asked for. */
bool sbx_subcalls_possible(const struct sbx_place *place);
