/* SPDX-License-Identifier: Apache-2.0 */
/* The fixture plugin, loaded into a small host, with a client that follows a script: what it lists, what it answers,
 * and what it asks. Its path is the program's argument. */
#include <stdbool.h>
#include <unistd.h>

#include <jansson.h>
#include <snipara-sandbox/context.h>

#include "../plugin_host.h"
#include "../unit/test.h"

static struct sbx_host_state host;
static const struct sbx_context_ops *ops;
static void *instance;

/* ---- services that plugin_host.h does not have ---- */

static int host_output_new(struct sbx_host_state *self, size_t max_bytes, struct sbx_output **ret_output) {
        struct sbx_output *output = calloc(1, sizeof(*output));

        (void)self;
        assert_non_null(output);
        output->max = max_bytes;
        *ret_output = output;
        return 0;
}

static struct sbx_bytes host_output_bytes(struct sbx_host_state *self, const struct sbx_output *output) {
        (void)self;
        return (struct sbx_bytes){output->data, output->size};
}

static void host_output_free(struct sbx_host_state *self, struct sbx_output *output) {
        (void)self;
        if (output != NULL)
                free(output->data);
        free(output);
}

static struct {
        unsigned count;
        uint32_t kind;
        char uri[64];
} told; /* what sbx_host.changed heard */

static void host_changed(struct sbx_host_state *self, const struct sbx_change *change) {
        (void)self;
        told.count++;
        told.kind = change->kind;
        snprintf(told.uri, sizeof(told.uri), "%s", change->uri != NULL ? change->uri : "");
}

/* ---- a client ---- */

struct script {
        const char *answers; /* {key: result}; NULL: it can't be asked */
        int status;          /* what ask says when it is not 0 */
        json_t *asked;       /* all that it was asked, {key: request} */
        unsigned progress, logged, closed, tasks;
        double last_progress;
};

static void client_progress(void *data, double progress, double total, const char *message) {
        struct script *script = data;

        (void)message;
        assert_true(script->progress == 0 || progress > script->last_progress);
        assert_true(progress <= total);
        script->last_progress = progress;
        script->progress++;
}

static void client_log(void *data, const char *level, const char *logger, struct sbx_bytes value) {
        json_t *parsed = json_loadb(value.data, value.size, JSON_DECODE_ANY, NULL);

        assert_non_null(level);
        assert_non_null(logger);
        assert_true(json_is_string(parsed));
        json_decref(parsed);
        ((struct script *)data)->logged++;
}

/* Answers with what the script has for each key that is asked for. */
static int client_ask(void *data, struct sbx_bytes requests, const struct sbx_call *call,
                      struct sbx_output *ret_responses, struct sbx_error *err) {
        struct script *script = data;
        json_t *asked = json_loadb(requests.data, requests.size, JSON_REJECT_DUPLICATES, NULL);
        json_t *answers = json_loads(script->answers, 0, NULL), *responses = json_object(), *request;
        const char *key;
        char *text;

        (void)call;
        assert_true(json_object_size(asked) > 0);
        json_object_foreach (asked, key, request) {
                assert_non_null(json_string_value(json_object_get(request, "method")));
                assert_true(json_is_object(json_object_get(request, "params")));
                if (script->status == 0)
                        assert_int_equal(json_object_set(responses, key, json_object_get(answers, key)), 0);
        }
        assert_int_equal(json_object_update(script->asked, asked), 0);
        text = json_dumps(responses, JSON_COMPACT);
        json_decref(asked);
        json_decref(answers);
        json_decref(responses);
        if (script->status == 0)
                assert_int_equal(plugin_host_append(&host, ret_responses, text, strlen(text)), 0);
        free(text);
        return script->status < 0 ? sbx_error_set(err, script->status, "test", NULL, "as the script says") : 0;
}

static int client_become_task(void *data) {
        ((struct script *)data)->tasks++;
        return 1;
}

static void client_close_stream(void *data, uint32_t retry_ms) {
        assert_true(retry_ms > 0);
        ((struct script *)data)->closed++;
}

/* ---- asking the plugin ---- */

static json_t *take_json(struct sbx_output *output) {
        json_t *json = json_loadb(output->data != NULL ? output->data : "", output->size, JSON_REJECT_DUPLICATES, NULL);

        host_output_free(&host, output);
        assert_non_null(json);
        return json;
}

static json_t *list(int (*ask)(void *, struct sbx_output *, struct sbx_error *)) {
        struct sbx_output *output = NULL;

        host_output_new(&host, 1 << 20, &output);
        assert_int_equal(ask(instance, output, NULL), 0);
        return take_json(output);
}

/* The status, and the result where it is 0. */
static int submit_with(uint32_t kind, const char *name, const char *arguments, struct script *script,
                       const struct sbx_call *call, json_t **ret_result) {
        struct sbx_request request = {.struct_size = sizeof(request),
                                      .kind = kind,
                                      .name = name,
                                      .arguments = {arguments, strlen(arguments)},
                                      .principal = ""};
        struct sbx_client client = {.struct_size = sizeof(client),
                                    .capabilities = SBX_CLIENT_SAMPLING | SBX_CLIENT_ELICITATION | SBX_CLIENT_ROOTS |
                                                    SBX_CLIENT_TASKS,
                                    .data = script,
                                    .progress = client_progress,
                                    .log = client_log,
                                    .ask = script->answers != NULL || script->status != 0 ? client_ask : NULL,
                                    .become_task = client_become_task,
                                    .close_stream = client_close_stream};
        struct sbx_output *output = NULL;
        struct sbx_error err = {0};
        int r;

        if (script->answers == NULL)
                script->answers = "{}";
        script->asked = json_object();
        host_output_new(&host, 1 << 20, &output);
        r = ops->request(instance, &request, &client, call, output, &err);
        if (r < 0) {
                assert_int_equal(err.code, r); /* every failure is told */
                host_output_free(&host, output);
                return r;
        }
        *ret_result = take_json(output);
        return 0;
}

static int submit(uint32_t kind, const char *name, const char *arguments, struct script *script, json_t **ret_result) {
        const struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};

        return submit_with(kind, name, arguments, script, &call, ret_result);
}

/* The status of a request that fails. */
static int refused(uint32_t kind, const char *name, const char *arguments) {
        struct script script = {0};
        json_t *result = NULL;
        int r = submit(kind, name, arguments, &script, &result);

        json_decref(script.asked);
        json_decref(result);
        return r;
}

/* The text of the first block of a tool's result; the caller frees. */
static char *tool_text(const char *name, const char *arguments, struct script *script, bool error) {
        json_t *result = NULL, *content;
        char *text;

        assert_int_equal(submit(SBX_REQUEST_TOOL, name, arguments, script, &result), 0);
        assert_int_equal(json_is_true(json_object_get(result, "isError")), error);
        content = json_array_get(json_object_get(result, "content"), 0);
        text = strdup(json_string_value(json_object_get(content, "text")));
        json_decref(result);
        return text;
}

static void assert_tool(const char *name, const char *arguments, const char *answers, const char *expected) {
        struct script script = {.answers = answers};
        char *text = tool_text(name, arguments, &script, false);

        assert_contains(text, expected);
        free(text);
        json_decref(script.asked);
}

/* ---- lists ---- */

static void test_tools_list(void **state) {
        json_t *tools = list(ops->tools), *names = json_object(), *tool;
        size_t index;

        (void)state;
        json_array_foreach (tools, index, tool) {
                const char *name = json_string_value(json_object_get(tool, "name"));
                const json_t *schema = json_object_get(tool, "inputSchema");

                assert_non_null(name);
                assert_null(json_object_get(names, name));
                json_object_set_new(names, name, json_true());
                assert_true(json_string_length(json_object_get(tool, "description")) > 0);
                assert_string_equal(json_string_value(json_object_get(schema, "type")), "object");
        }
        assert_int_equal(json_array_size(tools), 36);
        json_decref(tools);
        json_decref(names);
}

static void test_prompts_and_templates_list(void **state) {
        json_t *prompts = list(ops->prompts), *templates = list(ops->templates), *prompt;
        size_t index;

        (void)state;
        assert_int_equal(json_array_size(prompts), 5);
        json_array_foreach (prompts, index, prompt)
                assert_true(json_string_length(json_object_get(prompt, "description")) > 0);
        assert_string_equal(json_string_value(json_object_get(json_array_get(templates, 0), "uriTemplate")),
                            "test://template/{id}/data");
        json_decref(prompts);
        json_decref(templates);
}

/* ---- tools ---- */

static void test_content(void **state) {
        static const struct {
                const char *tool, *types[3];
        } expected[] = {
                {"test_simple_text", {"text"}},
                {"test_image_content", {"image"}},
                {"test_audio_content", {"audio"}},
                {"test_embedded_resource", {"resource"}},
                {"test_multiple_content_types", {"text", "image", "resource"}},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
                struct script script = {0};
                json_t *result = NULL, *content;

                assert_int_equal(submit(SBX_REQUEST_TOOL, expected[i].tool, "", &script, &result), 0);
                content = json_object_get(result, "content");
                for (size_t j = 0; j < 3 && expected[i].types[j] != NULL; j++)
                        assert_string_equal(json_string_value(json_object_get(json_array_get(content, j), "type")),
                                            expected[i].types[j]);
                json_decref(result);
                json_decref(script.asked);
        }
        assert_tool("greet", "{\"name\": \"Ada\"}", NULL, "Hello, Ada!");
        assert_tool("test_x_mcp_header", "{\"region\": \"Hello\"}", NULL, "{\"region\":\"Hello\"}");
}

static void test_meanwhile(void **state) {
        struct script script = {0}, lines = {0}, stream = {0};

        (void)state;
        free(tool_text("test_tool_with_progress", "{}", &script, false));
        assert_int_equal(script.progress, 3);
        free(tool_text("test_tool_with_logging", "{}", &lines, false));
        assert_int_equal(lines.logged, 3);
        free(tool_text("test_reconnection", "{}", &stream, false));
        assert_int_equal(stream.closed, 1);
        json_decref(script.asked);
        json_decref(lines.asked);
        json_decref(stream.asked);
}

static void test_failures(void **state) {
        struct script script = {0};
        char *text = tool_text("test_error_handling", "{}", &script, true);

        (void)state;
        assert_string_equal(text, "This tool intentionally returns an error for testing");
        free(text);
        json_decref(script.asked);
        assert_int_equal(refused(SBX_REQUEST_TOOL, "no_such_tool", "{}"), -ENOENT);
        assert_int_equal(refused(SBX_REQUEST_TOOL, "greet", "[]"), -EINVAL);
        assert_int_equal(refused(SBX_REQUEST_TOOL, "protocol_error_job", "{}"), -EPROTO);
        assert_int_equal(refused(SBX_REQUEST_TOOL, "test_missing_capability", "{}"), -ENOTSUP);
        assert_int_equal(refused(99, "greet", "{}"), -ENOENT);
}

/* ---- questions ---- */

#define ACCEPT(content) "{\"action\": \"accept\", \"content\": " content "}"
#define SAMPLE(text) "{\"role\": \"assistant\", \"content\": {\"type\": \"text\", \"text\": \"" text "\"}}"

static void test_questions(void **state) {
        (void)state;
        assert_tool("test_sampling", "{\"prompt\": \"Hm?\"}", "{\"sampling\": " SAMPLE("Yes.") "}",
                    "LLM response: Yes.");
        assert_tool("test_elicitation", "{\"message\": \"Who?\"}",
                    "{\"form\": " ACCEPT("{\"username\": \"u\", \"email\": \"e\"}") "}",
                    "User response: action=accept, content={\"email\":\"e\",\"username\":\"u\"}");
        assert_tool("test_elicitation_sep1034_defaults", "{}", "{\"form\": {\"action\": \"decline\"}}",
                    "Elicitation completed: action=decline, content={}");
        assert_tool("test_input_required_result_elicitation", "{}",
                    "{\"user_name\": " ACCEPT("{\"name\": \"Ada\"}") "}", "Hello, Ada!");
        assert_tool("test_input_required_result_request_state", "{}", "{\"confirm\": " ACCEPT("{\"ok\": true}") "}",
                    "state-ok");
        assert_tool("test_input_required_result_list_roots", "{}", "{\"client_roots\": {\"roots\": [{}, {}]}}",
                    "2 roots");
        assert_tool("test_input_required_result_multiple_inputs", "{}",
                    "{\"user_name\": " ACCEPT("{\"name\": \"Ada\"}") ", \"greeting\": " SAMPLE(
                            "Hail,") ", \"client_roots\": {\"roots\": [{}]}}",
                    "Hail, Ada (1 roots)");
        assert_tool("test_input_required_result_multi_round", "{}",
                    "{\"step1\": " ACCEPT("{\"name\": \"Ada\"}") ", \"step2\": " ACCEPT("{\"color\": \"red\"}") "}",
                    "Ada likes red.");
}

/* The forms are those that the suites look for, member by member. */
static void test_forms(void **state) {
        struct script script = {.answers = "{\"form\": {\"action\": \"cancel\"}}"};
        const json_t *schema, *properties;
        const char *key;
        json_t *field;

        (void)state;
        free(tool_text("test_elicitation_sep1330_enums", "{}", &script, false));
        schema = json_object_get(json_object_get(json_object_get(script.asked, "form"), "params"), "requestedSchema");
        properties = json_object_get(schema, "properties");
        assert_int_equal(json_object_size(properties), 5);
        json_object_foreach ((json_t *)properties, key, field)
                assert_true(json_string_length(json_object_get(field, "type")) > 0);
        json_decref(script.asked);
}

static void test_client_that_refuses(void **state) {
        static const char *const tools[] = {"test_sampling", "test_elicitation", "confirm_delete",
                                            "test_input_required_result_multi_round"};

        (void)state;
        for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
                struct script script = {.status = -EACCES};
                json_t *result = NULL;

                assert_int_equal(submit(SBX_REQUEST_TOOL, tools[i], "{}", &script, &result), -EACCES);
                json_decref(script.asked);
        }
}

/* ---- tasks ---- */

static void test_tasks(void **state) {
        static const struct {
                const char *tool, *arguments, *answers, *expected;
        } tasks[] = {
                {"slow_compute", "{\"seconds\": 0, \"label\": \"now\"}", NULL, "now: done after 0 s"},
                {"confirm_delete", "{\"filename\": \"f\"}", "{\"confirm\": " ACCEPT("{\"confirm\": true}") "}",
                 "Deleted f."},
                {"confirm_delete", "{\"filename\": \"f\"}", "{\"confirm\": " ACCEPT("{\"confirm\": false}") "}",
                 "Kept f."},
                {"multi_input", "{}", "{\"name\": " ACCEPT("{\"name\": \"Ada\"}") ", \"confirm\": " ACCEPT("{}") "}",
                 "by Ada"},
                {"test_tool_with_task", "{}", "{\"user_name\": " ACCEPT("{\"name\": \"Ada\"}") "}", "Ada"},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++) {
                struct script script = {.answers = tasks[i].answers};
                char *text = tool_text(tasks[i].tool, tasks[i].arguments, &script, false);

                assert_contains(text, tasks[i].expected);
                assert_int_equal(script.tasks, 1);
                free(text);
                json_decref(script.asked);
        }
}

static void test_cancelled(void **state) {
        struct script script = {0};
        json_t *result = NULL;
        int ends[2];
        struct sbx_call call = {.struct_size = sizeof(call)};

        (void)state;
        assert_int_equal(pipe(ends), 0);
        close(ends[1]); /* readable for ever */
        call.cancel_fd = ends[0];
        assert_int_equal(submit_with(SBX_REQUEST_TOOL, "slow_compute", "{\"seconds\": 300}", &script, &call, &result),
                         -ECANCELED);
        json_decref(script.asked);
        script = (struct script){0};
        call = (struct sbx_call){.struct_size = sizeof(call), .cancel_fd = -1, .deadline_ns = 1};
        assert_int_equal(submit_with(SBX_REQUEST_TOOL, "slow_compute", "{\"seconds\": 300}", &script, &call, &result),
                         -ETIMEDOUT);
        json_decref(script.asked);
        close(ends[0]);
}

/* ---- prompts, resources, completion ---- */

static void test_prompts(void **state) {
        struct script script = {.answers = "{\"user_context\": " ACCEPT("{\"context\": \"rain\"}") "}"};
        json_t *result = NULL;
        char *text;

        (void)state;
        assert_int_equal(submit(SBX_REQUEST_PROMPT, "test_input_required_result_prompt", "", &script, &result), 0);
        text = json_dumps(json_object_get(result, "messages"), JSON_COMPACT);
        assert_contains(text, "Use this context: rain");
        free(text);
        json_decref(result);
        json_decref(script.asked);

        script = (struct script){0};
        assert_int_equal(submit(SBX_REQUEST_PROMPT, "test_prompt_with_arguments",
                                "{\"arg1\": \"hello\", \"arg2\": \"world\"}", &script, &result),
                         0);
        text = json_dumps(result, JSON_COMPACT);
        assert_contains(text, "Prompt with arguments: arg1='hello', arg2='world'");
        free(text);
        json_decref(result);
        json_decref(script.asked);
        assert_int_equal(refused(SBX_REQUEST_PROMPT, "test_prompt_with_arguments", "{\"arg1\": \"x\"}"), -EINVAL);
        assert_int_equal(refused(SBX_REQUEST_PROMPT, "no_such_prompt", "{}"), -ENOENT);
}

static void assert_resource(const char *uri, const char *mime_type, const char *expected) {
        struct script script = {0};
        json_t *result = NULL;
        const json_t *content;
        const char *text;

        assert_int_equal(submit(SBX_REQUEST_READ, uri, "", &script, &result), 0);
        content = json_array_get(json_object_get(result, "contents"), 0);
        text = json_string_value(json_object_get(content, "text"));
        if (text == NULL)
                text = json_string_value(json_object_get(content, "blob"));
        assert_string_equal(json_string_value(json_object_get(content, "uri")), uri);
        assert_string_equal(json_string_value(json_object_get(content, "mimeType")), mime_type);
        assert_contains(text, expected);
        json_decref(result);
        json_decref(script.asked);
}

static void test_resources(void **state) {
        static const char *const missing[] = {"test://nothing",           "test://template//data",
                                              "test://template/a/b/data", "test://template/data",
                                              "test://template/7/datum",  ""};
        struct script script = {0};
        json_t *result = NULL, *resource;
        const char *before = "";
        size_t index;

        (void)state;
        assert_int_equal(submit(SBX_REQUEST_RESOURCES, "", "", &script, &result), 0);
        json_array_foreach (json_object_get(result, "resources"), index, resource) {
                const char *uri = json_string_value(json_object_get(resource, "uri"));

                assert_true(strcmp(before, uri) < 0);
                before = uri;
                assert_resource(uri, json_string_value(json_object_get(resource, "mimeType")), "");
        }
        json_decref(result);
        json_decref(script.asked);
        assert_resource("test://template/123/data", "application/json", "\"data\":\"Data for ID: 123\"");
        for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++)
                assert_int_equal(refused(SBX_REQUEST_READ, missing[i], ""), -ENOENT);
}

static void test_completion(void **state) {
        static const struct {
                const char *arguments;
                size_t count;
        } cases[] = {
                {"{\"ref\": {\"type\": \"ref/prompt\", \"name\": \"test_prompt_with_arguments\"}, "
                 "\"argument\": {\"name\": \"arg1\", \"value\": \"par\"}}",
                 3},
                {"{\"ref\": {\"type\": \"ref/prompt\", \"name\": \"test_prompt_with_arguments\"}, "
                 "\"argument\": {\"name\": \"arg1\", \"value\": \"test\"}}",
                 0},
                {"{\"ref\": {\"type\": \"ref/resource\", \"uri\": \"test://template/{id}/data\"}, "
                 "\"argument\": {\"name\": \"id\", \"value\": \"12\"}}",
                 2},
                {"{}", 0},
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct script script = {0};
                json_t *result = NULL;
                const json_t *completion;

                assert_int_equal(submit(SBX_REQUEST_COMPLETION, "", cases[i].arguments, &script, &result), 0);
                completion = json_object_get(result, "completion");
                assert_int_equal(json_array_size(json_object_get(completion, "values")), cases[i].count);
                json_decref(result);
                json_decref(script.asked);
        }
}

/* ---- changes ---- */

static void assert_trigger(const char *tool, uint32_t kind, const char *uri) {
        unsigned before = told.count;

        assert_tool(tool, "{}", NULL, "");
        assert_int_equal(told.count, before + 1);
        assert_int_equal(told.kind, kind);
        assert_string_equal(told.uri, uri);
}

static size_t list_size(int (*ask)(void *, struct sbx_output *, struct sbx_error *)) {
        json_t *items = list(ask);
        size_t size = json_array_size(items);

        json_decref(items);
        return size;
}

static void test_changes(void **state) {
        size_t tools = list_size(ops->tools), prompts = list_size(ops->prompts);

        (void)state;
        for (int i = 0; i < 2; i++)
                assert_trigger("test_trigger_tool_change", SBX_CHANGE_TOOLS, "");
        assert_int_equal(list_size(ops->tools), tools + 1);
        assert_tool("test_extra_tool", "{}", NULL, "added");
        assert_trigger("test_trigger_prompt_change", SBX_CHANGE_PROMPTS, "");
        assert_int_equal(list_size(ops->prompts), prompts + 1);
        assert_trigger("test_trigger_prompt_change", SBX_CHANGE_PROMPTS, "");
        assert_int_equal(list_size(ops->prompts), prompts);
        assert_trigger("test_trigger_resource_change", SBX_CHANGE_RESOURCE, "test://watched-resource");
        assert_resource("test://watched-resource", "text/plain", "version 1");
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_tools_list), cmocka_unit_test(test_prompts_and_templates_list),
                cmocka_unit_test(test_content),    cmocka_unit_test(test_meanwhile),
                cmocka_unit_test(test_failures),   cmocka_unit_test(test_questions),
                cmocka_unit_test(test_forms),      cmocka_unit_test(test_client_that_refuses),
                cmocka_unit_test(test_tasks),      cmocka_unit_test(test_cancelled),
                cmocka_unit_test(test_prompts),    cmocka_unit_test(test_resources),
                cmocka_unit_test(test_completion), cmocka_unit_test(test_changes),
        };
        int failed;

        if (argc < 2 || !plugin_host_load(&host, argv[1], argc, argv))
                return 1;
        host.services.output_new = host_output_new;
        host.services.output_bytes = host_output_bytes;
        host.services.output_free = host_output_free;
        host.services.changed = host_changed;
        ops = host.plugin->ops;
        if (host.plugin->open(&host.services, &instance, NULL) < 0)
                return 1;
        failed = cmocka_run_group_tests(tests, NULL, NULL);
        host.plugin->close(instance);
        return failed;
}
