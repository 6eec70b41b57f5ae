/* SPDX-License-Identifier: Apache-2.0 */
/* Opening one connection: the file, hardening, the schema. For database.c. */
#pragma once

#include "database.h"

int connection_open(struct database *database, const char *path, const struct sbx_call *call,
                    struct connection **ret_connection, struct sbx_error *err);
void connection_close(struct connection *connection);
