/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that are encoded once and given out in slices, with signed cursors between them. */
#include <stdatomic.h>
#include <stdlib.h>

#include "lists.h"

#define LIST_BYTES_MAX (64u << 20)
#define CURSOR_PURPOSE "cursor"
#define CURSOR_KEY_MAX 1024u /* of an item's name, in a cursor */

static const struct {
        const char *member; /* of the result */
        const char *key;    /* of an item: what it is known by */
} kinds[MCP_LIST_KINDS] = {
        [MCP_LIST_TOOLS] = {"tools", "name"},
        [MCP_LIST_PROMPTS] = {"prompts", "name"},
        [MCP_LIST_TEMPLATES] = {"resourceTemplates", "uriTemplate"},
        [MCP_LIST_RESOURCES] = {"resources", "uri"},
};

struct item {
        size_t start, end; /* in the text */
        char *key;
};

struct mcp_page_list {
        atomic_uint refs;
        enum mcp_list_kind kind;
        struct mcp_text text; /* the items with a comma between each two */
        struct item *items;
        size_t count;
};

/* ---- what older revisions do not have ------------------------------------------------------------------ */

static void remove_members(json_t *object, enum mcp_revision revision, bool is_tool) {
        /* Tasks of the legacy revision that had them work otherwise; a client that saw `execution` would try them. */
        if (!mcp_is_modern(revision))
                json_object_del(object, "execution");
        if (revision < MCP_2025_11_25)
                json_object_del(object, "icons");
        if (revision < MCP_2025_06_18) {
                json_object_del(object, "title");
                json_object_del(object, "_meta");
                json_object_del(object, "outputSchema");
        }
        if (revision < MCP_2025_03_26 && is_tool)
                json_object_del(object, "annotations");
}

static void downgrade(json_t *item, enum mcp_list_kind kind, enum mcp_revision revision) {
        json_t *argument;
        size_t index;

        remove_members(item, revision, kind == MCP_LIST_TOOLS);
        if (kind != MCP_LIST_PROMPTS)
                return;
        json_array_foreach (json_object_get(item, "arguments"), index, argument) {
                remove_members(argument, revision, false);
        }
}

/* ---- encoding ------------------------------------------------------------------------------------------ */

static int append_item(struct mcp_page_list *list, enum mcp_revision revision, json_t *value) {
        struct item *item = &list->items[list->count];
        const json_t *key = json_object_get(value, kinds[list->kind].key);
        size_t size = json_string_length(key) + 1;

        if (!json_is_object(value) || !json_is_string(key))
                return -EINVAL;
        downgrade(value, list->kind, revision);
        if (list->count > 0)
                mcp_text_append(&list->text, ",", 1);
        item->start = list->text.size;
        if (mcp_text_append_json(&list->text, value) < 0)
                return list->text.error;
        item->end = list->text.size;
        item->key = malloc(size);
        if (item->key == NULL)
                return -ENOMEM;
        memcpy(item->key, json_string_value(key), size);
        list->count++;
        return 0;
}

int mcp_page_list_new(enum mcp_list_kind kind, enum mcp_revision revision, json_t *items,
                      struct mcp_page_list **ret_list) {
        struct mcp_page_list *list;
        json_t *value;
        size_t index;
        int r = 0;

        if (!json_is_array(items))
                return -EINVAL;
        list = malloc(sizeof(*list));
        if (list == NULL)
                return -ENOMEM;
        *list = (struct mcp_page_list){.refs = 1, .kind = kind, .text = MCP_TEXT(LIST_BYTES_MAX)};
        list->items = calloc(json_array_size(items) + 1, sizeof(*list->items));
        if (list->items == NULL)
                r = -ENOMEM;
        for (index = 0; r == 0 && (value = json_array_get(items, index)) != NULL; index++)
                r = append_item(list, revision, value);
        if (r < 0)
                mcp_page_list_unref(list);
        else
                *ret_list = list;
        return r;
}

struct mcp_page_list *mcp_page_list_ref(struct mcp_page_list *list) {
        atomic_fetch_add(&list->refs, 1);
        return list;
}

void mcp_page_list_unref(struct mcp_page_list *list) {
        if (list == NULL || atomic_fetch_sub(&list->refs, 1) > 1)
                return;
        for (size_t i = 0; i < list->count; i++)
                free(list->items[i].key);
        free(list->items);
        mcp_text_free(&list->text);
        free(list);
}

/* ---- cursors: "LIST:INDEX:KEY", where the next page begins and what stood before it -------------------- */

static int make_cursor(const struct mcp_page_list *list, size_t next, const struct mcp_server *server,
                       const char *principal, char **ret_cursor) {
        char payload[CURSOR_KEY_MAX + 64];
        int size = snprintf(payload, sizeof(payload), "%s:%zu:%.*s", kinds[list->kind].member, next,
                            (int)CURSOR_KEY_MAX, list->items[next - 1].key);

        return mcp_sign(server, CURSOR_PURPOSE, principal, (struct sbx_bytes){payload, (size_t)size}, ret_cursor);
}

/* The part behind "LIST:"; NULL: of another list. */
static const char *of_list(enum mcp_list_kind kind, const char *payload) {
        size_t size = strlen(kinds[kind].member);

        return strncmp(payload, kinds[kind].member, size) == 0 && payload[size] == ':' ? payload + size + 1 : NULL;
}

int mcp_cursor_check(const struct mcp_server *server, const char *principal, enum mcp_list_kind kind,
                     const char *cursor) {
        char *payload = NULL;
        size_t size;
        int r = mcp_verify(server, CURSOR_PURPOSE, principal, cursor, &payload, &size);

        if (r == 0 && of_list(kind, payload) == NULL)
                r = -EINVAL;
        free(payload);
        return r;
}

static bool is_key(const struct item *item, const char *key) {
        return strncmp(item->key, key, CURSOR_KEY_MAX) == 0;
}

/* Where `position` (INDEX:KEY) is now. A list that changed meanwhile is gone on with behind the same item; resources,
 * which are sorted, where it would stand. SIZE_MAX: nowhere. */
static size_t find_position(const struct mcp_page_list *list, const char *position) {
        const char *key = strchr(position, ':') + 1;
        size_t index = 0;

        for (const char *digit = position; *digit != ':'; digit++)
                index = index * 10 + (size_t)(*digit - '0');
        if (index > 0 && index <= list->count && is_key(&list->items[index - 1], key))
                return index;
        for (size_t i = 0; i < list->count; i++) {
                if (is_key(&list->items[i], key))
                        return i + 1;
                if (list->kind == MCP_LIST_RESOURCES && strcmp(list->items[i].key, key) > 0)
                        return i;
        }
        return list->kind == MCP_LIST_RESOURCES ? list->count : SIZE_MAX;
}

static int start_of(const struct mcp_page_list *list, const struct mcp_server *server, const char *principal,
                    const char *cursor, size_t *ret_start) {
        const char *position;
        char *payload = NULL;
        size_t size;
        int r;

        *ret_start = 0;
        if (cursor == NULL)
                return 0;
        r = mcp_verify(server, CURSOR_PURPOSE, principal, cursor, &payload, &size);
        if (r < 0)
                return r;
        position = of_list(list->kind, payload);
        if (position != NULL)
                *ret_start = find_position(list, position);
        free(payload);
        return position == NULL || *ret_start == SIZE_MAX ? -EINVAL : 0;
}

int mcp_page_list_write(const struct mcp_page_list *list, const struct mcp_server *server, const char *principal,
                        const char *cursor, struct mcp_text *text) {
        size_t start, end, page = mcp_server_settings(server)->page_size;
        char *next = NULL;
        int r = start_of(list, server, principal, cursor, &start);

        if (r < 0)
                return r;
        end = list->count - start > page ? start + page : list->count;
        if (end < list->count && (r = make_cursor(list, end, server, principal, &next)) < 0)
                return r;
        mcp_text_append_literal(text, "{\"");
        mcp_text_append_literal(text, kinds[list->kind].member);
        mcp_text_append_literal(text, "\":[");
        if (end > start)
                mcp_text_append(text, list->text.data + list->items[start].start,
                                list->items[end - 1].end - list->items[start].start);
        mcp_text_append_literal(text, "]");
        if (next != NULL) {
                mcp_text_append_literal(text, ",\"nextCursor\":\"");
                mcp_text_append_literal(text, next);
                mcp_text_append_literal(text, "\"");
        }
        free(next);
        return mcp_text_append_literal(text, "}");
}
