/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by server.c and the files whose parts it makes. */
#pragma once

#include "lists.h"
#include "server.h"
#include "subscriptions.h"

struct mcp_key {
        unsigned char bytes[32];
};
/* -EIO. */
int mcp_key_new(struct mcp_key *ret_key, struct sbx_error *err);
const struct mcp_key *mcp_server_key(const struct mcp_server *server);

/* Something changed, as the host tells it; any thread, does not block. */
void mcp_subscriptions_change(struct mcp_subscriptions *subscriptions, const struct sbx_change *change);
