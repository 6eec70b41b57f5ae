/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of issuers and of tokens, read strictly. */
#pragma once

#include <jansson.h>

/* An object without duplicate names, within jansson's limit of nesting; NULL: anything else. */
static inline json_t *hs_json_parse(const char *text, size_t size) {
        return json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
}
