/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and reads the file of a large blob. */
#include "object.h"

#include <fcntl.h>
#include <sodium.h>

#include "files.h"
#include "object_private.h"
#include "parallel.h"

#define WINDOW PARALLEL_THREADS /* chunks that are in memory at one time */

void object_name(const uint8_t id[SEALING_HASH_SIZE], char ret_hex[OBJECT_HEX]) {
        sodium_bin2hex(ret_hex, OBJECT_HEX, id, SEALING_HASH_SIZE);
}

bool object_is_name(const char *file) {
        return strlen(file) == OBJECT_HEX - 1 && strspn(file, "0123456789abcdef") == OBJECT_HEX - 1;
}

void object_parse_name(const char *hex, struct object_id *ret_id) {
        size_t size = 0;

        sodium_hex2bin(ret_id->bytes, sizeof(ret_id->bytes), hex, OBJECT_HEX - 1, NULL, &size, NULL);
}

struct sbx_bytes object_context(const uint8_t id[SEALING_HASH_SIZE], uint64_t chunk,
                                uint8_t ret_context[OBJECT_CONTEXT]) {
        memcpy(ret_context, id, SEALING_HASH_SIZE);
        store_number(ret_context + SEALING_HASH_SIZE, chunk, 8);
        return (struct sbx_bytes){ret_context, OBJECT_CONTEXT};
}

/* Whether the table says what the id stands for. */
static int check_table(const struct dir_store *store, const struct object *object) {
        _cleanup_free_ uint8_t *hashes = reallocarray(NULL, object->chunk_count, SEALING_HASH_SIZE);
        uint8_t id[SEALING_HASH_SIZE];

        if (hashes == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < object->chunk_count; i++)
                memcpy(hashes + i * SEALING_HASH_SIZE, object->table + i * OBJECT_ENTRY, SEALING_HASH_SIZE);
        sealing_blob_id(&store->sealing, object->size, hashes, object->chunk_count, id);
        return memcmp(id, object->id, sizeof(id)) == 0 ? 0 : -EBADMSG;
}

static int read_table(const struct dir_store *store, struct object *object) {
        uint8_t head[OBJECT_HEAD];
        uint64_t table_offset;
        size_t size;
        ssize_t got = read_at(object->fd, head, sizeof(head), 0);

        if (got < 0)
                return (int)got;
        if (got != OBJECT_HEAD || memcmp(head, OBJECT_MAGIC, 8) != 0)
                return -EBADMSG;
        object->chunk_count = (size_t)load_number(head + 8, 4);
        object->size = load_number(head + 16, 8);
        table_offset = load_number(head + 24, 8);
        size = object->chunk_count * OBJECT_ENTRY;
        if (object->chunk_count != sealing_chunk_count(object->size) || size > object->file_size ||
            table_offset != object->file_size - size)
                return -EBADMSG;
        object->table = malloc(size);
        if (object->table == NULL)
                return -ENOMEM;
        got = read_at(object->fd, object->table, size, table_offset);
        if (got < 0)
                return (int)got;
        return (size_t)got == size ? check_table(store, object) : -EBADMSG;
}

int object_open(const struct dir_store *store, int directory_fd, const char *hex, struct object *ret_object) {
        _cleanup_object_ struct object object = OBJECT_NONE;
        struct stat st;
        size_t size = 0;
        int r;

        if (sodium_hex2bin(object.id, sizeof(object.id), hex, OBJECT_HEX - 1, NULL, &size, NULL) < 0)
                return -EBADMSG;
        r = file_open(directory_fd, hex, O_RDONLY, &object.fd, &st);
        if (r < 0)
                return r;
        object.file_size = (uint64_t)st.st_size;
        r = read_table(store, &object);
        if (r < 0)
                return r;
        *ret_object = object;
        object = OBJECT_NONE;
        return 0;
}

void object_close(struct object *object) {
        close_fd(&object->fd);
        free(object->table);
        object->table = NULL;
}

/* ---- reading ---- */

/* Some chunks next to each other, each read by whichever thread has time. */
struct window {
        const struct dir_store *store;
        const struct object *object;
        size_t first;
        uint8_t *raw;
};

static size_t chunk_size(const struct object *object, size_t chunk) {
        uint64_t left = object->size - (uint64_t)chunk * SEALING_CHUNK_MAX;

        return left < SEALING_CHUNK_MAX ? (size_t)left : SEALING_CHUNK_MAX;
}

static int read_chunk(void *data, size_t index) {
        const struct window *window = data;
        const struct object *object = window->object;
        size_t chunk = window->first + index, raw_size = chunk_size(object, chunk), size;
        const uint8_t *entry = object->table + chunk * OBJECT_ENTRY;
        uint64_t offset = load_number(entry + 32, 8);
        uint8_t *raw = window->raw + index * SEALING_CHUNK_MAX, hash[SEALING_HASH_SIZE], context[OBJECT_CONTEXT];
        _cleanup_free_ uint8_t *sealed = NULL;
        ssize_t got;
        int r;

        size = (size_t)load_number(entry + 40, 4);
        if (size > SEALING_CHUNK_MAX + SEALING_OVERHEAD || offset > object->file_size ||
            size > object->file_size - offset)
                return -EBADMSG;
        sealed = malloc(size + 1);
        if (sealed == NULL)
                return -ENOMEM;
        got = read_at(object->fd, sealed, size, offset);
        if (got < 0)
                return (int)got;
        if ((size_t)got != size)
                return -EBADMSG;
        r = sealing_unseal(&window->store->sealing, object_context(object->id, chunk, context),
                           (struct sbx_bytes){sealed, size}, raw_size, raw);
        if (r < 0)
                return r;
        sealing_chunk_hash(&window->store->sealing, (struct sbx_bytes){raw, raw_size}, hash);
        return memcmp(hash, entry, sizeof(hash)) == 0 ? 0 : -EBADMSG;
}

int object_read(const struct dir_store *store, const struct object *object, const struct sbx_call *call,
                int (*take)(void *data, struct sbx_bytes bytes), void *data, struct sbx_error *err) {
        size_t wide = object->chunk_count < WINDOW ? object->chunk_count : WINDOW;
        _cleanup_free_ uint8_t *raw = malloc(wide * SEALING_CHUNK_MAX);
        struct window window = {store, object, 0, raw};
        int r = raw == NULL ? no_memory(err) : 0;

        while (r == 0 && window.first < object->chunk_count) {
                size_t count = object->chunk_count - window.first;

                count = count < wide ? count : wide;
                r = call_check(call, err);
                if (r == 0)
                        r = parallel_run(count, parallel_threads(object->size), read_chunk, &window);
                for (size_t i = 0; r == 0 && i < count; i++)
                        r = take(data,
                                 (struct sbx_bytes){raw + i * SEALING_CHUNK_MAX, chunk_size(object, window.first + i)});
                window.first += count;
        }
        return r;
}
