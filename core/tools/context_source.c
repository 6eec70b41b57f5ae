/* SPDX-License-Identifier: Apache-2.0 */
/* The tools of a context source plugin, in the registry. */
#include "tools/state.h"

#include <snipara-sandbox/context.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/shape.h"

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
        r = sbx_shape_blocks(json_object_get(result, "content"), tool, err);
        if (r < 0)
                return r;
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

/* The newer way, with a client that may be asked back. Calls of models and code have none: they get one that can't be
 * asked. */
static int request_source(const struct source_tool *tool, const struct sbx_tool_context *context,
                          struct sbx_bytes arguments, struct sbx_output *output, struct sbx_error *err) {
        const struct sbx_context_ops *ops = tool->source->ops;
        const struct sbx_request request = {
                .struct_size = sizeof(request),
                .kind = SBX_REQUEST_TOOL,
                .name = tool->name,
                .arguments = arguments,
                .principal = context->principal != NULL ? context->principal : "",
        };
        static const struct sbx_call no_limit = {.struct_size = sizeof(no_limit), .cancel_fd = -1};
        struct sbx_tool_client nobody;

        sbx_tool_client_init(&nobody, NULL, context, false);
        return ops->request(tool->source->state, &request, context->client != NULL ? context->client : &nobody.client,
                            context->call != NULL ? context->call : &no_limit, output, err);
}

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
        r = ops->request != NULL ? request_source(tool, context, sbx_buffer_bytes(&encoded), output, err)
                                 : ops->call(tool->source->state, tool->name, sbx_buffer_bytes(&encoded), context->call,
                                             output, err);
        return r < 0 ? r : parse_result(sbx_output_bytes(output), tool->name, ret_result, err);
}

static void free_source_tool(void *data) {
        struct source_tool *tool = data;

        free(tool->name);
        free(tool);
}

/* ---- adding ---- */

#define OURS "snipara-sandbox/"

/* A definition's members as texts, as struct sbx_tool wants them. */
struct definition_texts {
        char *schema, *annotations, *icons, *meta;
};

static void free_texts(struct definition_texts *texts) {
        free(texts->schema);
        free(texts->annotations);
        free(texts->icons);
        free(texts->meta);
}

static int to_text(const json_t *value, char **ret_text) {
        *ret_text = json_dumps(value, JSON_COMPACT);
        return *ret_text != NULL ? 0 : -ENOMEM;
}

/* NULL where there is none. */
static int member_text(const json_t *definition, const char *key, char **ret_text) {
        const json_t *member = json_object_get(definition, key);

        return json_is_object(member) || json_is_array(member) ? to_text(member, ret_text) : 0;
}

/* What is not for us in "_meta". */
static int foreign_meta(const json_t *meta, char **ret_text) {
        _cleanup_json_ json_t *foreign = json_object();
        const char *key;
        json_t *value;

        if (foreign == NULL)
                return -ENOMEM;
        json_object_foreach ((json_t *)meta, key, value) {
                if (strncmp(key, OURS, strlen(OURS)) != 0 && json_object_set(foreign, key, value) < 0)
                        return -ENOMEM;
        }
        return json_object_size(foreign) > 0 ? to_text(foreign, ret_text) : 0;
}

static int fill_texts(const json_t *definition, struct definition_texts *texts) {
        int r = member_text(definition, "inputSchema", &texts->schema);

        if (r == 0)
                r = member_text(definition, "annotations", &texts->annotations);
        if (r == 0)
                r = member_text(definition, "icons", &texts->icons);
        return r < 0 ? r : foreign_meta(json_object_get(definition, "_meta"), &texts->meta);
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

static int add_tool(struct sbx_tools *tools, const struct sbx_instance *source, struct sbx_tool *tool,
                    struct sbx_error *err) {
        struct source_tool *data = calloc(1, sizeof(*data));
        int r;

        if (data == NULL)
                return SBX_NOMEM(err, ORIGIN);
        data->source = source;
        data->name = strdup(tool->name != NULL ? tool->name : "");
        tool->data = data;
        r = data->name == NULL ? SBX_NOMEM(err, ORIGIN) : sbx_tools_add(tools, tool, err);
        if (r < 0)
                free_source_tool(data);
        return r;
}

static int add_definition(struct sbx_tools *tools, const struct sbx_instance *source, const json_t *definition,
                          bool only_missing, struct sbx_error *err) {
        const struct sbx_context_ops *ops = source->ops;
        const char *name = json_string_value(json_object_get(definition, "name"));
        const json_t *meta = json_object_get(definition, "_meta"),
                     *execution = json_object_get(definition, "execution");
        __attribute__((cleanup(free_texts))) struct definition_texts texts = {0};
        struct sbx_tool tool = {.name = name,
                                .title = json_string_value(json_object_get(definition, "title")),
                                .description = json_string_value(json_object_get(definition, "description")),
                                .run = call_source,
                                .free_data = free_source_tool,
                                .flags = SBX_TOOL_HEARTBEAT | SBX_TOOL_FOREIGN,
                                .task_support = json_string_value(json_object_get(execution, "taskSupport"))};
        int r;

        if (only_missing && name != NULL && sbx_tools_find(tools, name) != NULL)
                return 0;
        if (json_is_true(json_object_get(meta, OURS "host")))
                tool.flags |= SBX_TOOL_HOST;
        if (ops->request != NULL)
                tool.flags |= SBX_TOOL_PROTOCOL;
        if (tool.task_support != NULL && strcmp(tool.task_support, "forbidden") == 0)
                tool.task_support = NULL;
        if (fill_texts(definition, &texts) < 0)
                return SBX_NOMEM(err, ORIGIN);
        tool.input_schema = texts.schema;
        tool.annotations = texts.annotations;
        tool.icons = texts.icons;
        tool.meta = texts.meta;
        r = add_tool(tools, source, &tool, err);
        return r < 0 ? r : add_aliases(tools, name, meta, only_missing, err);
}

static int ask_definitions(const struct sbx_instance *source, json_t **ret_definitions, struct sbx_error *err) {
        const struct sbx_context_ops *ops = source->ops;
        _cleanup_output_ struct sbx_output *output = NULL;
        _cleanup_json_ json_t *definitions = NULL;
        int r = sbx_output_new(DEFINITIONS_MAX_BYTES, &output);

        if (r < 0)
                return SBX_NOMEM(err, ORIGIN);
        r = ops->tools(source->state, output, err);
        if (r == 0)
                r = sbx_json_parse(sbx_output_bytes(output), DEFINITIONS_MAX_BYTES, "tools", &definitions, err);
        if (r == 0 && !json_is_array(definitions))
                r = sbx_error_set(err, -EBADMSG, ORIGIN, NULL, "its tools are not a JSON array");
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, NULL, "its tools can't be had: %s", SBX_ERRNO_TEXT(r));
        *ret_definitions = steal_pointer(definitions);
        return 0;
}

/* ---- sources whose tools change ---- */

/* Before it is asked, so that no change is missed. */
static int remember(struct sbx_tools *tools, const struct sbx_instance *source, size_t *ret_index,
                    struct sbx_error *err) {
        SBX_LOCKED(&tools->lock);
        if (tools->source_count == SBX_TOOL_SOURCES_MAX)
                return sbx_error_set(err, -ENOSPC, ORIGIN, NULL, "there are %u context sources already, the maximum",
                                     SBX_TOOL_SOURCES_MAX);
        *ret_index = tools->source_count++;
        tools->sources[*ret_index] = (struct sbx_tool_source){.source = source};
        return 0;
}

static void forget(struct sbx_tools *tools, size_t index) {
        SBX_LOCKED(&tools->lock);
        tools->sources[index].source = NULL;
}

int sbx_tools_add_context(struct sbx_tools *tools, const struct sbx_instance *source, bool only_missing,
                          struct sbx_error *err) {
        _cleanup_json_ json_t *definitions = NULL;
        json_t *definition;
        size_t index, place = 0;
        int r = remember(tools, source, &place, err);

        if (r < 0)
                return r;
        r = ask_definitions(source, &definitions, err);
        json_array_foreach (definitions, index, definition) {
                if (r == 0)
                        r = add_definition(tools, source, definition, only_missing, err);
        }
        if (r < 0) {
                forget(tools, place);
                sbx_error_wrap(err, "context source '%s'", source->name);
        }
        return r;
}

void sbx_tools_source_changed(struct sbx_tools *tools, const char *source) {
        SBX_LOCKED(&tools->lock);
        for (size_t i = 0; i < tools->source_count; i++) {
                struct sbx_tool_source *at = &tools->sources[i];

                if (at->source == NULL || at->changed || strcmp(at->source->name, source) != 0)
                        continue;
                at->changed = true;
                __atomic_add_fetch(&tools->changed_sources, 1, __ATOMIC_RELEASE);
        }
}

static const struct sbx_instance *take_changed(struct sbx_tools *tools) {
        SBX_LOCKED(&tools->lock);
        for (size_t i = 0; i < tools->source_count; i++)
                if (tools->sources[i].changed) {
                        tools->sources[i].changed = false;
                        __atomic_sub_fetch(&tools->changed_sources, 1, __ATOMIC_RELEASE);
                        return tools->sources[i].source;
                }
        return NULL;
}

static void refresh_source(struct sbx_tools *tools, const struct sbx_instance *source) {
        _cleanup_json_ json_t *definitions = NULL;
        struct sbx_error problem = {0};
        json_t *definition;
        size_t index;

        if (ask_definitions(source, &definitions, &problem) < 0)
                sbx_log(tools->logger, SBX_LOG_WARNING, "%s: its tools stay as they are: %s", source->name,
                        problem.message);
        json_array_foreach (definitions, index, definition) {
                problem = (struct sbx_error){0};
                if (add_definition(tools, source, definition, true, &problem) < 0)
                        sbx_log(tools->logger, SBX_LOG_WARNING, "%s: a new tool is not taken: %s", source->name,
                                problem.message);
        }
}

void sbx_tools_refresh(struct sbx_tools *tools) {
        /* No more than there are: one that changes again whenever it is asked has its turn the next time. */
        unsigned changed = __atomic_load_n(&tools->changed_sources, __ATOMIC_ACQUIRE);
        const struct sbx_instance *source;

        if (changed == 0)
                return;
        SBX_LOCKED(&tools->refresh_lock);
        for (; changed > 0 && !tools->refresh_ended; changed--) {
                source = take_changed(tools);
                if (source == NULL)
                        return;
                refresh_source(tools, source);
        }
}

void sbx_tools_end_refresh(struct sbx_tools *tools) {
        SBX_LOCKED(&tools->refresh_lock);
        tools->refresh_ended = true;
}
