/* SPDX-License-Identifier: Apache-2.0 */
/* What all conversations of one transport instance share: its settings, the key that it signs with, the calls that wait
 * for input or go on as tasks, and who listens to changes. */
#pragma once

#include <snipara-sandbox/plugin.h>

#include "jsonrpc.h"

/* Borrowed, outlives the server. */
struct mcp_settings {
        const struct sbx_host *host;
        size_t calls_max;          /* requests under way at once on one connection */
        size_t tasks_max;          /* tasks of one principal that are kept, ended ones among them */
        uint64_t task_ttl_ms;      /* how long a task is kept after its creation, and at least as long as it works */
        size_t waiting_max;        /* calls that wait for a modern client's input, of one principal */
        uint64_t input_timeout_ms; /* how long a call waits for the client's input, in both eras */
        size_t page_size;          /* items of a list in one answer */
};

struct mcp_server;

/* -ENOMEM, -EIO (no random numbers), and what sbx_host.watch says. */
int mcp_server_new(const struct mcp_settings *settings, struct mcp_server **ret_server, struct sbx_error *err);
const struct mcp_settings *mcp_server_settings(const struct mcp_server *server);
/* Cancels tasks and calls that wait, ends subscriptions, and returns when nothing of the server is under way. Before,
 * every connection was cancelled and waited for. */
void mcp_server_stop(struct mcp_server *server);
void mcp_server_free(struct mcp_server *server); /* stopped before, and no connection left; NULL is fine */

/* ---- sign.c: text that a client brings back ---- */

/* A token from `payload` (any bytes, at most 2 KiB) that only this server can have made, for `purpose` and `principal`:
 * URL-safe base64 of the payload and an HMAC-SHA-256 over all three. `ret_token` is the caller's. -ENOMEM. */
int mcp_sign(const struct mcp_server *server, const char *purpose, const char *principal, struct sbx_bytes payload,
             char **ret_token);
/* The payload, NUL-terminated beyond its size; the caller frees. -EINVAL: not of this server, purpose or principal, or
 * changed. */
int mcp_verify(const struct mcp_server *server, const char *purpose, const char *principal, const char *token,
               char **ret_payload, size_t *ret_size);
/* 32 hexadecimal digits from 128 random bits. */
#define MCP_RANDOM_ID_SIZE 33
void mcp_random_id(char ret_id[MCP_RANDOM_ID_SIZE]);

/* ---- the parts; each by its own file ---- */

struct mcp_waiting;       /* inputs.c: calls that wait for input */
struct mcp_tasks;         /* tasks.c */
struct mcp_subscriptions; /* subscriptions.c */

/* Called by server.c alone: `_new` when settings and key are there, `_stop` before `_free`, which takes NULL. `_stop`
 * cancels what is under way, refuses what comes later, and returns when nothing of it runs. -ENOMEM. */
int mcp_waiting_new(struct mcp_server *server, struct mcp_waiting **ret_waiting, struct sbx_error *err);
void mcp_waiting_stop(struct mcp_waiting *waiting);
void mcp_waiting_free(struct mcp_waiting *waiting);
int mcp_tasks_new(struct mcp_server *server, struct mcp_tasks **ret_tasks, struct sbx_error *err);
void mcp_tasks_stop(struct mcp_tasks *tasks);
void mcp_tasks_free(struct mcp_tasks *tasks);

struct mcp_waiting *mcp_server_waiting(struct mcp_server *server);
struct mcp_tasks *mcp_server_tasks(struct mcp_server *server);
struct mcp_subscriptions *mcp_server_subscriptions(struct mcp_server *server);
