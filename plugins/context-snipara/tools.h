/* SPDX-License-Identifier: Apache-2.0 */
/* The tools of Snipara: what clients and models see, what the service calls them, what arguments must fulfil beyond
 * their schemas. Constant data and pure functions. */
#pragma once

#include <stdbool.h>

#include <jansson.h>
#include <snipara-sandbox/types.h>

struct snipara_parameter {
        const char *name; /* NULL ends the list */
        const char *type;
        const char *fallback; /* default, as JSON; NULL: none */
        const char *more;     /* further members of its schema, as JSON without braces; NULL: none */
        const char *help;
        bool required;
};

struct snipara_tool {
        const char *name;   /* "snipara_search" */
        const char *remote; /* "rlm_search": what the service calls it; an alias here, as in snipara-sandbox 2.2.7 */
        const char *title, *description;
        bool memory;      /* offered with the memory alone */
        bool reads;       /* changes nothing at the service, so that a request may go out again */
        bool destructive; /* deletes */
        const struct snipara_parameter *parameters;
};

/* NULL: no such tool. */
const struct snipara_tool *snipara_tool_find(const char *name);
/* Definitions for struct sbx_context_ops.tools; NULL: no memory. */
json_t *snipara_tools_define(bool with_memory);
/* Makes `arguments` what goes out: members that are null are dropped, `snipara_read` gets at most 200 lines. -EINVAL:
 * they make no sense together. */
int snipara_tool_adapt(const struct snipara_tool *tool, json_t *arguments, struct sbx_error *err);
/* What to add to an error when a request went out and it is unknown what came of it; "" for a tool that only reads. */
const char *snipara_tool_doubt(const struct snipara_tool *tool);
