/* SPDX-License-Identifier: Apache-2.0 */
/* Context source plugins: contribute retrieval and memory tools to the registry. */
#ifndef SNIPARA_SANDBOX_CONTEXT_H
#define SNIPARA_SANDBOX_CONTEXT_H

#include <snipara-sandbox/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sbx_context_ops {
        uint32_t struct_size;
        uint32_t reserved;
        /* A JSON array of {name, title, description, inputSchema, annotations}; asked once, after start. */
        int (*tools)(void *instance, struct sbx_output *ret_json, struct sbx_error *err);
        /* `arguments` were validated against the tool's schema. The result is {"content": [...], "isError": bool}.
         * Calls run in parallel. */
        int (*call)(void *instance, const char *tool, struct sbx_bytes arguments, const struct sbx_call *call,
                    struct sbx_output *ret_result, struct sbx_error *err);
};

#ifdef __cplusplus
}
#endif
#endif
