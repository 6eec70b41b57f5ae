/* SPDX-License-Identifier: Apache-2.0 */
/* The store's quota: what other machines write within MEASURED_NS_MAX is not known of, unless the quota is near. */
#include "quota.h"

#define MEASURED_NS_MAX (10000 * NS_PER_MS)

bool quota_is_near(struct postgres_store *store, uint64_t bytes) {
        uint64_t quota = store->options.quota_bytes;
        bool near;

        if (quota == 0 || bytes == 0)
                return false;
        pthread_mutex_lock(&store->lock);
        near = store->measured_ns == 0 || monotonic_ns() - store->measured_ns > MEASURED_NS_MAX || bytes > quota ||
               store->used_bytes + bytes > quota - quota / 8;
        if (!near)
                store->used_bytes += bytes;
        pthread_mutex_unlock(&store->lock);
        return near;
}

int quota_measure(struct connection *connection, const struct sbx_call *call, uint64_t *ret_bytes,
                  struct sbx_error *err) {
        static const char sql[] = "SELECT ((SELECT coalesce(sum(octet_length(data)), 0) FROM names)"
                                  " + (SELECT coalesce(sum(stored), 0) FROM objects o"
                                  " WHERE EXISTS (SELECT FROM names n WHERE n.hash = o.hash)))::bigint";
        _cleanup_result_ PGresult *result = NULL;
        int r = connection_ask(connection, call, sql, NULL, &result, err);

        if (r == 0 && column_int8(result, 0, 0, ret_bytes) < 0)
                r = sbx_error_set(err, -EPROTO, POSTGRES_ORIGIN, NULL, "PostgreSQL answers what was not asked");
        return r;
}

int quota_check(struct postgres_store *store, struct connection *connection, const struct sbx_call *call,
                uint64_t before, struct sbx_error *err) {
        uint64_t after = 0;
        int r = quota_measure(connection, call, &after, err);

        if (r < 0)
                return r;
        if (after > store->options.quota_bytes && after > before)
                return sbx_error_set(err, -ENOSPC, POSTGRES_ORIGIN,
                                     "Remove what is not needed (snipara-sandbox sessions delete), or raise `quota`.",
                                     "the store's quota is full: %llu of %llu bytes are in use, %llu more are wanted",
                                     (unsigned long long)before, (unsigned long long)store->options.quota_bytes,
                                     (unsigned long long)(after - before));
        pthread_mutex_lock(&store->lock);
        store->used_bytes = after;
        store->measured_ns = monotonic_ns();
        pthread_mutex_unlock(&store->lock);
        return 0;
}
