/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the index fresh: a pass at a time on a thread of its own, started by the call that needs it; calls wait for it
 * as long as they can. Thread-safe. */
#pragma once

#include "database.h"
#include "index.h"

struct refresh;

/* What a call has to say of the index that it answers from. */
struct freshness {
        bool partial;
        bool stale;       /* all of the project, but perhaps not the last changes */
        char reason[160]; /* "" unless partial */
};

/* Both outlive it. */
int refresh_new(const struct files_options *options, struct database *database, struct refresh **ret_refresh,
                struct sbx_error *err);
void refresh_free(struct refresh *refresh); /* stops; NULL is fine */
/* Ends the pass that is under way, and waits for that. Passes are refused until refresh_resume. */
void refresh_stop(struct refresh *refresh);
void refresh_resume(struct refresh *refresh);
/* Looks at the project if the last look is too old, and waits for that: at most three quarters of the time that the
 * call has, and what the option `wait` allows. -ECANCELED, -ETIMEDOUT, -ESHUTDOWN; a pass that fails is no error, the
 * answer is partial then. */
int refresh_wait(struct refresh *refresh, const struct sbx_call *call, struct freshness *ret_freshness,
                 struct sbx_error *err);
/* The database is a new one: the next call must look again. */
void refresh_forget(struct refresh *refresh);
