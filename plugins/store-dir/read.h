/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: one blob, or which there are. */
#pragma once

#include "store.h"

int store_get(struct dir_store *store, const char *name, const struct sbx_call *call, struct sbx_output *ret_blob,
              struct sbx_error *err);
int store_list(struct dir_store *store, const char *prefix, const struct sbx_store_events *events,
               const struct sbx_call *call, struct sbx_error *err);
int read_has(struct dir_store *store, const char *name, bool *ret_there, struct sbx_error *err);
