/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for core/guest and the plugin registry: guests are structs, and "code" is one of a few words, so that what
 * sessions do can be tested without processes, at once, and under TSan. Files are in memory; reading "slow" takes as
 * long as its content says in milliseconds, and "deadly" kills the guest. Each word may be followed by a number:
 *
 *      ok              ends ok, with "n" executions so far as its value
 *      sleep MS        runs for MS, or until the deadline (timeout) or the cancellation (cancelled)
 *      hang MS         the same, and does not come back from either for MS: then it is killed
 *      name X          defines the variable X
 *      peak MIB        reports that much memory as the peak so far
 *      crash           the guest dies by a signal: killed
 *      die-after       ends ok, and the guest dies right after
 *      call NAME       calls back; its value is the answer
 *      print N         ends ok, with N bytes of output
 *      plot N          ends ok, with N images of 8 bytes
 *      poster N        ends ok, with an image of N bytes
 *      page N          ends ok, with a HTML display of N bytes
 *      vanish          the guest turns out to have been dead already (-ESRCH), once
 */
#pragma once

#include <snipara-sandbox/store.h>

#include "config/config.h"
#include "guest/guest.h"
#include "guest/pool.h"

struct fake_guest_counts {
        unsigned started, freed, alive, forked; /* guests; those that were forked have been started, too */
        unsigned saved, restored;               /* attempts to save a state; guests that were given one */
        unsigned families, twins;               /* twins: executions beside another one of the family that runs */
        unsigned limits_set;
        uint64_t last_limit_bytes, last_soft_bytes, last_timeout_ms, last_start_memory_bytes;
        char last_runtime[96], last_owner[96]; /* of the guest that started last: "python", "python 3.12" */
};
struct fake_guest_counts fake_guest_counts(void);
void fake_guest_reset(void);
void fake_guest_fail_starts(int code); /* 0: they work */
void fake_guest_limit_answer(int code);
void fake_guest_kill_all(void); /* every guest is dead, and nobody knows yet */
/* A configuration of these settings alone ("name=value", NULL-terminated). Fails the program when it is refused. */
struct sbx_config *fake_config(const char *const *settings);
void fake_registry_memory_max(int64_t bytes); /* the option of all instances; 0: they have none */
void fake_registry_can_fork(void);            /* all instances; until the next reset */
void fake_registry_can_save(void);            /* byte for byte */
/* Copies as those of backend-local: none runs beside its original, or beside another copy of it. */
void fake_registry_families(void);
void fake_guest_can_tell(void);                    /* portable states; what begins with "gen" can't be saved */
void fake_guest_fail_saves(int code);              /* 0: they work */
void fake_registry_checkpoint(const char *policy); /* the options of all instances, until the next reset */
void fake_registry_copies(int64_t count);
void fake_registry_checkpoint_wait(int64_t milliseconds);
void fake_guest_state_bytes(size_t bytes); /* how large every state is at least, until the next reset */
/* The store of the configuration, until the next reset. */
void fake_registry_store(const struct sbx_store_ops *ops, void *state);
void fake_registry_plugin(const char *name); /* of all instances; the default is "backend-local" */
