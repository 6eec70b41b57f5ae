/* SPDX-License-Identifier: Apache-2.0 */
/* Records of tasks that outlive the server: one file each in a directory of the installation's state, which servers of
 * one user share. What is read back is checked as if a stranger had written it. */
#pragma once

#include "server.h"
#include "text.h"

#define MCP_TASK_PAYLOAD_MAX (16u << 20) /* of a result or error that is kept */
#define MCP_TASK_MESSAGE_MAX 1024u

enum mcp_task_status {
        MCP_TASK_WORKING = 1,
        MCP_TASK_INPUT_REQUIRED = 2,
        MCP_TASK_COMPLETED = 3,
        MCP_TASK_FAILED = 4,
        MCP_TASK_CANCELLED = 5,
};
const char *mcp_task_status_name(enum mcp_task_status status);
static inline bool mcp_task_has_ended(enum mcp_task_status status) {
        return status >= MCP_TASK_COMPLETED;
}

struct mcp_task_record {
        char id[MCP_RANDOM_ID_SIZE], server[MCP_RANDOM_ID_SIZE]; /* of the task, and of the server that works on it */
        enum mcp_task_status status;
        int64_t created_ms, updated_ms; /* since 1970 */
        int64_t ttl_ms;                 /* from its creation on */
        char *principal, *message;      /* owned; `message` may be NULL */
        struct mcp_text payload;        /* the result, or the error: a JSON object in one line; empty: none */
};
void mcp_task_record_free(struct mcp_task_record *record);
#define _cleanup_record_ __attribute__((cleanup(mcp_task_record_free)))

struct mcp_task_store;

/* Opens, or makes, mcp-tasks/ in the state directory; `server` is this server's id. -ENOENT: the installation has no
 * state directory; -EPERM: it belongs to somebody else, or others may write to it; what the system says. */
int mcp_task_store_open(const struct sbx_host *host, const char *server, struct mcp_task_store **ret_store,
                        struct sbx_error *err);
void mcp_task_store_close(struct mcp_task_store *store); /* NULL is fine */

/* Whether `id` may be one of a task: it names a file. */
bool mcp_task_id_is_valid(const char *id);
/* Durable when it returns 0; any thread, but one at a time for one task. */
int mcp_task_store_write(struct mcp_task_store *store, const struct mcp_task_record *record, struct sbx_error *err);
/* `payload` is only filled in if asked for. -ENOENT; -EBADMSG: it is no record of this task. */
int mcp_task_store_read(struct mcp_task_store *store, const char *id, bool with_payload,
                        struct mcp_task_record *ret_record);
void mcp_task_store_remove(struct mcp_task_store *store, const char *id);
/* Whether that server runs. */
bool mcp_task_store_is_alive(struct mcp_task_store *store, const char *server);
/* Calls `found` for each record, without payload; it may take the record's members over. What is none, and was left
 * behind by servers that are gone, is removed. */
int mcp_task_store_scan(struct mcp_task_store *store, void (*found)(void *data, struct mcp_task_record *record),
                        void *data);
