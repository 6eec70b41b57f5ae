/* SPDX-License-Identifier: Apache-2.0 */
/* Makes what was written survive a loss of power: at once, or within a second by a thread. A directory's newest index
 * is not trusted to be on the disk before its large blobs and then it itself have been synced; then it becomes
 * `index.old`, which stands in for the next one until that is as far. */
#pragma once

#include "store.h"

int sync_start(struct dir_store *store, struct sbx_error *err);
void sync_stop(struct dir_store *store); /* everything is on the disk then; what is not, the log tells */
/* Within a second; at once where no thread runs. */
int sync_soon(struct dir_store *store, const char *directory, struct sbx_error *err);
int sync_now(struct dir_store *store, const char *directory, const struct sbx_call *call, struct sbx_error *err);
