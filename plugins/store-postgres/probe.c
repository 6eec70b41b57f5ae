/* SPDX-License-Identifier: Apache-2.0 */
/* What `doctor` asks: connects, and writes, reads and removes a blob under a lease of its own. */
#include <inttypes.h>

#include "store.h"

#define PROBE_NAME "probe"

struct probe {
        const struct sbx_probe_events *events;
        const struct postgres_store *store;
};

static void report(const struct probe *probe, int status, const char *subject, const char *detail, const char *remedy) {
        probe->events->report(probe->events->data, status, subject, detail,
                              remedy != NULL && *remedy != '\0' ? remedy : NULL);
}

static int report_failure(const struct probe *probe, const char *subject, int r, const struct sbx_error *problem) {
        report(probe, SBX_PROBE_FAILED, subject, problem->message, problem->hint);
        return r;
}

static bool is_setting(struct connection *connection, const struct sbx_call *call, const char *name,
                       const char *value) {
        _cleanup_result_ PGresult *result = NULL;
        struct params params = {0};

        params_text(&params, name);
        params_text(&params, value);
        return connection_ask(connection, call, "SELECT current_setting($1) = $2", &params, &result, NULL) == 0 &&
               column_true(result, 0, 0);
}

/* A host that is a path, or empty, is a Unix socket; what goes there leaves no machine. */
static bool goes_over_network(const struct connection *connection) {
        const char *host = PQhost(connection->pg);

        return host != NULL && *host != '\0' && *host != '/' && *host != '@' && strcmp(host, "localhost") != 0 &&
               strncmp(host, "127.", 4) != 0 && strcmp(host, "::1") != 0;
}

static int report_connection(struct connection *connection, void *data, const struct sbx_call *call,
                             struct sbx_error *err) {
        const struct probe *probe = data;
        _cleanup_free_ char *location = NULL, *detail = NULL;
        bool bare = goes_over_network(connection) && PQsslInUse(connection->pg) == 0;

        if (connection_location(connection, &location) < 0 ||
            asprintf(&detail, "version %d, %s%s", PQserverVersion(connection->pg) / 10000, location,
                     bare ? ", not encrypted on its way" : "") < 0) {
                detail = NULL;
                return postgres_nomem(err);
        }
        report(probe, bare ? SBX_PROBE_WARNING : SBX_PROBE_OK, "PostgreSQL", detail,
               bare ? "Add sslmode=verify-full to `conninfo`." : NULL);
        if (is_setting(connection, call, "fsync", "off"))
                report(probe, SBX_PROBE_WARNING, "durability",
                       "the server has fsync = off: a crash may lose everything",
                       "Set fsync = on in the server's postgresql.conf.");
        report(probe, SBX_PROBE_OK, "encryption at rest",
               connection->sealing.encrypted ? "contents are encrypted with the key file"
                                             : "none: the server's administrators can read sessions",
               NULL);
        return 0;
}

static int try_lease(struct postgres_store *store, const char *name, const struct sbx_call *call,
                     struct sbx_error *err) {
        struct sbx_store_lease lease = {.struct_size = sizeof(lease)};
        struct sbx_store_change change = {.name = name, .blob = {"probe", 5}};
        int r = store_lease_take(store, name, "probe", 10000, 0, call, &lease, err);

        if (r < 0)
                return r;
        r = store_commit(store, &change, 1, name, lease.token, 0, call, err);
        if (r == 0)
                r = store_remove(store, name, call, err);
        store_lease_release(store, name, lease.token, call, NULL);
        return r;
}

int store_probe(struct postgres_store *store, const struct sbx_probe_events *events, const struct sbx_call *call) {
        struct probe probe = {.events = events, .store = store};
        struct sbx_error problem = {0};
        char name[64], detail[96];
        uint64_t began_ns;
        int r = pool_work(store->pool, report_connection, &probe, call, &problem);

        if (r < 0)
                return report_failure(&probe, "PostgreSQL", r, &problem);
        began_ns = monotonic_ns();
        snprintf(name, sizeof(name), PROBE_NAME "/%ld-%" PRIu64, (long)getpid(), began_ns);
        r = try_lease(store, name, call, &problem);
        if (r < 0)
                return report_failure(&probe, "store", r, &problem);
        snprintf(detail, sizeof(detail), "schema %s takes a lease, a blob, and gives both back (%.1f ms)",
                 store->options.schema, (double)(monotonic_ns() - began_ns) / (double)NS_PER_MS);
        report(&probe, SBX_PROBE_OK, "store", detail, NULL);
        return 0;
}
