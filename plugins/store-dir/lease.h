/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: a file of fixed size for each, locked while it is looked at or changed (lease.c has the format). */
#pragma once

#include "store.h"

int store_lease_take(struct dir_store *store, const char *lease, const char *holder, uint32_t ttl_ms,
                     uint64_t replace_token, const struct sbx_call *call, struct sbx_store_lease *ret_lease,
                     struct sbx_error *err);
int store_lease_renew(struct dir_store *store, const char *lease, uint64_t token, uint32_t ttl_ms,
                      const struct sbx_call *call, struct sbx_error *err);
int store_lease_release(struct dir_store *store, const char *lease, uint64_t token, const struct sbx_call *call,
                        struct sbx_error *err);
int store_lease_look(struct dir_store *store, const char *lease, const struct sbx_call *call,
                     struct sbx_store_lease *ret_lease, struct sbx_error *err);
/* Locks the lease against being taken by somebody else, until `*ret_fd` is closed. -ESTALE: `token` is not its
 * holder's. */
int lease_hold(struct dir_store *store, const char *lease, uint64_t token, const struct sbx_call *call, int *ret_fd,
               struct sbx_error *err);
/* Removes files of leases that were given back long ago. */
int lease_clean(struct dir_store *store, const struct sbx_call *call, struct sbx_error *err);
