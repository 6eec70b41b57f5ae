/* SPDX-License-Identifier: Apache-2.0 */
/* Tools that ask the client's model or its user, once, and tell what was answered. */
#include <stdlib.h>

#include "fixtures.h"

static int sampling(const struct fixture_call *call, json_t **ret_result) {
        json_t *request = fixture_sampling(fixture_argument(call, "prompt", ""), 100), *responses = NULL;
        const json_t *content;
        const char *text;
        int r = fixture_ask(call, json_pack("{s:o}", "sampling", request), &responses);

        if (r < 0)
                return r;
        content = json_object_get(json_object_get(responses, "sampling"), "content");
        text = json_string_value(json_object_get(content, "text"));
        r = text != NULL ? fixture_text(call, ret_result, "LLM response: %s", text)
                         : fixture_failure(call, ret_result, "The model did not answer with text.");
        json_decref(responses);
        return r;
}

/* What the user did with the form, in words that begin with `begin`. */
static int describe_form(const struct fixture_call *call, const json_t *response, const char *begin,
                         json_t **ret_result) {
        const char *action = json_string_value(json_object_get(response, "action"));
        const json_t *content = json_object_get(response, "content");
        char *form = content != NULL ? json_dumps(content, JSON_COMPACT | JSON_SORT_KEYS) : strdup("{}");
        int r = form == NULL ? fixture_nomem(call->err)
                             : fixture_text(call, ret_result, "%s: action=%s, content=%s", begin,
                                            action != NULL ? action : "none", form);

        free(form);
        return r;
}

static int ask_form(const struct fixture_call *call, const char *message, const char *schema, const char *begin,
                    json_t **ret_result) {
        json_t *responses = NULL;
        int r = fixture_ask(call, json_pack("{s:o}", "form", fixture_elicitation(message, schema)), &responses);

        if (r == 0)
                r = describe_form(call, json_object_get(responses, "form"), begin, ret_result);
        json_decref(responses);
        return r;
}

/* clang-format off */
static const char account_form[] = FIXTURE_JSON({
        "type": "object",
        "properties": {"username": {"type": "string", "description": "User's response"},
                       "email": {"type": "string", "description": "User's email address"}},
        "required": ["username", "email"]});

static const char defaults_form[] = FIXTURE_JSON({
        "type": "object",
        "properties": {"name": {"type": "string", "default": "John Doe"},
                       "age": {"type": "integer", "default": 30},
                       "score": {"type": "number", "default": 95.5},
                       "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
                       "verified": {"type": "boolean", "default": true}},
        "required": []});

static const char enums_form[] = FIXTURE_JSON({
        "type": "object",
        "properties": {
                "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
                "titledSingle": {"type": "string", "oneOf": [{"const": "value1", "title": "First Option"},
                                                             {"const": "value2", "title": "Second Option"},
                                                             {"const": "value3", "title": "Third Option"}]},
                "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
                               "enumNames": ["Option One", "Option Two", "Option Three"]},
                "untitledMulti": {"type": "array",
                                  "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
                "titledMulti": {"type": "array", "items": {"anyOf": [{"const": "value1", "title": "First Choice"},
                                                                     {"const": "value2", "title": "Second Choice"},
                                                                     {"const": "value3", "title": "Third Choice"}]}}},
        "required": []});
/* clang-format on */

static int elicitation(const struct fixture_call *call, json_t **ret_result) {
        return ask_form(call, fixture_argument(call, "message", ""), account_form, "User response", ret_result);
}

static int defaults(const struct fixture_call *call, json_t **ret_result) {
        return ask_form(call, "Please check these values.", defaults_form, "Elicitation completed", ret_result);
}

static int enums(const struct fixture_call *call, json_t **ret_result) {
        return ask_form(call, "Please choose.", enums_form, "Elicitation completed", ret_result);
}

static int streaming_elicitation(const struct fixture_call *call, json_t **ret_result) {
        return ask_form(call, "What is your name?", account_form, "Elicitation completed", ret_result);
}

/* Can't do without sampling. */
static int missing_capability(const struct fixture_call *call, json_t **ret_result) {
        return sampling(call, ret_result);
}

/* clang-format off */
static const struct fixture tools[] = {
        {"test_elicitation", FIXTURE_JSON({
                "description": "Asks the user for a name and an address.",
                "inputSchema": {"type": "object", "properties": {"message": {"type": "string"}},
                                "required": ["message"], "additionalProperties": false}}), elicitation},
        {"test_elicitation_sep1034_defaults", FIXTURE_JSON({
                "description": "Asks the user with a form that has a default of each type."}), defaults},
        {"test_elicitation_sep1330_enums", FIXTURE_JSON({
                "description": "Asks the user with a form that has each kind of choice."}), enums},
        {"test_missing_capability", FIXTURE_JSON({
                "description": "Needs a client that can sample."}), missing_capability},
        {"test_sampling", FIXTURE_JSON({
                "description": "Asks the client's model.",
                "inputSchema": {"type": "object", "properties": {"prompt": {"type": "string"}},
                                "required": ["prompt"], "additionalProperties": false}}), sampling},
        {"test_streaming_elicitation", FIXTURE_JSON({
                "description": "Asks the user in the middle of a call."}), streaming_elicitation},
};
/* clang-format on */

const struct fixture_table fixture_tools_ask = {tools, FIXTURE_COUNT(tools)};
