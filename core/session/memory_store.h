/* SPDX-License-Identifier: Apache-2.0 */
/* A store in this process's memory, with the operations of store plugins: where the states of sessions are kept that
 * end with their server. */
#pragma once

#include <snipara-sandbox/store.h>

#include "base/error.h"

/* `instance` of the operations below is a struct sbx_memory_store. Thread-safe; no call waits while another one copies
 * what it keeps. `item` of a listing calls no operation of the store. */
extern const struct sbx_store_ops sbx_memory_store_ops;

struct sbx_memory_store;

/* Keeps at most `max_bytes`: -ENOSPC. */
int sbx_memory_store_new(uint64_t max_bytes, struct sbx_memory_store **ret_store, struct sbx_error *err);
void sbx_memory_store_free(struct sbx_memory_store *store);
/* Every blob of a directory; never fails. */
void sbx_memory_store_forget(struct sbx_memory_store *store, const char *directory);
