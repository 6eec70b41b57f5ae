/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to the server: opened, asked and closed within a call's deadline and cancellation. */
#pragma once

#include <sealing.h>

#include "options.h"
#include "params.h"

/* Of one thread at a time. */
struct connection {
        const struct postgres_options *options;
        PGconn *pg;
        struct sealing sealing; /* of the store that this connection leads to */
        uint64_t idle_since_ns; /* for the pool */
        struct connection *next;
};

/* Opens one, and prepares it: settings, the store's tables, keys. Tries again while the server starts or refuses, for
 * `patience_ns`. */
int connection_open(const struct postgres_options *options, uint64_t patience_ns, const struct sbx_call *call,
                    struct connection **ret_connection, struct sbx_error *err);
void connection_close(struct connection *connection); /* at once; what was under way is rolled back. NULL is fine */

/* Asks one statement, and gives its answer in binary. Besides what the error tells, two codes are for retries:
 * -ECONNRESET: the connection is lost, and it is unknown what became of the statement; -EAGAIN: the server had the
 * transaction make room for another. `params` may be NULL. */
int connection_ask(struct connection *connection, const struct sbx_call *call, const char *sql,
                   const struct params *params, PGresult **ret_result, struct sbx_error *err);
/* The same where nobody looks at the answer. */
int connection_run(struct connection *connection, const struct sbx_call *call, const char *sql,
                   const struct params *params, struct sbx_error *err);
/* Whether it can be asked again, outside of a transaction; rolls back where it has to. */
bool connection_rest(struct connection *connection);
/* Whether the server closed it while it rested. */
bool connection_is_stale(struct connection *connection);
/* Where the store is, for people; without secrets. -ENOMEM. The caller frees it. */
int connection_location(const struct connection *connection, char **ret_location);
