/* SPDX-License-Identifier: Apache-2.0 */
/* JSON out: compact encoding straight into a buffer, without jansson's allocations for each container. */
#include "base/json.h"

#include <inttypes.h>

#include "base/number.h"

#define DEPTH_MAX (2 * SBX_JSON_DEPTH_MAX)

/* sbx_buffer_append() for the pieces of a document, most of which are a few bytes and fit. */
static inline int put(struct sbx_buffer *out, const void *data, size_t size) {
        if (size >= out->capacity - out->size)
                return sbx_buffer_append(out, data, size);
        memcpy(out->data + out->size, data, size);
        out->size += size;
        out->data[out->size] = '\0';
        return 0;
}

static int put_escaped(struct sbx_buffer *out, unsigned char c) {
        static const char hex[] = "0123456789abcdef";
        char escape[6] = {'\\', (char)c, '0', '0', hex[c >> 4], hex[c & 15]};

        if (c == '\n')
                escape[1] = 'n';
        else if (c == '\t')
                escape[1] = 't';
        else if (c == '\r')
                escape[1] = 'r';
        else if (c < 0x20)
                escape[1] = 'u';
        return put(out, escape, escape[1] == 'u' ? 6 : 2);
}

static int encode_string(const char *text, size_t size, struct sbx_buffer *out) {
        size_t plain = 0;
        int r = put(out, "\"", 1);

        for (size_t i = 0; r == 0 && i < size; i++) {
                unsigned char c = (unsigned char)text[i];

                if (__builtin_expect(c >= 0x20 && c != '"' && c != '\\', 1))
                        continue;
                r = put(out, text + plain, i - plain);
                if (r == 0)
                        r = put_escaped(out, c);
                plain = i + 1;
        }
        if (r == 0)
                r = put(out, text + plain, size - plain);
        return r == 0 ? put(out, "\"", 1) : r;
}

static int encode_integer(json_int_t value, struct sbx_buffer *out) {
        char digits[24];
        size_t start = sizeof(digits);
        uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;

        do {
                digits[--start] = (char)('0' + left % 10);
                left /= 10;
        } while (left > 0);
        if (value < 0)
                digits[--start] = '-';
        return put(out, digits + start, sizeof(digits) - start);
}

/* The fewest of 15 to 17 digits that read back as the same double, with a '.' whatever the locale, and a mark that it
 * is a real. jansson holds only finite reals. */
static int encode_real(double value, struct sbx_buffer *out) {
        char digits[40];
        double again = 0;

        for (int precision = 15; precision <= 17; precision++) {
                snprintf(digits, sizeof(digits), "%.*g", precision, value);
                for (char *p = digits; *p != '\0'; p++)
                        if (strchr("0123456789+-eE", *p) == NULL)
                                *p = '.';
                if (sbx_number_float(digits, &again) == 0 && memcmp(&again, &value, sizeof(value)) == 0)
                        break;
        }
        if (strpbrk(digits, ".e") == NULL)
                memcpy(digits + strlen(digits), ".0", sizeof(".0"));
        return put(out, digits, strlen(digits));
}

static int encode_value(const json_t *value, unsigned depth, struct sbx_buffer *out);

static int encode_array(const json_t *array, unsigned depth, struct sbx_buffer *out) {
        size_t count = json_array_size(array);
        int r = put(out, "[", 1);

        for (size_t i = 0; r == 0 && i < count; i++) {
                if (i > 0)
                        r = put(out, ",", 1);
                if (r == 0)
                        r = encode_value(json_array_get(array, i), depth + 1, out);
        }
        return r == 0 ? put(out, "]", 1) : r;
}

static int encode_object(const json_t *object, unsigned depth, struct sbx_buffer *out) {
        int r = put(out, "{", 1);
        void *iterator = json_object_iter((json_t *)object);

        for (bool first = true; r == 0 && iterator != NULL; first = false) {
                const char *key = json_object_iter_key(iterator);

                if (!first)
                        r = put(out, ",", 1);
                if (r == 0)
                        r = encode_string(key, strlen(key), out);
                if (r == 0)
                        r = put(out, ":", 1);
                if (r == 0)
                        r = encode_value(json_object_iter_value(iterator), depth + 1, out);
                iterator = json_object_iter_next((json_t *)object, iterator);
        }
        return r == 0 ? put(out, "}", 1) : r;
}

static int encode_value(const json_t *value, unsigned depth, struct sbx_buffer *out) {
        if (value == NULL || depth > DEPTH_MAX)
                return -EINVAL;
        switch (json_typeof(value)) {
        case JSON_OBJECT:
                return encode_object(value, depth, out);
        case JSON_ARRAY:
                return encode_array(value, depth, out);
        case JSON_STRING:
                return encode_string(json_string_value(value), json_string_length(value), out);
        case JSON_INTEGER:
                return encode_integer(json_integer_value(value), out);
        case JSON_REAL:
                return encode_real(json_real_value(value), out);
        case JSON_TRUE:
                return put(out, "true", 4);
        case JSON_FALSE:
                return put(out, "false", 5);
        case JSON_NULL:
                return put(out, "null", 4);
        }
        return -EINVAL;
}

int sbx_json_encode(const json_t *value, struct sbx_buffer *out) {
        size_t before = out->size;
        int r = encode_value(value, 0, out);

        if (r < 0 && out->data != NULL) {
                out->size = before;
                out->data[before] = '\0';
        }
        return r;
}
