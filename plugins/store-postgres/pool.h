/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are open, and how a piece of work gets one. */
#pragma once

#include "connection.h"

struct pool;

int pool_new(const struct postgres_options *options, struct pool **ret_pool, struct sbx_error *err);
void pool_rest(struct pool *pool); /* closes what nobody uses */
void pool_free(struct pool *pool); /* nobody uses any; NULL is fine */

/* Does `work` with a connection that is outside of a transaction, and again from its beginning where the connection
 * was lost or the server wanted the transaction anew: what the work does may have been done before. Waits while all
 * connections are in use. */
int pool_work(struct pool *pool,
              int (*work)(struct connection *connection, void *data, const struct sbx_call *call,
                          struct sbx_error *err),
              void *data, const struct sbx_call *call, struct sbx_error *err);
