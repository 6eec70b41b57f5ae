/* SPDX-License-Identifier: Apache-2.0 */
/* One who wants to hear of changes: what it asked for, and what it is still to be told. Not locked: see
 * subscriptions.c.
 */
#pragma once

#include "subscriptions.h"

/* Bits of what changed; those of lists are what is asked for, too. */
#define MCP_NEWS_TOOLS (1u << SBX_CHANGE_TOOLS)
#define MCP_NEWS_PROMPTS (1u << SBX_CHANGE_PROMPTS)
#define MCP_NEWS_RESOURCES (1u << SBX_CHANGE_RESOURCES)
#define MCP_NEWS_LISTS (MCP_NEWS_TOOLS | MCP_NEWS_PROMPTS | MCP_NEWS_RESOURCES)

/* A resource or task that is listened to. */
struct mcp_topic {
        char *name; /* URI or task id */
        bool is_task, pending;
        struct mcp_text state; /* of a task: what is to be told */
};

struct mcp_subscriber {
        struct mcp_subscriber *next, *previous; /* of all */
        struct mcp_subscriber *queue_next;      /* of those that are to be told something */
        struct mcp_connection *connection;
        struct mcp_id id;         /* of the listening request; empty: a legacy connection, which has one for all */
        struct mcp_target target; /* of that request, with a reference to its channel */
        unsigned refs;            /* the list, the queue, and who uses it at the moment */
        bool listed, queued, acknowledged;
        unsigned wanted, pending; /* MCP_NEWS_* bits */
        struct mcp_topic *topics;
        size_t topics_count, topics_bytes;
};

/* With one reference. -ENOMEM. `id` NULL: of a legacy connection. */
int mcp_subscriber_new(struct mcp_connection *connection, const struct mcp_id *id, const struct mcp_target *target,
                       struct mcp_subscriber **ret_subscriber);
/* When the last reference is gone; the connection's count is the caller's. NULL is fine. */
void mcp_subscriber_free(struct mcp_subscriber *subscriber);

/* Once, however often it is asked for. -EBUSY: too many or too long; -ENOMEM. */
int mcp_subscriber_add(struct mcp_subscriber *subscriber, const char *name, bool is_task);
void mcp_subscriber_remove(struct mcp_subscriber *subscriber, const char *uri);
/* `notifications` of subscriptions/listen; what is not known is not agreed to. NULL, or what is wrong with it. */
const char *mcp_subscriber_decode(struct mcp_subscriber *subscriber, const json_t *filter, bool with_tasks);
/* The params of notifications/subscriptions/acknowledged. */
void mcp_subscriber_encode_agreed(const struct mcp_subscriber *subscriber, struct mcp_text *text);

/* Notes what changed; whether that concerns it. */
bool mcp_subscriber_note(struct mcp_subscriber *subscriber, const struct sbx_change *change);
bool mcp_subscriber_note_task(struct mcp_subscriber *subscriber, const char *id, struct sbx_bytes state);
/* Takes one message of what was noted: its method, or NULL when nothing is left, and its params. */
const char *mcp_subscriber_take(struct mcp_subscriber *subscriber, struct mcp_text *params);
/* Appends `"_meta":{subscriptionId}`. */
void mcp_subscriber_encode_meta(const struct mcp_subscriber *subscriber, struct mcp_text *text);
