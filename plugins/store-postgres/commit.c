/* SPDX-License-Identifier: Apache-2.0 */
/* Changes, all or none. Small ones are one statement, which locks the lease's row, looks at its token, and writes; what
 * is large is uploaded first, in the same transaction, so that the lease's row is locked for that one statement alone.
 */
#include "blob.h"
#include "quota.h"
#include "store.h"

#define CHANGES_MAX 65536u

struct errand {
        struct postgres_store *store;
        const struct sbx_store_change **changes; /* by name: all commits lock rows in one order */
        size_t count;
        const char *lease;
        uint64_t token;
        bool soon;
};

/* What one statement writes. */
struct rows {
        struct array names, sums, hashes, sizes, pieces, removed;
};
static void rows_free(struct rows *rows) {
        array_free(&rows->names);
        array_free(&rows->sums);
        array_free(&rows->hashes);
        array_free(&rows->sizes);
        array_free(&rows->pieces);
        array_free(&rows->removed);
}
#define _cleanup_rows_ _cleanup_(rows_free)

/* ---- preparing ---- */

static int compare_changes(const void *a, const void *b) {
        return strcmp((*(const struct sbx_store_change *const *)a)->name,
                      (*(const struct sbx_store_change *const *)b)->name);
}

static size_t directory_size(const char *name) {
        const char *slash = strrchr(name, '/');

        return slash != NULL ? (size_t)(slash - name) : 0;
}

static int check_change(const struct postgres_store *store, const struct sbx_store_change *change,
                        const struct sbx_store_change *first, struct sbx_error *err) {
        size_t directory = directory_size(first->name);

        if (change->blob.size > store->options.blob_bytes_max)
                return sbx_error_set(err, -EFBIG, POSTGRES_ORIGIN, "Raise `max_blob`.",
                                     "%s is larger than the store takes: %zu bytes of %llu", change->name,
                                     change->blob.size, (unsigned long long)store->options.blob_bytes_max);
        if (directory_size(change->name) != directory || memcmp(change->name, first->name, directory) != 0)
                return sbx_error_set(err, -EINVAL, POSTGRES_ORIGIN, "Commit names of one directory.",
                                     "%s and %s do not share their directory", first->name, change->name);
        return 0;
}

/* The changes in order; `*ret_sorted` is the caller's, to free. */
static int sort_changes(const struct postgres_store *store, const struct sbx_store_change *changes, size_t count,
                        const struct sbx_store_change ***ret_sorted, struct sbx_error *err) {
        _cleanup_free_ const struct sbx_store_change **sorted = calloc(count + 1, sizeof(*sorted));

        if (sorted == NULL)
                return postgres_nomem(err);
        for (size_t i = 0; i < count; i++) {
                int r = check_name(changes[i].name, err);

                if (r == 0)
                        r = check_change(store, &changes[i], &changes[0], err);
                if (r < 0)
                        return r;
                sorted[i] = &changes[i];
        }
        qsort(sorted, count, sizeof(*sorted), compare_changes);
        for (size_t i = 1; i < count; i++)
                if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
                        return sbx_error_set(err, -EINVAL, POSTGRES_ORIGIN, "Name each blob once.",
                                             "%s is changed twice in one commit", sorted[i]->name);
        *ret_sorted = steal_pointer(sorted);
        return 0;
}

static bool is_large(const struct sbx_store_change *change) {
        return change->blob.data != NULL && change->blob.size > INLINE_BYTES_MAX;
}

/* ---- rows ---- */

static int add_inline(struct rows *rows, const struct connection *connection, const struct sbx_store_change *change,
                      struct sbx_error *err) {
        _cleanup_free_ uint8_t *piece = NULL;
        uint8_t sum[SEALING_HASH_SIZE];
        size_t size = 0;

        if (blob_seal_inline(connection, change->name, change->blob, &piece, &size) < 0)
                return postgres_nomem(err);
        blob_sum(&connection->sealing, change->name, false, change->blob, sum);
        array_add_text(&rows->names, change->name);
        array_add(&rows->sums, (struct sbx_bytes){sum, sizeof(sum)});
        array_add(&rows->hashes, (struct sbx_bytes){0});
        array_add_int8(&rows->sizes, change->blob.size);
        array_add(&rows->pieces, (struct sbx_bytes){piece, size});
        return 0;
}

static int add_object(struct rows *rows, struct connection *connection, const struct sbx_call *call,
                      const struct sbx_store_change *change, struct sbx_error *err) {
        _cleanup_free_ uint8_t *hashes = malloc(sealing_chunk_count(change->blob.size) * SEALING_HASH_SIZE);
        uint8_t id[SEALING_HASH_SIZE], sum[SEALING_HASH_SIZE];

        if (hashes == NULL)
                return postgres_nomem(err);
        object_id(&connection->sealing, change->blob, hashes, id);
        blob_sum(&connection->sealing, change->name, true, (struct sbx_bytes){id, sizeof(id)}, sum);
        array_add_text(&rows->names, change->name);
        array_add(&rows->sums, (struct sbx_bytes){sum, sizeof(sum)});
        array_add(&rows->hashes, (struct sbx_bytes){id, sizeof(id)});
        array_add_int8(&rows->sizes, change->blob.size);
        array_add(&rows->pieces, (struct sbx_bytes){0});
        return object_upload(connection, call, id, change->blob, err);
}

static int add_rows(struct rows *rows, const struct errand *errand, struct connection *connection,
                    const struct sbx_call *call, struct sbx_error *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < errand->count; i++) {
                const struct sbx_store_change *change = errand->changes[i];

                if (change->blob.data == NULL)
                        array_add_text(&rows->removed, change->name);
                else if (is_large(change))
                        r = add_object(rows, connection, call, change, err);
                else
                        r = add_inline(rows, connection, change, err);
        }
        return r;
}

/* ---- writing ---- */

static int stale(const struct errand *errand, struct sbx_error *err) {
        return sbx_error_set(err, -ESTALE, POSTGRES_ORIGIN, "Take the lease again, and look at what its holder wrote.",
                             "the lease %s is no longer held with token %llu", errand->lease,
                             (unsigned long long)errand->token);
}

/* Before something large is uploaded; that it is so in the end as well is seen to when the rows are written. */
static int look_at_lease(const struct errand *errand, struct connection *connection, const struct sbx_call *call,
                         struct sbx_error *err) {
        static const char sql[] = "SELECT 1 FROM leases WHERE name = $1 AND token = $2 AND NOT released";
        _cleanup_result_ PGresult *result = NULL;
        struct params params = {0};
        int r;

        if (errand->lease == NULL)
                return 0;
        params_text(&params, errand->lease);
        params_int8(&params, errand->token);
        r = connection_ask(connection, call, sql, &params, &result, err);
        return r < 0 || PQntuples(result) > 0 ? r : stale(errand, err);
}

/* `*ret_displaced`: a result whose second column is what names stood for before. */
static int write_rows(const struct errand *errand, struct rows *rows, struct connection *connection,
                      const struct sbx_call *call, PGresult **ret_displaced, struct sbx_error *err) {
        static const char sql[] =
                "WITH held AS MATERIALIZED (SELECT 1 FROM leases WHERE name = $1 AND token = $2 AND NOT released"
                " FOR UPDATE),"
                " may AS MATERIALIZED (SELECT $1 IS NULL OR EXISTS (SELECT FROM held) AS ok),"
                " old AS MATERIALIZED (SELECT hash FROM names WHERE name = ANY ($4 || $9) AND hash IS NOT NULL),"
                " written AS (INSERT INTO names (name, sum, hash, size, data)"
                " SELECT * FROM unnest($4, $5, $6, $7, $8) WHERE (SELECT ok FROM may) ON CONFLICT (name) DO UPDATE"
                " SET sum = excluded.sum, hash = excluded.hash, size = excluded.size, data = excluded.data),"
                " removed AS (DELETE FROM names WHERE name = ANY ($9) AND (SELECT ok FROM may))"
                " SELECT (SELECT ok FROM may), (SELECT array_agg(DISTINCT hash) FROM old),"
                " CASE WHEN $3 THEN set_config('synchronous_commit', 'off', true) END";
        _cleanup_result_ PGresult *result = NULL;
        struct params params = {0};
        struct array *arrays[] = {&rows->names, &rows->sums,   &rows->hashes,
                                  &rows->sizes, &rows->pieces, &rows->removed};
        int r = 0;

        params_text(&params, errand->lease);
        params_int8(&params, errand->token);
        params_bool(&params, errand->soon);
        for (size_t i = 0; r == 0 && i < sizeof(arrays) / sizeof(arrays[0]); i++)
                r = array_param(&params, arrays[i]);
        if (r < 0)
                return sbx_error_set(err, r, POSTGRES_ORIGIN, "Commit less at one time.",
                                     "can't hold the rows of a commit in memory");
        r = connection_ask(connection, call, sql, &params, &result, err);
        if (r < 0)
                return r;
        if (!column_true(result, 0, 0))
                return stale(errand, err);
        *ret_displaced = steal_pointer(result);
        return 0;
}

/* Removes what those names alone stood for. Not done here, it is what the next collection does. */
static void sweep_displaced(const struct errand *errand, struct connection *connection, const PGresult *displaced,
                            const struct sbx_call *call) {
        static const char sql[] = "WITH dead AS MATERIALIZED (SELECT hash FROM objects o WHERE hash = ANY ($1)"
                                  " AND NOT EXISTS (SELECT FROM names n WHERE n.hash = o.hash) FOR UPDATE SKIP LOCKED),"
                                  " removed AS (DELETE FROM objects USING dead WHERE objects.hash = dead.hash)"
                                  " SELECT CASE WHEN $2 THEN set_config('synchronous_commit', 'off', true) END";
        struct params params = {0};
        struct sbx_bytes hashes = column_bytes(displaced, 0, 1);

        if (hashes.data == NULL)
                return;
        params_bytes(&params, hashes);
        params.types[0] = PQftype(displaced, 1);
        params_bool(&params, errand->soon);
        connection_run(connection, call, sql, &params, NULL);
}

/* ---- the whole ---- */

static uint64_t bytes_of(const struct errand *errand) {
        uint64_t bytes = 0;

        for (size_t i = 0; i < errand->count; i++)
                bytes += errand->changes[i]->blob.data != NULL ? errand->changes[i]->blob.size : 0;
        return bytes;
}

static int commit_alone(const struct errand *errand, struct rows *rows, struct connection *connection,
                        const struct sbx_call *call, PGresult **ret_displaced, struct sbx_error *err) {
        int r = add_rows(rows, errand, connection, call, err);

        return r < 0 ? r : write_rows(errand, rows, connection, call, ret_displaced, err);
}

static int commit_together(const struct errand *errand, bool measure, struct rows *rows, struct connection *connection,
                           const struct sbx_call *call, PGresult **ret_displaced, struct sbx_error *err) {
        uint64_t before = 0;
        int r = connection_run(connection, call, "BEGIN", NULL, err);

        if (r == 0 && measure)
                r = quota_measure(connection, call, &before, err);
        if (r == 0)
                r = look_at_lease(errand, connection, call, err);
        if (r == 0)
                r = commit_alone(errand, rows, connection, call, ret_displaced, err);
        if (r == 0 && measure)
                r = quota_check(errand->store, connection, call, before, err);
        return r < 0 ? r : connection_run(connection, call, "COMMIT", NULL, err);
}

static int work(struct connection *connection, void *data, const struct sbx_call *call, struct sbx_error *err) {
        const struct errand *errand = data;
        _cleanup_rows_ struct rows rows = {
                .names = {.kind = ARRAY_TEXT},
                .sums = {.kind = ARRAY_BYTES},
                .hashes = {.kind = ARRAY_BYTES},
                .sizes = {.kind = ARRAY_INT8},
                .pieces = {.kind = ARRAY_BYTES},
                .removed = {.kind = ARRAY_TEXT},
        };
        _cleanup_result_ PGresult *displaced = NULL;
        bool measure = quota_is_near(errand->store, bytes_of(errand)), large = false;
        int r;

        for (size_t i = 0; i < errand->count; i++)
                large = large || is_large(errand->changes[i]);
        if (measure || large)
                r = commit_together(errand, measure, &rows, connection, call, &displaced, err);
        else
                r = commit_alone(errand, &rows, connection, call, &displaced, err);
        if (r == 0)
                sweep_displaced(errand, connection, displaced, call);
        return r;
}

int store_commit(struct postgres_store *store, const struct sbx_store_change *changes, size_t count, const char *lease,
                 uint64_t token, uint32_t flags, const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_free_ const struct sbx_store_change **sorted = NULL;
        struct errand errand = {.store = store, .count = count, .lease = lease, .token = token};
        int r = lease != NULL ? check_name(lease, err) : 0;

        if (r == 0 && (count > CHANGES_MAX || (flags & ~SBX_STORE_SOON) != 0))
                r = sbx_error_set(err, -EINVAL, POSTGRES_ORIGIN, NULL, "a commit of %zu changes with flags 0x%x", count,
                                  flags);
        if (r == 0)
                r = sort_changes(store, changes, count, &sorted, err);
        if (r < 0)
                return r;
        errand.changes = sorted;
        errand.soon = (flags & SBX_STORE_SOON) != 0;
        return pool_work(store->pool, work, &errand, call, err);
}

static int remove_work(struct connection *connection, void *data, const struct sbx_call *call, struct sbx_error *err) {
        static const char sql[] = "WITH removed AS (DELETE FROM names WHERE name = $1 RETURNING hash)"
                                  " SELECT true, array_remove(array_agg(hash), NULL) FROM removed HAVING count(*) > 0";
        struct errand errand = {0};
        _cleanup_result_ PGresult *result = NULL;
        struct params params = {0};
        int r;

        params_text(&params, data);
        r = connection_ask(connection, call, sql, &params, &result, err);
        if (r < 0)
                return r;
        if (PQntuples(result) == 0)
                return sbx_error_set(err, -ENOENT, POSTGRES_ORIGIN, NULL, "there is no blob %s", (const char *)data);
        sweep_displaced(&errand, connection, result, call);
        return 0;
}

int store_remove(struct postgres_store *store, const char *name, const struct sbx_call *call, struct sbx_error *err) {
        char copy[NAME_BYTES_MAX + 1];
        int r = check_name(name, err);

        if (r < 0)
                return r;
        snprintf(copy, sizeof(copy), "%s", name);
        return pool_work(store->pool, remove_work, copy, call, err);
}
