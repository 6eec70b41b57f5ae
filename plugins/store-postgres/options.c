/* SPDX-License-Identifier: Apache-2.0 */
/* The options of an instance: the table, and reading it. */
#include "options.h"

#include <libpq-fe.h>
#include <sealing.h>

#define OPTION(kind, option_name, value, ...)                                                                          \
        {                                                                                                              \
                .struct_size = sizeof(struct sbx_option), .type = SBX_OPTION_##kind, .name = (option_name),            \
                .default_value = (value), __VA_ARGS__                                                                  \
        }

const struct sbx_option postgres_option_table[] = {
        OPTION(STRING, "conninfo", NULL, .flags = SBX_OPTION_SECRET,
               .help = "Where the server is, as libpq takes it: \"host=db.example dbname=sandbox\" or "
                       "\"postgresql://...\"; what it leaves out is taken from the PG* environment variables."),
        OPTION(STRING, "service", NULL, .help = "An entry of pg_service.conf, instead of conninfo or beside it."),
        OPTION(STRING, "password_env", "SNIPARA_SANDBOX_STORE_PASSWORD",
               .help = "Environment variable (or one of the project's .env) that has the password."),
        OPTION(STRING, "schema", "snipara_sandbox",
               .help = "The schema that holds the store's tables; it is made if it is not there."),
        OPTION(PATH, "key_file", NULL,
               .help = "A file with a key of 32 bytes (raw, or 64 hex digits): contents are encrypted with it before "
                       "they leave this machine."),
        OPTION(DURATION, "connect_timeout", "5s", .minimum = 100, .maximum = 600000,
               .help = "How long to try for a connection, also while the server restarts."),
        OPTION(DURATION, "timeout", "30s", .minimum = 100, .maximum = 3600000,
               .help = "How long one statement may take, on the server and here."),
        OPTION(INT, "connections", "4", .unit = "connections", .minimum = 1, .maximum = 64,
               .help = "Most connections at one time; calls beyond it wait."),
        OPTION(SIZE, "max_blob", "1g", .minimum = 65536, .maximum = INT64_C(16) << 30,
               .help = "Larger blobs are refused."),
        OPTION(SIZE, "quota", "0", .minimum = 0, .maximum = INT64_C(1) << 50,
               .help = "Most bytes that the store holds, as compressed; 0: no limit."),
        OPTION(INT, "compression", "1", .unit = "zstd level", .minimum = 0, .maximum = 19,
               .help = "How hard contents are compressed; 0: not at all."),
        {.struct_size = sizeof(struct sbx_option)},
};

static int check_schema(const char *schema, struct sbx_error *err) {
        size_t length = strlen(schema);
        bool good = length > 0 && length < 64 && strncmp(schema, "pg_", 3) != 0 && !(*schema >= '0' && *schema <= '9');

        for (size_t i = 0; i < length; i++)
                good = good && ((schema[i] >= 'a' && schema[i] <= 'z') || (schema[i] >= '0' && schema[i] <= '9') ||
                                schema[i] == '_');
        return good ? 0
                    : sbx_error_set(err, -EINVAL, POSTGRES_ORIGIN,
                                    "Use 1 to 63 of a-z 0-9 _, no digit first, not \"pg_\" at its beginning.",
                                    "`schema` can't be \"%.64s\"", schema);
}

/* What libpq says of a string that it can't parse may quote the password in it: it is not passed on. */
static int check_conninfo(const char *conninfo, struct sbx_error *err) {
        char *problem = NULL;
        PQconninfoOption *parsed = PQconninfoParse(conninfo, &problem);

        PQfreemem(problem);
        if (parsed == NULL)
                return sbx_error_set(err, -EINVAL, POSTGRES_ORIGIN,
                                     "Write it as \"host=db.example dbname=sandbox user=me\" or "
                                     "\"postgresql://me@db.example/sandbox\".",
                                     "`conninfo` is not a connection string of PostgreSQL");
        PQconninfoFree(parsed);
        return 0;
}

/* The key itself is read anew for each connection; what is wrong with the file is told now. */
static int check_key_file(const char *key_file, struct sbx_error *err) {
        char identity[SEALING_IDENTITY_MAX];
        struct sealing sealing;
        int r = sealing_create(key_file, POSTGRES_ORIGIN, identity, &sealing, err);

        if (r == 0)
                sealing_clear(&sealing);
        return r;
}

int options_read(const struct sbx_host *host, struct postgres_options *ret_options, struct sbx_error *err) {
        struct sbx_host_state *self = host->self;
        const char *password_env = host->option_string(self, "password_env");
        struct postgres_options options = {
                .host = host,
                .conninfo = host->option_string(self, "conninfo"),
                .service = host->option_string(self, "service"),
                .password =
                        password_env != NULL && *password_env != '\0' ? host->environment(self, password_env) : NULL,
                .schema = host->option_string(self, "schema"),
                .key_file = host->option_string(self, "key_file"),
                .connect_timeout_ns = (uint64_t)host->option_int(self, "connect_timeout") * NS_PER_MS,
                .timeout_ns = (uint64_t)host->option_int(self, "timeout") * NS_PER_MS,
                .connections = (size_t)host->option_int(self, "connections"),
                .blob_bytes_max = (uint64_t)host->option_int(self, "max_blob"),
                .quota_bytes = (uint64_t)host->option_int(self, "quota"),
                .compression = (int)host->option_int(self, "compression"),
        };
        int r = check_schema(options.schema, err);

        if (r == 0 && options.conninfo != NULL)
                r = check_conninfo(options.conninfo, err);
        if (r == 0)
                r = check_key_file(options.key_file, err);
        if (r == 0)
                *ret_options = options;
        return r;
}
