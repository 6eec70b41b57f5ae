/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments against the subset of JSON Schema that tools use: checking, with an error that says what would do, and
 * filling in defaults. */
#include "tools/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_TOOLS_ORIGIN
#define PATH_MAX_BYTES 256 /* a longer one is shown cut */
#define LIST_MAX_BYTES 400

struct place {
        const char *path;
        struct sbx_error *err;
};

static int apply(const json_t *schema, json_t *value, const struct place *at);

/* ---- telling ---- */

static const char *type_name(const json_t *value) {
        switch (json_typeof(value)) {
        case JSON_OBJECT:
                return "object";
        case JSON_ARRAY:
                return "array";
        case JSON_STRING:
                return "string";
        case JSON_INTEGER:
                return "integer";
        case JSON_REAL:
                return "number";
        case JSON_TRUE:
        case JSON_FALSE:
                return "boolean";
        default:
                return "null";
        }
}

/* "a, b, c", of an object's keys or an array's strings. */
static void join_names(const json_t *names, char *text, size_t size) {
        const char *key;
        json_t *value;
        size_t index, used = 0;

        text[0] = '\0';
        if (json_is_object(names)) {
                json_object_foreach((json_t *)names, key, value) {
                        if (used < size)
                                used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", key);
                }
                return;
        }
        json_array_foreach(names, index, value) {
                if (json_is_string(value) && used < size)
                        used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                                                 json_string_value(value));
        }
}

/* ---- types ---- */

static bool is_integral(const json_t *value) {
        double number = json_real_value(value); /* 0 for other types */

        /* JSON Schema counts 5.0 as an integer. 2^53 is where a double stops telling integers apart. */
        return json_is_real(value) && number >= -9007199254740992.0 && number <= 9007199254740992.0 &&
               (double)(json_int_t)number == number;
}

static bool has_type(const json_t *value, const char *type) {
        if (strcmp(type, "number") == 0)
                return json_is_number(value);
        if (strcmp(type, "integer") == 0)
                return json_is_integer(value) || is_integral(value);
        return strcmp(type, type_name(value)) == 0;
}

static bool allows_type(const json_t *schema, const json_t *value) {
        const json_t *type = json_object_get(schema, "type"), *item;
        size_t index;

        if (json_is_string(type))
                return has_type(value, json_string_value(type));
        if (!json_is_array(type))
                return true;
        json_array_foreach(type, index, item) {
                if (json_is_string(item) && has_type(value, json_string_value(item)))
                        return true;
        }
        return false;
}

static int check_type(const json_t *schema, const json_t *value, const struct place *at) {
        const json_t *type = json_object_get(schema, "type");
        char list[LIST_MAX_BYTES];

        if (allows_type(schema, value))
                return 0;
        if (json_is_string(type))
                return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: must be of type %s, not %s", at->path,
                                     json_string_value(type), type_name(value));
        join_names(type, list, sizeof(list));
        return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: must be of one of the types %s, not %s", at->path,
                             list, type_name(value));
}

/* ---- values ---- */

static int check_enum(const json_t *schema, const json_t *value, const struct place *at) {
        const json_t *allowed = json_object_get(schema, "enum"), *item;
        char list[LIST_MAX_BYTES];
        size_t index;

        if (!json_is_array(allowed))
                return 0;
        json_array_foreach(allowed, index, item) {
                if (json_equal(item, value))
                        return 0;
        }
        join_names(allowed, list, sizeof(list));
        if (json_is_string(value))
                return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: unknown value '%.64s'; allowed are %s",
                                     at->path, json_string_value(value), list);
        return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: not one of the values that are allowed: %s", at->path,
                             list);
}

static int check_range(const json_t *schema, const json_t *value, const struct place *at) {
        const json_t *minimum = json_object_get(schema, "minimum"), *maximum = json_object_get(schema, "maximum");
        double number = json_number_value(value);

        if ((!json_is_number(minimum) || number >= json_number_value(minimum)) &&
            (!json_is_number(maximum) || number <= json_number_value(maximum)))
                return 0;
        if (json_is_number(minimum) && json_is_number(maximum))
                return sbx_error_set(at->err, -ERANGE, ORIGIN, NULL,
                                     "%s: %.15g is out of range; allowed are %.15g to %.15g", at->path, number,
                                     json_number_value(minimum), json_number_value(maximum));
        if (json_is_number(minimum))
                return sbx_error_set(at->err, -ERANGE, ORIGIN, NULL,
                                     "%s: %.15g is out of range; it must be at least %.15g", at->path, number,
                                     json_number_value(minimum));
        return sbx_error_set(at->err, -ERANGE, ORIGIN, NULL, "%s: %.15g is out of range; it must be at most %.15g",
                             at->path, number, json_number_value(maximum));
}

static size_t count_characters(const json_t *text) {
        const char *bytes = json_string_value(text);
        size_t count = 0;

        for (size_t i = 0; i < json_string_length(text); i++)
                if (((unsigned char)bytes[i] & 0xC0) != 0x80)
                        count++;
        return count;
}

/* `size` of something that has `unit`s, against the keywords `least` and `most`. */
static int check_size(const json_t *schema, const char *least, const char *most, size_t size, const char *unit,
                      const struct place *at) {
        const json_t *minimum = json_object_get(schema, least), *maximum = json_object_get(schema, most);

        if (json_is_integer(minimum) && (json_int_t)size < json_integer_value(minimum))
                return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: has %zu %s, at least %lld are needed",
                                     at->path, size, unit, (long long)json_integer_value(minimum));
        if (json_is_integer(maximum) && (json_int_t)size > json_integer_value(maximum))
                return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: has %zu %s, at most %lld are allowed",
                                     at->path, size, unit, (long long)json_integer_value(maximum));
        return 0;
}

/* ---- containers ---- */

/* Checks a member or an item; `*ret_replacement` takes its place when it is set. */
static int apply_child(const json_t *schema, json_t *value, const struct place *at, json_t **ret_replacement) {
        int r = apply(schema, value, at);

        if (r == 0 && is_integral(value) && !json_is_number(json_object_get(schema, "multipleOf"))) {
                const char *type = json_string_value(json_object_get(schema, "type"));

                if (type != NULL && strcmp(type, "integer") == 0)
                        *ret_replacement = json_integer((json_int_t)json_real_value(value));
        }
        return r;
}

static int apply_items(const json_t *schema, json_t *value, const struct place *at) {
        const json_t *items = json_object_get(schema, "items");
        char path[PATH_MAX_BYTES];
        json_t *item;
        size_t index;
        int r = check_size(schema, "minItems", "maxItems", json_array_size(value), "items", at);

        if (r < 0 || !json_is_object(items))
                return r;
        json_array_foreach(value, index, item) {
                json_t *replacement = NULL;

                snprintf(path, sizeof(path), "%s[%zu]", at->path, index);
                r = apply_child(items, item, &(struct place){path, at->err}, &replacement);
                if (r < 0)
                        return r;
                if (replacement != NULL && json_array_set_new(value, index, replacement) < 0)
                        return SBX_NOMEM(at->err, ORIGIN);
        }
        return 0;
}

static int refuse_unknown(const json_t *properties, const char *key, const struct place *at) {
        struct sbx_nearest nearest = SBX_NEAREST(key);
        const char *name;
        char list[LIST_MAX_BYTES], hint[LIST_MAX_BYTES + 32];
        json_t *property;

        json_object_foreach((json_t *)properties, name, property)
                sbx_nearest_offer(&nearest, name);
        join_names(properties, list, sizeof(list));
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

        return json_is_null(value) && json_is_object(property) && !allows_type(property, value);
}

static int check_members(const json_t *schema, json_t *object, const struct place *at) {
        const json_t *properties = json_object_get(schema, "properties");
        bool closed = json_is_false(json_object_get(schema, "additionalProperties"));
        char path[PATH_MAX_BYTES];
        const char *key;
        json_t *value;
        void *next;

        json_object_foreach_safe(object, next, key, value) {
                const json_t *property = json_object_get(properties, key);
                json_t *replacement = NULL;
                int r;

                if (property == NULL && closed)
                        return refuse_unknown(properties, key, at);
                if (stands_for_missing(schema, key, value)) {
                        json_object_del(object, key);
                        continue;
                }
                if (!json_is_object(property))
                        continue;
                snprintf(path, sizeof(path), "%s.%.64s", at->path, key);
                r = apply_child(property, value, &(struct place){path, at->err}, &replacement);
                if (r < 0)
                        return r;
                if (replacement != NULL && json_object_set_new(object, key, replacement) < 0)
                        return SBX_NOMEM(at->err, ORIGIN);
        }
        return 0;
}

static int fill_defaults(const json_t *schema, json_t *object, const struct place *at) {
        const char *key;
        json_t *property, *fallback;

        json_object_foreach(json_object_get(schema, "properties"), key, property) {
                fallback = json_object_get(property, "default");
                if (fallback == NULL || json_object_get(object, key) != NULL)
                        continue;
                if (json_object_set_new(object, key, json_deep_copy(fallback)) < 0)
                        return SBX_NOMEM(at->err, ORIGIN);
        }
        return 0;
}

static int apply_members(const json_t *schema, json_t *object, const struct place *at) {
        const json_t *required = json_object_get(schema, "required"), *name;
        size_t index;
        int r = check_members(schema, object, at);

        if (r < 0)
                return r;
        json_array_foreach(required, index, name) {
                if (json_is_string(name) && json_object_get(object, json_string_value(name)) == NULL)
                        return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s.%s: required, but missing", at->path,
                                             json_string_value(name));
        }
        return fill_defaults(schema, object, at);
}

static int apply(const json_t *schema, json_t *value, const struct place *at) {
        int r = check_type(schema, value, at);

        if (r == 0)
                r = check_enum(schema, value, at);
        if (r < 0)
                return r;
        if (json_is_object(value))
                return apply_members(schema, value, at);
        if (json_is_array(value))
                return apply_items(schema, value, at);
        if (json_is_string(value))
                return check_size(schema, "minLength", "maxLength", count_characters(value), "characters", at);
        return json_is_number(value) ? check_range(schema, value, at) : 0;
}

int sbx_schema_apply(const json_t *schema, json_t *arguments, struct sbx_error *err) {
        return apply(schema, arguments, &(struct place){"arguments", err});
}
