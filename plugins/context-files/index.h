/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over the project: what is new or has changed is read and indexed, what is gone is taken out. */
#pragma once

#include <snipara-sandbox/plugin.h>

#include "database.h"
#include "options.h"

struct index_result {
        uint64_t files, indexed, removed, bytes; /* files and bytes: that are in the index now, as far as it was seen */
        uint64_t too_large, not_text;
        bool files_cut, bytes_cut, tree_cut; /* a limit left something out */
};

/* `connection` is the pass's own; its `stopped` ends the pass with -ECANCELED. What was committed by then stays.
 * -EUCLEAN: the database is damaged. The result is filled in as far as the pass came, also when it fails. */
int index_pass(const struct files_options *options, struct connection *connection, struct index_result *ret_result,
               struct sbx_error *err);
