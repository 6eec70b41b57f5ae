/* SPDX-License-Identifier: Apache-2.0 */
/* Removes what no name stands for, and looks at all that is there, a page at a time: nobody else waits for it. */
#include <jansson.h>

#include "blob.h"
#include "quota.h"
#include "store.h"

#define PAGE_ROWS 100
#define DAMAGED_MAX 1000u /* names that are told */

struct errand {
        struct postgres_store *store;
        struct sbx_output *output;
        json_t *damaged;
        uint64_t blobs, bytes, removed, removed_bytes;
        char *location;
};

static void errand_clear(struct errand *errand) {
        json_decref(errand->damaged);
        free(errand->location);
}

static int unexpected(struct sbx_error *err) {
        return sbx_error_set(err, -EPROTO, POSTGRES_ORIGIN, NULL, "PostgreSQL answers what was not asked");
}

/* ---- removing ---- */

/* The rows are locked by the first statement; the second one sees every name that was committed before that. */
static int remove_page(struct errand *errand, struct connection *connection, const struct sbx_call *call,
                       uint64_t *ret_removed, struct sbx_error *err) {
        static const char lock[] =
                "SELECT array_agg(hash) FROM (SELECT hash FROM objects o WHERE NOT EXISTS"
                " (SELECT FROM names n WHERE n.hash = o.hash) LIMIT $1 FOR UPDATE SKIP LOCKED) AS dead";
        static const char cut[] = "WITH removed AS (DELETE FROM objects o WHERE hash = ANY ($1) AND NOT EXISTS"
                                  " (SELECT FROM names n WHERE n.hash = o.hash) RETURNING stored)"
                                  " SELECT count(*), coalesce(sum(stored), 0)::bigint FROM removed";
        _cleanup_result_ PGresult *dead = NULL, *removed = NULL;
        struct params limit = {0}, hashes = {0};
        uint64_t bytes = 0;
        int r = connection_run(connection, call, "BEGIN", NULL, err);

        *ret_removed = 0;
        params_int8(&limit, PAGE_ROWS);
        if (r == 0)
                r = connection_ask(connection, call, lock, &limit, &dead, err);
        if (r == 0 && column_bytes(dead, 0, 0).data != NULL) {
                params_bytes(&hashes, column_bytes(dead, 0, 0));
                hashes.types[0] = PQftype(dead, 0);
                r = connection_ask(connection, call, cut, &hashes, &removed, err);
                if (r == 0 && (column_int8(removed, 0, 0, ret_removed) < 0 || column_int8(removed, 0, 1, &bytes) < 0))
                        r = unexpected(err);
        }
        if (r == 0)
                r = connection_run(connection, call, "COMMIT", NULL, err);
        if (r == 0) {
                errand->removed += *ret_removed;
                errand->removed_bytes += bytes;
        }
        return r;
}

/* Tokens come from a sequence, so that a lease that nobody has needs no row to go on from. */
static int remove_all(struct errand *errand, struct connection *connection, const struct sbx_call *call,
                      struct sbx_error *err) {
        uint64_t removed = 0;
        int r = connection_run(connection, call,
                               "DELETE FROM leases WHERE released AND ends < clock_timestamp() - interval '1 day'",
                               NULL, err);

        do {
                if (r == 0)
                        r = remove_page(errand, connection, call, &removed, err);
        } while (r == 0 && removed > 0);
        return r;
}

/* ---- looking ---- */

static int check_objects(struct connection *connection, const struct sbx_call *call, struct sbx_error *err) {
        static const char sql[] = "SELECT hash, size FROM objects WHERE hash > $1 ORDER BY hash LIMIT $2";
        uint8_t after[SEALING_HASH_SIZE] = {0};
        int rows = PAGE_ROWS, r = 0;

        while (r == 0 && rows == PAGE_ROWS) {
                _cleanup_result_ PGresult *result = NULL;
                struct params params = {0};

                params_bytes(&params, (struct sbx_bytes){after, sizeof(after)});
                params_int8(&params, PAGE_ROWS);
                r = connection_ask(connection, call, sql, &params, &result, err);
                rows = r == 0 ? PQntuples(result) : 0;
                for (int i = 0; r == 0 && i < rows; i++) {
                        struct sbx_bytes id = column_bytes(result, i, 0);
                        uint64_t size = 0;

                        if (id.size != sizeof(after) || column_int8(result, i, 1, &size) < 0)
                                return unexpected(err);
                        memcpy(after, id.data, sizeof(after));
                        r = size > connection->options->blob_bytes_max
                                    ? -EBADMSG
                                    : object_read(connection, call, after, size, NULL, err);
                        if (r == 0 || r == -EBADMSG)
                                r = object_mark(connection, call, after, r < 0, err);
                }
        }
        return r;
}

/* One row of names with what its object says: name, size, sum, hash, data, and whether the object is whole. */
static bool name_is_whole(const struct connection *connection, const PGresult *result, int row, const char *name,
                          uint64_t size) {
        struct sbx_bytes sum = column_bytes(result, row, 2), id = column_bytes(result, row, 3);
        uint8_t content[INLINE_BYTES_MAX];

        if (id.data != NULL)
                return column_true(result, row, 5) && blob_sum_matches(&connection->sealing, name, true, id, sum);
        return size <= sizeof(content) &&
               blob_open_inline(connection, name, column_bytes(result, row, 4), sum, content, size) == 0;
}

static int check_name_row(struct errand *errand, struct connection *connection, const PGresult *result, int row,
                          char after[NAME_BYTES_MAX + 1], struct sbx_error *err) {
        struct sbx_bytes name = column_bytes(result, row, 0);
        uint64_t size = 0;

        if (name.size == 0 || name.size > NAME_BYTES_MAX || column_int8(result, row, 1, &size) < 0)
                return sbx_error_set(err, -EBADMSG, POSTGRES_ORIGIN, NULL, "the table of names holds what is none");
        memcpy(after, name.data, name.size);
        after[name.size] = '\0';
        errand->blobs++;
        errand->bytes += size;
        if (!name_is_whole(connection, result, row, after, size) && json_array_size(errand->damaged) < DAMAGED_MAX &&
            json_array_append_new(errand->damaged, json_string(after)) < 0)
                return postgres_nomem(err);
        return 0;
}

static int check_names(struct errand *errand, struct connection *connection, const struct sbx_call *call,
                       struct sbx_error *err) {
        static const char sql[] =
                "SELECT n.name, n.size, n.sum, n.hash, n.data, NOT o.damaged AND o.size = n.size"
                " FROM names n LEFT JOIN objects o ON o.hash = n.hash WHERE n.name > $1 ORDER BY n.name LIMIT $2";
        char after[NAME_BYTES_MAX + 1] = "";
        int rows = PAGE_ROWS, r = 0;

        while (r == 0 && rows == PAGE_ROWS) {
                _cleanup_result_ PGresult *result = NULL;
                struct params params = {0};

                params_text(&params, after);
                params_int8(&params, PAGE_ROWS);
                r = connection_ask(connection, call, sql, &params, &result, err);
                rows = r == 0 ? PQntuples(result) : 0;
                for (int i = 0; r == 0 && i < rows; i++)
                        r = check_name_row(errand, connection, result, i, after, err);
        }
        return r;
}

/* ---- the whole ---- */

static int tell(const struct errand *errand, uint64_t stored, struct sbx_error *err) {
        const struct sbx_host *host = errand->store->options.host;
        json_t *told = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:O, s:s}", "blobs", (json_int_t)errand->blobs,
                                 "bytes", (json_int_t)errand->bytes, "stored_bytes", (json_int_t)stored, "quota_bytes",
                                 (json_int_t)errand->store->options.quota_bytes, "removed", (json_int_t)errand->removed,
                                 "removed_bytes", (json_int_t)errand->removed_bytes, "damaged", errand->damaged,
                                 "location", errand->location);
        _cleanup_free_ char *text = told != NULL ? json_dumps(told, JSON_COMPACT) : NULL;
        int r;

        json_decref(told);
        if (text == NULL)
                return postgres_nomem(err);
        r = host->output_append(host->self, errand->output, text, strlen(text));
        return r < 0 ? sbx_error_set(err, r, POSTGRES_ORIGIN, NULL, "the caller takes no answer of that size") : 0;
}

static int work(struct connection *connection, void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct errand *errand = data;
        uint64_t stored = 0;
        int r;

        errand_clear(errand);
        errand->blobs = errand->bytes = errand->removed = errand->removed_bytes = 0;
        errand->damaged = json_array();
        if (errand->damaged == NULL || connection_location(connection, &errand->location) < 0) {
                errand->location = NULL;
                return postgres_nomem(err);
        }
        r = remove_all(errand, connection, call, err);
        if (r == 0)
                r = check_objects(connection, call, err);
        if (r == 0)
                r = check_names(errand, connection, call, err);
        if (r == 0)
                r = quota_measure(connection, call, &stored, err);
        return r < 0 ? r : tell(errand, stored, err);
}

int store_collect(struct postgres_store *store, const struct sbx_call *call, struct sbx_output *ret_json,
                  struct sbx_error *err) {
        struct errand errand = {.store = store, .output = ret_json};
        int r = pool_work(store->pool, work, &errand, call, err);

        errand_clear(&errand);
        return r;
}
