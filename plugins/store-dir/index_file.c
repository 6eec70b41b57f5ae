/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes the file of an index. Whatever stands in it is looked at as if an enemy had written it. */
#include "index.h"
#include "names.h"

#define MAGIC "sbxindex"
#define HASHED 48u      /* bytes of the head before its hash */
#define ENTRY_FIXED 59u /* bytes of a table's entry beside the name */
#define KIND_HERE 0u
#define KIND_OBJECT 1u
#define CONTEXT_SIZE (NAME_MAX_BYTES + 32u)

/* A head, taken apart. */
struct head {
        uint32_t chunks;
        uint64_t raw_size, sealed_size, blobs_size, generation;
        uint8_t hash[SEALING_HASH_SIZE];
};

static void hash_table(const struct sealing *sealing, const char *directory, const uint8_t head[INDEX_HEAD],
                       struct sbx_bytes raw, uint8_t ret_hash[SEALING_HASH_SIZE]) {
        uint8_t bound[NAME_MAX_BYTES + HASHED];
        size_t size = strlen(directory);

        memcpy(bound, head, HASHED);
        memcpy(bound + HASHED, directory, size);
        sealing_hash(sealing, "index", (struct sbx_bytes){bound, HASHED + size}, raw, ret_hash);
}

static struct sbx_bytes table_context(const char *directory, size_t chunk, char ret_text[CONTEXT_SIZE]) {
        int size = snprintf(ret_text, CONTEXT_SIZE, "table %zu of %s", chunk, directory);

        return (struct sbx_bytes){ret_text, (size_t)size};
}

/* ---- reading ---- */

static int parse_head(const uint8_t *bytes, struct head *ret_head) {
        if (memcmp(bytes, MAGIC, 8) != 0)
                return -EBADMSG;
        if (load_number(bytes + 8, 4) != INDEX_VERSION)
                return load_number(bytes + 8, 4) > INDEX_VERSION ? -EPROTONOSUPPORT : -EBADMSG;
        *ret_head = (struct head){
                .chunks = (uint32_t)load_number(bytes + 12, 4),
                .raw_size = load_number(bytes + 16, 8),
                .sealed_size = load_number(bytes + 24, 8),
                .blobs_size = load_number(bytes + 32, 8),
                .generation = load_number(bytes + 40, 8),
        };
        memcpy(ret_head->hash, bytes + HASHED, SEALING_HASH_SIZE);
        if (ret_head->raw_size > INDEX_TABLE_MAX || ret_head->blobs_size > INDEX_BLOBS_MAX ||
            ret_head->sealed_size > ret_head->raw_size + (uint64_t)ret_head->chunks * (SEALING_OVERHEAD + 4) ||
            ret_head->chunks != sealing_chunk_count(ret_head->raw_size) || ret_head->generation == 0)
                return -EBADMSG;
        return 0;
}

static int unseal_table(const struct sealing *sealing, const char *directory, const struct head *head,
                        struct sbx_bytes sealed, uint8_t *ret_raw) {
        const uint8_t *at = sealed.data, *end = at + sealed.size;
        size_t left = (size_t)head->raw_size;

        for (size_t i = 0; i < head->chunks; i++) {
                size_t raw = left < SEALING_CHUNK_MAX ? left : SEALING_CHUNK_MAX, size;
                char context[CONTEXT_SIZE];
                int r;

                if (end - at < 4)
                        return -EBADMSG;
                size = (size_t)load_number(at, 4);
                at += 4;
                if (size > (size_t)(end - at))
                        return -EBADMSG;
                r = sealing_unseal(sealing, table_context(directory, i, context), (struct sbx_bytes){at, size}, raw,
                                   ret_raw);
                if (r < 0)
                        return r;
                at += size;
                ret_raw += raw;
                left -= raw;
        }
        return at == end && left == 0 ? 0 : -EBADMSG;
}

static bool valid_leaf(const char *directory, const char *leaf, size_t size) {
        char name[2 * NAME_MAX_BYTES + 2];

        if (memchr(leaf, '/', size) != NULL || memchr(leaf, '\0', size) != NULL)
                return false;
        snprintf(name, sizeof(name), "%s%s%.*s", directory, directory[0] != '\0' ? "/" : "", (int)size, leaf);
        return name_check(name, "blob", NULL) == 0;
}

/* One entry; `*at` goes on behind it. `blobs` may be fewer than the head says: the file was cut short. */
static int parse_entry(const char *directory, const uint8_t **at, const uint8_t *end, struct sbx_bytes blobs,
                       struct index *index) {
        struct index_entry entry = {0};
        char leaf[NAME_MAX_BYTES + 1];
        uint64_t offset;
        size_t size;

        if ((size_t)(end - *at) < ENTRY_FIXED)
                return -EBADMSG;
        size = (size_t)load_number(*at, 2);
        if (size > NAME_MAX_BYTES || (size_t)(end - *at) < ENTRY_FIXED + size || (*at)[2] > KIND_OBJECT ||
            !valid_leaf(directory, (const char *)*at + 3, size))
                return -EBADMSG;
        entry.is_object = (*at)[2] == KIND_OBJECT;
        memcpy(leaf, *at + 3, size);
        leaf[size] = '\0';
        *at += 3 + size;
        memcpy(entry.id, *at, SEALING_HASH_SIZE);
        entry.size = load_number(*at + 32, 8);
        entry.sealed_size = load_number(*at + 40, 8);
        offset = load_number(*at + 48, 8);
        *at += 56;
        entry.leaf = leaf;
        if (!entry.is_object && (entry.size > SEALING_CHUNK_MAX || entry.sealed_size > INDEX_BLOBS_MAX))
                return -EBADMSG;
        if (!entry.is_object && entry.sealed_size <= blobs.size && offset <= blobs.size - entry.sealed_size)
                entry.blob = (const uint8_t *)blobs.data + offset; /* else it stays NULL: it is lost */
        if (index->count > 0 && strcmp(index->entries[index->count - 1].leaf, leaf) >= 0)
                return -EBADMSG;
        return index_put(index, &entry);
}

/* The table that `head`, whose bytes are `bytes`, speaks of. */
static int parse_table(const struct sealing *sealing, const char *directory, const uint8_t *bytes,
                       const struct head *head, struct sbx_bytes sealed, struct sbx_bytes blobs, struct index *index) {
        _cleanup_free_ uint8_t *raw = malloc((size_t)head->raw_size + 1);
        uint8_t hash[SEALING_HASH_SIZE];
        const uint8_t *at = raw;
        int r = raw == NULL ? -ENOMEM : unseal_table(sealing, directory, head, sealed, raw);

        if (r < 0)
                return r;
        hash_table(sealing, directory, bytes, (struct sbx_bytes){raw, (size_t)head->raw_size}, hash);
        if (memcmp(hash, head->hash, sizeof(hash)) != 0)
                return -EBADMSG;
        while (r == 0 && at < raw + head->raw_size)
                r = parse_entry(directory, &at, raw + head->raw_size, blobs, index);
        index->generation = head->generation;
        return r;
}

/* From the head and table at the front, or from those at the end. */
static int parse_half(const struct sealing *sealing, const char *directory, const struct bytes *file, bool front,
                      struct index *index) {
        const uint8_t *bytes = front ? file->data : file->data + file->size - INDEX_HEAD;
        struct sbx_bytes sealed, blobs = {0};
        struct head head;
        int r = parse_head(bytes, &head);

        if (r < 0)
                return r;
        if (head.sealed_size > file->size - INDEX_HEAD)
                return -EBADMSG;
        sealed = (struct sbx_bytes){front ? bytes + INDEX_HEAD : bytes - head.sealed_size, (size_t)head.sealed_size};
        if (front) {
                blobs.data = bytes + INDEX_HEAD + head.sealed_size;
                blobs.size = file->size - INDEX_HEAD - (size_t)head.sealed_size;
                blobs.size = blobs.size < head.blobs_size ? blobs.size : (size_t)head.blobs_size;
        } else if (file->size == 2 * (INDEX_HEAD + head.sealed_size) + head.blobs_size) {
                blobs = (struct sbx_bytes){file->data + INDEX_HEAD + head.sealed_size, (size_t)head.blobs_size};
        }
        return parse_table(sealing, directory, bytes, &head, sealed, blobs, index);
}

int index_parse(const struct sealing *sealing, const char *directory, struct bytes *file, struct index *ret_index) {
        _cleanup_index_ struct index index = {0};
        int r = -EBADMSG, first = -EBADMSG;

        index.file = *file;
        *file = (struct bytes){0};
        for (int half = 0; half < 2 && (r == -EBADMSG || r == -EPROTONOSUPPORT); half++) {
                first = r;
                while (index.count > 0)
                        free(index.entries[--index.count].leaf);
                index.settled = 0;
                r = index.file.size < INDEX_HEAD ? -EBADMSG
                                                 : parse_half(sealing, directory, &index.file, half == 0, &index);
        }
        if (r < 0)
                return first == -EPROTONOSUPPORT && r == -EBADMSG ? first : r;
        *ret_index = index;
        index = (struct index){0};
        return 0;
}

/* ---- writing ---- */

static int build_table(const struct index *index, struct bytes *ret_raw, uint64_t *ret_blobs_size) {
        uint64_t offset = 0;

        for (size_t i = 0; i < index->count; i++) {
                const struct index_entry *entry = &index->entries[i];
                size_t size = strlen(entry->leaf);
                uint8_t bytes[ENTRY_FIXED + NAME_MAX_BYTES], *at = bytes + 3 + size;
                int r;

                store_number(bytes, size, 2);
                bytes[2] = entry->is_object ? KIND_OBJECT : KIND_HERE;
                memcpy(bytes + 3, entry->leaf, size);
                memcpy(at, entry->id, SEALING_HASH_SIZE);
                store_number(at + 32, entry->size, 8);
                store_number(at + 40, entry->sealed_size, 8);
                store_number(at + 48, entry->is_object ? 0 : offset, 8);
                r = bytes_append(ret_raw, bytes, ENTRY_FIXED + size, INDEX_TABLE_MAX);
                if (r < 0)
                        return r;
                /* A lost blob stays lost, and takes no room: its offset is beyond the end. */
                if (!entry->is_object && entry->blob == NULL)
                        store_number(ret_raw->data + ret_raw->size - 8, UINT64_MAX, 8);
                else if (!entry->is_object)
                        offset += entry->sealed_size;
        }
        *ret_blobs_size = offset;
        return 0;
}

static int append_table(const struct sealing *sealing, const char *directory, const struct bytes *raw,
                        struct bytes *file) {
        size_t chunks = sealing_chunk_count(raw->size);

        for (size_t i = 0; i < chunks; i++) {
                size_t offset = i * SEALING_CHUNK_MAX, size = raw->size - offset, sealed = 0;
                char context[CONTEXT_SIZE];
                int r;

                size = size < SEALING_CHUNK_MAX ? size : SEALING_CHUNK_MAX;
                r = bytes_reserve(file, 4 + size + SEALING_OVERHEAD, INDEX_FILE_MAX);
                if (r == 0)
                        r = sealing_seal(sealing, 0, table_context(directory, i, context),
                                         (struct sbx_bytes){raw->data + offset, size}, file->data + file->size + 4,
                                         &sealed);
                if (r < 0)
                        return r;
                store_number(file->data + file->size, sealed, 4);
                file->size += 4 + sealed;
        }
        return 0;
}

static int append_blobs(const struct index *index, struct bytes *file) {
        for (size_t i = 0; i < index->count; i++) {
                const struct index_entry *entry = &index->entries[i];
                int r = 0;

                if (!entry->is_object && entry->blob != NULL)
                        r = bytes_append(file, entry->blob, (size_t)entry->sealed_size, INDEX_FILE_MAX);
                if (r < 0)
                        return r;
        }
        return 0;
}

static void write_head(const struct sealing *sealing, const char *directory, const struct index *index,
                       const struct bytes *raw, uint64_t sealed_size, uint64_t blobs_size, uint8_t *ret_head) {
        memcpy(ret_head, MAGIC, 8);
        store_number(ret_head + 8, INDEX_VERSION, 4);
        store_number(ret_head + 12, sealing_chunk_count(raw->size), 4);
        store_number(ret_head + 16, raw->size, 8);
        store_number(ret_head + 24, sealed_size, 8);
        store_number(ret_head + 32, blobs_size, 8);
        store_number(ret_head + 40, index->generation, 8);
        hash_table(sealing, directory, ret_head, (struct sbx_bytes){raw->data, raw->size}, ret_head + HASHED);
}

int index_build(const struct sealing *sealing, const char *directory, const struct index *index,
                struct bytes *ret_file) {
        _cleanup_bytes_ struct bytes raw = {0}, file = {0};
        uint64_t blobs_size = 0, sealed_size;
        int r = build_table(index, &raw, &blobs_size);

        if (r == 0 && blobs_size > INDEX_BLOBS_MAX)
                r = -EFBIG;
        if (r == 0)
                r = bytes_reserve(&file, 2 * (INDEX_HEAD + raw.size) + (size_t)blobs_size + 1024, INDEX_FILE_MAX);
        if (r < 0)
                return r;
        file.size = INDEX_HEAD;
        r = append_table(sealing, directory, &raw, &file);
        sealed_size = file.size - INDEX_HEAD;
        if (r == 0)
                r = append_blobs(index, &file);
        if (r == 0)
                r = bytes_reserve(&file, (size_t)sealed_size + INDEX_HEAD, INDEX_FILE_MAX);
        if (r < 0)
                return r;
        write_head(sealing, directory, index, &raw, sealed_size, blobs_size, file.data);
        memcpy(file.data + file.size, file.data + INDEX_HEAD, (size_t)sealed_size);
        memcpy(file.data + file.size + sealed_size, file.data, INDEX_HEAD);
        file.size += (size_t)sealed_size + INDEX_HEAD;
        *ret_file = file;
        file = (struct bytes){0};
        return 0;
}
