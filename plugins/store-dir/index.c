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

struct index_entry *index_find(const struct index *index, const char *leaf) {
        size_t low = 0, high = index->settled;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int order = strcmp(index->entries[middle].leaf, leaf);

                if (order == 0)
                        return &index->entries[middle];
                if (order < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return NULL;
}

static int add_entry(struct index *index, const struct index_entry *entry) {
        struct index_entry copy = *entry;

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
        /* Those of a file come in their order. */
        if (index->settled == index->count &&
            (index->count == 0 || strcmp(index->entries[index->count - 1].leaf, copy.leaf) < 0))
                index->settled++;
        index->entries[index->count++] = copy;
        return 0;
}

int index_put(struct index *index, const struct index_entry *entry) {
        struct index_entry *found = index_find(index, entry->leaf);
        char *leaf;

        if (found == NULL)
                return add_entry(index, entry);
        leaf = found->leaf;
        *found = *entry;
        found->leaf = leaf;
        return 0;
}

bool index_remove(struct index *index, const char *leaf) {
        struct index_entry *found = index_find(index, leaf);

        if (found == NULL || found->removed)
                return false;
        found->removed = true;
        return true;
}

static int compare_entries(const void *one, const void *other) {
        return strcmp(((const struct index_entry *)one)->leaf, ((const struct index_entry *)other)->leaf);
}

void index_settle(struct index *index) {
        size_t kept = 0;

        for (size_t i = 0; i < index->count; i++) {
                if (index->entries[i].removed)
                        free(index->entries[i].leaf);
                else
                        index->entries[kept++] = index->entries[i];
        }
        index->count = kept;
        if (kept > 0)
                qsort(index->entries, kept, sizeof(*index->entries), compare_entries);
        index->settled = kept;
}

/* ---- large blobs ---- */

static int compare_ids(const void *one, const void *other) {
        return memcmp(one, other, SEALING_HASH_SIZE);
}

int index_objects(const struct index *index, struct index_objects *ret_objects) {
        struct index_objects objects = {.ids = reallocarray(NULL, index->count + 1, SEALING_HASH_SIZE)};

        if (objects.ids == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < index->count; i++)
                if (index->entries[i].is_object)
                        memcpy(objects.ids[objects.count++], index->entries[i].id, SEALING_HASH_SIZE);
        qsort(objects.ids, objects.count, SEALING_HASH_SIZE, compare_ids);
        *ret_objects = objects;
        return 0;
}

bool index_objects_has(const struct index_objects *objects, const uint8_t id[SEALING_HASH_SIZE]) {
        return objects->count > 0 && bsearch(id, objects->ids, objects->count, SEALING_HASH_SIZE, compare_ids) != NULL;
}

void index_objects_clear(struct index_objects *objects) {
        free(objects->ids);
        *objects = (struct index_objects){0};
}

/* ---- small blobs ---- */

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
