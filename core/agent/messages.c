/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a conversation, in the shape of the chat-completions API. What is in results is data, never more. */
#include "agent/messages.h"

#include "agent/subcalls.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "tools/content.h"

#define UNBOUNDED (SIZE_MAX / 2)
#define BRIEF_MAX_BYTES ((size_t)16 << 10) /* of one text in an event's arguments */
#define BRIEF_DEPTH_MAX 8u

json_t *sbx_messages_new(const char *system, const char *prompt) {
        _cleanup_json_ json_t *messages = json_array();

        if (messages == NULL)
                return NULL;
        if (system != NULL && system[0] != '\0' &&
            json_array_append_new(messages, json_pack("{s:s, s:o}", "role", "system", "content",
                                                      sbx_json_text((struct sbx_bytes){system, strlen(system)}))) < 0)
                return NULL;
        if (json_array_append_new(messages, json_pack("{s:s, s:o}", "role", "user", "content",
                                                      sbx_json_text((struct sbx_bytes){prompt, strlen(prompt)}))) < 0)
                return NULL;
        return steal_pointer(messages);
}

/* ---- results ---- */

static int add_block(const json_t *block, struct sbx_buffer *out) {
        const char *type = json_string_value(json_object_get(block, "type"));
        const json_t *text = json_object_get(block, "text"), *data = json_object_get(block, "data");
        const char *mime = json_string_value(json_object_get(block, "mimeType")),
                   *uri = json_string_value(json_object_get(block, "uri"));
        int r = 0;

        if (out->size > 0 && out->data[out->size - 1] != '\n')
                r = sbx_buffer_append(out, "\n", 1);
        if (r < 0)
                return r;
        if (json_is_string(text))
                return sbx_buffer_append(out, json_string_value(text), json_string_length(text));
        if (json_is_string(data))
                return sbx_buffer_printf(out, "[%s: %.80s, %zu kB, not shown to you]", type != NULL ? type : "data",
                                         mime != NULL ? mime : "unknown type",
                                         (json_string_length(data) / 4 * 3 + 999) / 1000);
        return sbx_buffer_printf(out, "[%s: %.1000s]", type != NULL ? type : "block", uri != NULL ? uri : "no text");
}

json_t *sbx_messages_result_text(const json_t *result, bool *ret_is_error) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(UNBOUNDED), clipped = SBX_BUFFER(UNBOUNDED);
        const json_t *content = json_object_get(result, "content"), *block;
        bool is_error = json_is_true(json_object_get(result, "isError"));
        size_t index;

        json_array_foreach (content, index, block)
                if (add_block(block, &text) < 0)
                        return NULL;
        if (text.size == 0 &&
            sbx_buffer_append_text(&text, is_error ? "Error: no reason was given" : "(no output)") < 0)
                return NULL;
        if (sbx_text_clip(sbx_buffer_bytes(&text), SBX_CONTENT_TEXT_MAX, &clipped) < 0)
                return NULL;
        *ret_is_error = is_error;
        return sbx_json_text(sbx_buffer_bytes(&clipped));
}

int sbx_messages_add_result(json_t *messages, json_t *tool_results, const json_t *call_id, json_t *text,
                            bool is_error) {
        if (json_array_append_new(messages, json_pack("{s:s, s:O, s:O}", "role", "tool", "tool_call_id", call_id,
                                                      "content", text)) < 0)
                return -ENOMEM;
        return json_array_append_new(tool_results, json_pack("{s:O, s:O, s:b}", "tool_call_id", call_id, "content",
                                                             text, "is_error", (int)is_error)) < 0
                       ? -ENOMEM
                       : 0;
}

/* ---- tools ---- */

static json_t *describe_tool(const json_t *tool) {
        return json_pack("{s:s, s:{s:O, s:O, s:O}}", "type", "function", "function", "name",
                         json_object_get(tool, "name"), "description", json_object_get(tool, "description"),
                         "parameters", json_object_get(tool, "inputSchema"));
}

int sbx_messages_tools(const struct sbx_place *place, json_t **ret_tools, struct sbx_error *err) {
        _cleanup_json_ json_t *list = NULL, *tools = json_array();
        const json_t *tool;
        size_t index;
        int r = sbx_tools_list_for(place->run->parts->tools, SBX_CALLER_MODEL, &list, err);

        if (r < 0)
                return r;
        if (tools == NULL)
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        json_array_foreach (list, index, tool) {
                const char *name = json_string_value(json_object_get(tool, "name"));

                if (sbx_is_subcall_tool(name) && !sbx_subcalls_possible(place))
                        continue;
                if (json_array_append_new(tools, describe_tool(tool)) < 0)
                        return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        }
        *ret_tools = steal_pointer(tools);
        return 0;
}

/* ---- cutting ---- */

char *sbx_messages_shorten(const char *text) {
        _cleanup_buffer_ struct sbx_buffer clipped = SBX_BUFFER(UNBOUNDED);

        if (sbx_text_clip((struct sbx_bytes){text, strlen(text)}, SBX_REACHED_MAX, &clipped) < 0)
                return NULL;
        return clipped.size > 0 ? sbx_buffer_steal(&clipped) : strdup("");
}

static json_t *brief_text(const json_t *text) {
        struct sbx_bytes bytes = {json_string_value(text), json_string_length(text)};
        _cleanup_buffer_ struct sbx_buffer cut = SBX_BUFFER(UNBOUNDED);

        if (bytes.size <= BRIEF_MAX_BYTES)
                return json_incref((json_t *)text);
        if (sbx_text_clip(bytes, BRIEF_MAX_BYTES / 4, &cut) < 0)
                return NULL;
        return sbx_json_text(sbx_buffer_bytes(&cut));
}

static json_t *brief(const json_t *value, unsigned depth) {
        _cleanup_json_ json_t *copy = NULL;
        const char *key;
        json_t *item;
        size_t index;

        if (json_is_string(value))
                return brief_text(value);
        if (!json_is_object(value) && !json_is_array(value))
                return json_incref((json_t *)value);
        copy = json_is_object(value) ? json_object() : json_array();
        if (copy == NULL || depth == BRIEF_DEPTH_MAX)
                return steal_pointer(copy);
        json_object_foreach ((json_t *)value, key, item)
                if (json_object_set_new(copy, key, brief(item, depth + 1)) < 0)
                        return NULL;
        json_array_foreach (value, index, item)
                if (json_array_append_new(copy, brief(item, depth + 1)) < 0)
                        return NULL;
        return steal_pointer(copy);
}

json_t *sbx_messages_brief(const json_t *arguments) {
        return brief(arguments, 0);
}
