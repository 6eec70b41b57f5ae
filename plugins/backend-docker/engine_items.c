/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of JSON objects, as pulls and builds tell their progress: cut into values as the bytes come. */
#include "engine_internal.h"

static int hold(struct engine_items *items, char c) {
        if (items->size == items->capacity) {
                size_t capacity = items->capacity > 0 ? 2 * items->capacity : 1024;
                char *text;

                if (capacity > ENGINE_ITEM_MAX)
                        return -EFBIG;
                text = realloc(items->text, capacity);
                if (text == NULL)
                        return -ENOMEM;
                items->text = text;
                items->capacity = capacity;
        }
        items->text[items->size++] = c;
        return 0;
}

static int hand_over(struct engine_items *items) {
        _cleanup_json_ json_t *item = json_loadb(items->text, items->size, JSON_REJECT_DUPLICATES, NULL);

        int r;

        items->size = 0;
        if (item == NULL)
                return -EPROTO;
        r = items->item(items->data, item);
        if (r < 0)
                items->stopped = r;
        return r;
}

/* Follows strings and brackets; the parser judges the rest. */
static int take(struct engine_items *items, char c) {
        int r;

        if (items->depth == 0 && (c == ' ' || c == '\t' || c == '\r' || c == '\n'))
                return 0;
        if (items->depth == 0 && c != '{')
                return -EPROTO;
        r = hold(items, c);
        if (r < 0)
                return r;
        if (items->escaped)
                items->escaped = false;
        else if (items->in_string && c == '\\')
                items->escaped = true;
        else if (c == '"')
                items->in_string = !items->in_string;
        else if (!items->in_string && (c == '{' || c == '['))
                items->depth++;
        else if (!items->in_string && (c == '}' || c == ']') && --items->depth == 0)
                return hand_over(items);
        return 0;
}

int engine_items_take(struct engine_items *items, struct sbx_bytes piece) {
        const char *bytes = piece.data;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < piece.size; i++)
                r = take(items, bytes[i]);
        return r < 0 ? r : 0;
}

bool engine_items_whole(const struct engine_items *items) {
        return items->depth == 0;
}

void engine_items_clear(struct engine_items *items) {
        free(items->text);
        *items = (struct engine_items){0};
}
