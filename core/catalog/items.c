/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts list, put together: each item checked, in one order, with no key twice. */
#include "catalog/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/shape.h"

#define ORIGIN SBX_CATALOG_ORIGIN
#define ARGUMENTS_MAX 64u
#define TYPE_MAX 256u

/* ---- checks of one item ---- */

static bool has_controls(const char *text) {
        for (; *text != '\0'; text++)
                if ((unsigned char)*text < 0x20 || *text == 0x7F)
                        return true;
        return false;
}

/* A name that people choose from. */
static int check_name(const json_t *item, const char *what, struct sbx_error *err) {
        int r = sbx_shape_text(item, what, "name", SBX_CATALOG_NAME_MAX, false, err);

        if (r == 0 && has_controls(json_string_value(json_object_get(item, "name"))))
                r = sbx_error_set(err, -EBADMSG, ORIGIN, SBX_CATALOG_AUTHOR,
                                  "%s: its name has control characters in it", what);
        return r;
}

/* What all of them may have. */
static int check_common(const json_t *item, const char *what, struct sbx_error *err) {
        const json_t *icons = json_object_get(item, "icons");
        int r = check_name(item, what, err);

        if (r == 0)
                r = sbx_shape_text(item, what, "title", SBX_CATALOG_TEXT_MAX, true, err);
        if (r == 0)
                r = sbx_shape_text(item, what, "description", SBX_CATALOG_TEXT_MAX, true, err);
        return r == 0 && icons != NULL ? sbx_shape_icons(icons, err) : r;
}

static int check_argument(const json_t *argument, struct sbx_error *err) {
        const json_t *required = json_object_get(argument, "required");
        int r = check_common(argument, "argument of a prompt", err);

        if (r == 0 && required != NULL && !json_is_boolean(required))
                r = sbx_error_set(err, -EBADMSG, ORIGIN, SBX_CATALOG_AUTHOR,
                                  "argument of a prompt: required must be true or false");
        return r;
}

static int check_prompt(const json_t *item, struct sbx_error *err) {
        const json_t *arguments = json_object_get(item, "arguments");
        json_t *argument;
        size_t index;
        int r = check_common(item, "prompt", err);

        if (r < 0 || arguments == NULL)
                return r;
        if (!json_is_array(arguments) || json_array_size(arguments) > ARGUMENTS_MAX)
                return sbx_error_set(err, -EBADMSG, ORIGIN, SBX_CATALOG_AUTHOR,
                                     "prompt: its arguments must be an array of at most %u", ARGUMENTS_MAX);
        json_array_foreach ((json_t *)arguments, index, argument) {
                r = check_argument(argument, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int check_uri(const json_t *item, const char *what, const char *key, struct sbx_error *err) {
        int r = sbx_shape_text(item, what, key, SBX_SHAPE_URI_MAX, false, err);
        const char *uri = json_string_value(json_object_get(item, key));

        if (r == 0 && !sbx_shape_is_uri(uri))
                r = sbx_error_set(err, -EBADMSG, ORIGIN, SBX_CATALOG_AUTHOR, "%s: '%.80s' is no URI", what, uri);
        return r;
}

static int check_template(const json_t *item, struct sbx_error *err) {
        int r = check_uri(item, "template", "uriTemplate", err);

        if (r == 0)
                r = check_common(item, "template", err);
        return r < 0 ? r : sbx_shape_text(item, "template", "mimeType", TYPE_MAX, true, err);
}

static int check_resource(const json_t *item, struct sbx_error *err) {
        const json_t *size = json_object_get(item, "size");
        int r = check_uri(item, "resource", "uri", err);

        if (r == 0)
                r = check_common(item, "resource", err);
        if (r == 0)
                r = sbx_shape_text(item, "resource", "mimeType", TYPE_MAX, true, err);
        if (r == 0 && size != NULL && (!json_is_integer(size) || json_integer_value(size) < 0))
                r = sbx_error_set(err, -EBADMSG, ORIGIN, SBX_CATALOG_AUTHOR,
                                  "resource: its size is no number of bytes");
        return r;
}

static const struct {
        const char *plural, *key;
        int (*check)(const json_t *item, struct sbx_error *err);
} kinds[] = {
        [SBX_ITEMS_PROMPTS] = {"prompts", "name", check_prompt},
        [SBX_ITEMS_TEMPLATES] = {"templates", "uriTemplate", check_template},
        [SBX_ITEMS_RESOURCES] = {"resources", "uri", check_resource},
};

/* ---- adding ---- */

static int reserve(struct sbx_items *items, size_t more, struct sbx_error *err) {
        size_t wanted = items->count + more;
        struct sbx_item *grown;

        if (wanted <= items->capacity)
                return 0;
        grown = reallocarray(items->items, wanted, sizeof(*grown));
        if (grown == NULL)
                return SBX_NOMEM(err, ORIGIN);
        items->items = grown;
        items->capacity = wanted;
        return 0;
}

int sbx_items_add(struct sbx_items *items, const struct sbx_catalog_entry *owner, const json_t *list,
                  const struct sbx_logger *logger, struct sbx_error *err) {
        const char *plural = kinds[items->kind].plural, *key = kinds[items->kind].key;
        json_t *item;
        size_t index;

        if (!json_is_array(list) || json_array_size(list) > SBX_CATALOG_ITEMS_MAX)
                return sbx_error_set(err, -EBADMSG, ORIGIN, SBX_CATALOG_AUTHOR,
                                     "%s: its %s must be a JSON array of at most %u", owner->part.name, plural,
                                     SBX_CATALOG_ITEMS_MAX);
        if (reserve(items, json_array_size(list), err) < 0)
                return -ENOMEM;
        json_array_foreach ((json_t *)list, index, item) {
                struct sbx_error problem = {0};

                if (kinds[items->kind].check(item, &problem) < 0) {
                        sbx_log(logger, SBX_LOG_WARNING, "%s: %s[%zu] is not used: %s", owner->part.name, plural, index,
                                problem.message);
                        continue;
                }
                items->items[items->count] = (struct sbx_item){.key = json_string_value(json_object_get(item, key)),
                                                               .value = json_incref(item),
                                                               .owner = owner,
                                                               .order = items->count};
                items->count++;
        }
        return 0;
}

static int compare(const void *left, const void *right) {
        const struct sbx_item *a = left, *b = right;
        int order = strcmp(a->key, b->key);

        if (order != 0)
                return order;
        return a->order < b->order ? -1 : 1;
}

void sbx_items_sort(struct sbx_items *items, const struct sbx_logger *logger) {
        size_t kept = 0;

        if (items->count > 1)
                qsort(items->items, items->count, sizeof(*items->items), compare);
        for (size_t i = 0; i < items->count; i++) {
                const struct sbx_item *item = &items->items[i];

                if (kept > 0 && strcmp(items->items[kept - 1].key, item->key) == 0) {
                        sbx_log(logger, SBX_LOG_WARNING, "%s: '%.200s' of its %s is not used: %s has it already",
                                item->owner->part.name, item->key, kinds[items->kind].plural,
                                items->items[kept - 1].owner->part.name);
                        json_decref(item->value);
                        continue;
                }
                items->items[kept++] = *item;
        }
        items->count = kept;
}

const struct sbx_item *sbx_items_find(const struct sbx_items *items, const char *key) {
        size_t low = 0, high = items->count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int order = strcmp(items->items[middle].key, key);

                if (order == 0)
                        return &items->items[middle];
                if (order < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return NULL;
}

int sbx_items_json(const struct sbx_items *items, json_t **ret_list, struct sbx_error *err) {
        _cleanup_json_ json_t *list = json_array();

        if (list == NULL)
                return SBX_NOMEM(err, ORIGIN);
        for (size_t i = 0; i < items->count; i++)
                if (json_array_append(list, items->items[i].value) < 0)
                        return SBX_NOMEM(err, ORIGIN);
        *ret_list = steal_pointer(list);
        return 0;
}

void sbx_items_free(struct sbx_items *items) {
        for (size_t i = 0; i < items->count; i++)
                json_decref(items->items[i].value);
        free(items->items);
        *items = (struct sbx_items){.kind = items->kind};
}
