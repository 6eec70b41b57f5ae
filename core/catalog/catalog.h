/* SPDX-License-Identifier: Apache-2.0 */
/* What clients can ask for beside tools: resources, prompts, completions; and the news that any of it changed. It has
 * parts (session files, prompts of the program, context sources), and each URI, prompt and template belongs to the
 * first part that has it. Thread-safe. */
#pragma once

#include <jansson.h>
#include <snipara-sandbox/request.h>

#include "base/buffer.h"
#include "base/log.h"
#include "plugin/registry.h"

struct sbx_catalog;

/* A part. Functions may be NULL: it has none of these. Lists are JSON arrays as enum sbx_list says, NULL for none. */
struct sbx_catalog_part {
        const char *name; /* for errors */
        void *data;       /* lives as long as the catalog */
        int (*prompts)(void *data, json_t **ret_list, struct sbx_error *err);
        int (*templates)(void *data, json_t **ret_list, struct sbx_error *err);
        /* SBX_REQUEST_RESOURCES ... SBX_REQUEST_COMPLETION, as request.h says; `arguments` is an object. -ENOENT: it is
         * not this part's. `client` is never NULL. */
        int (*request)(void *data, const struct sbx_request *request, json_t *arguments,
                       const struct sbx_client *client, const struct sbx_call *call, json_t **ret_result,
                       struct sbx_error *err);
};

int sbx_catalog_new(const struct sbx_logger *logger, struct sbx_catalog **ret_catalog, struct sbx_error *err);
void sbx_catalog_free(struct sbx_catalog *catalog); /* NULL is fine */
/* Copies. */
int sbx_catalog_add(struct sbx_catalog *catalog, const struct sbx_catalog_part *part, struct sbx_error *err);
/* Prompts, templates and resources of a context source (ABI 1.2); nothing if it has none. */
int sbx_catalog_add_context(struct sbx_catalog *catalog, const struct sbx_instance *source, struct sbx_error *err);

/* SBX_LIST_PROMPTS or SBX_LIST_TEMPLATES, sorted by name or template: kept until a change is told. */
int sbx_catalog_list(struct sbx_catalog *catalog, int list, struct sbx_buffer *out_json, struct sbx_error *err);
/* Answers any kind but SBX_REQUEST_TOOL: asks the parts, in order, and checks what they say (bounds, UTF-8, shape). */
int sbx_catalog_request(struct sbx_catalog *catalog, const struct sbx_request *request, const struct sbx_client *client,
                        const struct sbx_call *call, struct sbx_buffer *out_json, struct sbx_error *err);

/* News: see sbx_host.changed, watch, unwatch. A change of lists drops what is kept of them. */
void sbx_catalog_changed(struct sbx_catalog *catalog, const struct sbx_change *change);
int sbx_catalog_watch(struct sbx_catalog *catalog, void (*changed)(void *data, const struct sbx_change *change),
                      void *data, struct sbx_watch **ret_watch, struct sbx_error *err);
void sbx_catalog_unwatch(struct sbx_watch *watch);

/* ---- the built-in parts ---- */

struct sbx_sessions;
/* session_files.c: repl://{session}/files/{path} and repl://{session}/artifacts/{name}; completes sessions and paths.
 */
int sbx_catalog_add_sessions(struct sbx_catalog *catalog, struct sbx_sessions *sessions, struct sbx_error *err);
/* prompts.c: what the program suggests to ask. */
int sbx_catalog_add_prompts(struct sbx_catalog *catalog, struct sbx_sessions *sessions, struct sbx_error *err);
