/* SPDX-License-Identifier: Apache-2.0 */
/* The store's quota. Far from it nobody measures; near it every commit does, within its transaction. */
#pragma once

#include "store.h"

/* Whether a commit of so many bytes has to measure; else they are added to what is known. */
bool quota_is_near(struct postgres_store *store, uint64_t bytes);
/* What names and objects take that a name stands for. */
int quota_measure(struct connection *connection, const struct sbx_call *call, uint64_t *ret_bytes,
                  struct sbx_error *err);
/* At the end of a transaction that began with `before` bytes. -ENOSPC: there are more than before, and too many. */
int quota_check(struct postgres_store *store, struct connection *connection, const struct sbx_call *call,
                uint64_t before, struct sbx_error *err);
