/* SPDX-License-Identifier: Apache-2.0 */
/* context-conformance: the descriptor, the lists, and who answers which request. */
#include <stdlib.h>

#include "fixtures.h"

static const struct fixture_table *const tool_tables[] = {
        &fixture_tools_content, &fixture_tools_ask, &fixture_tools_input, &fixture_tools_tasks, &fixture_tools_change};

/* What a trigger adds to a list. */
static int extra_run(const struct fixture_call *call, json_t **ret_result) {
        return fixture_text(call, ret_result, "This was added while the server ran.");
}
static int extra_prompt_run(const struct fixture_call *call, json_t **ret_result) {
        json_t *result = json_pack("{s:[{s:s, s:{s:s, s:s}}]}", "messages", "role", "user", "content", "type", "text",
                                   "text", "This was added while the server ran.");

        if (result == NULL)
                return fixture_nomem(call->err);
        *ret_result = result;
        return 0;
}
static const struct fixture extra_tool = {"test_extra_tool",
                                          "{\"description\": \"Added by test_trigger_tool_change.\"}", extra_run};
static const struct fixture extra_prompt = {
        "test_extra_prompt", "{\"description\": \"Added by test_trigger_prompt_change.\"}", extra_prompt_run};

/* ---- lists ---- */

static json_t *list_item(const struct fixture *fixture, bool tool) {
        json_t *item = json_loads(fixture->listing, JSON_REJECT_DUPLICATES, NULL);
        int r = json_object_set_new(item, "name", json_string(fixture->name));

        if (tool && json_object_get(item, "inputSchema") == NULL)
                r |= json_object_set_new(item, "inputSchema",
                                         json_pack("{s:s, s:b}", "type", "object", "additionalProperties", 0));
        if (r != 0) {
                json_decref(item);
                return NULL;
        }
        return item;
}

static int list_table(json_t *list, const struct fixture_table *table, bool tools) {
        for (size_t i = 0; i < table->count; i++)
                if (json_array_append_new(list, list_item(&table->fixtures[i], tools)) < 0)
                        return -ENOMEM;
        return 0;
}

/* Takes the reference `list`; NULL: no memory. */
static int put_json(struct fixtures *self, json_t *json, struct sbx_output *output, struct sbx_error *err) {
        char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
        int r = text != NULL ? self->host->output_append(self->host->self, output, text, strlen(text)) : -ENOMEM;

        free(text);
        json_decref(json);
        return r < 0 ? sbx_error_set(err, r, FIXTURES_ORIGIN, NULL, "the answer can't be written") : 0;
}

static int list_fixtures(struct fixtures *self, const struct fixture_table *const *tables, size_t count,
                         const struct fixture *extra, bool tools, struct sbx_output *ret_json, struct sbx_error *err) {
        const struct fixture_table more = {extra, extra != NULL ? 1 : 0};
        json_t *list = json_array();
        int r = list_table(list, &more, tools);

        for (size_t i = 0; r == 0 && i < count; i++)
                r = list_table(list, tables[i], tools);
        if (r < 0) {
                json_decref(list);
                list = NULL;
        }
        return put_json(self, list, ret_json, err);
}

static int list_tools(void *instance, struct sbx_output *ret_json, struct sbx_error *err) {
        struct fixtures *self = instance;

        return list_fixtures(self, tool_tables, FIXTURE_COUNT(tool_tables),
                             atomic_load(&self->extra_tool) ? &extra_tool : NULL, true, ret_json, err);
}

static int list_prompts(void *instance, struct sbx_output *ret_json, struct sbx_error *err) {
        static const struct fixture_table *const tables[] = {&fixture_prompts};
        struct fixtures *self = instance;

        return list_fixtures(self, tables, FIXTURE_COUNT(tables),
                             atomic_load(&self->extra_prompt) ? &extra_prompt : NULL, false, ret_json, err);
}

static int list_templates(void *instance, struct sbx_output *ret_json, struct sbx_error *err) {
        json_t *list = NULL;

        fixture_resources_templates(&list);
        return put_json(instance, list, ret_json, err);
}

/* ---- requests ---- */

static const struct fixture *find_in(const struct fixture_table *table, const char *name) {
        for (size_t i = 0; i < table->count; i++)
                if (strcmp(table->fixtures[i].name, name) == 0)
                        return &table->fixtures[i];
        return NULL;
}

static const struct fixture *find_tool(const char *name) {
        const struct fixture *found = strcmp(name, extra_tool.name) == 0 ? &extra_tool : NULL;

        for (size_t i = 0; found == NULL && i < FIXTURE_COUNT(tool_tables); i++)
                found = find_in(tool_tables[i], name);
        return found;
}

static const struct fixture *find_prompt(const struct fixtures *self, const char *name) {
        if (atomic_load(&self->extra_prompt) && strcmp(name, extra_prompt.name) == 0)
                return &extra_prompt;
        return find_in(&fixture_prompts, name);
}

static int answer_fixture(const struct fixture *fixture, const struct fixture_call *call, json_t **ret_result) {
        if (fixture == NULL)
                return sbx_error_set(call->err, -ENOENT, FIXTURES_ORIGIN, NULL, "there is no %.200s", call->name);
        return fixture->run(call, ret_result);
}

static int answer(const struct fixture_call *call, uint32_t kind, json_t **ret_result) {
        switch (kind) {
        case SBX_REQUEST_TOOL:
                return answer_fixture(find_tool(call->name), call, ret_result);
        case SBX_REQUEST_PROMPT:
                return answer_fixture(find_prompt(call->fixtures, call->name), call, ret_result);
        case SBX_REQUEST_RESOURCES:
                return fixture_resources_list(call, ret_result);
        case SBX_REQUEST_READ:
                return fixture_resources_read(call, ret_result);
        case SBX_REQUEST_COMPLETION:
                return fixture_complete(call, ret_result);
        default:
                return sbx_error_set(call->err, -ENOENT, FIXTURES_ORIGIN, NULL, "there are no requests of kind %u",
                                     (unsigned)kind);
        }
}

static int parse_arguments(struct sbx_bytes bytes, json_t **ret_arguments, struct sbx_error *err) {
        json_t *arguments =
                bytes.size == 0 ? json_object() : json_loadb(bytes.data, bytes.size, JSON_REJECT_DUPLICATES, NULL);

        if (!json_is_object(arguments)) {
                json_decref(arguments);
                return sbx_error_set(err, -EINVAL, FIXTURES_ORIGIN, NULL, "the arguments are not a JSON object");
        }
        *ret_arguments = arguments;
        return 0;
}

static int request(void *instance, const struct sbx_request *request, const struct sbx_client *client,
                   const struct sbx_call *call, struct sbx_output *ret_result, struct sbx_error *err) {
        json_t *arguments = NULL, *result = NULL;
        int r = parse_arguments(request->arguments, &arguments, err);
        const struct fixture_call made = {.fixtures = instance,
                                          .name = request->name != NULL ? request->name : "",
                                          .arguments = arguments,
                                          .client = client,
                                          .call = call,
                                          .err = err};

        if (r == 0)
                r = answer(&made, request->kind, &result);
        if (r == 0)
                r = put_json(instance, result, ret_result, err);
        json_decref(arguments);
        return r;
}

/* ---- the plugin ---- */

static int instance_open(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        struct fixtures *self;

        if (host->struct_size < offsetof(struct sbx_host, changed) + sizeof(host->changed))
                return sbx_error_set(err, -ENOTSUP, FIXTURES_ORIGIN, NULL, "the host is too old");
        self = calloc(1, sizeof(*self));
        if (self == NULL)
                return fixture_nomem(err);
        self->host = host;
        *ret_instance = self;
        return 0;
}

static void instance_close(void *instance) {
        free(instance);
}

static const struct sbx_option options[] = {{.name = NULL}};

static const struct sbx_context_ops ops = {
        .struct_size = sizeof(ops),
        .tools = list_tools,
        .prompts = list_prompts,
        .templates = list_templates,
        .request = request,
};

static const struct sbx_plugin plugin = {
        .struct_size = sizeof(plugin),
        .abi_major = SBX_ABI_MAJOR,
        .abi_minor = SBX_ABI_MINOR,
        .kind = SBX_PLUGIN_CONTEXT,
        .name = "context-conformance",
        .version = SBX_VERSION,
        .summary = "What the conformance suites of MCP expect of a server; for tests",
        .license = "Apache-2.0",
        .options = options,
        .ops = &ops,
        .open = instance_open,
        .close = instance_close,
};

const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        return &plugin;
}
