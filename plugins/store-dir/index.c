/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of an index in memory: sorted by name. */
#include "index.h"

void index_clear(struct index *index) {
        for (size_t i = 0; i < index->count; i++)
                free(index->entries[i].leaf);
        free(index->entries);
        bytes_clear(&index->file);
        *index = (struct index){0};
}

/* Where `leaf` is, or would be. */
static size_t position(const struct index *index, const char *leaf, bool *ret_found) {
        size_t low = 0, high = index->count;

        *ret_found = false;
        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int order = strcmp(index->entries[middle].leaf, leaf);

                if (order == 0) {
                        *ret_found = true;
                        return middle;
                }
                if (order < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

struct index_entry *index_find(const struct index *index, const char *leaf) {
        bool found;
        size_t at = position(index, leaf, &found);

        return found ? &index->entries[at] : NULL;
}

int index_put(struct index *index, const struct index_entry *entry) {
        struct index_entry copy = *entry;
        bool found;
        size_t at = position(index, entry->leaf, &found);

        if (found) {
                copy.leaf = index->entries[at].leaf;
                index->entries[at] = copy;
                return 0;
        }
        if (index->count == index->capacity) {
                size_t capacity = index->capacity == 0 ? 16 : 2 * index->capacity;
                struct index_entry *grown = reallocarray(index->entries, capacity, sizeof(*grown));

                if (grown == NULL)
                        return -ENOMEM;
                index->entries = grown;
                index->capacity = capacity;
        }
        copy.leaf = strdup(entry->leaf);
        if (copy.leaf == NULL)
                return -ENOMEM;
        memmove(&index->entries[at + 1], &index->entries[at], (index->count - at) * sizeof(copy));
        index->entries[at] = copy;
        index->count++;
        return 0;
}

bool index_remove(struct index *index, const char *leaf) {
        bool found;
        size_t at = position(index, leaf, &found);

        if (!found)
                return false;
        free(index->entries[at].leaf);
        index->count--;
        memmove(&index->entries[at], &index->entries[at + 1], (index->count - at) * sizeof(*index->entries));
        return true;
}

bool index_has_object(const struct index *index, const uint8_t id[SEALING_HASH_SIZE]) {
        for (size_t i = 0; i < index->count; i++)
                if (index->entries[i].is_object && memcmp(index->entries[i].id, id, SEALING_HASH_SIZE) == 0)
                        return true;
        return false;
}

/* A small blob is one chunk; it is bound to what the chunk of a large one would be. */
static struct sbx_bytes entry_context(const uint8_t id[SEALING_HASH_SIZE], uint8_t ret_context[SEALING_HASH_SIZE + 8]) {
        memcpy(ret_context, id, SEALING_HASH_SIZE);
        store_number(ret_context + SEALING_HASH_SIZE, 0, 8);
        return (struct sbx_bytes){ret_context, SEALING_HASH_SIZE + 8};
}

int entry_unseal(const struct sealing *sealing, const struct index_entry *entry, uint8_t *ret_raw) {
        uint8_t context[SEALING_HASH_SIZE + 8], hash[SEALING_HASH_SIZE], id[SEALING_HASH_SIZE];
        struct sbx_bytes raw = {ret_raw, (size_t)entry->size};
        int r;

        if (entry->blob == NULL)
                return -EBADMSG;
        r = sealing_unseal(sealing, entry_context(entry->id, context),
                           (struct sbx_bytes){entry->blob, (size_t)entry->sealed_size}, raw.size, ret_raw);
        if (r < 0)
                return r;
        sealing_chunk_hash(sealing, raw, hash);
        sealing_blob_id(sealing, raw.size, hash, 1, id);
        return memcmp(id, entry->id, sizeof(id)) == 0 ? 0 : -EBADMSG;
}

int entry_seal(const struct sealing *sealing, int level, const uint8_t id[SEALING_HASH_SIZE], struct sbx_bytes blob,
               uint8_t *ret_sealed, size_t *ret_size) {
        uint8_t context[SEALING_HASH_SIZE + 8];

        return sealing_seal(sealing, level, entry_context(id, context), blob, ret_sealed, ret_size);
}
