/* SPDX-License-Identifier: Apache-2.0 */
/* The first half of a commit: blobs become sealed bytes or files without a name. */
#include <fcntl.h>

#include "commit.h"
#include "files.h"
#include "parallel.h"

#define SMALL_RAW ((size_t)64 << 10)    /* what is larger always gets a file of its own */
#define SMALL_SEALED ((size_t)16 << 10) /* and so does what stays larger than this */
#define TINY ((size_t)1 << 10)          /* what goes into an index of any size */

/* The chunks of all blobs in a row, for threads to take from. */
struct chunks {
        struct prepared *prepared;
        struct chunk {
                uint32_t item, number;
        } * list;
        size_t count;
        uint64_t bytes;
        const struct sbx_call *call;
};

static void chunks_clear(struct chunks *chunks) {
        free(chunks->list);
}
#define _cleanup_chunks_ _cleanup_(chunks_clear)

void prepared_clear(struct prepared *prepared) {
        for (size_t i = 0; i < prepared->count; i++) {
                struct pending *item = &prepared->items[i];

                free(item->hashes);
                bytes_clear(&item->sealed);
                if (item->writer.store != NULL)
                        object_writer_close(&item->writer);
        }
        free(prepared->items);
        *prepared = (struct prepared){0};
}

static struct sbx_bytes chunk_of(const struct pending *item, size_t number) {
        size_t offset = number * SEALING_CHUNK_MAX, left = item->change->blob.size - offset;

        return (struct sbx_bytes){(const uint8_t *)item->change->blob.data + offset,
                                  left < SEALING_CHUNK_MAX ? left : SEALING_CHUNK_MAX};
}

/* Lists the chunks of those items that `wanted` says. */
static int list_chunks(struct prepared *prepared, bool (*wanted)(const struct pending *item),
                       const struct sbx_call *call, struct chunks *ret_chunks) {
        size_t count = 0;

        for (size_t i = 0; i < prepared->count; i++)
                count += wanted(&prepared->items[i]) ? prepared->items[i].chunk_count : 0;
        *ret_chunks = (struct chunks){.prepared = prepared, .call = call};
        ret_chunks->list = reallocarray(NULL, count + 1, sizeof(*ret_chunks->list));
        if (ret_chunks->list == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < prepared->count; i++) {
                const struct pending *item = &prepared->items[i];

                for (size_t j = 0; wanted(item) && j < item->chunk_count; j++) {
                        ret_chunks->list[ret_chunks->count++] = (struct chunk){(uint32_t)i, (uint32_t)j};
                        ret_chunks->bytes += chunk_of(item, j).size;
                }
        }
        return 0;
}

static int run_chunks(struct chunks *chunks, int (*work)(void *data, size_t index)) {
        return parallel_run(chunks->count, parallel_threads(chunks->bytes), work, chunks);
}

/* ---- hashing ---- */

static bool is_kept(const struct pending *item) {
        return !item->removes;
}

static int hash_chunk(void *data, size_t index) {
        struct chunks *chunks = data;
        struct chunk chunk = chunks->list[index];
        struct pending *item = &chunks->prepared->items[chunk.item];
        int r = call_check(chunks->call, NULL);

        if (r == 0)
                sealing_chunk_hash(&chunks->prepared->store->sealing, chunk_of(item, chunk.number),
                                   item->hashes + chunk.number * SEALING_HASH_SIZE);
        return r;
}

static int hash_all(struct prepared *prepared, const struct sbx_call *call) {
        _cleanup_chunks_ struct chunks chunks = {0};
        int r;

        for (size_t i = 0; i < prepared->count; i++) {
                struct pending *item = &prepared->items[i];

                if (item->removes)
                        continue;
                item->chunk_count = sealing_chunk_count(item->change->blob.size);
                item->hashes = reallocarray(NULL, item->chunk_count, SEALING_HASH_SIZE);
                if (item->hashes == NULL)
                        return -ENOMEM;
        }
        r = list_chunks(prepared, is_kept, call, &chunks);
        if (r == 0)
                r = run_chunks(&chunks, hash_chunk);
        for (size_t i = 0; r == 0 && i < prepared->count; i++) {
                struct pending *item = &prepared->items[i];

                if (!item->removes)
                        sealing_blob_id(&prepared->store->sealing, item->change->blob.size, item->hashes,
                                        item->chunk_count, item->id);
        }
        return r;
}

/* ---- small ones ---- */

static int seal_small(struct pending *item, const struct prepared *prepared) {
        const struct dir_store *store = prepared->store;
        size_t limit = prepared->large_only ? TINY : SMALL_SEALED;
        int r = bytes_reserve(&item->sealed, item->change->blob.size + SEALING_OVERHEAD, SMALL_RAW + SEALING_OVERHEAD);

        if (r < 0)
                return r;
        r = entry_seal(&store->sealing, store->level, item->id, item->change->blob, item->sealed.data,
                       &item->sealed.size);
        item->sealed_size = item->sealed.size;
        item->is_object = item->sealed.size > limit;
        return r;
}

static int choose(struct prepared *prepared) {
        for (size_t i = 0; i < prepared->count; i++) {
                struct pending *item = &prepared->items[i];
                int r = 0;

                if (item->removes)
                        continue;
                item->is_object = item->change->blob.size > SMALL_RAW;
                if (!item->is_object)
                        r = seal_small(item, prepared);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- large ones ---- */

/* Whether the store has it, as far as its table tells; a file that was cut short does not count. */
static bool is_there(const struct dir_store *store, const struct pending *item, uint64_t *ret_size) {
        _cleanup_object_ struct object object = OBJECT_NONE;
        char hex[OBJECT_HEX];

        object_name(item->id, hex);
        if (object_open(store, store->objects_fd, hex, &object) < 0)
                return false;
        *ret_size = object.file_size;
        return true;
}

/* Another change of the same commit has the same contents: they share the file. */
static bool is_repeated(const struct prepared *prepared, size_t index) {
        for (size_t i = 0; i < index; i++)
                if (prepared->items[i].is_object &&
                    memcmp(prepared->items[i].id, prepared->items[index].id, SEALING_HASH_SIZE) == 0)
                        return true;
        return false;
}

static bool is_new(const struct pending *item) {
        return item->is_object && !item->reused;
}

static int open_writers(struct prepared *prepared) {
        for (size_t i = 0; i < prepared->count; i++) {
                struct pending *item = &prepared->items[i];
                int r = 0;

                if (!item->is_object)
                        continue;
                item->reused = is_repeated(prepared, i) || is_there(prepared->store, item, &item->sealed_size);
                if (!item->reused)
                        r = object_writer_open(prepared->store, item->id, item->hashes, item->change->blob,
                                               &item->writer);
                if (r < 0) {
                        item->writer.store = NULL;
                        return r;
                }
        }
        return 0;
}

static int write_chunk(void *data, size_t index) {
        struct chunks *chunks = data;
        struct chunk chunk = chunks->list[index];
        int r = call_check(chunks->call, NULL);

        return r < 0 ? r : object_writer_add(&chunks->prepared->items[chunk.item].writer, chunk.number);
}

static int write_new(struct prepared *prepared, const struct sbx_call *call) {
        _cleanup_chunks_ struct chunks chunks = {0};
        int r = list_chunks(prepared, is_new, call, &chunks);

        if (r == 0)
                r = run_chunks(&chunks, write_chunk);
        for (size_t i = 0; r == 0 && i < prepared->count; i++) {
                struct pending *item = &prepared->items[i];

                if (!is_new(item))
                        continue;
                r = object_writer_end(&item->writer);
                item->sealed_size = item->writer.end;
        }
        return r;
}

static int explain(const struct dir_store *store, int r, const struct sbx_call *call, struct sbx_error *err) {
        if (r == 0)
                return 0;
        if (r == -ENOMEM)
                return no_memory(err);
        if (r == -ECANCELED || r == -ETIMEDOUT)
                return call_check(call, err) < 0 ? r : sbx_error_set(err, r, DIR_ORIGIN, NULL, "the call is over");
        return store_error(store, r, "write a blob in", "tmp", NULL, err);
}

int commit_prepare(struct prepared *prepared, const struct sbx_call *call, struct sbx_error *err) {
        int r = hash_all(prepared, call);

        if (r == 0)
                r = choose(prepared);
        if (r == 0)
                r = open_writers(prepared);
        if (r == 0)
                r = write_new(prepared, call);
        return explain(prepared->store, r, call, err);
}

int commit_write_again(struct pending *item, struct dir_store *store, const struct sbx_call *call,
                       struct sbx_error *err) {
        struct prepared one = {.store = store, .items = item, .count = 1};
        int r;

        item->reused = false;
        r = object_writer_open(store, item->id, item->hashes, item->change->blob, &item->writer);
        if (r < 0)
                item->writer.store = NULL;
        else
                r = write_new(&one, call);
        return explain(store, r, call, err);
}
