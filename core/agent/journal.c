/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of a run: what is in memory, and what its lines say. */
#include "agent/journal.h"

#include <pthread.h>
#include <stdlib.h>

#include "agent/journal_line.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/thread.h"

struct sbx_journal {
        pthread_mutex_t lock; /* protects what follows */
        struct sbx_journal_file file;
        json_t *request;
        json_t *records; /* key: record, in the order in which they came */
        json_t *begun;   /* keys of earlier lives */
        size_t lines;
        uint64_t opened_ns, earlier_ms;
        bool resumed;
        bool unsynced; /* lines were written since the last sync */
};

void sbx_journal_free(struct sbx_journal *journal) {
        if (journal == NULL)
                return;
        (void)sbx_journal_sync(journal, NULL);
        sbx_journal_file_close(&journal->file);
        json_decref(journal->request);
        json_decref(journal->records);
        json_decref(journal->begun);
        pthread_mutex_destroy(&journal->lock);
        free(journal);
}
SBX_DEFINE_CLEANUP(struct sbx_journal *, sbx_journal_free, cleanup_journal)

static struct sbx_journal *journal_new(void) {
        struct sbx_journal *journal = calloc(1, sizeof(*journal));

        if (journal == NULL)
                return NULL;
        pthread_mutex_init(&journal->lock, NULL);
        journal->file.fd = -1;
        journal->opened_ns = sbx_clock_ns();
        journal->records = json_object();
        journal->begun = json_object();
        if (journal->records == NULL || journal->begun == NULL) {
                sbx_journal_free(journal);
                return NULL;
        }
        return journal;
}

uint64_t sbx_journal_earlier_ms(const struct sbx_journal *journal) {
        return journal->earlier_ms;
}

uint64_t sbx_journal_active_ms(const struct sbx_journal *journal) {
        return journal->earlier_ms + (sbx_clock_ns() - journal->opened_ns) / SBX_NS_PER_MS;
}

/* ---- writing ---- */

/* Adds the line's number and time, and writes it. Takes the reference; NULL is out of memory. */
static int write_line(struct sbx_journal *journal, json_t *given, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(SBX_JOURNAL_LINE_MAX_BYTES);
        _cleanup_json_ json_t *line = given;
        int r;

        if (line == NULL || json_object_set_new(line, "n", json_integer((json_int_t)journal->lines + 1)) < 0 ||
            json_object_set_new(line, "ms", json_integer((json_int_t)sbx_journal_active_ms(journal))) < 0)
                return SBX_NOMEM(err, SBX_JOURNAL_ORIGIN);
        if (journal->lines > SBX_JOURNAL_RECORDS_MAX)
                return sbx_error_set(err, -EFBIG, SBX_JOURNAL_ORIGIN, NULL,
                                     "the journal has %u records, the most that it may", SBX_JOURNAL_RECORDS_MAX);
        r = sbx_journal_line_encode(line, &text, err);
        if (r == 0 && journal->file.fd >= 0)
                r = sbx_journal_file_append(&journal->file, sbx_buffer_bytes(&text), err);
        if (r == 0) {
                journal->lines++;
                journal->unsynced = true;
        }
        return r;
}

int sbx_journal_create(const char *directory, const char *run_id, const json_t *request,
                       const struct sbx_logger *logger, struct sbx_journal **ret_journal, struct sbx_error *err) {
        _cleanup_(cleanup_journal) struct sbx_journal *journal = journal_new();
        int r;

        if (journal == NULL)
                return SBX_NOMEM(err, SBX_JOURNAL_ORIGIN);
        if (!sbx_journal_id_valid(run_id))
                return sbx_error_set(err, -EINVAL, SBX_JOURNAL_ORIGIN,
                                     "An id looks like 1b4e28ba-2fa1-41d2-883f-0016d3cca427.",
                                     "this is not the id of a run");
        if (directory != NULL) {
                r = sbx_journal_file_create(directory, run_id, &journal->file, err);
                if (r < 0)
                        return r;
                sbx_journal_prune(directory, logger);
        }
        journal->request = json_incref((json_t *)request);
        r = write_line(
                journal,
                json_pack("{s:i, s:s, s:O}", "journal", SBX_JOURNAL_VERSION, "run_id", run_id, "request", request),
                err);
        if (r < 0)
                return r;
        *ret_journal = steal_pointer(journal);
        return 0;
}

int sbx_journal_add(struct sbx_journal *journal, const char *key, json_t *record, struct sbx_error *err) {
        int r;
        SBX_LOCKED(&journal->lock);

        if (record == NULL)
                return SBX_NOMEM(err, SBX_JOURNAL_ORIGIN);
        if (!json_is_object(record) || key[0] == '\0' || strlen(key) >= SBX_JOURNAL_KEY_MAX)
                return sbx_error_set(err, -EINVAL, SBX_JOURNAL_ORIGIN, NULL, "not a record of a journal: %s", key);
        if (json_object_get(journal->records, key) != NULL)
                return sbx_error_set(err, -EEXIST, SBX_JOURNAL_ORIGIN, NULL, "the journal has a record of %s already",
                                     key);
        /* In memory first: what is in the file and not there would be done a second time by this life. */
        if (json_object_set(journal->records, key, record) < 0)
                return SBX_NOMEM(err, SBX_JOURNAL_ORIGIN);
        r = write_line(journal, json_pack("{s:s, s:O}", "key", key, "record", record), err);
        if (r < 0)
                json_object_del(journal->records, key);
        return r;
}

static int write_word(struct sbx_journal *journal, const char *word, const char *key, struct sbx_error *err) {
        if (key[0] == '\0' || strlen(key) >= SBX_JOURNAL_KEY_MAX)
                return sbx_error_set(err, -EINVAL, SBX_JOURNAL_ORIGIN, NULL, "not a key of a journal: %s", key);
        return write_line(journal, json_pack("{s:s}", word, key), err);
}

int sbx_journal_begin(struct sbx_journal *journal, const char *key, struct sbx_error *err) {
        SBX_LOCKED(&journal->lock);

        return write_word(journal, "begun", key, err);
}

int sbx_journal_failed(struct sbx_journal *journal, const char *key, struct sbx_error *err) {
        SBX_LOCKED(&journal->lock);

        json_object_del(journal->begun, key);
        return write_word(journal, "failed", key, err);
}

int sbx_journal_sync(struct sbx_journal *journal, struct sbx_error *err) {
        SBX_LOCKED(&journal->lock);

        if (journal->file.fd < 0 || !journal->unsynced)
                return 0;
        journal->unsynced = false;
        return sbx_journal_file_sync(&journal->file, err);
}

/* ---- opening ---- */

static int bad_line(size_t number, const char *what, struct sbx_error *err) {
        return sbx_error_set(err, -EBADMSG, SBX_JOURNAL_ORIGIN, NULL, "line %zu of the journal %s", number, what);
}

/* Said before the sum is checked, which a newer version may make otherwise. */
static int check_version(struct sbx_bytes line, struct sbx_error *err) {
        _cleanup_json_ json_t *members = NULL;
        json_int_t version;

        if (sbx_json_parse(line, SBX_JOURNAL_LINE_MAX_BYTES, "journal", &members, NULL) < 0)
                return 0;
        version = json_integer_value(json_object_get(members, "journal"));
        if (version <= SBX_JOURNAL_VERSION)
                return 0;
        return sbx_error_set(err, -ENOTSUP, SBX_JOURNAL_ORIGIN,
                             "Resume it with the version that began it, or a newer one.",
                             "the journal has format %lld, which a newer version wrote; this one knows up to %d",
                             (long long)version, SBX_JOURNAL_VERSION);
}

static int take_first(struct sbx_journal *journal, const json_t *members, struct sbx_error *err) {
        json_t *request = json_object_get(members, "request");

        if (json_integer_value(json_object_get(members, "journal")) != SBX_JOURNAL_VERSION || !json_is_object(request))
                return bad_line(1, "is not the request of a run", err);
        journal->request = json_incref(request);
        return 0;
}

static int take_record(struct sbx_journal *journal, size_t number, const json_t *members, struct sbx_error *err) {
        const char *key = json_string_value(json_object_get(members, "key"));
        const char *begun = json_string_value(json_object_get(members, "begun"));
        const char *failed = json_string_value(json_object_get(members, "failed"));
        json_t *record = json_object_get(members, "record");

        if (failed != NULL) {
                json_object_del(journal->begun, failed);
                return 0;
        }
        if (begun != NULL)
                return json_object_set_new(journal->begun, begun, json_true()) < 0 ? SBX_NOMEM(err, SBX_JOURNAL_ORIGIN)
                                                                                   : 0;
        if (key == NULL || !json_is_object(record) || json_object_get(journal->records, key) != NULL)
                return bad_line(number, "is not a record, or one of something that was recorded before", err);
        return json_object_set(journal->records, key, record) < 0 ? SBX_NOMEM(err, SBX_JOURNAL_ORIGIN) : 0;
}

static int take_line(void *data, size_t number, struct sbx_bytes line, struct sbx_error *err) {
        struct sbx_journal *journal = data;
        _cleanup_json_ json_t *members = NULL;
        json_int_t ms;
        int r = number == 1 ? check_version(line, err) : 0;

        if (r == 0)
                r = sbx_journal_line_decode(line, number, &members, err);
        if (r < 0)
                return r;
        if (json_integer_value(json_object_get(members, "n")) != (json_int_t)number ||
            number > SBX_JOURNAL_RECORDS_MAX + 1)
                return bad_line(number, "is not the one that was written there", err);
        ms = json_integer_value(json_object_get(members, "ms"));
        if (ms > 0 && (uint64_t)ms > journal->earlier_ms)
                journal->earlier_ms = (uint64_t)ms;
        r = number == 1 ? take_first(journal, members, err) : take_record(journal, number, members, err);
        if (r == 0)
                journal->lines = number;
        return r;
}

int sbx_journal_open(const char *directory, const char *run_id, const struct sbx_logger *logger,
                     struct sbx_journal **ret_journal, struct sbx_error *err) {
        _cleanup_(cleanup_journal) struct sbx_journal *journal = journal_new();
        struct sbx_error problem = {0};
        int r;

        if (journal == NULL)
                return SBX_NOMEM(err, SBX_JOURNAL_ORIGIN);
        r = sbx_journal_file_open(directory, run_id, &journal->file, &problem);
        if (r == 0)
                r = sbx_journal_file_read(&journal->file, take_line, journal, &problem);
        if (r < 0) {
                sbx_error_wrap(&problem, "run %s", run_id);
                return sbx_error_set(err, r, problem.origin, problem.hint, "%s", problem.message);
        }
        if (journal->request == NULL)
                return sbx_error_set(err, -ENOENT, SBX_JOURNAL_ORIGIN, "Begin it again: nothing of it had been done.",
                                     "run %s: the process ended before the run began", run_id);
        journal->resumed = true;
        journal->opened_ns = sbx_clock_ns();
        *ret_journal = steal_pointer(journal);
        return 0;
}

/* ---- asking ---- */

const json_t *sbx_journal_request(const struct sbx_journal *journal) {
        return journal->request;
}

bool sbx_journal_resumed(const struct sbx_journal *journal) {
        return journal->resumed;
}

json_t *sbx_journal_find(struct sbx_journal *journal, const char *key) {
        SBX_LOCKED(&journal->lock);

        return json_incref(json_object_get(journal->records, key));
}

bool sbx_journal_was_begun(struct sbx_journal *journal, const char *key) {
        SBX_LOCKED(&journal->lock);

        return json_object_get(journal->begun, key) != NULL && json_object_get(journal->records, key) == NULL;
}

unsigned sbx_journal_open_ends(struct sbx_journal *journal, const char *suffix) {
        unsigned count = 0;
        const char *key;
        json_t *value;
        SBX_LOCKED(&journal->lock);

        json_object_foreach (journal->begun, key, value) {
                size_t length = strlen(key);

                count += length >= strlen(suffix) && strcmp(key + length - strlen(suffix), suffix) == 0 &&
                         json_object_get(journal->records, key) == NULL;
        }
        return count;
}

/* On a copy of the table, so that `each` may add records. */
int sbx_journal_each(struct sbx_journal *journal, int (*each)(void *data, const char *key, const json_t *record),
                     void *data) {
        _cleanup_json_ json_t *records = NULL;
        const char *key;
        json_t *record;

        pthread_mutex_lock(&journal->lock);
        records = json_copy(journal->records);
        pthread_mutex_unlock(&journal->lock);
        if (records == NULL)
                return -ENOMEM;
        json_object_foreach (records, key, record) {
                int r = each(data, key, record);

                if (r != 0)
                        return r;
        }
        return 0;
}
