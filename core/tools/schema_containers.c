/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Schema: the members of an object and the items of an array. */
#include "tools/schema.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"

#define ORIGIN "tools"

/* ---- objects ---- */

static int refuse_unknown(const json_t *properties, const char *key, const struct sbx_schema_place *at) {
        struct sbx_nearest nearest = SBX_NEAREST(key);
        const char *name;
        char list[SBX_SCHEMA_LIST_MAX], hint[SBX_SCHEMA_LIST_MAX + 32];
        json_t *property;

        if (at->err == NULL)
                return -EINVAL;
        json_object_foreach ((json_t *)properties, name, property)
                sbx_nearest_offer(&nearest, name);
        sbx_schema_join(properties, list, sizeof(list));
        snprintf(hint, sizeof(hint), "Arguments are: %s.", list);
        if (json_object_size(properties) == 0)
                return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s.%.64s: unknown argument; there are none",
                                     at->path, key);
        if (nearest.best != NULL)
                return sbx_error_set(at->err, -EINVAL, ORIGIN, hint, "%s.%.64s: unknown argument; did you mean '%s'?",
                                     at->path, key, nearest.best);
        return sbx_error_set(at->err, -EINVAL, ORIGIN, hint, "%s.%.64s: unknown argument", at->path, key);
}

/* Null stands for "not given" where it is not a value: clients send it for arguments that their user left empty. */
static bool stands_for_missing(const json_t *schema, const char *key, const json_t *value) {
        const json_t *property = json_object_get(json_object_get(schema, "properties"), key);

        return json_is_null(value) && json_is_object(property) && !sbx_schema_allows_type(property, value);
}

static bool has_member(const json_t *schema, const json_t *object, const char *key) {
        const json_t *value = json_object_get(object, key);

        return value != NULL && !stands_for_missing(schema, key, value);
}

/* NULL: nothing is said of it. */
static const json_t *member_schema(const json_t *schema, const char *key) {
        const json_t *property = json_object_get(json_object_get(schema, "properties"), key);

        if (property != NULL || json_object_get(schema, "patternProperties") != NULL)
                return property;
        return json_object_get(schema, "additionalProperties");
}

static int check_member(const json_t *schema, json_t *object, const char *key, json_t *value,
                        const struct sbx_schema_place *at) {
        const json_t *properties = json_object_get(schema, "properties"), *property = member_schema(schema, key);
        struct sbx_schema_place below = *at;
        char path[SBX_SCHEMA_PATH_MAX];
        json_t *replacement = NULL;
        int r;

        if (json_is_false(property) && json_object_get(properties, key) == NULL)
                return refuse_unknown(properties, key, at);
        if (!sbx_schema_is_schema(property))
                return 0;
        snprintf(path, sizeof(path), "%s.%.64s", at->path, key);
        below.path = path;
        r = sbx_schema_apply_one(property, value, &below, &replacement);
        if (r < 0 || replacement == NULL) {
                json_decref(replacement);
                return r;
        }
        return json_object_set_new(object, key, replacement) < 0 ? SBX_NOMEM(at->err, ORIGIN) : 0;
}

static int check_each_member(const json_t *schema, json_t *object, const struct sbx_schema_place *at) {
        const char *key;
        json_t *value;
        void *next;

        json_object_foreach_safe (object, next, key, value) {
                int r;

                if (stands_for_missing(schema, key, value)) {
                        if (!at->trial)
                                json_object_del(object, key);
                        continue;
                }
                r = check_member(schema, object, key, value, at);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int check_required(const json_t *schema, const json_t *names, const json_t *object,
                          const struct sbx_schema_place *at) {
        const json_t *name;
        size_t index;

        json_array_foreach (names, index, name) {
                if (json_is_string(name) && !has_member(schema, object, json_string_value(name)))
                        return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s.%.64s: required, but missing",
                                             at->path, json_string_value(name));
        }
        return 0;
}

static int check_names(const json_t *schema, const json_t *object, const struct sbx_schema_place *at) {
        const json_t *names = json_object_get(schema, "propertyNames");
        struct sbx_schema_place below = *at;
        const char *key;
        json_t *value;

        if (!sbx_schema_is_schema(names))
                return 0;
        below.trial = true;
        json_object_foreach ((json_t *)object, key, value) {
                _cleanup_json_ json_t *name = json_string(key);
                char path[SBX_SCHEMA_PATH_MAX];
                json_t *unused = NULL;
                int r;

                if (name == NULL)
                        return SBX_NOMEM(at->err, ORIGIN);
                snprintf(path, sizeof(path), "%s: the name '%.64s'", at->path, key);
                below.path = path;
                r = sbx_schema_apply_one(names, name, &below, &unused);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int check_dependents(const json_t *schema, json_t *object, const struct sbx_schema_place *at) {
        const char *key;
        json_t *wanted;
        int r = 0;

        json_object_foreach (json_object_get(schema, "dependentRequired"), key, wanted) {
                if (r == 0 && has_member(schema, object, key))
                        r = check_required(schema, wanted, object, at);
        }
        json_object_foreach (json_object_get(schema, "dependentSchemas"), key, wanted) {
                json_t *unused = NULL; /* an object is never replaced */

                if (r == 0 && sbx_schema_is_schema(wanted) && has_member(schema, object, key))
                        r = sbx_schema_apply_one(wanted, object, at, &unused);
        }
        return r;
}

int sbx_schema_check_members(const json_t *schema, json_t *object, const struct sbx_schema_place *at) {
        int r = check_each_member(schema, object, at);

        if (r == 0)
                r = check_required(schema, json_object_get(schema, "required"), object, at);
        if (r == 0)
                r = sbx_schema_check_size(schema, "minProperties", "maxProperties", json_object_size(object), "members",
                                          at);
        if (r == 0)
                r = check_names(schema, object, at);
        return r < 0 ? r : check_dependents(schema, object, at);
}

/* ---- arrays ---- */

/* NULL: nothing is said of it. */
static const json_t *item_schema(const json_t *schema, size_t index) {
        const json_t *first = json_object_get(schema, "prefixItems");

        return index < json_array_size(first) ? json_array_get(first, index) : json_object_get(schema, "items");
}

static int check_item(const json_t *schema, json_t *array, size_t index, const struct sbx_schema_place *at) {
        const json_t *item = item_schema(schema, index);
        struct sbx_schema_place below = *at;
        char path[SBX_SCHEMA_PATH_MAX];
        json_t *replacement = NULL;
        int r;

        if (!sbx_schema_is_schema(item))
                return 0;
        snprintf(path, sizeof(path), "%s[%zu]", at->path, index);
        below.path = path;
        r = sbx_schema_apply_one(item, json_array_get(array, index), &below, &replacement);
        if (r < 0 || replacement == NULL) {
                json_decref(replacement);
                return r;
        }
        return json_array_set_new(array, index, replacement) < 0 ? SBX_NOMEM(at->err, ORIGIN) : 0;
}

static int check_contains(const json_t *schema, const json_t *array, const struct sbx_schema_place *at) {
        const json_t *wanted = json_object_get(schema, "contains"), *least = json_object_get(schema, "minContains"),
                     *most = json_object_get(schema, "maxContains");
        struct sbx_schema_place below = *at;
        json_int_t found = 0, needed = json_is_integer(least) ? json_integer_value(least) : 1;
        json_t *item;
        size_t index;

        if (!sbx_schema_is_schema(wanted))
                return 0;
        below.trial = true;
        below.err = NULL;
        json_array_foreach ((json_t *)array, index, item) {
                json_t *unused = NULL;
                int r = sbx_schema_apply_one(wanted, item, &below, &unused);

                if (r < 0 && !sbx_schema_misfit(r))
                        return sbx_schema_give_up(at, r);
                found += r == 0;
        }
        if (found < needed || (json_is_integer(most) && found > json_integer_value(most)))
                return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL,
                                     "%s: has %lld items of the kind that is wanted; at least %lld are needed%s",
                                     at->path, (long long)found, (long long)needed,
                                     found < needed ? "" : ", and not so many");
        return 0;
}

static int check_unique(const json_t *schema, const json_t *array, const struct sbx_schema_place *at) {
        size_t size = json_array_size(array);

        if (!json_is_true(json_object_get(schema, "uniqueItems")))
                return 0;
        for (size_t i = 1; i < size; i++)
                for (size_t k = 0; k < i; k++) {
                        int r = sbx_schema_equal(json_array_get(array, i), json_array_get(array, k), at);

                        if (r < 0)
                                return r;
                        if (r == 1)
                                return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL,
                                                     "%s: items %zu and %zu are the same", at->path, k, i);
                }
        return 0;
}

int sbx_schema_check_items(const json_t *schema, json_t *array, const struct sbx_schema_place *at) {
        size_t size = json_array_size(array);
        int r = sbx_schema_check_size(schema, "minItems", "maxItems", size, "items", at);

        for (size_t i = 0; i < size && r == 0; i++)
                r = check_item(schema, array, i, at);
        if (r == 0)
                r = check_contains(schema, array, at);
        return r < 0 ? r : check_unique(schema, array, at);
}
