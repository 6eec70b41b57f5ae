/* SPDX-License-Identifier: Apache-2.0 */
/* The large members of a request, taken out as they stand and put into the body again: a conversation grows with each
 * turn, and an API of OpenAI's kind gets it byte for byte. Pure functions. */
#pragma once

#include "text.h"

#define LLM_LIFTED_COUNT 2u

/* Their bytes in the request, borrowed; an empty one was not taken out. */
struct llm_lifted {
        struct sbx_bytes values[LLM_LIFTED_COUNT]; /* of "messages" and "tools" */
};

/* Appends the request to `shell` with empty arrays in their places. False: the request is not of the form that this
 * understands, and `shell` is to be thrown away; or text->error is set. */
bool llm_lift_out(struct sbx_bytes request, struct llm_lifted *ret_lifted, struct llm_text *shell);
/* Appends the body to `whole` with the bytes in their places again. The same. */
bool llm_lift_in(struct sbx_bytes body, const struct llm_lifted *lifted, struct llm_text *whole);
