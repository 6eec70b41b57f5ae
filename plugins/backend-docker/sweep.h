/* SPDX-License-Identifier: Apache-2.0 */
/* Removes what dead owners left with an engine: their containers of scope session, whatever of theirs does not run, and
 * their workers in containers that others go on with. Touches nothing else: a container must have our host label, and
 * its owner's lock must be free. */
#ifndef DOCKER_SWEEP_H
#define DOCKER_SWEEP_H

#include "engine.h"
#include "locks.h"

struct sweep {
        struct engine *engine;
        struct locks *locks;
        const char *own;             /* the owner whose reaper this is */
        bool own_ended;              /* its containers are to be removed as well */
        bool visit;                  /* end workers of dead owners in containers of scope agent and shared */
        const struct sbx_call *call; /* for the whole round */
        uint64_t timeout_ms;         /* for one request */
};

struct sweep_result {
        size_t removed;
        size_t left; /* that should have been removed; the error says why of the first */
};

/* One round. Negative: the engine can't be asked. */
int sweep_round(const struct sweep *sweep, struct sweep_result *ret_result, struct sbx_error *err);
/* The container of this name, if it is `own`'s. 1: removed; 0: there is none. */
int sweep_name(const struct sweep *sweep, const char *name, struct sbx_error *err);

#endif
