/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Schema: what concerns a value alone, whatever is around it. */
#include "tools/schema.h"

#include <string.h>

#include "base/error.h"

#define ORIGIN "tools"

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

void sbx_schema_join(const json_t *names, char *text, size_t size) {
        const char *key;
        json_t *value;
        size_t index, used = 0;

        text[0] = '\0';
        if (json_is_object(names)) {
                json_object_foreach ((json_t *)names, key, value) {
                        if (used < size)
                                used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", key);
                }
                return;
        }
        json_array_foreach (names, index, value) {
                if (json_is_string(value) && used < size)
                        used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                                                 json_string_value(value));
        }
}

/* ---- types ---- */

bool sbx_schema_is_integral(const json_t *value) {
        double number = json_real_value(value); /* 0 for other types */

        /* JSON Schema counts 5.0 as an integer. 2^53 is where a double stops telling integers apart. */
        return json_is_real(value) && number >= -9007199254740992.0 && number <= 9007199254740992.0 &&
               (double)(json_int_t)number == number;
}

static bool has_type(const json_t *value, const char *type) {
        if (strcmp(type, "number") == 0)
                return json_is_number(value);
        if (strcmp(type, "integer") == 0)
                return json_is_integer(value) || sbx_schema_is_integral(value);
        return strcmp(type, type_name(value)) == 0;
}

bool sbx_schema_allows_type(const json_t *schema, const json_t *value) {
        const json_t *type = json_object_get(schema, "type"), *item;
        size_t index;

        if (json_is_string(type))
                return has_type(value, json_string_value(type));
        if (!json_is_array(type))
                return true;
        json_array_foreach (type, index, item) {
                if (json_is_string(item) && has_type(value, json_string_value(item)))
                        return true;
        }
        return false;
}

static int check_type(const json_t *schema, const json_t *value, const struct sbx_schema_place *at) {
        const json_t *type = json_object_get(schema, "type");
        char list[SBX_SCHEMA_LIST_MAX];

        if (sbx_schema_allows_type(schema, value))
                return 0;
        if (json_is_string(type))
                return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: must be of type %s, not %s", at->path,
                                     json_string_value(type), type_name(value));
        sbx_schema_join(type, list, sizeof(list));
        return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: must be of one of the types %s, not %s", at->path,
                             list, type_name(value));
}

/* ---- equality ---- */

static bool equal_numbers(const json_t *left, const json_t *right) {
        if (json_is_integer(left) && json_is_integer(right))
                return json_integer_value(left) == json_integer_value(right);
        return json_number_value(left) == json_number_value(right);
}

static int equal_arrays(const json_t *left, const json_t *right, const struct sbx_schema_place *at) {
        size_t size = json_array_size(left);

        if (json_array_size(right) != size)
                return 0;
        for (size_t i = 0; i < size; i++) {
                int r = sbx_schema_equal(json_array_get(left, i), json_array_get(right, i), at);

                if (r != 1)
                        return r;
        }
        return 1;
}

static int equal_objects(const json_t *left, const json_t *right, const struct sbx_schema_place *at) {
        const char *key;
        json_t *value;

        if (json_object_size(left) != json_object_size(right))
                return 0;
        json_object_foreach ((json_t *)left, key, value) {
                const json_t *other = json_object_get(right, key);
                int r = other != NULL ? sbx_schema_equal(value, other, at) : 0;

                if (r != 1)
                        return r;
        }
        return 1;
}

/* Both come from documents that nest 64 deep at most, so recursion is fine. */
int sbx_schema_equal(const json_t *left, const json_t *right, const struct sbx_schema_place *at) {
        int r = sbx_schema_spend(at, 1);

        if (r < 0)
                return r;
        if (json_is_number(left) && json_is_number(right))
                return equal_numbers(left, right);
        if (json_typeof(left) != json_typeof(right))
                return 0;
        if (json_is_array(left))
                return equal_arrays(left, right, at);
        if (json_is_object(left))
                return equal_objects(left, right, at);
        return json_equal(left, right);
}

static int check_enum(const json_t *schema, const json_t *value, const struct sbx_schema_place *at) {
        const json_t *allowed = json_object_get(schema, "enum"), *item;
        char list[SBX_SCHEMA_LIST_MAX];
        size_t index;

        if (!json_is_array(allowed))
                return 0;
        json_array_foreach (allowed, index, item) {
                int r = sbx_schema_equal(item, value, at);

                if (r != 0)
                        return r < 0 ? r : 0;
        }
        sbx_schema_join(allowed, list, sizeof(list));
        if (json_is_string(value))
                return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: unknown value '%.64s'; allowed are %s",
                                     at->path, json_string_value(value), list);
        return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: not one of the values that are allowed: %s", at->path,
                             list);
}

static int check_const(const json_t *schema, const json_t *value, const struct sbx_schema_place *at) {
        const json_t *only = json_object_get(schema, "const");
        int r = only != NULL ? sbx_schema_equal(only, value, at) : 1;

        if (r != 0)
                return r < 0 ? r : 0;
        if (json_is_string(only))
                return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: must be '%.64s'", at->path,
                                     json_string_value(only));
        return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: not the one value that is allowed", at->path);
}

/* ---- numbers ---- */

static int check_range(const json_t *schema, const json_t *value, const struct sbx_schema_place *at) {
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

static int check_open_range(const json_t *schema, const json_t *value, const struct sbx_schema_place *at) {
        const json_t *above = json_object_get(schema, "exclusiveMinimum"),
                     *below = json_object_get(schema, "exclusiveMaximum");
        double number = json_number_value(value);

        if (json_is_number(above) && number <= json_number_value(above))
                return sbx_error_set(at->err, -ERANGE, ORIGIN, NULL,
                                     "%s: %.15g is out of range; it must be greater than %.15g", at->path, number,
                                     json_number_value(above));
        if (json_is_number(below) && number >= json_number_value(below))
                return sbx_error_set(at->err, -ERANGE, ORIGIN, NULL,
                                     "%s: %.15g is out of range; it must be less than %.15g", at->path, number,
                                     json_number_value(below));
        return 0;
}

/* 0.3 is a multiple of 0.1 for people, and not for binary fractions: what differs in the last digits is one. Beyond
 * 2^53 there are only whole numbers. */
static bool is_multiple(const json_t *value, const json_t *step) {
        double times, rest, allowed = 1e-9;

        if (json_is_integer(value) && json_is_integer(step))
                return json_integer_value(value) % json_integer_value(step) == 0;
        times = json_number_value(value) / json_number_value(step);
        if (times < 0)
                times = -times;
        if (!(times < 9007199254740992.0))
                return true;
        rest = times - (double)(json_int_t)(times + 0.5);
        if (times > 1)
                allowed *= times;
        return rest <= allowed && -rest <= allowed;
}

static int check_multiple(const json_t *schema, const json_t *value, const struct sbx_schema_place *at) {
        const json_t *step = json_object_get(schema, "multipleOf");

        if (!json_is_number(step) || !(json_number_value(step) > 0) || is_multiple(value, step))
                return 0;
        return sbx_error_set(at->err, -ERANGE, ORIGIN, NULL, "%s: %.15g is no multiple of %.15g", at->path,
                             json_number_value(value), json_number_value(step));
}

static int check_number(const json_t *schema, const json_t *value, const struct sbx_schema_place *at) {
        int r = check_range(schema, value, at);

        if (r == 0)
                r = check_open_range(schema, value, at);
        return r < 0 ? r : check_multiple(schema, value, at);
}

/* ---- sizes ---- */

static size_t count_characters(const json_t *text) {
        const char *bytes = json_string_value(text);
        size_t count = 0;

        for (size_t i = 0; i < json_string_length(text); i++)
                if (((unsigned char)bytes[i] & 0xC0) != 0x80)
                        count++;
        return count;
}

int sbx_schema_check_size(const json_t *schema, const char *least, const char *most, size_t size, const char *unit,
                          const struct sbx_schema_place *at) {
        const json_t *minimum = json_object_get(schema, least), *maximum = json_object_get(schema, most);

        if (json_is_integer(minimum) && (json_int_t)size < json_integer_value(minimum))
                return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: has %zu %s, at least %lld are needed",
                                     at->path, size, unit, (long long)json_integer_value(minimum));
        if (json_is_integer(maximum) && (json_int_t)size > json_integer_value(maximum))
                return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: has %zu %s, at most %lld are allowed",
                                     at->path, size, unit, (long long)json_integer_value(maximum));
        return 0;
}

int sbx_schema_check_value(const json_t *schema, const json_t *value, const struct sbx_schema_place *at) {
        int r = check_type(schema, value, at);

        if (r == 0)
                r = check_enum(schema, value, at);
        if (r == 0)
                r = check_const(schema, value, at);
        if (r < 0)
                return r;
        if (json_is_number(value))
                return check_number(schema, value, at);
        if (json_is_string(value) &&
            (json_object_get(schema, "minLength") != NULL || json_object_get(schema, "maxLength") != NULL))
                return sbx_schema_check_size(schema, "minLength", "maxLength", count_characters(value), "characters",
                                             at);
        return 0;
}
