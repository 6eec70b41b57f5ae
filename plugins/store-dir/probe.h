/* SPDX-License-Identifier: Apache-2.0 */
/* The check for `doctor`. */
#pragma once

#include "store.h"

int store_probe(struct dir_store *store, const struct sbx_probe_events *events, const struct sbx_call *call);
