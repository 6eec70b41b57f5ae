/* SPDX-License-Identifier: Apache-2.0 */
/* Getting a blob, and listing names. */
#include "blob.h"
#include "store.h"

struct errand {
        struct postgres_store *store;
        const char *name;
        struct sbx_output *output;
};

static int damaged(const char *name, struct sbx_error *err) {
        return sbx_error_set(
                err, -EBADMSG, POSTGRES_ORIGIN,
                "What was written before or after it may be whole: `snipara-sandbox sessions gc` looks at all.",
                "%s is damaged: it does not hold what was written", name);
}

static int ask_name(const struct errand *errand, struct connection *connection, const struct sbx_call *call,
                    PGresult **ret_result, uint64_t *ret_size, struct sbx_error *err) {
        static const char sql[] = "SELECT size, sum, hash, data FROM names WHERE name = $1";
        _cleanup_result_ PGresult *result = NULL;
        struct params params = {0};
        int r;

        params_text(&params, errand->name);
        r = connection_ask(connection, call, sql, &params, &result, err);
        if (r < 0)
                return r;
        if (PQntuples(result) == 0)
                return sbx_error_set(err, -ENOENT, POSTGRES_ORIGIN, NULL, "there is no blob %s", errand->name);
        if (column_int8(result, 0, 0, ret_size) < 0)
                return damaged(errand->name, err);
        if (*ret_size > errand->store->options.blob_bytes_max)
                return sbx_error_set(err, -EFBIG, POSTGRES_ORIGIN, "Raise `max_blob`.",
                                     "%s is larger than is read: %llu bytes", errand->name,
                                     (unsigned long long)*ret_size);
        *ret_result = steal_pointer(result);
        return 0;
}

static int hand_out(const struct errand *errand, const uint8_t *content, uint64_t size, struct sbx_error *err) {
        const struct sbx_host *host = errand->store->options.host;
        int r = host->output_append(host->self, errand->output, content, size);

        return r < 0 ? sbx_error_set(err, r, POSTGRES_ORIGIN, NULL, "%s has %llu bytes, more than the caller takes",
                                     errand->name, (unsigned long long)size)
                     : 0;
}

static int get_inline(const struct errand *errand, struct connection *connection, const PGresult *row, uint64_t size,
                      struct sbx_error *err) {
        uint8_t content[INLINE_BYTES_MAX];
        int r = size <= sizeof(content) ? blob_open_inline(connection, errand->name, column_bytes(row, 0, 3),
                                                           column_bytes(row, 0, 1), content, size)
                                        : -EBADMSG;

        if (r == -EBADMSG)
                return damaged(errand->name, err);
        return r < 0 ? postgres_nomem(err) : hand_out(errand, content, size, err);
}

static int read_content(const struct errand *errand, struct connection *connection, const PGresult *row, uint64_t size,
                        const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_bytes id = column_bytes(row, 0, 2);
        _cleanup_free_ uint8_t *content = NULL;
        int r;

        if (id.size != SEALING_HASH_SIZE ||
            !blob_sum_matches(&connection->sealing, errand->name, true, id, column_bytes(row, 0, 1)))
                return damaged(errand->name, err);
        content = malloc(size + 1);
        if (content == NULL)
                return postgres_nomem(err);
        r = object_read(connection, call, id.data, size, content, err);
        if (r == -EBADMSG) {
                if (connection_run(connection, call, "ROLLBACK", NULL, NULL) == 0)
                        object_mark(connection, call, id.data, true, NULL);
                return damaged(errand->name, err);
        }
        if (r == 0)
                r = connection_run(connection, call, "COMMIT", NULL, err);
        return r < 0 ? r : hand_out(errand, content, size, err);
}

/* In one snapshot: who replaces the name meanwhile does not take the chunks away. */
static int get_object(const struct errand *errand, struct connection *connection, const struct sbx_call *call,
                      struct sbx_error *err) {
        static const char begin[] = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY";
        _cleanup_result_ PGresult *row = NULL;
        uint64_t size = 0;
        int r = connection_run(connection, call, begin, NULL, err);

        if (r == 0)
                r = ask_name(errand, connection, call, &row, &size, err);
        if (r < 0)
                return r;
        if (column_bytes(row, 0, 3).data != NULL)
                return get_inline(errand, connection, row, size, err);
        return read_content(errand, connection, row, size, call, err);
}

static int get_work(struct connection *connection, void *data, const struct sbx_call *call, struct sbx_error *err) {
        const struct errand *errand = data;
        _cleanup_result_ PGresult *row = NULL;
        uint64_t size = 0;
        int r = ask_name(errand, connection, call, &row, &size, err);

        if (r < 0)
                return r;
        if (column_bytes(row, 0, 3).data != NULL)
                return get_inline(errand, connection, row, size, err);
        return get_object(errand, connection, call, err);
}

int store_get(struct postgres_store *store, const char *name, const struct sbx_call *call, struct sbx_output *ret_blob,
              struct sbx_error *err) {
        struct errand errand = {.store = store, .name = name, .output = ret_blob};
        int r = check_name(name, err);

        return r < 0 ? r : pool_work(store->pool, get_work, &errand, call, err);
}

/* ---- listing ---- */

#define PAGE_ROWS 500

struct page {
        char after[NAME_BYTES_MAX + 1]; /* the last name of the page before */
        const char *first, *end;        /* what the names begin with, and what is behind all of those */
        PGresult *result;
};

static int page_work(struct connection *connection, void *data, const struct sbx_call *call, struct sbx_error *err) {
        static const char sql[] = "SELECT name, size FROM names WHERE name > $1 AND name >= $2 AND name < $3"
                                  " ORDER BY name LIMIT $4";
        struct page *page = data;
        struct params params = {0};

        params_text(&params, page->after);
        params_text(&params, page->first);
        params_text(&params, page->end);
        params_int8(&params, PAGE_ROWS);
        return connection_ask(connection, call, sql, &params, &page->result, err);
}

/* The names of one page, told while no connection is held: the listener may well ask for more. */
static int tell_page(struct page *page, const struct sbx_store_events *events, struct sbx_error *err) {
        for (int i = 0; i < PQntuples(page->result); i++) {
                struct sbx_bytes name = column_bytes(page->result, i, 0);
                uint64_t size = 0;
                int r;

                if (name.size == 0 || name.size > NAME_BYTES_MAX || column_int8(page->result, i, 1, &size) < 0)
                        return sbx_error_set(err, -EBADMSG, POSTGRES_ORIGIN, NULL,
                                             "the table of names holds what is none");
                memcpy(page->after, name.data, name.size);
                page->after[name.size] = '\0';
                r = check_name(page->after, err);
                if (r < 0)
                        return -EBADMSG;
                r = events->item(events->data, page->after, size);
                if (r < 0)
                        return sbx_error_set(err, r, POSTGRES_ORIGIN, NULL, "the listing was ended");
        }
        return 0;
}

int store_list(struct postgres_store *store, const char *prefix, const struct sbx_store_events *events,
               const struct sbx_call *call, struct sbx_error *err) {
        char end[NAME_BYTES_MAX + 2] = "\x7f"; /* behind every character of a name */
        struct page page = {.first = prefix, .end = end};
        int rows, r;

        if (strnlen(prefix, NAME_BYTES_MAX + 1) > NAME_BYTES_MAX || prefix[strspn(prefix, NAME_CHARACTERS)] != '\0')
                return 0; /* no name begins so */
        snprintf(end, sizeof(end), "%s\x7f", prefix);
        do {
                r = pool_work(store->pool, page_work, &page, call, err);
                if (r < 0)
                        return r;
                rows = PQntuples(page.result);
                r = tell_page(&page, events, err);
                PQclear(steal_pointer(page.result));
        } while (r == 0 && rows == PAGE_ROWS);
        return r;
}
