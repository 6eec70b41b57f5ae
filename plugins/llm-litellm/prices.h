/* SPDX-License-Identifier: Apache-2.0 */
/* What models cost. Immutable once read, so any thread may ask. */
#pragma once

#include "answer.h"

struct llm_prices {
        json_t *files[2]; /* the "models" of the user's file, then of the installed one; NULL: none */
};
/* `own` may be NULL. -EINVAL: a file is not of the form; -ENOENT and other errors of opening `own`; an installed file
 * that is missing is an error too. */
int llm_prices_read(const char *own, const char *installed, struct llm_prices *ret_prices, struct sbx_error *err);
void llm_prices_free(struct llm_prices *prices);
/* In USD; negative: not known. `model` is the name that was asked for, `provider` the one that it went to, `answered`
 * what the answer says (may be NULL). An entry with a version ("gpt-4o" for "gpt-4o-2024-08-06") counts when none has
 * the whole name, the longest first. */
double llm_prices_cost(const struct llm_prices *prices, const char *model, const char *provider, const char *answered,
                       const struct llm_usage *usage);
