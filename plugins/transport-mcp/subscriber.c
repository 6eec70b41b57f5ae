/* SPDX-License-Identifier: Apache-2.0 */
/* What one subscriber asked for, and the messages that tell it. */
#include "subscriber.h"

#include <stdlib.h>

#include "connection_private.h"

static const struct {
        unsigned news;
        const char *filter, *method;
} lists[] = {
        {MCP_NEWS_TOOLS, "toolsListChanged", "notifications/tools/list_changed"},
        {MCP_NEWS_PROMPTS, "promptsListChanged", "notifications/prompts/list_changed"},
        {MCP_NEWS_RESOURCES, "resourcesListChanged", "notifications/resources/list_changed"},
};
#define LISTS (sizeof(lists) / sizeof(lists[0]))

static char *copy_bytes(const char *data, size_t size) {
        char *copy = malloc(size);

        if (copy != NULL)
                memcpy(copy, data, size);
        return copy;
}

int mcp_subscriber_new(struct mcp_connection *connection, const struct mcp_id *id, const struct mcp_target *target,
                       struct mcp_subscriber **ret_subscriber) {
        struct mcp_subscriber *subscriber = malloc(sizeof(*subscriber));

        if (subscriber == NULL)
                return -ENOMEM;
        *subscriber = (struct mcp_subscriber){.connection = connection, .refs = 1};
        if (id != NULL) {
                subscriber->id = (struct mcp_id){copy_bytes(id->json, id->size), id->size};
                if (subscriber->id.json == NULL) {
                        free(subscriber);
                        return -ENOMEM;
                }
                subscriber->target = (struct mcp_target){mcp_channel_ref(target->channel), NULL, target->revision};
        } else {
                subscriber->wanted = MCP_NEWS_LISTS;
                subscriber->acknowledged = true;
        }
        *ret_subscriber = subscriber;
        return 0;
}

static void free_topic(struct mcp_topic *topic) {
        mcp_text_free(&topic->state);
        free(topic->name);
}

void mcp_subscriber_free(struct mcp_subscriber *subscriber) {
        if (subscriber == NULL)
                return;
        for (size_t i = 0; i < subscriber->topics_count; i++)
                free_topic(&subscriber->topics[i]);
        free(subscriber->topics);
        mcp_channel_unref(subscriber->target.channel);
        mcp_id_free(&subscriber->id);
        free(subscriber);
}

/* ---- what is asked for --------------------------------------------------------------------------------- */

static struct mcp_topic *find_topic(struct mcp_subscriber *subscriber, const char *name, bool is_task) {
        for (size_t i = 0; i < subscriber->topics_count; i++)
                if (subscriber->topics[i].is_task == is_task && strcmp(subscriber->topics[i].name, name) == 0)
                        return &subscriber->topics[i];
        return NULL;
}

int mcp_subscriber_add(struct mcp_subscriber *subscriber, const char *name, bool is_task) {
        size_t size = strlen(name) + 1;
        struct mcp_topic *grown;
        char *copy;

        if (find_topic(subscriber, name, is_task) != NULL)
                return 0;
        if (subscriber->topics_count >= MCP_SUBSCRIPTION_URIS_MAX ||
            size > MCP_SUBSCRIPTION_BYTES_MAX - subscriber->topics_bytes)
                return -EBUSY;
        copy = copy_bytes(name, size);
        grown = realloc(subscriber->topics, (subscriber->topics_count + 1) * sizeof(*grown));
        if (grown != NULL)
                subscriber->topics = grown;
        if (copy == NULL || grown == NULL) {
                free(copy);
                return -ENOMEM;
        }
        grown[subscriber->topics_count++] =
                (struct mcp_topic){.name = copy, .is_task = is_task, .state = MCP_TEXT(SIZE_MAX / 2)};
        subscriber->topics_bytes += size;
        return 0;
}

void mcp_subscriber_remove(struct mcp_subscriber *subscriber, const char *uri) {
        struct mcp_topic *topic = find_topic(subscriber, uri, false);

        if (topic == NULL)
                return;
        subscriber->topics_bytes -= strlen(uri) + 1;
        free_topic(topic);
        *topic = subscriber->topics[--subscriber->topics_count];
}

static const char *decode_names(struct mcp_subscriber *subscriber, const json_t *names, bool is_task) {
        const json_t *item;
        size_t index;

        if (names != NULL && !json_is_array(names))
                return is_task ? "params.notifications.taskIds must be an array of strings"
                               : "params.notifications.resourceSubscriptions must be an array of strings";
        json_array_foreach ((json_t *)names, index, item) {
                const char *name = json_string_value(item);

                if (name == NULL || *name == '\0' || strlen(name) != json_string_length(item))
                        return "params.notifications: a URI or task id must be a string";
                switch (mcp_subscriber_add(subscriber, name, is_task)) {
                case 0:
                        break;
                case -EBUSY:
                        return "params.notifications asks for too much: at most 256 URIs and task ids, 64 KiB together";
                default:
                        return "out of memory";
                }
        }
        return NULL;
}

const char *mcp_subscriber_decode(struct mcp_subscriber *subscriber, const json_t *filter, bool with_tasks) {
        const char *problem;

        if (!json_is_object(filter))
                return "params.notifications must be an object: what to hear of";
        for (size_t i = 0; i < LISTS; i++) {
                const json_t *value = json_object_get(filter, lists[i].filter);

                if (value != NULL && !json_is_boolean(value))
                        return "params.notifications: toolsListChanged, promptsListChanged and resourcesListChanged "
                               "are true or false";
                if (json_is_true(value))
                        subscriber->wanted |= lists[i].news;
        }
        problem = decode_names(subscriber, json_object_get(filter, "resourceSubscriptions"), false);
        if (problem == NULL && with_tasks)
                problem = decode_names(subscriber, json_object_get(filter, "taskIds"), true);
        return problem;
}

/* ---- messages ------------------------------------------------------------------------------------------ */

void mcp_subscriber_encode_meta(const struct mcp_subscriber *subscriber, struct mcp_text *text) {
        mcp_text_append_literal(text, "\"_meta\":{\"" MCP_META_SUBSCRIPTION "\":");
        mcp_text_append(text, subscriber->id.json, subscriber->id.size);
        mcp_text_append_literal(text, "}");
}

static void encode_names(const struct mcp_subscriber *subscriber, bool is_task, const char **separator,
                         struct mcp_text *text) {
        const char *before = is_task ? "\"taskIds\":[" : "\"resourceSubscriptions\":[";
        bool any = false;

        for (size_t i = 0; i < subscriber->topics_count; i++) {
                const char *name = subscriber->topics[i].name;

                if (subscriber->topics[i].is_task != is_task)
                        continue;
                if (!any)
                        mcp_text_append_literal(text, *separator);
                mcp_text_append_literal(text, any ? "," : before);
                mcp_text_append_string(text, name, strlen(name));
                any = true;
        }
        if (any) {
                mcp_text_append_literal(text, "]");
                *separator = ",";
        }
}

void mcp_subscriber_encode_agreed(const struct mcp_subscriber *subscriber, struct mcp_text *text) {
        const char *separator = "";

        mcp_text_append_literal(text, "{");
        mcp_subscriber_encode_meta(subscriber, text);
        mcp_text_append_literal(text, ",\"notifications\":{");
        for (size_t i = 0; i < LISTS; i++) {
                if ((subscriber->wanted & lists[i].news) == 0)
                        continue;
                mcp_text_append_literal(text, separator);
                mcp_text_append_string(text, lists[i].filter, strlen(lists[i].filter));
                mcp_text_append_literal(text, ":true");
                separator = ",";
        }
        encode_names(subscriber, false, &separator, text);
        encode_names(subscriber, true, &separator, text);
        mcp_text_append_literal(text, "}}");
}

/* ---- what changed -------------------------------------------------------------------------------------- */

static bool concerns(const char *principal, const struct mcp_subscriber *subscriber) {
        return principal == NULL || strcmp(principal, subscriber->connection->principal) == 0;
}

/* A change that ends with '/' stands for all that begin with it. */
static bool covers(const char *changed, const char *uri) {
        size_t size = strlen(changed);

        return size > 0 && changed[size - 1] == '/' ? strncmp(changed, uri, size) == 0 : strcmp(changed, uri) == 0;
}

bool mcp_subscriber_note(struct mcp_subscriber *subscriber, const struct sbx_change *change) {
        bool noted = false;

        if (!concerns(change->principal, subscriber))
                return false;
        if (change->kind != SBX_CHANGE_RESOURCE) {
                unsigned news = change->kind < 32 ? 1u << change->kind & MCP_NEWS_LISTS & subscriber->wanted : 0;

                subscriber->pending |= news;
                return news != 0;
        }
        for (size_t i = 0; change->uri != NULL && i < subscriber->topics_count; i++) {
                struct mcp_topic *topic = &subscriber->topics[i];

                if (!topic->is_task && covers(change->uri, topic->name))
                        noted = topic->pending = true;
        }
        return noted;
}

bool mcp_subscriber_note_task(struct mcp_subscriber *subscriber, const char *id, struct sbx_bytes state) {
        struct mcp_topic *topic = find_topic(subscriber, id, true);

        if (topic == NULL)
                return false;
        mcp_text_free(&topic->state);
        /* Without memory the client is not told, and learns of it when it asks. */
        topic->pending = mcp_text_append(&topic->state, state.data, state.size) == 0;
        return topic->pending;
}

/* The params of a list's news, or of a resource's. */
static void encode_news(const struct mcp_subscriber *subscriber, const char *uri, struct mcp_text *text) {
        mcp_text_append_literal(text, "{");
        if (subscriber->id.size > 0)
                mcp_subscriber_encode_meta(subscriber, text);
        if (uri != NULL) {
                mcp_text_append_literal(text, subscriber->id.size > 0 ? ",\"uri\":" : "\"uri\":");
                mcp_text_append_string(text, uri, strlen(uri));
        }
        mcp_text_append_literal(text, "}");
}

/* The task's own members behind the _meta of the message. */
static void encode_task(const struct mcp_subscriber *subscriber, struct mcp_topic *topic, struct mcp_text *text) {
        mcp_text_append_literal(text, "{");
        mcp_subscriber_encode_meta(subscriber, text);
        mcp_text_append_literal(text, ",");
        mcp_text_append(text, topic->state.data + 1, topic->state.size - 1);
        mcp_text_free(&topic->state);
}

const char *mcp_subscriber_take(struct mcp_subscriber *subscriber, struct mcp_text *params) {
        for (size_t i = 0; i < LISTS; i++) {
                if ((subscriber->pending & lists[i].news) == 0)
                        continue;
                subscriber->pending &= ~lists[i].news;
                encode_news(subscriber, NULL, params);
                return lists[i].method;
        }
        for (size_t i = 0; i < subscriber->topics_count; i++) {
                struct mcp_topic *topic = &subscriber->topics[i];

                if (!topic->pending)
                        continue;
                topic->pending = false;
                if (topic->is_task)
                        encode_task(subscriber, topic, params);
                else
                        encode_news(subscriber, topic->name, params);
                return topic->is_task ? "notifications/tasks" : "notifications/resources/updated";
        }
        return NULL;
}
