/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes in the JSON of OTLP (opentelemetry-proto, common/v1/common.proto: KeyValue, AnyValue). */
#include "attributes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util.h"

#define ELLIPSIS "\xE2\x80\xA6"

void otlp_attributes_init(struct otlp_attributes *attributes) {
        *attributes = (struct otlp_attributes){.list = json_array()};
        attributes->failed = attributes->list == NULL;
}

void otlp_attributes_init_copy(struct otlp_attributes *attributes, const json_t *list) {
        if (list == NULL) {
                otlp_attributes_init(attributes);
                return;
        }
        *attributes = (struct otlp_attributes){.list = json_copy((json_t *)list)};
        attributes->failed = attributes->list == NULL;
}

void otlp_attributes_clear(struct otlp_attributes *attributes) {
        json_decref(attributes->list);
        *attributes = (struct otlp_attributes){.failed = true};
}

json_t *otlp_attributes_take(struct otlp_attributes *attributes) {
        json_t *list = attributes->failed ? NULL : steal_pointer(attributes->list);

        otlp_attributes_clear(attributes);
        return list;
}

/* Takes the reference of `value`. */
static void add(struct otlp_attributes *attributes, const char *key, const char *type, json_t *value) {
        json_t *pair = value != NULL && !attributes->failed ? json_object() : NULL;
        json_t *typed = pair != NULL ? json_object() : NULL;

        if (typed == NULL || json_object_set(typed, type, value) < 0 ||
            json_object_set_new(pair, "key", json_string(key)) < 0 || json_object_set(pair, "value", typed) < 0 ||
            json_array_append(attributes->list, pair) < 0)
                attributes->failed = true;
        json_decref(value);
        json_decref(typed);
        json_decref(pair);
}

json_t *otlp_cut_text(const char *text, size_t size, size_t max) {
        _cleanup_free_ char *cut = NULL;

        if (size <= max)
                return json_stringn(text, size);
        size = max > strlen(ELLIPSIS) ? max - strlen(ELLIPSIS) : 0;
        while (size > 0 && ((unsigned char)text[size] & 0xC0) == 0x80)
                size--;
        cut = malloc(size + strlen(ELLIPSIS));
        if (cut == NULL)
                return NULL;
        memcpy(cut, text, size);
        memcpy(cut + size, ELLIPSIS, strlen(ELLIPSIS));
        return json_stringn(cut, size + strlen(ELLIPSIS));
}

void otlp_add_text(struct otlp_attributes *attributes, const char *key, const char *text, size_t size, size_t max) {
        add(attributes, key, "stringValue", otlp_cut_text(text, size, max));
}

void otlp_add_name(struct otlp_attributes *attributes, const char *key, const char *text) {
        if (text != NULL && *text != '\0')
                otlp_add_text(attributes, key, text, strlen(text), OTLP_NAME_MAX);
}

/* 64-bit integers are decimal strings in the JSON of protobuf: a reader's numbers may be doubles. */
void otlp_add_int(struct otlp_attributes *attributes, const char *key, int64_t number) {
        char digits[24];

        snprintf(digits, sizeof(digits), "%" PRId64, number);
        add(attributes, key, "intValue", json_string(digits));
}

void otlp_add_double(struct otlp_attributes *attributes, const char *key, double number) {
        add(attributes, key, "doubleValue", json_real(number));
}

void otlp_add_bool(struct otlp_attributes *attributes, const char *key, bool value) {
        add(attributes, key, "boolValue", json_boolean(value));
}

void otlp_add_one_text(struct otlp_attributes *attributes, const char *key, const char *text) {
        _cleanup_json_ json_t *cut = otlp_cut_text(text, strlen(text), OTLP_NAME_MAX);

        add(attributes, key, "arrayValue", json_pack("{s:[{s:O}]}", "values", "stringValue", cut));
}

void otlp_copy_name(struct otlp_attributes *attributes, const char *key, const json_t *object, const char *member) {
        otlp_add_name(attributes, key, json_string_value(json_object_get(object, member)));
}

void otlp_copy_int(struct otlp_attributes *attributes, const char *key, const json_t *object, const char *member) {
        const json_t *value = json_object_get(object, member);

        if (json_is_integer(value))
                otlp_add_int(attributes, key, json_integer_value(value));
}

void otlp_copy_double(struct otlp_attributes *attributes, const char *key, const json_t *object, const char *member) {
        const json_t *value = json_object_get(object, member);

        if (json_is_number(value))
                otlp_add_double(attributes, key, json_number_value(value));
}

void otlp_copy_bool(struct otlp_attributes *attributes, const char *key, const json_t *object, const char *member) {
        const json_t *value = json_object_get(object, member);

        if (json_is_boolean(value))
                otlp_add_bool(attributes, key, json_is_true(value));
}
