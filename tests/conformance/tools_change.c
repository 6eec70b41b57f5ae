/* SPDX-License-Identifier: Apache-2.0 */
/* Tools that change a list or a resource, so that a client can hear of it. */
#include "fixtures.h"

static void tell(const struct fixture_call *call, uint32_t kind, const char *uri) {
        const struct sbx_host *host = call->fixtures->host;
        struct sbx_change change = {.struct_size = sizeof(change), .kind = kind, .uri = uri};

        host->changed(host->self, &change);
}

/* Hosts only ever add tools: the first trigger adds one, every one says that the list changed. */
static int change_tools(const struct fixture_call *call, json_t **ret_result) {
        atomic_store(&call->fixtures->extra_tool, true);
        tell(call, SBX_CHANGE_TOOLS, NULL);
        return fixture_text(call, ret_result, "The list of tools has changed.");
}

static int change_prompts(const struct fixture_call *call, json_t **ret_result) {
        bool was = atomic_load(&call->fixtures->extra_prompt);

        while (!atomic_compare_exchange_weak(&call->fixtures->extra_prompt, &was, !was))
                ;
        tell(call, SBX_CHANGE_PROMPTS, NULL);
        return fixture_text(call, ret_result, "The list of prompts has changed.");
}

static int change_resource(const struct fixture_call *call, json_t **ret_result) {
        unsigned version = atomic_fetch_add(&call->fixtures->watched_version, 1) + 1;

        tell(call, SBX_CHANGE_RESOURCE, FIXTURE_WATCHED_URI);
        return fixture_text(call, ret_result, "%s has version %u.", FIXTURE_WATCHED_URI, version);
}

/* clang-format off */
static const struct fixture tools[] = {
        {"test_trigger_prompt_change", FIXTURE_JSON({"description": "Changes the list of prompts."}), change_prompts},
        {"test_trigger_resource_change", FIXTURE_JSON({"description": "Changes test://watched-resource."}),
         change_resource},
        {"test_trigger_tool_change", FIXTURE_JSON({"description": "Changes the list of tools."}), change_tools},
};
/* clang-format on */

const struct fixture_table fixture_tools_change = {tools, FIXTURE_COUNT(tools)};
