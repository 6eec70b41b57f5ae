/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of a span or resource, in the JSON of OTLP: a list of {"key", "value": {"stringValue" | "intValue" |
 * ...}}. The first failure sticks, so that a row of calls needs one check. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#define OTLP_NAME_MAX 256 /* bytes of a text that is no content: names, ids, reasons */

struct otlp_attributes {
        json_t *list; /* NULL: out of memory */
        bool failed;
};
void otlp_attributes_init(struct otlp_attributes *attributes);
/* With the attributes of `list`, which is left as it is; NULL is an empty one. */
void otlp_attributes_init_copy(struct otlp_attributes *attributes, const json_t *list);
void otlp_attributes_clear(struct otlp_attributes *attributes);
/* The list, whose reference is now the caller's; NULL: something failed. */
json_t *otlp_attributes_take(struct otlp_attributes *attributes);

/* A text is cut to `max` bytes at a character boundary, and says so with an ellipsis. */
void otlp_add_text(struct otlp_attributes *attributes, const char *key, const char *text, size_t size, size_t max);
void otlp_add_name(struct otlp_attributes *attributes, const char *key, const char *text); /* NULL, "": nothing */
void otlp_add_int(struct otlp_attributes *attributes, const char *key, int64_t number);
void otlp_add_double(struct otlp_attributes *attributes, const char *key, double number);
void otlp_add_bool(struct otlp_attributes *attributes, const char *key, bool value);
void otlp_add_one_text(struct otlp_attributes *attributes, const char *key, const char *text); /* a list of one */

/* The same, from a member of `object`: of another type, or null, it adds nothing. */
void otlp_copy_name(struct otlp_attributes *attributes, const char *key, const json_t *object, const char *member);
void otlp_copy_int(struct otlp_attributes *attributes, const char *key, const json_t *object, const char *member);
void otlp_copy_double(struct otlp_attributes *attributes, const char *key, const json_t *object, const char *member);
void otlp_copy_bool(struct otlp_attributes *attributes, const char *key, const json_t *object, const char *member);

/* A string of at most `max` bytes of `text`, which is valid UTF-8. NULL: no memory. */
json_t *otlp_cut_text(const char *text, size_t size, size_t max);
