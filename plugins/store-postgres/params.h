/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of statements and columns of answers, in PostgreSQL's binary formats. */
#pragma once

#include <libpq-fe.h>

#include "util.h"

#define PARAMS_MAX 10

/* Values are borrowed until the statement was sent; numbers are kept here, so that a struct is not copied once it has
 * some. */
struct params {
        int count;
        Oid types[PARAMS_MAX];
        const char *values[PARAMS_MAX];
        int lengths[PARAMS_MAX], formats[PARAMS_MAX];
        uint64_t numbers[PARAMS_MAX];
};

void params_text(struct params *params, const char *text); /* NULL: null */
void params_int8(struct params *params, uint64_t number);
void params_int4(struct params *params, uint32_t number);
void params_bool(struct params *params, bool value);
void params_bytes(struct params *params, struct sbx_bytes bytes); /* NULL data: null */

/* A one-dimensional array. What fails is remembered until array_param. */
enum array_kind { ARRAY_TEXT, ARRAY_BYTES, ARRAY_INT8 };
struct array {
        enum array_kind kind;
        unsigned char *data;
        size_t size, capacity;
        uint32_t count;
        bool has_null, failed;
};
#define _cleanup_array_ _cleanup_(array_free)
void array_free(struct array *array);
void array_add(struct array *array, struct sbx_bytes element); /* NULL data: null */
void array_add_text(struct array *array, const char *text);
void array_add_int8(struct array *array, uint64_t number);
/* -ENOMEM; -EFBIG: more than a statement takes. */
int array_param(struct params *params, struct array *array);

/* Columns of an answer. -EBADMSG: null, or not of that type. */
int column_int8(const PGresult *result, int row, int column, uint64_t *ret);
int column_int4(const PGresult *result, int row, int column, uint32_t *ret);
bool column_true(const PGresult *result, int row, int column);              /* false for null and other types, too */
struct sbx_bytes column_bytes(const PGresult *result, int row, int column); /* borrowed; data NULL: null */

static inline void postgres_cleanup_result(PGresult **result) {
        PQclear(*result);
}
#define _cleanup_result_ _cleanup_(postgres_cleanup_result)
