/* SPDX-License-Identifier: Apache-2.0 */
/* What a provider answered, checked and in the shape of the journal; and a record as an answer again. Both ways lead
 * through the record, so that a resumed run goes on with the very answer that the first one had. Pure functions. */
#pragma once

#include "agent/run.h"

#define SBX_TOOL_CALLS_MAX 1024u            /* of one answer; what is beyond is dropped, and counted */
#define SBX_RESPONSE_MAX ((size_t)32 << 20) /* bytes */

/* The record of a response, without times. `prompt_bytes`: to estimate usage that the provider does not state.
 * -EBADMSG: it can't be read. */
int sbx_response_decode(struct sbx_bytes response, size_t prompt_bytes, json_t **ret_record, struct sbx_error *err);
/* The answer of a record; it keeps a reference. -EBADMSG: damaged. */
int sbx_response_answer(json_t *record, struct sbx_answer *ret_answer, struct sbx_error *err);
/* About the tokens of so many bytes of text or JSON. */
static inline uint64_t sbx_tokens_estimate(size_t bytes) {
        return (bytes + 3) / 4;
}
