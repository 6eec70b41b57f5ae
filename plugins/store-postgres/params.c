/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of statements and columns of answers: PostgreSQL's binary formats, all big endian. Numbers of types are
 * those of src/include/catalog/pg_type.dat, which never change. */
#include "params.h"

#include <endian.h>

enum {
        TYPE_BOOL = 16,
        TYPE_BYTEA = 17,
        TYPE_INT8 = 20,
        TYPE_INT4 = 23,
        TYPE_TEXT = 25,
        TYPE_BYTEA_ARRAY = 1001,
        TYPE_TEXT_ARRAY = 1009,
        TYPE_INT8_ARRAY = 1016,
};
#define ARRAY_HEADER_BYTES 20u /* dimensions, has nulls, type of elements, length, lower bound */
#define ARRAY_BYTES_MAX ((size_t)512 << 20)

static void add(struct params *params, Oid type, const void *value, size_t size) {
        int at = params->count++;

        params->types[at] = type;
        params->values[at] = value;
        params->lengths[at] = (int)size;
        params->formats[at] = 1;
}

void params_text(struct params *params, const char *text) {
        add(params, TYPE_TEXT, text, text != NULL ? strlen(text) : 0);
}

void params_int8(struct params *params, uint64_t number) {
        params->numbers[params->count] = htobe64(number);
        add(params, TYPE_INT8, &params->numbers[params->count], 8);
}

void params_int4(struct params *params, uint32_t number) {
        uint32_t big = htobe32(number);

        memcpy(&params->numbers[params->count], &big, sizeof(big));
        add(params, TYPE_INT4, &params->numbers[params->count], sizeof(big));
}

void params_bool(struct params *params, bool value) {
        static const char texts[2] = {0, 1};

        add(params, TYPE_BOOL, &texts[value], 1);
}

void params_bytes(struct params *params, struct sbx_bytes bytes) {
        add(params, TYPE_BYTEA, bytes.data, bytes.size);
}

/* ---- arrays ---- */

void array_free(struct array *array) {
        free(array->data);
        *array = (struct array){0};
}

static void append(struct array *array, const void *data, size_t size) {
        size_t capacity = array->capacity > 0 ? array->capacity : 256;
        unsigned char *grown;

        if (array->failed || size > ARRAY_BYTES_MAX - array->size) {
                array->failed = true;
                return;
        }
        while (capacity - array->size < size)
                capacity *= 2;
        grown = capacity != array->capacity ? realloc(array->data, capacity) : array->data;
        if (grown == NULL) {
                array->failed = true;
                return;
        }
        array->data = grown;
        array->capacity = capacity;
        if (size > 0)
                memcpy(array->data + array->size, data, size);
        array->size += size;
}

void array_add(struct array *array, struct sbx_bytes element) {
        uint32_t length = element.data != NULL ? htobe32((uint32_t)element.size) : UINT32_MAX;

        if (array->size == 0)
                append(array, (const unsigned char[ARRAY_HEADER_BYTES]){0}, ARRAY_HEADER_BYTES);
        append(array, &length, sizeof(length));
        if (element.data != NULL)
                append(array, element.data, element.size);
        array->has_null = array->has_null || element.data == NULL;
        array->count++;
}

void array_add_text(struct array *array, const char *text) {
        array_add(array, (struct sbx_bytes){text, strlen(text)});
}

void array_add_int8(struct array *array, uint64_t number) {
        uint64_t big = htobe64(number);

        array_add(array, (struct sbx_bytes){&big, sizeof(big)});
}

int array_param(struct params *params, struct array *array) {
        static const Oid elements[] = {[ARRAY_TEXT] = TYPE_TEXT, [ARRAY_BYTES] = TYPE_BYTEA, [ARRAY_INT8] = TYPE_INT8};
        static const Oid arrays[] = {
                [ARRAY_TEXT] = TYPE_TEXT_ARRAY, [ARRAY_BYTES] = TYPE_BYTEA_ARRAY, [ARRAY_INT8] = TYPE_INT8_ARRAY};
        uint32_t header[5] = {htobe32(array->count > 0), htobe32(array->has_null), htobe32(elements[array->kind]),
                              htobe32(array->count), htobe32(1)};
        size_t size = array->count > 0 ? sizeof(header) : 3 * sizeof(header[0]);

        if (array->size == 0)
                append(array, header, size);
        if (array->failed)
                return array->size > ARRAY_BYTES_MAX / 2 ? -EFBIG : -ENOMEM;
        memcpy(array->data, header, size);
        add(params, arrays[array->kind], array->data, array->size);
        return 0;
}

/* ---- columns ---- */

static bool is_column(const PGresult *result, int row, int column, Oid type, int size) {
        return row < PQntuples(result) && column < PQnfields(result) && PQfformat(result, column) == 1 &&
               PQftype(result, column) == type && !PQgetisnull(result, row, column) &&
               (size < 0 || PQgetlength(result, row, column) == size);
}

int column_int8(const PGresult *result, int row, int column, uint64_t *ret) {
        uint64_t big;

        if (!is_column(result, row, column, TYPE_INT8, sizeof(big)))
                return -EBADMSG;
        memcpy(&big, PQgetvalue(result, row, column), sizeof(big));
        *ret = be64toh(big);
        return 0;
}

int column_int4(const PGresult *result, int row, int column, uint32_t *ret) {
        uint32_t big;

        if (!is_column(result, row, column, TYPE_INT4, sizeof(big)))
                return -EBADMSG;
        memcpy(&big, PQgetvalue(result, row, column), sizeof(big));
        *ret = be32toh(big);
        return 0;
}

bool column_true(const PGresult *result, int row, int column) {
        return is_column(result, row, column, TYPE_BOOL, 1) && *PQgetvalue(result, row, column) != 0;
}

struct sbx_bytes column_bytes(const PGresult *result, int row, int column) {
        if (row >= PQntuples(result) || column >= PQnfields(result) || PQgetisnull(result, row, column))
                return (struct sbx_bytes){0};
        return (struct sbx_bytes){PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column)};
}
