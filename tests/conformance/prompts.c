/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts of each kind, one of which asks the user before it is ready. */
#include "fixtures.h"

/* Takes the references. */
static int messages(const struct fixture_call *call, json_t *list, json_t **ret_result) {
        json_t *result = json_pack("{s:s, s:o}", "description", call->name, "messages", list);

        if (result == NULL)
                return fixture_nomem(call->err);
        *ret_result = result;
        return 0;
}

static json_t *user_message(json_t *content) {
        return json_pack("{s:s, s:o}", "role", "user", "content", content);
}

static json_t *user_text(const char *text) {
        return user_message(json_pack("{s:s, s:s}", "type", "text", "text", text));
}

static int simple(const struct fixture_call *call, json_t **ret_result) {
        return messages(call, json_pack("[o]", user_text("This is a simple prompt for testing.")), ret_result);
}

/* The argument, or NULL with -EINVAL told. */
static const char *required_argument(const struct fixture_call *call, const char *name) {
        const char *text = fixture_argument(call, name, NULL);

        if (text == NULL)
                sbx_error_set(call->err, -EINVAL, FIXTURES_ORIGIN, NULL, "prompt '%s': the argument '%s' is missing",
                              call->name, name);
        return text;
}

static int with_arguments(const struct fixture_call *call, json_t **ret_result) {
        const char *first = required_argument(call, "arg1"), *second = required_argument(call, "arg2");
        json_t *text;
        int r;

        if (first == NULL || second == NULL)
                return -EINVAL;
        text = json_sprintf("Prompt with arguments: arg1='%s', arg2='%s'", first, second);
        r = messages(call, json_pack("[o]", user_text(json_string_value(text))), ret_result);
        json_decref(text);
        return r;
}

static int with_resource(const struct fixture_call *call, json_t **ret_result) {
        const char *uri = required_argument(call, "resourceUri");

        if (uri == NULL)
                return -EINVAL;
        return messages(call,
                        json_pack("[o, o]",
                                  user_message(json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "resource", "resource",
                                                         "uri", uri, "mimeType", "text/plain", "text",
                                                         "Embedded resource content for testing.")),
                                  user_text("Please process the embedded resource above.")),
                        ret_result);
}

static int with_image(const struct fixture_call *call, json_t **ret_result) {
        return messages(call,
                        json_pack("[o, o]",
                                  user_message(json_pack("{s:s, s:s, s:s}", "type", "image", "data", fixture_png,
                                                         "mimeType", "image/png")),
                                  user_text("Please analyze the image above.")),
                        ret_result);
}

/* clang-format off */
static const char context_form[] = FIXTURE_JSON({
        "type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]});
/* clang-format on */

static int with_input(const struct fixture_call *call, json_t **ret_result) {
        json_t *responses = NULL, *text;
        const char *context;
        int r = fixture_ask(call,
                            json_pack("{s:o}", "user_context",
                                      fixture_elicitation("What context should the prompt use?", context_form)),
                            &responses);

        if (r < 0)
                return r;
        context = fixture_form_text(responses, "user_context", "context");
        text = json_sprintf("Use this context: %s", context != NULL ? context : "none");
        r = messages(call, json_pack("[o]", user_text(json_string_value(text))), ret_result);
        json_decref(text);
        json_decref(responses);
        return r;
}

/* clang-format off */
static const struct fixture prompts[] = {
        {"test_input_required_result_prompt", FIXTURE_JSON({
                "description": "Asks the user for a context before it is ready."}), with_input},
        {"test_prompt_with_arguments", FIXTURE_JSON({
                "description": "Has two arguments.",
                "arguments": [{"name": "arg1", "description": "First test argument", "required": true},
                              {"name": "arg2", "description": "Second test argument", "required": true}]}),
         with_arguments},
        {"test_prompt_with_embedded_resource", FIXTURE_JSON({
                "description": "Holds a resource.",
                "arguments": [{"name": "resourceUri", "description": "URI of the resource to embed",
                               "required": true}]}), with_resource},
        {"test_prompt_with_image", FIXTURE_JSON({"description": "Holds a picture."}), with_image},
        {"test_simple_prompt", FIXTURE_JSON({"description": "Text alone."}), simple},
};
/* clang-format on */

const struct fixture_table fixture_prompts = {prompts, FIXTURE_COUNT(prompts)};
