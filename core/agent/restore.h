/* SPDX-License-Identifier: Apache-2.0 */
/* The sessions of a resumed run: what the store has of them (restore_states.c), and what is done again (restore.c). */
#pragma once

#include "agent/run.h"

#define SBX_RESTORE_NAME_SIZE (2 * SBX_JOURNAL_KEY_MAX) /* of "principal session" */

/* Does a restored session need what the record did? `ret_name`: which session, as "principal session". */
bool sbx_restore_needs(struct sbx_run *run, const json_t *record, char ret_name[SBX_RESTORE_NAME_SIZE]);

struct sbx_restored {
        json_t *since; /* {name: key of the last record that need not be done again in that session} */
        json_t *given; /* {name: id of the checkpoint that it goes on from} */
};
void sbx_restored_clear(struct sbx_restored *restored);

/* Brings back from the store what it has of the run's sessions: each to the checkpoint of the newest recorded execution
 * that is whole there, never to anything that the journal does not know of. What fits nothing in the journal is removed
 * from the store. Tells in notices. -EBUSY: another server has one. */
int sbx_restore_states(struct sbx_run *run, struct sbx_restored *ret_restored, struct sbx_error *err);
