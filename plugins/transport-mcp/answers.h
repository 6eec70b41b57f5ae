/* SPDX-License-Identifier: Apache-2.0 */
/* What clients are asked, and whether what they answer fits: sampling, elicitation, roots. */
#pragma once

#include <jansson.h>

#include "protocol.h"

#define MCP_QUESTIONS_MAX 16u /* requests to the client in one question of who answers */
#define MCP_ANSWERS_MAX 64u   /* what a client may bring with one request */
#define MCP_ANSWERS_BYTES_MAX (16u << 20)

/* Whether `responses`, an object or NULL, is more than a client may bring with one request. */
bool mcp_answers_too_many(const json_t *responses);

/* The SBX_CLIENT_* bits that a client needs for a request {"method", "params"}. -EINVAL: it is not such an object;
 * -ENOTSUP: clients are not asked that. */
int mcp_question_needs(const json_t *request, uint32_t *ret_bits);

/* Whether `response` is a result of the request's method: the members that the method's results have, of their types,
 * and for a form, what its schema demands. Members beyond are left as they are. */
bool mcp_answer_fits(const json_t *request, const json_t *response);
