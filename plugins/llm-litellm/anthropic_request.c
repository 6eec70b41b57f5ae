/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to Anthropic's Messages API, made of chat-completions requests. */
#include "dialect.h"
#include "util.h"

#define DEFAULT_MAX_TOKENS 4096   /* the API demands a number */
#define NO_CONTENT "(no content)" /* the API refuses messages and blocks without text */

bool llm_wants_json_tool(const json_t *request) {
        const char *type = llm_json_string(json_object_get(request, "response_format"), "type");

        return type != NULL && strcmp(type, "json_schema") == 0;
}

static int append_new(json_t *array, json_t *value) {
        return json_array_append_new(array, value) < 0 ? -ENOMEM : 0;
}

static int set(json_t *object, const char *key, json_t *value) {
        return json_object_set_new(object, key, value) < 0 ? -ENOMEM : 0;
}

static int append_text(json_t *blocks, const char *text, size_t size) {
        return size == 0 ? 0 : append_new(blocks, json_pack("{s:s, s:s%}", "type", "text", "text", text, size));
}

/* "data:image/png;base64,..." goes along, another address is left to the API to fetch. */
static int append_image(json_t *blocks, const char *url) {
        const char *comma = strchr(url, ','), *semicolon = strchr(url, ';');

        if (strncmp(url, "data:", 5) != 0)
                return append_new(
                        blocks, json_pack("{s:s, s:{s:s, s:s}}", "type", "image", "source", "type", "url", "url", url));
        if (comma == NULL || semicolon == NULL || semicolon > comma || strncmp(semicolon, ";base64,", 8) != 0)
                return -EINVAL;
        return append_new(blocks, json_pack("{s:s, s:{s:s, s:s%, s:s}}", "type", "image", "source", "type", "base64",
                                            "media_type", url + 5, (size_t)(semicolon - url - 5), "data", comma + 1));
}

/* The content of a message: text, or parts of text and images. */
static int append_content(json_t *blocks, const json_t *content) {
        const json_t *part;
        size_t index;
        int r = 0;

        if (json_is_string(content))
                return append_text(blocks, json_string_value(content), json_string_length(content));
        json_array_foreach (content, index, part) {
                const char *type = llm_json_string(part, "type");
                const char *url = llm_json_string(json_object_get(part, "image_url"), "url");
                const json_t *text = json_object_get(part, "text");

                if (r < 0)
                        return r;
                if (type != NULL && strcmp(type, "image_url") == 0 && url != NULL)
                        r = append_image(blocks, url);
                else if (json_is_string(text))
                        r = append_text(blocks, json_string_value(text), json_string_length(text));
                else
                        r = -EINVAL;
        }
        return r;
}

/* The API takes letters, digits, '_' and '-' in ids; calls and their results are changed alike. */
static json_t *make_id(const char *id) {
        _cleanup_free_ char *plain = strdup(id != NULL && id[0] != '\0' ? id : "call");

        if (plain == NULL)
                return NULL;
        for (char *c = plain; *c != '\0'; c++)
                if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '-'))
                        *c = '_';
        return json_string(plain);
}

/* The API wants an object; what a model wrote that is none goes back to it as it was. */
static json_t *parse_arguments(const json_t *arguments) {
        json_t *parsed = NULL;

        if (json_is_object(arguments))
                return json_incref((json_t *)arguments);
        if (!json_is_string(arguments))
                return json_object();
        if (json_string_length(arguments) == 0)
                return json_object();
        if (llm_json_parse((struct sbx_bytes){json_string_value(arguments), json_string_length(arguments)}, &parsed,
                           NULL) == 0)
                return parsed;
        return json_pack("{s:O}", "unreadable_arguments", arguments);
}

static int append_calls(json_t *blocks, const json_t *calls) {
        const json_t *call;
        size_t index;
        int r = 0;

        json_array_foreach (calls, index, call) {
                const json_t *function = json_object_get(call, "function");
                const char *name = llm_json_string(function, "name");

                if (r == 0)
                        r = append_new(blocks, json_pack("{s:s, s:o, s:s, s:o}", "type", "tool_use", "id",
                                                         make_id(llm_json_string(call, "id")), "name",
                                                         name != NULL ? name : "unknown", "input",
                                                         parse_arguments(json_object_get(function, "arguments"))));
        }
        return r;
}

static int append_result(json_t *blocks, const json_t *message) {
        _cleanup_json_ json_t *content = json_array();
        json_t *block;
        int r = content != NULL ? append_content(content, json_object_get(message, "content")) : -ENOMEM;

        if (r < 0)
                return r;
        block = json_pack("{s:s, s:o}", "type", "tool_result", "tool_use_id",
                          make_id(llm_json_string(message, "tool_call_id")));
        if (block != NULL && json_array_size(content) > 0 && json_object_set(block, "content", content) < 0) {
                json_decref(block);
                return -ENOMEM;
        }
        return append_new(blocks, block);
}

/* Blocks of the last message if it is of that role, else of a new one: the API wants the roles to take turns, and all
 * results of one turn in one message. */
static json_t *blocks_of(json_t *messages, const char *role) {
        json_t *last = json_array_get(messages, json_array_size(messages) - 1);
        json_t *message;

        if (json_array_size(messages) > 0 && strcmp(llm_json_string(last, "role"), role) == 0)
                return json_object_get(last, "content");
        message = json_pack("{s:s, s:[]}", "role", role, "content");
        return append_new(messages, message) < 0 ? NULL : json_object_get(message, "content");
}

static int add_system(struct llm_text *system, const json_t *content) {
        const json_t *part;
        size_t index;

        if (system->size > 0)
                llm_text_literal(system, "\n\n");
        if (json_is_string(content))
                return llm_text_append(system, json_string_value(content), json_string_length(content));
        json_array_foreach (content, index, part) {
                const json_t *text = json_object_get(part, "text");

                if (json_is_string(text))
                        llm_text_append(system, json_string_value(text), json_string_length(text));
        }
        return system->error;
}

static int add_message(json_t *messages, struct llm_text *system, const json_t *message) {
        const char *role = llm_json_string(message, "role");
        const json_t *content = json_object_get(message, "content");
        json_t *blocks;
        int r;

        if (role == NULL)
                return -EINVAL;
        if (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0)
                return add_system(system, content);
        if (strcmp(role, "tool") == 0) {
                blocks = blocks_of(messages, "user");
                return blocks != NULL ? append_result(blocks, message) : -ENOMEM;
        }
        if (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0)
                return -EINVAL;
        blocks = blocks_of(messages, role);
        if (blocks == NULL)
                return -ENOMEM;
        r = append_content(blocks, content);
        if (r == 0 && strcmp(role, "assistant") == 0)
                r = append_calls(blocks, json_object_get(message, "tool_calls"));
        return r == 0 && json_array_size(blocks) == 0 ? append_text(blocks, NO_CONTENT, strlen(NO_CONTENT)) : r;
}

static int set_messages(json_t *body, const json_t *request, struct sbx_error *err) {
        _cleanup_text_ struct llm_text system = LLM_TEXT(SIZE_MAX / 4);
        json_t *messages = json_array();
        const json_t *message;
        size_t index;
        int r = set(body, "messages", messages);

        if (json_array_size(json_object_get(request, "messages")) == 0)
                return sbx_error_set(err, -EINVAL, LLM_ORIGIN, NULL, "the request has no messages");
        json_array_foreach (json_object_get(request, "messages"), index, message) {
                if (r == 0)
                        r = add_message(messages, &system, message);
                if (r == -EINVAL)
                        return sbx_error_set(err, r, LLM_ORIGIN, NULL,
                                             "messages[%zu] has a role or content that Anthropic's API has no form for",
                                             index);
        }
        if (r == 0 && system.size > 0)
                r = set(body, "system", json_stringn(system.data, system.size));
        return r;
}

/* ---- tools ---- */

static int append_tool(json_t *tools, const json_t *function) {
        const char *name = llm_json_string(function, "name"), *description = llm_json_string(function, "description");
        json_t *schema = json_object_get(function, "parameters");
        json_t *tool;

        if (name == NULL)
                return -EINVAL;
        tool = json_pack("{s:s, s:o}", "name", name, "input_schema",
                         json_is_object(schema) ? json_incref(schema)
                                                : json_pack("{s:s, s:{}}", "type", "object", "properties"));
        if (tool != NULL && description != NULL && set(tool, "description", json_string(description)) < 0) {
                json_decref(tool);
                return -ENOMEM;
        }
        return append_new(tools, tool);
}

static int append_answer_tool(json_t *tools, const json_t *request) {
        json_t *schema =
                json_object_get(json_object_get(json_object_get(request, "response_format"), "json_schema"), "schema");

        if (!json_is_object(schema))
                return -EINVAL;
        return append_new(tools, json_pack("{s:s, s:s, s:O}", "name", LLM_ANSWER_TOOL, "description",
                                           "Gives the final answer. Call it once, when the answer is complete.",
                                           "input_schema", schema));
}

static json_t *choose_tool(const json_t *request, bool wants_json, size_t tool_count) {
        const json_t *choice = json_object_get(request, "tool_choice");
        const char *word = json_string_value(choice), *name;

        name = llm_json_string(json_object_get(choice, "function"), "name");
        if (name != NULL)
                return json_pack("{s:s, s:s}", "type", "tool", "name", name);
        if (wants_json && (tool_count == 1 || (word != NULL && strcmp(word, "none") == 0)))
                return json_pack("{s:s, s:s}", "type", "tool", "name", LLM_ANSWER_TOOL);
        if (wants_json || (word != NULL && strcmp(word, "required") == 0))
                return json_pack("{s:s}", "type", "any");
        return json_pack("{s:s}", "type", word != NULL && strcmp(word, "none") == 0 ? "none" : "auto");
}

static int set_tools(json_t *body, const json_t *request, struct sbx_error *err) {
        bool wants_json = llm_wants_json_tool(request);
        json_t *tools = json_array(), *choice;
        const json_t *tool;
        size_t index;
        int r = set(body, "tools", tools);

        json_array_foreach (json_object_get(request, "tools"), index, tool)
                if (r == 0)
                        r = append_tool(tools, json_object_get(tool, "function"));
        if (r == 0 && wants_json)
                r = append_answer_tool(tools, request);
        if (r == -EINVAL)
                return sbx_error_set(err, r, LLM_ORIGIN, NULL, "a tool has no name, or response_format has no schema");
        if (r == 0 && json_array_size(tools) == 0) {
                json_object_del(body, "tools");
                return 0;
        }
        choice = choose_tool(request, wants_json, json_array_size(tools));
        if (json_is_false(json_object_get(request, "parallel_tool_calls")) &&
            set(choice, "disable_parallel_tool_use", json_true()) < 0)
                r = -ENOMEM;
        return r < 0 ? (json_decref(choice), r) : set(body, "tool_choice", choice);
}

/* ---- the rest ---- */

static int set_stops(json_t *body, const json_t *request) {
        const json_t *stop = json_object_get(request, "stop"), *item;
        json_t *stops = json_array();
        size_t index;
        int r = set(body, "stop_sequences", stops);

        if (r == 0 && json_is_string(stop))
                r = json_array_append(stops, (json_t *)stop) < 0 ? -ENOMEM : 0;
        json_array_foreach (stop, index, item)
                if (r == 0 && json_is_string(item) && json_array_append(stops, (json_t *)item) < 0)
                        r = -ENOMEM;
        if (r == 0 && json_array_size(stops) == 0)
                json_object_del(body, "stop_sequences");
        return r;
}

static int set_numbers(json_t *body, const json_t *request, const struct llm_manner *manner) {
        const json_t *temperature = json_object_get(request, "temperature"), *top_p = json_object_get(request, "top_p");
        double value = json_is_number(temperature) ? json_number_value(temperature) : manner->temperature;
        int64_t max_tokens = DEFAULT_MAX_TOKENS;
        int r;

        if (!llm_json_count(request, "max_tokens", &max_tokens))
                llm_json_count(request, "max_completion_tokens", &max_tokens);
        r = set(body, "max_tokens", json_integer(max_tokens));
        /* 1 is the most here, and 2 there. */
        if (r == 0 && !manner->no_temperature && (json_is_number(temperature) || manner->has_temperature))
                r = set(body, "temperature", json_real(value < 1 ? value : 1));
        if (r == 0 && json_is_number(top_p) && temperature == NULL)
                r = json_object_set(body, "top_p", (json_t *)top_p) < 0 ? -ENOMEM : 0;
        if (r == 0 && manner->stream)
                r = set(body, "stream", json_true());
        return r;
}

/* Without a schema there is nothing that could be forced: the model is told. */
static int ask_for_json(json_t *body, const json_t *request) {
        static const char words[] = "Answer with one JSON object and nothing else.";
        const char *type = llm_json_string(json_object_get(request, "response_format"), "type");
        const char *system = llm_json_string(body, "system");

        if (type == NULL || strcmp(type, "json_object") != 0)
                return 0;
        return set(body, "system", system != NULL ? json_sprintf("%s\n\n%s", system, words) : json_string(words));
}

static int encode(const json_t *request, const struct llm_route *route, const struct llm_manner *manner,
                  struct llm_text *out, struct sbx_error *err) {
        _cleanup_json_ json_t *body = json_object();
        int r = set(body, "model", json_string(route->name));

        if (r == 0)
                r = set_messages(body, request, err);
        if (r == 0)
                r = set_tools(body, request, err);
        if (r == 0)
                r = set_stops(body, request);
        if (r == 0)
                r = set_numbers(body, request, manner);
        if (r == 0)
                r = ask_for_json(body, request);
        if (r == 0)
                r = llm_json_encode(body, out);
        if (r == -EFBIG)
                return sbx_error_set(err, -E2BIG, LLM_ORIGIN, NULL, "the request is larger than %zu bytes", out->max);
        return r < 0 && r != -EINVAL ? llm_nomem(err) : r;
}

const struct llm_dialect llm_anthropic = {encode, llm_anthropic_decode, llm_anthropic_event};
