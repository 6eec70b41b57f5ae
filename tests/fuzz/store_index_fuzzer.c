/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer harness for the index of store-dir. Input that begins with 'f' is a file; any other is a table (its size in
 * the two bytes behind the first) and the blobs behind it, to which a head with the right hash is made: what an
 * attacker can do to a store without a key. Whatever is read has to be written again as the same. */
#include <stdlib.h>

#include "index.h"
#include "names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DIRECTORY "d"

static const struct sealing sealing; /* keys of zeros */

static void append(struct bytes *file, const void *data, size_t size) {
        if (bytes_append(file, data, size, INDEX_FILE_MAX) < 0)
                abort();
}

static void forge(const uint8_t *data, size_t size, struct bytes *file) {
        size_t table_size = size < 3 ? 0 : (size_t)load_number(data + 1, 2);
        const uint8_t *table = data + (size < 3 ? size : 3);
        uint8_t head[INDEX_HEAD] = "sbxindex", bound[48 + sizeof(DIRECTORY) - 1], sealed_head[5] = {0};
        size_t left = size < 3 ? 0 : size - 3;

        table_size = table_size < left ? table_size : left;
        store_number(head + 8, INDEX_VERSION, 4);
        store_number(head + 12, 1, 4);
        store_number(head + 16, table_size, 8);
        store_number(head + 24, 5 + table_size, 8);
        store_number(head + 32, left - table_size, 8);
        store_number(head + 40, 1, 8);
        memcpy(bound, head, 48);
        memcpy(bound + 48, DIRECTORY, sizeof(DIRECTORY) - 1);
        sealing_hash(&sealing, "index", (struct sbx_bytes){bound, sizeof(bound)}, (struct sbx_bytes){table, table_size},
                     head + 48);
        store_number(sealed_head, 1 + table_size, 4);
        append(file, head, sizeof(head));
        append(file, sealed_head, sizeof(sealed_head));
        append(file, table, table_size);
        append(file, table + table_size, left - table_size);
}

/* Reads every small blob, and writes the index again. */
static void use(const struct index *index) {
        _cleanup_index_ struct index again = {0};
        _cleanup_bytes_ struct bytes file = {0};

        for (size_t i = 0; i < index->count; i++) {
                const struct index_entry *entry = &index->entries[i];
                uint8_t *raw;

                if (index_find(index, entry->leaf) != entry)
                        abort();
                if (entry->is_object)
                        continue;
                raw = malloc((size_t)entry->size + 1);
                if (raw == NULL)
                        abort();
                (void)entry_unseal(&sealing, entry, raw);
                free(raw);
        }
        if (index_build(&sealing, DIRECTORY, index, &file) < 0)
                return; /* blobs that share their bytes may be too much when each has its own */
        if (index_parse(&sealing, DIRECTORY, &file, &again) < 0 || again.count != index->count)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_index_ struct index index = {0};
        _cleanup_bytes_ struct bytes file = {0};

        if (size == 0)
                return 0;
        if (data[0] == 'f')
                append(&file, data + 1, size - 1);
        else
                forge(data, size, &file);
        if (index_parse(&sealing, DIRECTORY, &file, &index) == 0)
                use(&index);
        return 0;
}
