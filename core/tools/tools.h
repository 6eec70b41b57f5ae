/* SPDX-License-Identifier: Apache-2.0 */
/* The tool registry: the one list of named operations that transports, the agent and in-sandbox code call, and the
 * threads that run them. Thread-safe. */
#pragma once

#include <jansson.h>

#include "plugin/registry.h"
#include "session/session.h"

struct sbx_tools;

struct sbx_tool_context {
        void *data; /* of the definition */
        const char *principal;
        const struct sbx_call *call;
        /* May be NULL. */
        void (*progress)(void *progress_data, double progress, double total, const char *message);
        void *progress_data;
};

/* A tool. `input_schema` is a JSON Schema text: root type object, as docs/tools.md says; `annotations` a JSON object
 * text. `run` gets arguments that fit the schema (defaults filled in) and returns a result object
 * {"content": [...], "isError": bool}; a negative return becomes an isError result with the error's text. */
struct sbx_tool {
        const char *name, *title, *description, *input_schema, *annotations;
        int (*run)(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                   struct sbx_error *err);
        void *data;
};

int sbx_tools_new(const struct sbx_logger *logger, struct sbx_tools **ret_tools, struct sbx_error *err);
/* Cancels what runs and waits for it. */
void sbx_tools_free(struct sbx_tools *tools);
/* Copies the definition. -EEXIST, -EINVAL (name not 1-64 of [A-Za-z0-9_.-], bad schema, description over 2 KB). */
int sbx_tools_add(struct sbx_tools *tools, const struct sbx_tool *tool, struct sbx_error *err);
int sbx_tools_list(struct sbx_tools *tools, struct sbx_buffer *out_json, struct sbx_error *err);
/* Runs on the caller's thread. -ENOENT: unknown tool (the error suggests the nearest name). */
int sbx_tools_call(struct sbx_tools *tools, const char *name, struct sbx_bytes arguments,
                   const struct sbx_tool_context *context, struct sbx_buffer *out_json, struct sbx_error *err);
/* The services that plugins get in struct sbx_host: submit runs on a thread of the pool (at most 64, idle ones end). */
void sbx_tools_services(struct sbx_tools *tools, struct sbx_tool_services *ret_services);

/* Checks `arguments` against the subset of JSON Schema that tools use (type, properties, required,
 * additionalProperties, enum, minimum, maximum, minLength, maxLength, items, default) and fills defaults in. The error
 * names the path, the reason, and what is allowed. */
int sbx_schema_apply(const json_t *schema, json_t *arguments, struct sbx_error *err);

/* Registers execute_python, get_repl_context, set_repl_context, clear_repl_context, list_sessions, destroy_session and
 * execute. `sessions` outlives the registry. */
int sbx_tools_add_builtin(struct sbx_tools *tools, struct sbx_sessions *sessions, const struct sbx_config *config,
                          struct sbx_error *err);
