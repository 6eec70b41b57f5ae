/* SPDX-License-Identifier: Apache-2.0 */
/* The store's tables. They have a version, which is that of this plugin's queries too; `steps` leads from each to the
 * next. README.md tells what the tables hold. */
#include "schema.h"

/* What makes version n of version n - 1, one statement for each line; NULL ends a step. */
static const char *const steps[SCHEMA_VERSION][16] = {
        {
                "CREATE TABLE store (one boolean PRIMARY KEY DEFAULT true CHECK (one), version integer NOT NULL,"
                " identity text NOT NULL, made timestamptz NOT NULL DEFAULT now())",
                "CREATE SEQUENCE tokens AS bigint",
                "CREATE TABLE objects (hash bytea PRIMARY KEY CHECK (octet_length(hash) = 32),"
                " size bigint NOT NULL CHECK (size >= 0), stored bigint NOT NULL CHECK (stored >= 0),"
                " damaged boolean NOT NULL DEFAULT false)",
                "CREATE TABLE chunks (hash bytea NOT NULL REFERENCES objects ON DELETE CASCADE,"
                " number integer NOT NULL CHECK (number >= 0), data bytea NOT NULL, PRIMARY KEY (hash, number))",
                "ALTER TABLE chunks ALTER COLUMN data SET STORAGE EXTERNAL",
                "CREATE TABLE names (name text COLLATE \"C\" PRIMARY KEY, size bigint NOT NULL CHECK (size >= 0),"
                " sum bytea NOT NULL CHECK (octet_length(sum) = 32), hash bytea REFERENCES objects, data bytea, CHECK ((hash IS NULL) <> (data IS NULL)))"
                " WITH (fillfactor = 70)",
                "ALTER TABLE names ALTER COLUMN data SET STORAGE EXTERNAL",
                "CREATE INDEX names_hash ON names (hash) WHERE hash IS NOT NULL",
                "CREATE TABLE leases (name text COLLATE \"C\" PRIMARY KEY, token bigint NOT NULL,"
                " holder text NOT NULL, ends timestamptz NOT NULL, released boolean NOT NULL DEFAULT false,"
                " claim bytea NOT NULL) WITH (fillfactor = 70)",
                NULL,
        },
};

static int ask_flag(struct connection *connection, const struct sbx_call *call, const char *sql, bool *ret,
                    struct sbx_error *err) {
        _cleanup_result_ PGresult *result = NULL;
        struct params params = {0};
        int r;

        params_text(&params, connection->options->schema);
        r = connection_ask(connection, call, sql, &params, &result, err);
        if (r == 0)
                *ret = column_true(result, 0, 0);
        return r;
}

static int refuse_version(const struct connection *connection, uint32_t version, struct sbx_error *err) {
        return sbx_error_set(err, -EPROTONOSUPPORT, POSTGRES_ORIGIN,
                             "Use the snipara-sandbox that wrote it, or a newer one, or set another `schema`.",
                             "the store in schema %s is of version %u, this program knows up to %u",
                             connection->options->schema, version, SCHEMA_VERSION);
}

/* 0 and `*ret_version`: the tables are of that version, and the keys are set where it is the current one. */
static int read_store(struct connection *connection, const struct sbx_call *call, uint32_t *ret_version,
                      struct sbx_error *err) {
        static const char sql[] = "SELECT version, identity FROM store";
        _cleanup_result_ PGresult *result = NULL;
        char place[128];
        int r = connection_ask(connection, call, sql, NULL, &result, err);

        if (r < 0)
                return r;
        if (column_int4(result, 0, 0, ret_version) < 0)
                return sbx_error_set(err, -EBADMSG, POSTGRES_ORIGIN, "Restore a backup, or set another `schema`.",
                                     "the store in schema %s is damaged: its version is gone",
                                     connection->options->schema);
        if (*ret_version > SCHEMA_VERSION)
                return refuse_version(connection, *ret_version, err);
        snprintf(place, sizeof(place), "table store of schema %s", connection->options->schema);
        return sealing_open(column_bytes(result, 0, 1), connection->options->key_file, place, POSTGRES_ORIGIN,
                            &connection->sealing, err);
}

static int write_store(struct connection *connection, const struct sbx_call *call, struct sbx_error *err) {
        char identity[SEALING_IDENTITY_MAX];
        struct params params = {0};
        int r = sealing_create(connection->options->key_file, POSTGRES_ORIGIN, identity, &connection->sealing, err);

        if (r < 0)
                return r;
        params_text(&params, identity);
        return connection_run(connection, call, "INSERT INTO store (version, identity) VALUES (0, $1)", &params, err);
}

static int take_steps(struct connection *connection, const struct sbx_call *call, uint32_t version,
                      struct sbx_error *err) {
        struct params params = {0};
        bool is_new = version == 0;
        int r = 0;

        for (; r == 0 && version < SCHEMA_VERSION; version++)
                for (size_t i = 0; r == 0 && steps[version][i] != NULL; i++)
                        r = connection_run(connection, call, steps[version][i], NULL, err);
        if (r == 0 && is_new)
                r = write_store(connection, call, err);
        params_int4(&params, SCHEMA_VERSION);
        return r < 0 ? r : connection_run(connection, call, "UPDATE store SET version = $1", &params, err);
}

#define HAS_SCHEMA "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)"
#define HAS_STORE "SELECT to_regclass(quote_ident($1) || '.store') IS NOT NULL"

/* One server at a time; the others find it done. */
static int make_tables(struct connection *connection, const struct sbx_call *call, struct sbx_error *err) {
        static const char lock[] = "SELECT pg_advisory_xact_lock(hashtextextended('snipara-sandbox ' || $1, 0))";
        bool has_schema = false, has_store = false;
        char create[128];
        uint32_t version = 0;
        int r = connection_run(connection, call, "BEGIN", NULL, err);

        if (r == 0)
                r = ask_flag(connection, call, lock, &has_schema, err);
        if (r == 0)
                r = ask_flag(connection, call, HAS_SCHEMA, &has_schema, err);
        snprintf(create, sizeof(create), "CREATE SCHEMA \"%s\"", connection->options->schema);
        if (r == 0 && !has_schema)
                r = connection_run(connection, call, create, NULL, err);
        if (r == 0)
                r = ask_flag(connection, call, HAS_STORE, &has_store, err);
        if (r == 0 && has_store)
                r = read_store(connection, call, &version, err);
        if (r == 0 && version < SCHEMA_VERSION)
                r = take_steps(connection, call, version, err);
        return r < 0 ? r : connection_run(connection, call, "COMMIT", NULL, err);
}

int schema_open(struct connection *connection, const struct sbx_call *call, struct sbx_error *err) {
        uint32_t version = 0;
        bool has_store = false;
        int r = ask_flag(connection, call, HAS_STORE, &has_store, err);

        if (r == 0 && has_store)
                r = read_store(connection, call, &version, err);
        return r < 0 || version == SCHEMA_VERSION ? r : make_tables(connection, call, err);
}
