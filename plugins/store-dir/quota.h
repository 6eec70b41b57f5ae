/* SPDX-License-Identifier: Apache-2.0 */
/* How much the store takes on the disk. */
#pragma once

#include "store.h"

/* -ENOSPC if `more` bytes would be beyond the quota. What other programs have written counts as of ten seconds ago at
 * the latest. */
int quota_check(struct dir_store *store, uint64_t more, struct sbx_error *err);
void quota_add(struct dir_store *store, int64_t bytes); /* was written, or removed */
int quota_measure(struct dir_store *store, uint64_t *ret_bytes);
