/* SPDX-License-Identifier: Apache-2.0 */
/* Blobs and lists of them: their lifetimes, their names. */
#include "session/parts.h"

#include <stdlib.h>
#include <string.h>

struct sbx_blob *sbx_blob_new(const char *name, uint64_t bytes, const unsigned char digest[SBX_SHA256_SIZE]) {
        struct sbx_blob *blob = calloc(1, sizeof(*blob));

        if (blob == NULL)
                return NULL;
        blob->references = 1;
        blob->bytes = bytes;
        snprintf(blob->name, sizeof(blob->name), "%s", name);
        memcpy(blob->digest, digest, sizeof(blob->digest));
        return blob;
}

void sbx_blob_unref(struct sbx_blob *blob) {
        if (blob != NULL && --blob->references == 0)
                free(blob);
}

/* Digits up to `end`, which is behind them; NULL: none, too many, or something else. */
static const char *skip_number(const char *at, char end) {
        size_t digits = strspn(at, "0123456789");

        return digits > 0 && digits <= 20 && at[digits] == end ? at + digits : NULL;
}

bool sbx_blob_name_valid(const char *name) {
        const char *at = name[0] == 'c' ? skip_number(name + 1, '.') : NULL;

        at = at != NULL ? skip_number(at + 1, '.') : NULL;
        return at != NULL && skip_number(at + 1, '\0') != NULL && strlen(name) < SBX_BLOB_NAME_SIZE;
}

struct sbx_parts *sbx_parts_new(size_t count) {
        struct sbx_parts *parts = calloc(1, sizeof(*parts) + count * sizeof(parts->items[0]));

        if (parts == NULL)
                return NULL;
        parts->references = 1;
        parts->count = count;
        return parts;
}

struct sbx_parts *sbx_parts_ref(struct sbx_parts *parts) {
        parts->references++;
        return parts;
}

void sbx_parts_unref(struct sbx_parts *parts) {
        if (parts == NULL || --parts->references > 0)
                return;
        for (size_t i = 0; i < parts->count; i++)
                sbx_blob_unref(parts->items[i]);
        free(parts);
}

uint64_t sbx_parts_bytes(const struct sbx_parts *parts) {
        uint64_t bytes = 0;

        for (size_t i = 0; i < parts->count; i++)
                bytes += parts->items[i]->bytes;
        return bytes;
}
