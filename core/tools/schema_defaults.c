/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Schema: defaults, after all was checked, so that they decide nothing. */
#include "tools/schema.h"

#include "base/error.h"

#define ORIGIN "tools"

static int fill_members(const json_t *schema, json_t *object, const struct sbx_schema_place *at) {
        const char *key;
        json_t *property;

        json_object_foreach (json_object_get(schema, "properties"), key, property) {
                const json_t *fallback = json_object_get(property, "default");
                json_t *value = json_object_get(object, key);
                int r = 0;

                if (value != NULL)
                        r = sbx_schema_fill(property, value, at);
                else if (fallback != NULL && json_object_set_new(object, key, json_deep_copy(fallback)) < 0)
                        r = SBX_NOMEM(at->err, ORIGIN);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int fill_items(const json_t *schema, json_t *array, const struct sbx_schema_place *at) {
        const json_t *items = json_object_get(schema, "items");
        json_t *item;
        size_t index;

        if (!json_is_object(items) || json_object_get(schema, "prefixItems") != NULL)
                return 0;
        json_array_foreach (array, index, item) {
                int r = sbx_schema_fill(items, item, at);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* A recursion that goes nowhere was refused when the value was checked; this takes the same way, and less of it. */
int sbx_schema_fill(const json_t *schema, json_t *value, const struct sbx_schema_place *at) {
        const char *ref = json_string_value(json_object_get(schema, "$ref"));
        const json_t *target = NULL, *part;
        size_t index;
        int r = 0;

        if (!json_is_object(schema) || !(json_is_object(value) || json_is_array(value)))
                return 0;
        r = sbx_schema_spend(at, 1);
        if (r == 0 && ref != NULL)
                r = sbx_schema_resolve(ref, at, &target);
        if (r == 0 && target != NULL)
                r = sbx_schema_fill(target, value, at);
        json_array_foreach (json_object_get(schema, "allOf"), index, part) {
                if (r == 0)
                        r = sbx_schema_fill(part, value, at);
        }
        if (r == 0 && json_is_object(value))
                r = fill_members(schema, value, at);
        return r == 0 && json_is_array(value) ? fill_items(schema, value, at) : r;
}
