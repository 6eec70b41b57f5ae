/* SPDX-License-Identifier: Apache-2.0 */
/* An instance, and its operations by subject. */
#pragma once

#include <pthread.h>

#include "connection.h"
#include "pool.h"

struct postgres_store {
        struct postgres_options options;
        struct pool *pool;
        pthread_mutex_t lock; /* protects what follows: what is known of the space in use, see quota.c */
        uint64_t used_bytes, measured_ns;
};

/* The operations; store.h of the ABI says what they do. */
int store_commit(struct postgres_store *store, const struct sbx_store_change *changes, size_t count, const char *lease,
                 uint64_t token, uint32_t flags, const struct sbx_call *call, struct sbx_error *err);
int store_remove(struct postgres_store *store, const char *name, const struct sbx_call *call, struct sbx_error *err);
int store_get(struct postgres_store *store, const char *name, const struct sbx_call *call, struct sbx_output *ret_blob,
              struct sbx_error *err);
int store_list(struct postgres_store *store, const char *prefix, const struct sbx_store_events *events,
               const struct sbx_call *call, struct sbx_error *err);
int store_lease_take(struct postgres_store *store, const char *lease, const char *holder, uint32_t ttl_ms,
                     uint64_t replace_token, const struct sbx_call *call, struct sbx_store_lease *ret_lease,
                     struct sbx_error *err);
int store_lease_renew(struct postgres_store *store, const char *lease, uint64_t token, uint32_t ttl_ms,
                      const struct sbx_call *call, struct sbx_error *err);
int store_lease_release(struct postgres_store *store, const char *lease, uint64_t token, const struct sbx_call *call,
                        struct sbx_error *err);
int store_lease_look(struct postgres_store *store, const char *lease, const struct sbx_call *call,
                     struct sbx_store_lease *ret_lease, struct sbx_error *err);
int store_collect(struct postgres_store *store, const struct sbx_call *call, struct sbx_output *ret_json,
                  struct sbx_error *err);
int store_probe(struct postgres_store *store, const struct sbx_probe_events *events, const struct sbx_call *call);
