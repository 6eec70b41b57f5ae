/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at everything and removes what no name stands for. */
#pragma once

#include "store.h"

int store_collect(struct dir_store *store, const struct sbx_call *call, struct sbx_output *ret_json,
                  struct sbx_error *err);
