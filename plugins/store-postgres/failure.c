/* SPDX-License-Identifier: Apache-2.0 */
/* What PostgreSQL's failures mean, by their SQLSTATE (appendix A of its manual): codes, and words for people. */
#include "failure.h"

struct meaning {
        const char *state; /* SQLSTATE, or its first two characters */
        int code;
        const char *hint;
};

static const struct meaning meanings[] = {
        {"53100", -ENOSPC, "Make room on the server's disk."},
        {"53200", -ENOMEM, "The server is short of memory."},
        {"53300", -EAGAIN, "Raise max_connections of the server, or lower `connections` here."},
        {"57014", -ETIMEDOUT, "Look at what the server waits for (pg_stat_activity), or raise `timeout`."},
        {"55P03", -ETIMEDOUT, "Look at what the server waits for (pg_stat_activity), or raise `timeout`."},
        {"57P03", -EAGAIN, "The server starts or stops: try again."},
        {"57P0", -ECONNRESET, NULL},
        {"57P05", -ECONNRESET, NULL},
        {"08", -ECONNRESET, NULL},
        {"25P03", -ECONNRESET, NULL}, /* idle_in_transaction_session_timeout */
        {"40", -EAGAIN, NULL},
        {"22", -EINVAL, NULL},    /* a text that is not UTF-8, and the like */
        {"23503", -EAGAIN, NULL}, /* what a name was to stand for was collected at this moment */
        {"25006", -EROFS, "This is a standby: name the primary, or add target_session_attrs=read-write to `conninfo`."},
        {"28", -EACCES, "Check user, password and the server's pg_hba.conf."},
        {"3D000", -EIO, "Make the database: createdb NAME"},
        {"3F000", -EIO, "Let this user make the schema, or make it: CREATE SCHEMA ... AUTHORIZATION ..."},
        {"42501", -EACCES, "Grant this user the schema: GRANT ALL ON SCHEMA ..., or make it its owner."},
        {"42P01", -EIO, "The store's tables are gone: what was in them is, too."},
        {"54", -EFBIG, NULL},
        {"XX001", -EBADMSG, "The database is damaged: look at the server's log, restore a backup."},
        {"XX002", -EBADMSG, "An index of the database is damaged: REINDEX, and look at the server's log."},
};

static const struct meaning *find_meaning(const char *state) {
        for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
                if (strncmp(state, meanings[i].state, strlen(meanings[i].state)) == 0)
                        return &meanings[i];
        return NULL;
}

/* libpq's texts end with a newline, and may have more lines. */
static int first_line(const char *text) {
        size_t length = strcspn(text, "\n");

        return length < 600 ? (int)length : 600;
}

int failure_of_connection(const PGconn *pg, struct sbx_error *err) {
        const char *text = PQerrorMessage(pg);

        return sbx_error_set(err, -ECONNRESET, POSTGRES_ORIGIN, "See whether the server runs, and its log.",
                             "the connection to PostgreSQL is lost: %.*s", first_line(text), text);
}

int failure_of_result(const PGconn *pg, const PGresult *result, struct sbx_error *err) {
        ExecStatusType status = PQresultStatus(result);
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
        const struct meaning *meaning;

        if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
                return 0;
        if (result == NULL || state == NULL || PQstatus(pg) != CONNECTION_OK)
                return failure_of_connection(pg, err);
        meaning = find_meaning(state);
        text = text != NULL ? text : "no reason given";
        return sbx_error_set(err, meaning != NULL ? meaning->code : -EIO, POSTGRES_ORIGIN,
                             meaning != NULL ? meaning->hint : NULL, "PostgreSQL: %.*s (SQLSTATE %.5s)",
                             first_line(text), text, state);
}

/* The SQLSTATE in "FATAL:  28P01: password ...", which is how libpq words it with verbosity; NULL: there is none, since
 * no server said anything. The word before it depends on the server's language. */
static const char *find_state(const char *text) {
        for (const char *at = strstr(text, ":  "); at != NULL; at = strstr(at + 1, ":  "))
                if (strspn(at + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && at[8] == ':')
                        return at + 3;
        return NULL;
}

int failure_of_connecting(const PGconn *pg, struct sbx_error *err) {
        const char *text = PQerrorMessage(pg), *state = find_state(text);
        const struct meaning *meaning = state != NULL ? find_meaning(state) : NULL;
        int code = state == NULL ? -EAGAIN : meaning != NULL ? meaning->code : -EIO;
        const char *hint = meaning != NULL ? meaning->hint : NULL;

        if (PQconnectionNeedsPassword(pg) != 0)
                return sbx_error_set(
                        err, -EACCES, POSTGRES_ORIGIN,
                        "Put it into the environment variable that `password_env` names, or into ~/.pgpass.",
                        "PostgreSQL wants a password, and there is none");
        if (state == NULL)
                hint = "See whether the server runs and listens there; `conninfo` says where it is looked for.";
        return sbx_error_set(err, code == -ECONNRESET ? -EAGAIN : code, POSTGRES_ORIGIN, hint,
                             "can't connect to PostgreSQL: %.*s", first_line(text), text);
}
