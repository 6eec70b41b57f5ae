/* SPDX-License-Identifier: Apache-2.0 */
/* The tools of a context source plugin, in the registry. */
#include "tools/state.h"

#include <snipara-sandbox/context.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_TOOLS_ORIGIN
#define DEFINITIONS_MAX_BYTES ((size_t)1 << 20)

static void output_cleanup(struct sbx_output **output) {
        sbx_output_free(*output);
}
#define _cleanup_output_ __attribute__((cleanup(output_cleanup)))

/* ---- calling ---- */

static int parse_result(struct sbx_bytes bytes, const char *tool, json_t **ret_result, struct sbx_error *err) {
        _cleanup_json_ json_t *result = NULL;
        int r = sbx_json_parse(bytes, SBX_TOOL_RESULT_MAX, "result", &result, err);

        if (r < 0) {
                sbx_error_wrap(err, "%s", tool);
                return r;
        }
        if (!json_is_array(json_object_get(result, "content")))
                return sbx_error_set(err, -EBADMSG, ORIGIN, "Tell the author of the context source.",
                                     "%s: its result has no content array", tool);
        if (!json_is_boolean(json_object_get(result, "isError")) &&
            json_object_set_new(result, "isError", json_false()) < 0)
                return SBX_NOMEM(err, ORIGIN);
        *ret_result = steal_pointer(result);
        return 0;
}

/* The data of the definition: which instance, and its own name for the tool. */
struct source_tool {
        const struct sbx_instance *source;
        char *name;
};

static int call_source(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                       struct sbx_error *err) {
        const struct source_tool *tool = context->data;
        const struct sbx_context_ops *ops = tool->source->ops;
        _cleanup_buffer_ struct sbx_buffer encoded = SBX_BUFFER(SBX_TOOL_ARGUMENTS_MAX);
        _cleanup_output_ struct sbx_output *output = NULL;
        int r = sbx_json_encode(arguments, &encoded);

        if (r == 0)
                r = sbx_output_new(SBX_TOOL_RESULT_MAX, &output);
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, NULL, "%s: %s", tool->name, SBX_ERRNO_TEXT(r));
        r = ops->call(tool->source->state, tool->name, sbx_buffer_bytes(&encoded), context->call, output, err);
        return r < 0 ? r : parse_result(sbx_output_bytes(output), tool->name, ret_result, err);
}

static void free_source_tool(void *data) {
        struct source_tool *tool = data;

        free(tool->name);
        free(tool);
}

/* ---- adding ---- */

static char *member_text(const json_t *definition, const char *key) {
        const json_t *member = json_object_get(definition, key);

        return json_is_object(member) ? json_dumps(member, JSON_COMPACT) : NULL;
}

/* "_meta" is for us: who may call the tool, and its other names. */
static int add_aliases(struct sbx_tools *tools, const char *name, const json_t *meta, bool only_missing,
                       struct sbx_error *err) {
        const json_t *aliases = json_object_get(meta, "snipara-sandbox/aliases");
        json_t *alias;
        size_t index;

        if (aliases != NULL && !json_is_array(aliases))
                return sbx_error_set(err, -EBADMSG, ORIGIN, NULL, "tool '%s': its aliases must be an array", name);
        json_array_foreach ((json_t *)aliases, index, alias) {
                const char *text = json_string_value(alias);
                int r;

                if (only_missing && text != NULL && sbx_tools_find(tools, text) != NULL)
                        continue;
                r = sbx_tools_alias(tools, text, name, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_definition(struct sbx_tools *tools, const struct sbx_instance *source, const json_t *definition,
                          bool only_missing, struct sbx_error *err) {
        const char *name = json_string_value(json_object_get(definition, "name"));
        const json_t *meta = json_object_get(definition, "_meta");
        _cleanup_free_ char *schema = member_text(definition, "inputSchema");
        _cleanup_free_ char *annotations = member_text(definition, "annotations");
        struct source_tool *data;
        struct sbx_tool tool = {.name = name,
                                .title = json_string_value(json_object_get(definition, "title")),
                                .description = json_string_value(json_object_get(definition, "description")),
                                .input_schema = schema,
                                .annotations = annotations,
                                .run = call_source,
                                .free_data = free_source_tool,
                                .flags = SBX_TOOL_HEARTBEAT};
        int r;

        if (only_missing && name != NULL && sbx_tools_find(tools, name) != NULL)
                return 0;
        if (json_is_true(json_object_get(meta, "snipara-sandbox/host")))
                tool.flags |= SBX_TOOL_HOST;
        tool.data = data = calloc(1, sizeof(*data));
        if (data == NULL)
                return SBX_NOMEM(err, ORIGIN);
        data->source = source;
        data->name = strdup(name != NULL ? name : "");
        r = data->name == NULL ? SBX_NOMEM(err, ORIGIN) : sbx_tools_add(tools, &tool, err);
        if (r < 0) {
                free_source_tool(data);
                return r;
        }
        return add_aliases(tools, name, meta, only_missing, err);
}

int sbx_tools_add_context(struct sbx_tools *tools, const struct sbx_instance *source, bool only_missing,
                          struct sbx_error *err) {
        const struct sbx_context_ops *ops = source->ops;
        _cleanup_output_ struct sbx_output *output = NULL;
        _cleanup_json_ json_t *definitions = NULL;
        json_t *definition;
        size_t index;
        int r = sbx_output_new(DEFINITIONS_MAX_BYTES, &output);

        if (r < 0)
                return SBX_NOMEM(err, ORIGIN);
        r = ops->tools(source->state, output, err);
        if (r == 0)
                r = sbx_json_parse(sbx_output_bytes(output), DEFINITIONS_MAX_BYTES, "tools", &definitions, err);
        if (r == 0 && !json_is_array(definitions))
                r = sbx_error_set(err, -EBADMSG, ORIGIN, NULL, "its tools are not a JSON array");
        json_array_foreach (definitions, index, definition) {
                if (r == 0)
                        r = add_definition(tools, source, definition, only_missing, err);
        }
        if (r < 0)
                sbx_error_wrap(err, "context source '%s'", source->name);
        return r;
}
