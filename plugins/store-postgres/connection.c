/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a connection: libpq's asynchronous calls, each wait bounded by the call and by `timeout`. Who gives up closes
 * the connection, which is what ends a statement on the server, too: nothing here waits for a cancellation. */
#include "connection.h"

#include "failure.h"

#define CLIENT_GRACE_NS (2000 * NS_PER_MS) /* the server's own time-out comes first, and says more */

void connection_close(struct connection *connection) {
        if (connection == NULL)
                return;
        PQfinish(connection->pg);
        sealing_clear(&connection->sealing);
        free(connection);
}

static int gave_up(int r, struct sbx_error *err) {
        if (r == -ECANCELED)
                return sbx_error_set(err, r, POSTGRES_ORIGIN, NULL, "the call was cancelled");
        return sbx_error_set(err, r, POSTGRES_ORIGIN,
                             "Look at what the server does (pg_stat_activity), or set `timeout`.",
                             r == -ETIMEDOUT ? "PostgreSQL did not answer in time" : "can't wait for PostgreSQL");
}

/* Sends what is queued, taking what arrives meanwhile: a server that waits to be read from would never read. */
static int flush_query(struct connection *connection, const struct sbx_call *call, uint64_t deadline_ns,
                       struct sbx_error *err) {
        for (;;) {
                int left = PQflush(connection->pg), r;

                if (left == 0)
                        return 0;
                if (left < 0)
                        return failure_of_connection(connection->pg, err);
                r = wait_for(PQsocket(connection->pg), POLLIN | POLLOUT, call, deadline_ns);
                if (r < 0)
                        return gave_up(r, err);
                if (PQconsumeInput(connection->pg) == 0)
                        return failure_of_connection(connection->pg, err);
        }
}

/* The next result; NULL behind the last. */
static int await_result(struct connection *connection, const struct sbx_call *call, uint64_t deadline_ns,
                        PGresult **ret_result, struct sbx_error *err) {
        while (PQisBusy(connection->pg) != 0) {
                int r = wait_for(PQsocket(connection->pg), POLLIN, call, deadline_ns);

                if (r < 0)
                        return gave_up(r, err);
                if (PQconsumeInput(connection->pg) == 0)
                        return failure_of_connection(connection->pg, err);
        }
        *ret_result = PQgetResult(connection->pg);
        return 0;
}

static int take_answer(struct connection *connection, const struct sbx_call *call, uint64_t deadline_ns,
                       PGresult **ret_result, struct sbx_error *err) {
        _cleanup_result_ PGresult *answer = NULL;
        int r = await_result(connection, call, deadline_ns, &answer, err);

        while (r == 0) {
                _cleanup_result_ PGresult *more = NULL;

                r = await_result(connection, call, deadline_ns, &more, err);
                if (more == NULL)
                        break;
                if (PQresultStatus(more) != PGRES_COPY_OUT && PQresultStatus(more) != PGRES_COPY_IN)
                        continue;
                PQfinish(steal_pointer(connection->pg)); /* no statement of ours copies */
                return sbx_error_set(err, -EPROTO, POSTGRES_ORIGIN, NULL, "PostgreSQL answers what was not asked");
        }
        if (r == 0)
                r = failure_of_result(connection->pg, answer, err);
        if (r == 0)
                *ret_result = steal_pointer(answer);
        return r;
}

int connection_ask(struct connection *connection, const struct sbx_call *call, const char *sql,
                   const struct params *params, PGresult **ret_result, struct sbx_error *err) {
        uint64_t deadline_ns = earlier(call != NULL ? call->deadline_ns : 0,
                                       monotonic_ns() + connection->options->timeout_ns + CLIENT_GRACE_NS);
        int sent, r;

        if (connection->pg == NULL || PQstatus(connection->pg) != CONNECTION_OK)
                return sbx_error_set(err, -ECONNRESET, POSTGRES_ORIGIN, NULL, "the connection to PostgreSQL is lost");
        r = wait_for(-1, 0, call, 1); /* a server may answer before anybody looks at the clock again */
        if (r == -ECANCELED || (call != NULL && call->deadline_ns != 0 && monotonic_ns() >= call->deadline_ns))
                return gave_up(r, err);
        if (params != NULL)
                sent = PQsendQueryParams(connection->pg, sql, params->count, params->types, params->values,
                                         params->lengths, params->formats, 1);
        else
                sent = PQsendQueryParams(connection->pg, sql, 0, NULL, NULL, NULL, NULL, 1);
        if (sent == 0)
                return failure_of_connection(connection->pg, err);
        r = flush_query(connection, call, deadline_ns, err);
        if (r == 0)
                r = take_answer(connection, call, deadline_ns, ret_result, err);
        if (r == -ECANCELED || r == -ETIMEDOUT || r == -ECONNRESET) { /* an answer may still come: nobody takes it */
                PQfinish(connection->pg);
                connection->pg = NULL;
        }
        return r;
}

int connection_run(struct connection *connection, const struct sbx_call *call, const char *sql,
                   const struct params *params, struct sbx_error *err) {
        _cleanup_result_ PGresult *result = NULL;

        return connection_ask(connection, call, sql, params, &result, err);
}

bool connection_rest(struct connection *connection) {
        if (connection->pg == NULL || PQstatus(connection->pg) != CONNECTION_OK)
                return false;
        if (PQtransactionStatus(connection->pg) == PQTRANS_IDLE)
                return true;
        return PQtransactionStatus(connection->pg) != PQTRANS_ACTIVE &&
               connection_run(connection, NULL, "ROLLBACK", NULL, NULL) == 0 &&
               PQtransactionStatus(connection->pg) == PQTRANS_IDLE;
}

bool connection_is_stale(struct connection *connection) {
        struct pollfd ready = {.fd = PQsocket(connection->pg), .events = POLLIN};

        if (poll(&ready, 1, 0) == 0)
                return false;
        return PQconsumeInput(connection->pg) == 0 || PQstatus(connection->pg) != CONNECTION_OK;
}

int connection_location(const struct connection *connection, char **ret_location) {
        const char *host = PQhost(connection->pg), *port = PQport(connection->pg);
        char *location;

        if (asprintf(&location, "PostgreSQL at %s, port %s, database %s, schema %s",
                     host != NULL && *host != '\0' ? host : "the local socket",
                     port != NULL && *port != '\0' ? port : "5432", PQdb(connection->pg),
                     connection->options->schema) < 0)
                return -ENOMEM;
        *ret_location = location;
        return 0;
}
