/* SPDX-License-Identifier: Apache-2.0 */
/* The store's tables: made, upgraded, and asked for what its keys are derived from. */
#pragma once

#include "connection.h"

#define SCHEMA_VERSION 1u

/* Makes or upgrades the tables where that is to be done, and sets the connection's keys. -EPROTONOSUPPORT: the tables
 * are those of a newer version; the key: as sealing_open. */
int schema_open(struct connection *connection, const struct sbx_call *call, struct sbx_error *err);
