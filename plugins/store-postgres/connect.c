/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a connection, and prepares it for what this plugin asks. */
#include "connection.h"
#include "failure.h"
#include "schema.h"

#define PAUSE_NS (100 * NS_PER_MS) /* between two tries */

/* Notices ("table exists, skipping") are nobody's business; libpq would write them to standard error. */
static void ignore_notice(void *data, const char *message) {
}

static PGconn *begin_connecting(const struct postgres_options *options) {
        const char *keywords[8] = {0}, *values[8] = {0};
        size_t count = 0;

        if (options->conninfo != NULL) {
                keywords[count] = "dbname"; /* libpq expands a connection string here */
                values[count++] = options->conninfo;
        }
        if (options->service != NULL) {
                keywords[count] = "service";
                values[count++] = options->service;
        }
        if (options->password != NULL) {
                keywords[count] = "password";
                values[count++] = options->password;
        }
        keywords[count] = "fallback_application_name";
        values[count++] = "snipara-sandbox";
        keywords[count] = "client_encoding";
        values[count++] = "UTF8";
        return PQconnectStartParams(keywords, values, 1);
}

/* 0: it is made. Names are resolved by libpq in the beginning, which can't be interrupted; addresses need none of it.
 */
static int finish_connecting(PGconn *pg, const struct sbx_call *call, uint64_t deadline_ns, struct sbx_error *err) {
        PostgresPollingStatusType next = PGRES_POLLING_WRITING;

        if (PQstatus(pg) == CONNECTION_BAD)
                return failure_of_connecting(pg, err);
        PQsetErrorVerbosity(pg, PQERRORS_VERBOSE); /* for the SQLSTATE of a refusal */
        while (next != PGRES_POLLING_OK) {
                int r = wait_for(PQsocket(pg), next == PGRES_POLLING_READING ? POLLIN : POLLOUT, call, deadline_ns);

                if (r == -ETIMEDOUT)
                        return sbx_error_set(
                                err, r, POSTGRES_ORIGIN,
                                "See whether the server can be reached; `connect_timeout` is how long to try.",
                                "PostgreSQL did not answer in time");
                if (r < 0)
                        return sbx_error_set(err, r, POSTGRES_ORIGIN, NULL, "the call was cancelled");
                next = PQconnectPoll(pg);
                if (next == PGRES_POLLING_FAILED)
                        return failure_of_connecting(pg, err);
        }
        PQsetErrorVerbosity(pg, PQERRORS_DEFAULT);
        return PQsetnonblocking(pg, 1) == 0 ? 0 : postgres_nomem(err);
}

/* Bounds on the server's side: of a statement, and of a transaction whose client went silent while it holds a lease's
 * row. No setting of a role or a database may make a commit less than durable, or change what its locks mean. */
static int prepare_session(struct connection *connection, const struct sbx_call *call, struct sbx_error *err) {
        static const char sql[] = "SELECT set_config('search_path', quote_ident($1) || ', pg_temp', false),"
                                  " set_config('statement_timeout', $2, false),"
                                  " set_config('idle_in_transaction_session_timeout', $2, false),"
                                  " set_config('default_transaction_isolation', 'read committed', false),"
                                  " CASE WHEN current_setting('synchronous_commit') = 'off'"
                                  " THEN set_config('synchronous_commit', 'on', false) END";
        static const char notice_dead_clients[] = "SET client_connection_check_interval = '2s'";
        struct params params = {0};
        char timeout[32];
        int r;

        snprintf(timeout, sizeof(timeout), "%llums", (unsigned long long)(connection->options->timeout_ns / NS_PER_MS));
        params_text(&params, connection->options->schema);
        params_text(&params, timeout);
        r = connection_run(connection, call, sql, &params, err);
        /* Since PostgreSQL 14, and not on each of its platforms: without it a statement ends at its time-out. */
        if (r == 0 && PQserverVersion(connection->pg) >= 140000)
                connection_run(connection, call, notice_dead_clients, NULL, NULL);
        return r;
}

static int try_connecting(struct connection *connection, const struct sbx_call *call, uint64_t deadline_ns,
                          struct sbx_error *err) {
        int r;

        connection->pg = begin_connecting(connection->options);
        if (connection->pg == NULL)
                return postgres_nomem(err);
        PQsetNoticeProcessor(connection->pg, ignore_notice, NULL);
        r = finish_connecting(connection->pg, call, deadline_ns, err);
        if (r == 0 && PQserverVersion(connection->pg) < 120000)
                r = sbx_error_set(err, -EPROTONOSUPPORT, POSTGRES_ORIGIN, "Use PostgreSQL 12 or later.",
                                  "the server is too old: version %d", PQserverVersion(connection->pg) / 10000);
        if (r == 0)
                r = prepare_session(connection, call, err);
        if (r == 0)
                r = schema_open(connection, call, err);
        return r;
}

int connection_open(const struct postgres_options *options, uint64_t patience_ns, const struct sbx_call *call,
                    struct connection **ret_connection, struct sbx_error *err) {
        uint64_t deadline_ns = earlier(call != NULL ? call->deadline_ns : 0, monotonic_ns() + patience_ns);
        struct connection *connection = calloc(1, sizeof(*connection));

        if (connection == NULL)
                return postgres_nomem(err);
        connection->options = options;
        for (;;) {
                struct sbx_error problem = {0};
                int r = try_connecting(connection, call, deadline_ns, &problem);

                if (r == 0) {
                        *ret_connection = connection;
                        return 0;
                }
                PQfinish(connection->pg);
                connection->pg = NULL;
                if ((r == -EAGAIN || r == -ECONNRESET) && monotonic_ns() + PAUSE_NS < deadline_ns &&
                    wait_for(-1, 0, call, monotonic_ns() + PAUSE_NS) == -ETIMEDOUT)
                        continue;
                connection_close(connection);
                r = r == -EAGAIN || r == -ECONNRESET ? -EIO : r;
                return sbx_error_set(err, r, POSTGRES_ORIGIN, problem.hint, "%s", problem.message);
        }
}
