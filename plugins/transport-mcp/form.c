/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of a form: strings with lengths, formats and choices, numbers with bounds, booleans, and several choices. */
#include "form.h"

#include <snipara-sandbox/types.h>

/* ---- strings ------------------------------------------------------------------------------------------- */

/* Characters, as JSON Schema counts them; jansson has made sure that it is UTF-8. */
static json_int_t count_characters(const json_t *string) {
        const char *bytes = json_string_value(string);
        json_int_t count = 0;

        for (size_t i = 0; i < json_string_length(string); i++)
                count += ((unsigned char)bytes[i] & 0xC0) != 0x80;
        return count;
}

static bool is_digits(const char *text, size_t count) {
        for (size_t i = 0; i < count; i++)
                if (text[i] < '0' || text[i] > '9')
                        return false;
        return true;
}

/* "2026-07-28": as far as the form goes; which days a month has is not looked at. */
static bool is_date(const char *text, size_t size) {
        return size >= 10 && is_digits(text, 4) && text[4] == '-' && is_digits(text + 5, 2) && text[7] == '-' &&
               is_digits(text + 8, 2);
}

/* RFC 3339: date, "T", time, and "Z" or an offset. */
static bool is_date_time(const char *text, size_t size) {
        const char *end = text + size, *at = text + 19;

        if (size < 20 || !is_date(text, size) || (text[10] != 'T' && text[10] != 't') || !is_digits(text + 11, 2) ||
            text[13] != ':' || !is_digits(text + 14, 2) || text[16] != ':' || !is_digits(text + 17, 2))
                return false;
        if (*at == '.')
                for (at++; at < end && is_digits(at, 1); at++)
                        ;
        if (end - at == 1)
                return *at == 'Z' || *at == 'z';
        return end - at == 6 && (*at == '+' || *at == '-') && is_digits(at + 1, 2) && at[3] == ':' &&
               is_digits(at + 4, 2);
}

static bool is_email(const char *text, size_t size) {
        const char *at = memchr(text, '@', size);

        return at != NULL && at > text && at + 1 < text + size && memchr(text, ' ', size) == NULL;
}

static bool is_uri(const char *text, size_t size) {
        const char *colon = memchr(text, ':', size);

        return colon != NULL && colon > text && memchr(text, ' ', size) == NULL &&
               ((text[0] | 0x20) >= 'a' && (text[0] | 0x20) <= 'z');
}

static bool fits_format(const char *format, const json_t *value) {
        const char *text = json_string_value(value);
        size_t size = json_string_length(value);

        if (format == NULL)
                return true;
        if (strcmp(format, "date") == 0)
                return size == 10 && is_date(text, size);
        if (strcmp(format, "date-time") == 0)
                return is_date_time(text, size);
        if (strcmp(format, "email") == 0)
                return is_email(text, size);
        return strcmp(format, "uri") != 0 || is_uri(text, size);
}

/* One of the words of "enum", or of the "const" members of "oneOf" and "anyOf", where there are any. */
static bool is_choice(const json_t *schema, const json_t *value) {
        const json_t *words = json_object_get(schema, "enum"), *titled = json_object_get(schema, "oneOf"), *choice;
        size_t index;

        if (titled == NULL)
                titled = json_object_get(schema, "anyOf");
        if (words == NULL && titled == NULL)
                return true;
        json_array_foreach (words, index, choice) {
                if (json_equal(choice, value))
                        return true;
        }
        json_array_foreach (titled, index, choice) {
                if (json_equal(json_object_get(choice, "const"), value))
                        return true;
        }
        return false;
}

static bool within(const json_t *schema, const char *least, const char *most, json_int_t count) {
        const json_t *minimum = json_object_get(schema, least), *maximum = json_object_get(schema, most);

        return (!json_is_integer(minimum) || count >= json_integer_value(minimum)) &&
               (!json_is_integer(maximum) || count <= json_integer_value(maximum));
}

static bool fits_string(const json_t *schema, const json_t *value) {
        return json_is_string(value) && within(schema, "minLength", "maxLength", count_characters(value)) &&
               fits_format(json_string_value(json_object_get(schema, "format")), value) && is_choice(schema, value);
}

/* ---- the others ---------------------------------------------------------------------------------------- */

static bool fits_number(const json_t *schema, const json_t *value) {
        const json_t *minimum = json_object_get(schema, "minimum"), *maximum = json_object_get(schema, "maximum");

        return json_is_number(value) &&
               (!json_is_number(minimum) || json_number_value(value) >= json_number_value(minimum)) &&
               (!json_is_number(maximum) || json_number_value(value) <= json_number_value(maximum));
}

/* JSON Schema takes 3.0 for an integer. */
static bool fits_integer(const json_t *schema, const json_t *value) {
        double real = json_real_value(value);
        bool whole = json_is_integer(value) || (json_is_real(value) && real >= -9007199254740992.0 &&
                                                real <= 9007199254740992.0 && real == (double)(int64_t)real);

        return whole && fits_number(schema, value);
}

static bool fits_boolean(const json_t *schema, const json_t *value) {
        return json_is_boolean(value);
}

static bool fits_array(const json_t *schema, const json_t *value) {
        const json_t *items = json_object_get(schema, "items"), *item;
        size_t index;

        if (!json_is_array(value) || !within(schema, "minItems", "maxItems", (json_int_t)json_array_size(value)))
                return false;
        json_array_foreach (value, index, item) {
                if (!json_is_string(item) || !is_choice(items, item))
                        return false;
        }
        return true;
}

/* ---- the form ------------------------------------------------------------------------------------------ */

static const struct {
        const char *type;
        bool (*fits)(const json_t *schema, const json_t *value);
} types[] = {
        {"string", fits_string},   {"number", fits_number}, {"integer", fits_integer},
        {"boolean", fits_boolean}, {"array", fits_array},
};

static bool fits_field(const json_t *schema, const json_t *value) {
        const char *type = json_string_value(json_object_get(schema, "type"));

        for (size_t i = 0; type != NULL && i < sizeof(types) / sizeof(types[0]); i++)
                if (strcmp(type, types[i].type) == 0)
                        return types[i].fits(schema, value);
        return true;
}

bool mcp_form_fits(const json_t *schema, const json_t *content) {
        json_t *fields = json_object_get(schema, "properties"), *field;
        const json_t *required = json_object_get(schema, "required"), *name;
        const char *key;
        size_t index;

        if (content != NULL && !json_is_object(content))
                return false;
        json_array_foreach (required, index, name) {
                if (json_is_string(name) && json_object_get(content, json_string_value(name)) == NULL)
                        return false;
        }
        json_object_foreach (fields, key, field) {
                const json_t *value = json_object_get(content, key);

                if (value != NULL && !fits_field(field, value))
                        return false;
        }
        return true;
}
