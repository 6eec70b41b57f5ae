/* SPDX-License-Identifier: Apache-2.0 */
/* What the official conformance suites of MCP want to find on a server: tools, prompts and resources of known names
 * that behave in known ways (the descriptions of the suites' scenarios say which). One table for each subject; plugin.c
 * puts them together. */
#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <snipara-sandbox/context.h>

#define FIXTURES_ORIGIN "context-conformance"
/* JSON as it is written, in a table of C: the text of its argument. */
#define FIXTURE_JSON(...) #__VA_ARGS__
#define FIXTURE_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* An instance. What changes does so by tools of tools_change.c alone. */
struct fixtures {
        const struct sbx_host *host;
        atomic_bool extra_tool, extra_prompt; /* whether the lists have what a trigger adds */
        atomic_uint watched_version;          /* of test://watched-resource */
};

/* One request under way, for who answers it. */
struct fixture_call {
        struct fixtures *fixtures;
        const char *name;
        const json_t *arguments; /* an object */
        const struct sbx_client *client;
        const struct sbx_call *call;
        struct sbx_error *err;
};

/* A tool or a prompt. `listing` is what the list shows of it, but for the name. */
struct fixture {
        const char *name;
        const char *listing;
        int (*run)(const struct fixture_call *call, json_t **ret_result);
};
struct fixture_table {
        const struct fixture *fixtures;
        size_t count;
};

extern const struct fixture_table fixture_tools_content, fixture_tools_ask, fixture_tools_input, fixture_tools_tasks,
        fixture_tools_change, fixture_prompts;

/* resources.c; -ENOENT: there is no such resource. */
int fixture_resources_list(const struct fixture_call *call, json_t **ret_result);
int fixture_resources_read(const struct fixture_call *call, json_t **ret_result);
int fixture_resources_templates(json_t **ret_list);
#define FIXTURE_WATCHED_URI "test://watched-resource"

/* complete.c: values for arguments of the prompts and the template. */
int fixture_complete(const struct fixture_call *call, json_t **ret_result);

/* ---- answer.c: what answers are made of ---- */

extern const char fixture_png[], fixture_wav[]; /* base64: one red pixel; a few samples of silence */

int fixture_nomem(struct sbx_error *err);
/* {"content": [a text block]}; takes the reference `content`, a block or an array of them. -ENOMEM for NULL. */
int fixture_blocks(const struct fixture_call *call, json_t *content, json_t **ret_result);
SBX_PRINTF(3, 4)
int fixture_text(const struct fixture_call *call, json_t **ret_result, const char *format, ...);
/* The same, with isError. */
SBX_PRINTF(3, 4)
int fixture_failure(const struct fixture_call *call, json_t **ret_result, const char *format, ...);
/* Waits; -ECANCELED, -ETIMEDOUT. */
int fixture_wait(const struct fixture_call *call, unsigned ms);
/* A string among the arguments; `fallback` where it is missing. */
const char *fixture_argument(const struct fixture_call *call, const char *name, const char *fallback);

/* ---- ask.c: questions to the client ---- */

/* Asks; takes the reference `requests`, {key: {method, params}}. -ENOMEM for NULL, and what sbx_client.ask says. */
int fixture_ask(const struct fixture_call *call, json_t *requests, json_t **ret_responses);
/* {"method": "elicitation/create", "params": {"message", "requestedSchema"}}; `schema` is JSON. NULL: no memory. */
json_t *fixture_elicitation(const char *message, const char *schema);
/* {"method": "sampling/createMessage", ...} with one message of the user. */
json_t *fixture_sampling(const char *text, int max_tokens);
json_t *fixture_roots(void);
/* A member of the form that the user sent back; NULL: the user declined, or it has no such string. */
const char *fixture_form_text(const json_t *responses, const char *key, const char *field);
