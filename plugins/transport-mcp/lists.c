/* SPDX-License-Identifier: Apache-2.0 */
/* The standing lists, kept encoded between changes, and the methods' answers from them. */
#include "lists.h"

#include <pthread.h>
#include <stdlib.h>

#include "connection_private.h"

#define HOST_BYTES_MAX (16u << 20)
#define PAGE_BYTES_MAX (64u << 20)
#define STANDING_KINDS 3 /* those that need nobody to be asked */
#define REVISIONS (MCP_2026_07_28 + 1)
#define TTL_MS 60000u

struct mcp_lists {
        struct mcp_server *server;
        pthread_mutex_t lock; /* protects what follows */
        struct mcp_page_list *kept[STANDING_KINDS][REVISIONS];
        uint64_t changes[STANDING_KINDS]; /* told by the host so far */
};

int mcp_lists_new(struct mcp_server *server, struct mcp_lists **ret_lists, struct sbx_error *err) {
        struct mcp_lists *lists = malloc(sizeof(*lists));

        if (lists == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for lists");
        *lists = (struct mcp_lists){.server = server};
        pthread_mutex_init(&lists->lock, NULL);
        *ret_lists = lists;
        return 0;
}

static void forget_kind(struct mcp_lists *lists, enum mcp_list_kind kind) {
        struct mcp_page_list *dropped[REVISIONS];

        pthread_mutex_lock(&lists->lock);
        lists->changes[kind]++;
        memcpy(dropped, lists->kept[kind], sizeof(dropped));
        memset(lists->kept[kind], 0, sizeof(dropped));
        pthread_mutex_unlock(&lists->lock);
        for (size_t i = 0; i < REVISIONS; i++)
                mcp_page_list_unref(dropped[i]);
}

void mcp_lists_free(struct mcp_lists *lists) {
        if (lists == NULL)
                return;
        for (enum mcp_list_kind kind = 0; kind < STANDING_KINDS; kind++)
                forget_kind(lists, kind);
        pthread_mutex_destroy(&lists->lock);
        free(lists);
}

void mcp_lists_forget(struct mcp_lists *lists, uint32_t change) {
        if (change == SBX_CHANGE_TOOLS)
                forget_kind(lists, MCP_LIST_TOOLS);
        else if (change == SBX_CHANGE_PROMPTS)
                forget_kind(lists, MCP_LIST_PROMPTS);
        else if (change == SBX_CHANGE_RESOURCES)
                forget_kind(lists, MCP_LIST_TEMPLATES);
}

/* ---- from the host ------------------------------------------------------------------------------------- */

static int parse_list(enum mcp_list_kind kind, enum mcp_revision revision, struct sbx_bytes json,
                      struct mcp_page_list **ret_list) {
        json_t *items = mcp_json_load(json);
        int r = items != NULL ? mcp_page_list_new(kind, revision, items, ret_list) : -EINVAL;

        json_decref(items);
        return r;
}

static int ask_host(const struct mcp_lists *lists, enum mcp_list_kind kind, enum mcp_revision revision,
                    struct mcp_page_list **ret_list, struct sbx_error *err) {
        static const int names[STANDING_KINDS] = {SBX_LIST_TOOLS, SBX_LIST_PROMPTS, SBX_LIST_TEMPLATES};
        const struct sbx_host *host = mcp_server_settings(lists->server)->host;
        struct sbx_output *output = NULL;
        int r = host->output_new(host->self, HOST_BYTES_MAX, &output);

        if (r == 0)
                r = host->list(host->self, names[kind], output, err);
        if (r == 0)
                r = parse_list(kind, revision, host->output_bytes(host->self, output), ret_list);
        host->output_free(host->self, output);
        return r < 0 ? sbx_error_set(err, r, "transport-mcp", NULL, "there is no list to give") : 0;
}

/* Keeps it, unless the host told of a change while it was made. */
static void keep(struct mcp_lists *lists, enum mcp_list_kind kind, enum mcp_revision revision, uint64_t changes,
                 struct mcp_page_list *list) {
        struct mcp_page_list *before = NULL;

        pthread_mutex_lock(&lists->lock);
        if (lists->changes[kind] == changes) {
                before = lists->kept[kind][revision];
                lists->kept[kind][revision] = mcp_page_list_ref(list);
        }
        pthread_mutex_unlock(&lists->lock);
        mcp_page_list_unref(before);
}

/* With a reference. */
static int get_list(struct mcp_lists *lists, enum mcp_list_kind kind, enum mcp_revision revision,
                    struct mcp_page_list **ret_list, struct sbx_error *err) {
        struct mcp_page_list *list;
        uint64_t changes;
        int r;

        pthread_mutex_lock(&lists->lock);
        changes = lists->changes[kind];
        list = lists->kept[kind][revision];
        if (list != NULL)
                mcp_page_list_ref(list);
        pthread_mutex_unlock(&lists->lock);
        if (list == NULL) {
                r = ask_host(lists, kind, revision, &list, err);
                if (r < 0)
                        return r;
                keep(lists, kind, revision, changes, list);
        }
        *ret_list = list;
        return 0;
}

/* ---- answers ------------------------------------------------------------------------------------------- */

/* NULL: none. False: it is not a string. */
static bool decode_cursor(const json_t *params, const char **ret_cursor) {
        const json_t *cursor = json_object_get(params, "cursor");

        *ret_cursor = json_string_value(cursor);
        return cursor == NULL ||
               (json_is_string(cursor) && strlen(json_string_value(cursor)) == json_string_length(cursor));
}

static void refuse(const struct mcp_message *message, const struct mcp_target *target, int problem,
                   const struct sbx_error *err) {
        if (problem == -EINVAL)
                mcp_reply_error(target, &message->id, MCP_INVALID_PARAMS,
                                "params.cursor is none that this server gave for this list",
                                "Ask again without a cursor");
        else if (err != NULL && err->code != 0)
                mcp_reply_error(target, &message->id, MCP_INTERNAL_ERROR, err->message, err->hint);
        else
                mcp_reply_error(target, &message->id, MCP_INTERNAL_ERROR, "out of memory", NULL);
}

void mcp_lists_reply(struct mcp_connection *connection, const struct mcp_message *message, enum mcp_list_kind kind,
                     const struct mcp_target *target) {
        static const struct mcp_caching caching = {.ttl_ms = TTL_MS, .is_public = true, .is_plain = true};
        _cleanup_text_ struct mcp_text result = MCP_TEXT(PAGE_BYTES_MAX);
        struct mcp_page_list *list = NULL;
        struct sbx_error err = {0};
        const char *cursor;
        int r;

        if (!decode_cursor(message->params, &cursor)) {
                refuse(message, target, -EINVAL, NULL);
                return;
        }
        if (get_list(mcp_server_lists(connection->server), kind, target->revision, &list, &err) < 0) {
                refuse(message, target, -EIO, &err);
                return;
        }
        r = mcp_page_list_write(list, connection->server, connection->principal, cursor, &result);
        mcp_page_list_unref(list);
        if (r < 0)
                refuse(message, target, r, NULL);
        else
                mcp_reply_cacheable(target, &message->id, mcp_text_bytes(&result), &caching);
}

bool mcp_lists_check_cursor(struct mcp_connection *connection, const struct mcp_message *message,
                            enum mcp_list_kind kind, const struct mcp_target *target) {
        const char *cursor;
        int r = decode_cursor(message->params, &cursor) ? 0 : -EINVAL;

        if (r == 0 && cursor != NULL)
                r = mcp_cursor_check(connection->server, connection->principal, kind, cursor);
        if (r < 0)
                refuse(message, target, r, NULL);
        return r == 0;
}

int mcp_lists_shape_resources(const struct mcp_call_end *end, struct sbx_bytes result, struct mcp_text *storage,
                              struct sbx_bytes *ret_result) {
        const char *cursor = json_string_value(json_object_get(end->params, "cursor"));
        struct mcp_page_list *list = NULL;
        json_t *root = mcp_json_load(result);
        int r = mcp_page_list_new(MCP_LIST_RESOURCES, end->revision, json_object_get(root, "resources"), &list);

        json_decref(root);
        if (r == 0)
                r = mcp_page_list_write(list, end->server, end->principal, cursor, storage);
        mcp_page_list_unref(list);
        if (r < 0)
                return r;
        *ret_result = mcp_text_bytes(storage);
        return 0;
}
