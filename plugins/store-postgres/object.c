/* SPDX-License-Identifier: Apache-2.0 */
/* Objects: contents by their id, in chunks, each kept once however many names stand for it. A row of `objects` is
 * locked from when it was found to be there until a name refers to it; who removes what no name refers to passes over
 * rows that are locked. */
#include <endian.h>
#include <sodium.h>

#include "blob.h"

struct chunk_context {
        uint8_t id[SEALING_HASH_SIZE];
        uint32_t number; /* little endian */
};

static struct sbx_bytes id_bytes(const uint8_t id[SEALING_HASH_SIZE]) {
        return (struct sbx_bytes){id, SEALING_HASH_SIZE};
}

static struct sbx_bytes chunk_of(struct sbx_bytes content, size_t number) {
        size_t start = number * SEALING_CHUNK_MAX, left = content.size - start;

        return (struct sbx_bytes){(const uint8_t *)content.data + start,
                                  left < SEALING_CHUNK_MAX ? left : SEALING_CHUNK_MAX};
}

static struct chunk_context chunk_context(const uint8_t id[SEALING_HASH_SIZE], size_t number) {
        struct chunk_context context = {.number = htole32((uint32_t)number)};

        memcpy(context.id, id, sizeof(context.id));
        return context;
}

void object_id(const struct sealing *sealing, struct sbx_bytes content, uint8_t *chunk_hashes,
               uint8_t ret_id[SEALING_HASH_SIZE]) {
        size_t count = sealing_chunk_count(content.size);

        for (size_t i = 0; i < count; i++)
                sealing_chunk_hash(sealing, chunk_of(content, i), chunk_hashes + i * SEALING_HASH_SIZE);
        sealing_blob_id(sealing, content.size, chunk_hashes, count, ret_id);
}

/* ---- upload ---- */

/* 1: this transaction makes it, or mends it; 0: it is there, and stays while the transaction lasts. */
static int claim_object(struct connection *connection, const struct sbx_call *call, const uint8_t id[SEALING_HASH_SIZE],
                        uint64_t size, struct sbx_error *err) {
        static const char find[] = "SELECT 1 FROM objects WHERE hash = $1 AND NOT damaged FOR KEY SHARE";
        static const char make[] =
                "INSERT INTO objects (hash, size, stored) VALUES ($1, $2, 0) ON CONFLICT (hash)"
                " DO UPDATE SET damaged = false, size = excluded.size WHERE objects.damaged RETURNING 1";
        struct params find_params = {0}, make_params = {0};
        PGresult *result = NULL;
        int r, rows;

        params_bytes(&find_params, id_bytes(id));
        r = connection_ask(connection, call, find, &find_params, &result, err);
        rows = r == 0 ? PQntuples(result) : 0;
        PQclear(steal_pointer(result));
        if (r < 0 || rows > 0)
                return r;
        params_bytes(&make_params, id_bytes(id));
        params_int8(&make_params, size);
        r = connection_ask(connection, call, make, &make_params, &result, err);
        rows = r == 0 ? PQntuples(result) : 0;
        PQclear(result);
        return r < 0 ? r : rows;
}

static int upload_chunk(struct connection *connection, const struct sbx_call *call, const uint8_t id[SEALING_HASH_SIZE],
                        struct sbx_bytes content, size_t number, uint8_t *room, uint64_t *stored,
                        struct sbx_error *err) {
        static const char sql[] = "INSERT INTO chunks (hash, number, data) VALUES ($1, $2, $3)"
                                  " ON CONFLICT (hash, number) DO UPDATE SET data = excluded.data";
        struct chunk_context context = chunk_context(id, number);
        struct params params = {0};
        size_t size = 0;
        int r = sealing_seal(&connection->sealing, connection->options->compression,
                             (struct sbx_bytes){&context, sizeof(context)}, chunk_of(content, number), room, &size);

        if (r < 0)
                return postgres_nomem(err);
        *stored += size;
        params_bytes(&params, id_bytes(id));
        params_int4(&params, (uint32_t)number);
        params_bytes(&params, (struct sbx_bytes){room, size});
        return connection_run(connection, call, sql, &params, err);
}

int object_upload(struct connection *connection, const struct sbx_call *call, const uint8_t id[SEALING_HASH_SIZE],
                  struct sbx_bytes content, struct sbx_error *err) {
        _cleanup_free_ uint8_t *room = malloc(SEALING_CHUNK_MAX + SEALING_OVERHEAD);
        struct params params = {0};
        uint64_t stored = 0;
        int r = room != NULL ? claim_object(connection, call, id, content.size, err) : postgres_nomem(err);

        if (r <= 0)
                return r;
        r = 0;
        for (size_t i = 0; r == 0 && i < sealing_chunk_count(content.size); i++)
                r = upload_chunk(connection, call, id, content, i, room, &stored, err);
        if (r < 0)
                return r;
        params_bytes(&params, id_bytes(id));
        params_int8(&params, stored);
        return connection_run(connection, call, "UPDATE objects SET stored = $2 WHERE hash = $1", &params, err);
}

/* ---- reading ---- */

/* Into `content`, which has room for `size` bytes, and its hash. */
static int read_chunk(struct connection *connection, const struct sbx_call *call, const uint8_t id[SEALING_HASH_SIZE],
                      size_t number, uint8_t *content, size_t size, uint8_t ret_hash[SEALING_HASH_SIZE],
                      struct sbx_error *err) {
        struct chunk_context context = chunk_context(id, number);
        _cleanup_result_ PGresult *result = NULL;
        struct params params = {0};
        int r;

        params_bytes(&params, id_bytes(id));
        params_int4(&params, (uint32_t)number);
        r = connection_ask(connection, call, "SELECT data FROM chunks WHERE hash = $1 AND number = $2", &params,
                           &result, err);
        if (r < 0)
                return r;
        r = sealing_unseal(&connection->sealing, (struct sbx_bytes){&context, sizeof(context)},
                           column_bytes(result, 0, 0), size, content);
        if (r == 0)
                sealing_chunk_hash(&connection->sealing, (struct sbx_bytes){content, size}, ret_hash);
        return r;
}

int object_read(struct connection *connection, const struct sbx_call *call, const uint8_t id[SEALING_HASH_SIZE],
                uint64_t size, uint8_t *content, struct sbx_error *err) {
        size_t count = sealing_chunk_count(size);
        _cleanup_free_ uint8_t *hashes = malloc(count * SEALING_HASH_SIZE);
        _cleanup_free_ uint8_t *room = content == NULL ? malloc(SEALING_CHUNK_MAX) : NULL;
        uint8_t found[SEALING_HASH_SIZE];
        int r = 0;

        if (hashes == NULL || (content == NULL && room == NULL))
                return postgres_nomem(err);
        for (size_t i = 0; r == 0 && i < count; i++) {
                size_t start = i * SEALING_CHUNK_MAX;
                size_t part = size - start < SEALING_CHUNK_MAX ? size - start : SEALING_CHUNK_MAX;

                r = read_chunk(connection, call, id, i, content != NULL ? content + start : room, part,
                               hashes + i * SEALING_HASH_SIZE, err);
        }
        if (r < 0)
                return r;
        sealing_blob_id(&connection->sealing, size, hashes, count, found);
        return sodium_memcmp(found, id, sizeof(found)) == 0 ? 0 : -EBADMSG;
}

int object_mark(struct connection *connection, const struct sbx_call *call, const uint8_t id[SEALING_HASH_SIZE],
                bool damaged, struct sbx_error *err) {
        struct params params = {0};

        params_bytes(&params, id_bytes(id));
        params_bool(&params, damaged);
        return connection_run(connection, call, "UPDATE objects SET damaged = $2 WHERE hash = $1 AND damaged <> $2",
                              &params, err);
}
