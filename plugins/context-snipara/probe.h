/* SPDX-License-Identifier: Apache-2.0 */
/* What `doctor` asks. */
#pragma once

#include "call.h"

/* struct sbx_plugin.probe: which credential there is (never its value), and whether the service accepts it. */
int snipara_probe(struct snipara *snipara, const struct sbx_probe_events *events, const struct sbx_call *call);
