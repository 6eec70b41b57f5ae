/* SPDX-License-Identifier: Apache-2.0 */
/* What a client's user filled in, against the schema of the form (the restricted JSON Schema of elicitation). */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* `content` NULL: nothing was filled in. What the schema does not name may be there, and is not looked at; a keyword
 * that the restricted schema does not have is passed over. */
bool mcp_form_fits(const json_t *schema, const json_t *content);
