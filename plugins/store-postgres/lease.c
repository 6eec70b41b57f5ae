/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: a row for each, judged by the server's clock alone. Tokens come from one sequence for all leases, drawn while
 * the lease's row is locked: of each lease they grow, and a row that nobody needs may go. */
#include <sodium.h>

#include "store.h"

#define TTL_MS_MAX 3600000u
#define CLAIM_BYTES 16u
#define TRIES 4

struct errand {
        const char *lease, *holder;
        uint64_t token;
        uint32_t ttl_ms;
        uint8_t claim[CLAIM_BYTES]; /* of one call: a try whose answer was lost finds its own lease again */
        struct sbx_store_lease found;
};

static int check_lease(const char *lease, uint32_t ttl_ms, struct sbx_error *err) {
        int r = check_name(lease, err);

        if (r == 0 && (ttl_ms == 0 || ttl_ms > TTL_MS_MAX))
                r = sbx_error_set(err, -EINVAL, POSTGRES_ORIGIN, "Use 1 to 3600000.", "a lease can't last %u ms",
                                  ttl_ms);
        return r;
}

static void fill_lease(struct sbx_store_lease *lease, uint64_t token, uint64_t remaining_ms, struct sbx_bytes holder) {
        size_t length = holder.size < sizeof(lease->holder) ? holder.size : sizeof(lease->holder) - 1;

        *lease = (struct sbx_store_lease){.struct_size = sizeof(*lease), .token = token};
        lease->remaining_ms = remaining_ms < UINT32_MAX ? (uint32_t)remaining_ms : UINT32_MAX;
        if (length > 0)
                memcpy(lease->holder, holder.data, length);
}

/* The caller's struct may be that of an older ABI: no member behind its end is written. */
static void hand_out(const struct sbx_store_lease *lease, struct sbx_store_lease *ret) {
        if (ret->struct_size >= offsetof(struct sbx_store_lease, token) + sizeof(ret->token)) {
                ret->remaining_ms = lease->remaining_ms;
                ret->token = lease->token;
        }
        if (ret->struct_size >= offsetof(struct sbx_store_lease, holder) + sizeof(ret->holder))
                memcpy(ret->holder, lease->holder, sizeof(ret->holder));
}

/* Fills `errand->found`. -ENOENT: nobody has it. */
static int look(struct errand *errand, struct connection *connection, const struct sbx_call *call,
                struct sbx_error *err) {
        static const char sql[] =
                "SELECT token, holder, greatest(0, extract(epoch FROM ends - clock_timestamp()) * 1000)::bigint"
                " FROM leases WHERE name = $1 AND NOT released";
        _cleanup_result_ PGresult *result = NULL;
        struct params params = {0};
        uint64_t token = 0, remaining_ms = 0;
        int r;

        params_text(&params, errand->lease);
        r = connection_ask(connection, call, sql, &params, &result, err);
        if (r < 0)
                return r;
        if (PQntuples(result) == 0)
                return -ENOENT;
        if (column_int8(result, 0, 0, &token) < 0 || column_int8(result, 0, 2, &remaining_ms) < 0)
                return sbx_error_set(err, -EPROTO, POSTGRES_ORIGIN, NULL, "PostgreSQL answers what was not asked");
        fill_lease(&errand->found, token, remaining_ms, column_bytes(result, 0, 1));
        return 0;
}

/* 1: taken; 0: it is another's. */
static int try_take(struct errand *errand, struct connection *connection, const struct sbx_call *call,
                    struct sbx_error *err) {
        static const char sql[] =
                "INSERT INTO leases AS l (name, token, holder, ends, claim)"
                " VALUES ($1, nextval('tokens'), $2, clock_timestamp() + $3 * interval '1 ms', $5)"
                " ON CONFLICT (name) DO UPDATE SET token = nextval('tokens'), holder = excluded.holder,"
                " ends = clock_timestamp() + $3 * interval '1 ms', released = false, claim = excluded.claim"
                " WHERE l.released OR l.ends <= clock_timestamp() OR l.token = $4 OR l.claim = $5 RETURNING token";
        _cleanup_result_ PGresult *result = NULL;
        struct params params = {0};
        uint64_t token = 0;
        int r;

        params_text(&params, errand->lease);
        params_text(&params, errand->holder);
        params_int8(&params, errand->ttl_ms);
        params_int8(&params, errand->token);
        params_bytes(&params, (struct sbx_bytes){errand->claim, sizeof(errand->claim)});
        r = connection_ask(connection, call, sql, &params, &result, err);
        if (r < 0 || PQntuples(result) == 0)
                return r;
        if (column_int8(result, 0, 0, &token) < 0)
                return sbx_error_set(err, -EPROTO, POSTGRES_ORIGIN, NULL, "PostgreSQL answers what was not asked");
        fill_lease(&errand->found, token, errand->ttl_ms, (struct sbx_bytes){errand->holder, strlen(errand->holder)});
        return 1;
}

static int take_work(struct connection *connection, void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct errand *errand = data;

        for (unsigned i = 0; i < TRIES; i++) {
                int r = try_take(errand, connection, call, err);

                if (r != 0)
                        return r < 0 ? r : 0;
                r = look(errand, connection, call, err);
                if (r < 0 && r != -ENOENT)
                        return r;
                if (r == 0 && errand->found.remaining_ms > 0)
                        break; /* else it became free just now */
        }
        return sbx_error_set(err, -EBUSY, POSTGRES_ORIGIN, NULL, "the lease %s is held by %s for %u ms more",
                             errand->lease, errand->found.holder, errand->found.remaining_ms);
}

int store_lease_take(struct postgres_store *store, const char *lease, const char *holder, uint32_t ttl_ms,
                     uint64_t replace_token, const struct sbx_call *call, struct sbx_store_lease *ret_lease,
                     struct sbx_error *err) {
        struct errand errand = {.lease = lease, .holder = holder, .token = replace_token, .ttl_ms = ttl_ms};
        int r = check_lease(lease, ttl_ms, err);

        if (r == 0 && (*holder == '\0' || strnlen(holder, sizeof(ret_lease->holder)) == sizeof(ret_lease->holder)))
                r = sbx_error_set(err, -EINVAL, POSTGRES_ORIGIN, NULL, "a lease's holder has 1 to %zu bytes",
                                  sizeof(ret_lease->holder) - 1);
        if (r < 0)
                return r;
        randombytes_buf(errand.claim, sizeof(errand.claim));
        r = pool_work(store->pool, take_work, &errand, call, err);
        if (r == 0 || r == -EBUSY)
                hand_out(&errand.found, ret_lease);
        return r;
}

static int renew_work(struct connection *connection, void *data, const struct sbx_call *call, struct sbx_error *err) {
        static const char sql[] = "UPDATE leases SET ends = clock_timestamp() + $3 * interval '1 ms'"
                                  " WHERE name = $1 AND token = $2 AND NOT released RETURNING 1";
        const struct errand *errand = data;
        _cleanup_result_ PGresult *result = NULL;
        struct params params = {0};
        int r;

        params_text(&params, errand->lease);
        params_int8(&params, errand->token);
        params_int8(&params, errand->ttl_ms);
        r = connection_ask(connection, call, sql, &params, &result, err);
        if (r < 0 || PQntuples(result) > 0)
                return r;
        return sbx_error_set(err, -ESTALE, POSTGRES_ORIGIN, "Take the lease again.",
                             "the lease %s is no longer held with token %llu", errand->lease,
                             (unsigned long long)errand->token);
}

int store_lease_renew(struct postgres_store *store, const char *lease, uint64_t token, uint32_t ttl_ms,
                      const struct sbx_call *call, struct sbx_error *err) {
        struct errand errand = {.lease = lease, .token = token, .ttl_ms = ttl_ms};
        int r = check_lease(lease, ttl_ms, err);

        return r < 0 ? r : pool_work(store->pool, renew_work, &errand, call, err);
}

static int release_work(struct connection *connection, void *data, const struct sbx_call *call, struct sbx_error *err) {
        static const char sql[] =
                "UPDATE leases SET released = true, ends = clock_timestamp() WHERE name = $1 AND token = $2";
        const struct errand *errand = data;
        struct params params = {0};

        params_text(&params, errand->lease);
        params_int8(&params, errand->token);
        return connection_run(connection, call, sql, &params, err);
}

int store_lease_release(struct postgres_store *store, const char *lease, uint64_t token, const struct sbx_call *call,
                        struct sbx_error *err) {
        struct errand errand = {.lease = lease, .token = token};
        int r = check_name(lease, err);

        return r < 0 ? r : pool_work(store->pool, release_work, &errand, call, err);
}

static int look_work(struct connection *connection, void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct errand *errand = data;
        int r = look(errand, connection, call, err);

        return r == -ENOENT ? sbx_error_set(err, r, POSTGRES_ORIGIN, NULL, "nobody has the lease %s", errand->lease)
                            : r;
}

int store_lease_look(struct postgres_store *store, const char *lease, const struct sbx_call *call,
                     struct sbx_store_lease *ret_lease, struct sbx_error *err) {
        struct errand errand = {.lease = lease};
        int r = check_name(lease, err);

        if (r == 0)
                r = pool_work(store->pool, look_work, &errand, call, err);
        if (r == 0)
                hand_out(&errand.found, ret_lease);
        return r;
}
