/* SPDX-License-Identifier: Apache-2.0 */
/* Tools that answer with each kind of content, report what they do meanwhile, or fail. */
#include <stdlib.h>

#include "fixtures.h"

static json_t *text_block(const char *text) {
        return json_pack("{s:s, s:s}", "type", "text", "text", text);
}

static json_t *image_block(void) {
        return json_pack("{s:s, s:s, s:s}", "type", "image", "data", fixture_png, "mimeType", "image/png");
}

static json_t *resource_block(const char *uri, const char *mime_type, const char *text) {
        return json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "resource", "resource", "uri", uri, "mimeType", mime_type,
                         "text", text);
}

static int simple_text(const struct fixture_call *call, json_t **ret_result) {
        return fixture_text(call, ret_result, "This is a simple text response for testing.");
}

static int image(const struct fixture_call *call, json_t **ret_result) {
        return fixture_blocks(call, image_block(), ret_result);
}

static int audio(const struct fixture_call *call, json_t **ret_result) {
        return fixture_blocks(
                call, json_pack("{s:s, s:s, s:s}", "type", "audio", "data", fixture_wav, "mimeType", "audio/wav"),
                ret_result);
}

static int embedded_resource(const struct fixture_call *call, json_t **ret_result) {
        return fixture_blocks(
                call, resource_block("test://embedded-resource", "text/plain", "This is an embedded resource content."),
                ret_result);
}

static int multiple_types(const struct fixture_call *call, json_t **ret_result) {
        return fixture_blocks(call,
                              json_pack("[o, o, o]", text_block("Multiple content types test:"), image_block(),
                                        resource_block("test://mixed-content-resource", "application/json",
                                                       "{\"test\":\"data\",\"value\":123}")),
                              ret_result);
}

static int failure(const struct fixture_call *call, json_t **ret_result) {
        return fixture_failure(call, ret_result, "This tool intentionally returns an error for testing");
}

static int progress(const struct fixture_call *call, json_t **ret_result) {
        for (unsigned done = 0; done <= 100; done += 50) {
                int r = done > 0 ? fixture_wait(call, 50) : 0;

                if (r < 0)
                        return r;
                if (call->client->progress != NULL)
                        call->client->progress(call->client->data, done, 100, NULL);
        }
        return fixture_text(call, ret_result, "Progress was reported three times.");
}

static void log_text(const struct fixture_call *call, const char *level, const char *text) {
        json_t *value = json_string(text);
        char *encoded = value != NULL ? json_dumps(value, JSON_ENCODE_ANY) : NULL;

        json_decref(value);
        if (encoded != NULL && call->client->log != NULL)
                call->client->log(call->client->data, level, FIXTURES_ORIGIN,
                                  (struct sbx_bytes){encoded, strlen(encoded)});
        free(encoded);
}

static int logging(const struct fixture_call *call, json_t **ret_result) {
        static const char *const lines[] = {"Tool execution started", "Tool processing data",
                                            "Tool execution completed"};

        for (size_t i = 0; i < FIXTURE_COUNT(lines); i++) {
                int r = i > 0 ? fixture_wait(call, 50) : 0;

                if (r < 0)
                        return r;
                log_text(call, "info", lines[i]);
        }
        return fixture_text(call, ret_result, "Three lines were logged.");
}

/* At every level: what a client did not ask for must not reach it. */
static int logging_levels(const struct fixture_call *call, json_t **ret_result) {
        static const char *const levels[] = {"debug", "info",     "notice", "warning",
                                             "error", "critical", "alert",  "emergency"};

        for (size_t i = 0; i < FIXTURE_COUNT(levels); i++)
                log_text(call, levels[i], levels[i]);
        return fixture_text(call, ret_result, "A line was logged at each level.");
}

static int reconnection(const struct fixture_call *call, json_t **ret_result) {
        int r;

        if (call->client->close_stream != NULL)
                call->client->close_stream(call->client->data, 100);
        r = fixture_wait(call, 200);
        return r < 0 ? r
                     : fixture_text(call, ret_result,
                                    "The stream was closed while the tool ran; who reads this has come back for it.");
}

static int echo(const struct fixture_call *call, json_t **ret_result) {
        char *arguments = json_dumps(call->arguments, JSON_COMPACT | JSON_SORT_KEYS);
        int r = arguments == NULL ? fixture_nomem(call->err) : fixture_text(call, ret_result, "%s", arguments);

        free(arguments);
        return r;
}

static int greet(const struct fixture_call *call, json_t **ret_result) {
        return fixture_text(call, ret_result, "Hello, %s!", fixture_argument(call, "name", "you"));
}

/* clang-format off */
static const struct fixture tools[] = {
        {"greet", FIXTURE_JSON({
                "description": "Greets; never becomes a task.",
                "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
                                "additionalProperties": false}}), greet},
        {"json_schema_2020_12_tool", FIXTURE_JSON({
                "description": "Tool with JSON Schema 2020-12 features",
                "inputSchema": {
                        "$schema": "https://json-schema.org/draft/2020-12/schema",
                        "type": "object",
                        "$defs": {"address": {"$anchor": "addressDef", "type": "object",
                                              "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
                        "properties": {
                                "name": {"type": "string"},
                                "address": {"$ref": "#/$defs/address"},
                                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                                "phone": {"type": "string"},
                                "email": {"type": "string"}},
                        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
                        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
                        "then": {"required": ["phone"]},
                        "else": {"required": ["email"]},
                        "additionalProperties": false}}), echo},
        {"test_audio_content", FIXTURE_JSON({"description": "Answers with a sound."}), audio},
        {"test_embedded_resource", FIXTURE_JSON({"description": "Answers with a resource."}), embedded_resource},
        {"test_error_handling", FIXTURE_JSON({"description": "Always fails."}), failure},
        {"test_image_content", FIXTURE_JSON({"description": "Answers with a picture."}), image},
        {"test_logging_tool", FIXTURE_JSON({"description": "Logs a line at each level."}), logging_levels},
        {"test_multiple_content_types", FIXTURE_JSON({"description": "Answers with text, a picture and a resource."}),
         multiple_types},
        {"test_reconnection", FIXTURE_JSON({"description": "Ends the stream of its answer before it answers."}),
         reconnection},
        {"test_simple_text", FIXTURE_JSON({"description": "Answers with text."}), simple_text},
        {"test_tool_with_logging", FIXTURE_JSON({"description": "Logs three lines, with pauses."}), logging},
        {"test_tool_with_progress", FIXTURE_JSON({"description": "Reports progress three times, with pauses."}),
         progress},
        {"test_x_mcp_header", FIXTURE_JSON({
                "description": "Its arguments travel in HTTP headers too.",
                "inputSchema": {"type": "object", "properties": {
                        "region": {"type": "string", "x-mcp-header": "Region"},
                        "priority": {"type": "integer", "x-mcp-header": "Priority"},
                        "verbose": {"type": "boolean", "x-mcp-header": "Verbose"},
                        "query": {"type": "string"}}, "additionalProperties": false}}), echo},
};
/* clang-format on */

const struct fixture_table fixture_tools_content = {tools, FIXTURE_COUNT(tools)};
