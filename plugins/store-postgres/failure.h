/* SPDX-License-Identifier: Apache-2.0 */
/* What PostgreSQL's failures mean: codes, and words for people. */
#pragma once

#include <libpq-fe.h>

#include "util.h"

/* The connection's last failure; -ECONNRESET. */
int failure_of_connection(const PGconn *pg, struct sbx_error *err);
/* 0: the statement went well. See connection_ask for -EAGAIN and -ECONNRESET. */
int failure_of_result(const PGconn *pg, const PGresult *result, struct sbx_error *err);
/* Of a connection that could not be made. -EAGAIN: it may be so in a moment. */
int failure_of_connecting(const PGconn *pg, struct sbx_error *err);
