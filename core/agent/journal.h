/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of a run: what its effects (model calls, tool calls, executions, calls that code made) came to, each
 * under a key that says where in the run it stands. A resumed run goes through the same steps again; an effect that is
 * in the journal is not done again, its record is its result. So nothing is paid for twice, and no side effect runs
 * twice without being said. Thread-safe.
 *
 * A file of JSON lines, state/runs/ID.jsonl, mode 0600, locked while a process has it. The first line is the request. A
 * record is written whole with one write(), so a killed process loses none; sbx_journal_sync makes them survive a
 * power cut.
 *
 * Keys are paths of numbers and words, made by whoever runs the steps, the same in each life of the run:
 *      "1"                an agent's iteration, or the one completion of a completion run
 *      "1.2"              its second turn (a model call and the tools that it asked for)
 *      "1.2.model"        that model call
 *      "1.2.t0"           the first tool call of the turn
 *      "1.2.t0.c3"        the third call that the code of this tool call made back
 *      "1.2.t0.c3.q0"     the first query of it, if it is a batch; sub-completions go on with ".1.model" and so on
 *      "1.check"          the execution that checks the answer of iteration 1
 */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include "base/log.h"

#define SBX_JOURNAL_KEY_MAX 256 /* bytes with the NUL; deeper nesting is beyond max_depth */

struct sbx_journal;

/* What ended runs leave behind: at most so many journals, none older than so many days; the oldest go first, whenever a
 * new one is made. One that is locked stays. */
#define SBX_JOURNAL_KEEP_FILES 500u
#define SBX_JOURNAL_KEEP_DAYS 30u
#define SBX_JOURNAL_LINE_MAX_BYTES (64u << 20)
#define SBX_JOURNAL_FILE_MAX_BYTES (UINT64_C(1) << 30)
#define SBX_JOURNAL_RECORDS_MAX 1000000u

/* A new journal with `request` (an object) as its first line. `directory` NULL: the journal stays in memory.
 * -EINVAL: `run_id` is no UUID; -EEXIST; and what the file system says. */
int sbx_journal_create(const char *directory, const char *run_id, const json_t *request,
                       const struct sbx_logger *logger, struct sbx_journal **ret_journal, struct sbx_error *err);
/* That of a run, to go on with. A last line that is not whole (the process was killed, the disk was full) is cut off.
 * -ENOENT (also when the process was killed before the request was written whole: nothing had been done), -EBUSY
 * (another process has it), -EBADMSG (damaged: the error says at which line), -ENOTSUP (a newer version wrote it). */
int sbx_journal_open(const char *directory, const char *run_id, const struct sbx_logger *logger,
                     struct sbx_journal **ret_journal, struct sbx_error *err);
void sbx_journal_free(struct sbx_journal *journal); /* syncs, unlocks */

const json_t *sbx_journal_request(const struct sbx_journal *journal);
/* The record under the key; NULL: that effect has not been done. The caller gets a reference. */
json_t *sbx_journal_find(struct sbx_journal *journal, const char *key);
/* Keeps what an effect came to. `record` is an object, and not changed any more by anyone (NULL is out of memory).
 * -EEXIST: there is one under that key; -EFBIG: beyond the maxima above; -EINVAL: it could not be read back (nested too
 * deep); and what the file system says (-ENOSPC, -EFBIG, -EIO): then the journal is as it was before. */
int sbx_journal_add(struct sbx_journal *journal, const char *key, json_t *record, struct sbx_error *err);
/* Before an effect that must not happen twice; and whether that was said in an earlier life of the run without a record
 * to follow: then it may have happened. */
int sbx_journal_begin(struct sbx_journal *journal, const char *key, struct sbx_error *err);
bool sbx_journal_was_begun(struct sbx_journal *journal, const char *key);
/* It has failed for certain: it has not happened. */
int sbx_journal_failed(struct sbx_journal *journal, const char *key, struct sbx_error *err);
/* How many effects whose key ends with `suffix` may have happened like that. */
unsigned sbx_journal_open_ends(struct sbx_journal *journal, const char *suffix);
/* The records of a prefix in the order in which they were added, for what has to be done again (executions): each is
 * passed with its key until `each` returns not 0. */
int sbx_journal_each(struct sbx_journal *journal, int (*each)(void *data, const char *key, const json_t *record),
                     void *data);
bool sbx_journal_resumed(const struct sbx_journal *journal); /* opened, not created */
int sbx_journal_sync(struct sbx_journal *journal, struct sbx_error *err);

/* How long the run has been going on, in all its lives: each record carries the time, so a life that was killed counts
 * up to its last one. `earlier`: without this life. */
uint64_t sbx_journal_active_ms(const struct sbx_journal *journal);
uint64_t sbx_journal_earlier_ms(const struct sbx_journal *journal);

/* The id of the one run whose id begins so (4 digits at least; capital ones too). -EINVAL: not the beginning of an id,
 * or of several (the error names them); -ENOENT. */
int sbx_journal_resolve(const char *directory, const char *beginning, char ret_id[37], struct sbx_error *err);

/* A journal as it lies there. Borrowed. */
struct sbx_journal_summary {
        const char *run_id;
        const json_t *request; /* the first line's */
        const char *last_key;  /* of the last record; NULL: none */
        const json_t *last;    /* that record, if it is small (4 KiB); else NULL */
        int64_t changed_at_s;  /* of the file, seconds since 1970 */
        bool locked;           /* a process has it */
};
/* Every journal that can be read, newest first, until `each` returns not 0. Without a directory there are none. */
int sbx_journal_list(const char *directory, int (*each)(void *data, const struct sbx_journal_summary *summary),
                     void *data, struct sbx_error *err);
