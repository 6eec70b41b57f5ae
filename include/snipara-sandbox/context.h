/* SPDX-License-Identifier: Apache-2.0 */
/* Context source plugins: contribute tools, and since ABI 1.2 prompts and resources, to the registry. */
#ifndef SNIPARA_SANDBOX_CONTEXT_H
#define SNIPARA_SANDBOX_CONTEXT_H

#include <snipara-sandbox/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sbx_context_ops {
        uint32_t struct_size;
        uint32_t reserved;
        /* A JSON array of tools as SBX_LIST_TOOLS has them; asked after start, and since ABI 1.2 again when the plugin
         * says sbx_host.changed: new ones are added. */
        int (*tools)(void *instance, struct sbx_output *ret_json, struct sbx_error *err);
        /* `arguments` were validated against the tool's schema. The result is {"content": [...], "isError": bool}.
         * Calls run in parallel. */
        int (*call)(void *instance, const char *tool, struct sbx_bytes arguments, const struct sbx_call *call,
                    struct sbx_output *ret_result, struct sbx_error *err);

        /* Since ABI 1.2; each may be NULL: it has none. Lists are asked after start, and again when the plugin says
         * sbx_host.changed. prompts, templates: as SBX_LIST_PROMPTS, SBX_LIST_TEMPLATES. */
        int (*prompts)(void *instance, struct sbx_output *ret_json, struct sbx_error *err);
        int (*templates)(void *instance, struct sbx_output *ret_json, struct sbx_error *err);
        /* Answers what concerns this source: its tools (then `call` is not used; it may be NULL),
         * SBX_REQUEST_RESOURCES, and SBX_REQUEST_READ, SBX_REQUEST_PROMPT, SBX_REQUEST_COMPLETION of what it has listed
         * or its templates match. `client` is never NULL. Requests run in parallel. -ENOENT: it is not this source's
         * after all. */
        int (*request)(void *instance, const struct sbx_request *request, const struct sbx_client *client,
                       const struct sbx_call *call, struct sbx_output *ret_result, struct sbx_error *err);
};

#ifdef __cplusplus
}
#endif
#endif
