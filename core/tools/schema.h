/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the checks of arguments against JSON Schema 2020-12.
 *
 * Evaluated: true and false; $ref to the document itself ("#", "#/pointer", "#anchor", and its own $id), $defs,
 * $anchor; type, enum, const; allOf, anyOf, oneOf, not, if/then/else, dependentRequired, dependentSchemas; properties,
 * required, additionalProperties, propertyNames, minProperties, maxProperties; items, prefixItems, contains,
 * minContains, maxContains, minItems, maxItems, uniqueItems; minimum, maximum, exclusiveMinimum, exclusiveMaximum,
 * multipleOf; minLength, maxLength; default, which is filled in where it applies without conditions.
 *
 * Kept and passed over: everything else. `pattern` and patternProperties are regular expressions of another language
 * than any library here speaks, and a client could make them take for ever; where there are patternProperties,
 * additionalProperties refuses nothing. A $ref to somewhere else is never fetched: what needs it is refused.
 *
 * A schema and a value together decide how long it takes, so steps are counted, and depth is bounded. */
#pragma once

#include <stdbool.h>

#include <jansson.h>
#include <snipara-sandbox/types.h>

#define SBX_SCHEMA_PATH_MAX 256 /* bytes; a longer path is shown cut */
#define SBX_SCHEMA_LIST_MAX 400

struct sbx_schema_run {
        const json_t *root;
        size_t steps_left;
        unsigned depth;
};

/* Where in the value. */
struct sbx_schema_place {
        struct sbx_schema_run *run;
        const char *path;
        struct sbx_error *err;
        bool trial; /* only whether it fits is of interest: the value stays as it is */
};

/* A value that does not fit: -EINVAL, -ERANGE. Everything else ends the whole check: -E2BIG, -ELOOP, -ENOMEM. */
static inline bool sbx_schema_misfit(int r) {
        return r == -EINVAL || r == -ERANGE;
}

/* ---- schema.c ---- */

/* One (sub)schema against a value. `*ret_replacement`, when it is set, takes the value's place: 5.0 where an integer is
 * wanted. It is not set in a trial. */
int sbx_schema_apply_one(const json_t *schema, json_t *value, const struct sbx_schema_place *at,
                         json_t **ret_replacement);
/* -E2BIG. */
int sbx_schema_spend(const struct sbx_schema_place *at, size_t steps);
bool sbx_schema_is_schema(const json_t *value); /* an object, true or false */
/* Tells what ended the check, where the schema that met it was not to tell anything. Returns `r`. */
int sbx_schema_give_up(const struct sbx_schema_place *at, int r);

/* ---- schema_values.c ---- */

int sbx_schema_check_value(const json_t *schema, const json_t *value, const struct sbx_schema_place *at);
/* Whether `type` lets the value pass; yes without one. */
bool sbx_schema_allows_type(const json_t *schema, const json_t *value);
bool sbx_schema_is_integral(const json_t *value); /* a real number like 5.0 */
/* 1, 0; -E2BIG. Numbers are equal when they are mathematically. */
int sbx_schema_equal(const json_t *left, const json_t *right, const struct sbx_schema_place *at);
/* `size` of something that has `unit`s, against the keywords `least` and `most`. */
int sbx_schema_check_size(const json_t *schema, const char *least, const char *most, size_t size, const char *unit,
                          const struct sbx_schema_place *at);
/* "a, b, c", of an object's keys or an array's strings. */
void sbx_schema_join(const json_t *names, char *text, size_t size);

/* ---- schema_containers.c ---- */

int sbx_schema_check_members(const json_t *schema, json_t *object, const struct sbx_schema_place *at);
int sbx_schema_check_items(const json_t *schema, json_t *array, const struct sbx_schema_place *at);

/* ---- schema_logic.c ---- */

int sbx_schema_check_logic(const json_t *schema, json_t *value, const struct sbx_schema_place *at,
                           json_t **ret_replacement);

/* ---- schema_refs.c ---- */

/* What the $ref of a schema means. -EINVAL: it is elsewhere, or nowhere. */
int sbx_schema_resolve(const char *ref, const struct sbx_schema_place *at, const json_t **ret_schema);
/* Each $ref to the document itself must lead to a schema. -EINVAL. */
int sbx_schema_check_refs(const json_t *schema, struct sbx_error *err);

/* ---- schema_defaults.c ---- */

/* Fills in what is missing and has a default. The value fits the schema. */
int sbx_schema_fill(const json_t *schema, json_t *value, const struct sbx_schema_place *at);
