/* SPDX-License-Identifier: Apache-2.0 */
/* A run for tests: see fake_run.h. */
#include "fake_run.h"

#include <fcntl.h>
#include <unistd.h>

#include "agent/subcalls.h"
#include "base/fd.h"
#include "base/number.h"
#include "fake_guest.h"
#include "tools/content.h"

#define PATIENCE_S 60 /* far longer than anything takes: a test that waits so long has failed */

static const char run_id[] = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";

/* ---- the provider ---- */

static void meet_others(struct fake_provider *provider) {
        uint64_t until_ns = sbx_clock_deadline_ms(PATIENCE_S * 1000);

        if (provider->running >= provider->meet)
                provider->met = true;
        pthread_cond_broadcast(&provider->changed);
        while (!provider->met && provider->meet > 0 &&
               sbx_cond_wait(&provider->changed, &provider->lock, until_ns) == 0)
                continue;
}

static int reply(struct fake_run *fake, const json_t *request, unsigned number, struct sbx_output *ret_response,
                 struct sbx_error *err) {
        struct fake_provider *provider = &fake->provider;
        const char *line =
                provider->lines > 0 ? provider->script[number < provider->lines ? number : provider->lines - 1] : "";
        int64_t code = 0;

        if (provider->answer != NULL) {
                _cleanup_json_ json_t *answer = provider->answer(fake, request, number);
                _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(1 << 20);

                if (answer == NULL || sbx_json_encode(answer, &text) < 0)
                        return -ENOMEM;
                return sbx_output_append(ret_response, text.data, text.size);
        }
        if (line[0] == '!' && sbx_number_int(line + 1, &code) == 0)
                return sbx_error_set(err, (int)code, "fake", "Mend it.", "the provider fails");
        return sbx_output_append(ret_response, line, strlen(line));
}

static int complete(void *instance, struct sbx_bytes request, const struct sbx_provider_events *events,
                    const struct sbx_call *call, struct sbx_output *ret_response, struct sbx_error *err) {
        struct fake_run *fake = instance;
        struct fake_provider *provider = &fake->provider;
        _cleanup_json_ json_t *parsed = NULL;
        unsigned number;
        int r = sbx_json_parse(request, (size_t)64 << 20, "request", &parsed, err);

        if (r < 0)
                return r;
        pthread_mutex_lock(&provider->lock);
        number = provider->calls++;
        provider->running++;
        if (provider->running > provider->most)
                provider->most = provider->running;
        json_array_append(provider->requests, parsed);
        meet_others(provider);
        pthread_mutex_unlock(&provider->lock);
        if (events != NULL)
                events->delta(events->data, BYTES("{\"choices\":[{\"delta\":{\"content\":\"tick\"}}]}"));
        r = reply(fake, parsed, number, ret_response, err);
        pthread_mutex_lock(&provider->lock);
        provider->running--;
        pthread_mutex_unlock(&provider->lock);
        return r;
}

/* ---- tools ---- */

#define TOOL(name)                                                                                                     \
        static int name(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,                \
                        struct sbx_error *err)

static int text_result(const char *text, json_t **ret_result) {
        *ret_result = sbx_content_text(false, text);
        return *ret_result != NULL ? 0 : -ENOMEM;
}

TOOL(tool_echo) {
        return text_result(json_string_value(json_object_get(arguments, "text")), ret_result);
}

TOOL(tool_write) {
        struct fake_run *fake = context->data;

        __atomic_add_fetch(&fake->writes, 1, __ATOMIC_RELAXED);
        if (fake->cancel_in_write) {
                fake_run_cancel(fake);
                return sbx_error_set(err, -ECANCELED, "fake", NULL, "cancelled");
        }
        return text_result("written", ret_result);
}

TOOL(tool_image) {
        *ret_result = json_pack("{s:[{s:s, s:s, s:s}], s:b}", "content", "type", "image", "data", "AAAABBBBCCCC",
                                "mimeType", "image/png", "isError", 0);
        return *ret_result != NULL ? 0 : -ENOMEM;
}

/* Two of them have to run at one time; says which it was. */
TOOL(tool_meet) {
        struct fake_run *fake = context->data;

        if (__atomic_add_fetch(&fake->meeting, 1, __ATOMIC_SEQ_CST) >= 2)
                __atomic_store_n(&fake->met, true, __ATOMIC_SEQ_CST);
        for (unsigned i = 0; i < PATIENCE_S * 1000 && !__atomic_load_n(&fake->met, __ATOMIC_SEQ_CST); i++)
                usleep(1000);
        return tool_echo(context, arguments, ret_result, err);
}

TOOL(tool_big) {
        _cleanup_free_ char *text = malloc(100001);

        if (text == NULL)
                return -ENOMEM;
        memset(text, 'x', 100000);
        text[100000] = '\0';
        return text_result(text, ret_result);
}

TOOL(tool_fail) {
        return sbx_error_set(err, -EIO, "fake", "Try again.", "it broke");
}

/* ---- "code" ---- */

static int call_back(const struct sbx_tool_context *context, const char *name, const char *arguments,
                     struct sbx_buffer *out) {
        _cleanup_buffer_ struct sbx_buffer result = SBX_BUFFER(16u << 20);
        const struct sbx_code_calls *calls = context->code_calls;
        struct sbx_error problem = {0};
        int r = calls->answer(calls->data, name, (struct sbx_bytes){arguments, strlen(arguments)}, context->call,
                              &result, &problem);

        if (r == -ENOMEM)
                return r;
        return sbx_buffer_printf(out, "%s\n", r < 0 ? problem.message : result.data);
}

static int run_line(const struct sbx_tool_context *context, char *line, struct sbx_buffer *out) {
        char *name = strchr(line, ' '), *rest;
        int64_t count = 0;
        int r = 0;

        if (name == NULL)
                return sbx_buffer_printf(out, "%s\n", line);
        *name++ = '\0';
        rest = strchr(name, ' ');
        if (rest != NULL)
                *rest++ = '\0';
        else
                rest = name + strlen(name);
        if (strcmp(line, "call") == 0)
                return call_back(context, name, rest, out);
        if (strcmp(line, "flood") == 0 && sbx_number_int(rest, &count) == 0) {
                for (int64_t i = 0; i < count && r == 0 && sbx_call_ended(context->call) == 0; i++)
                        r = call_back(context, name, "{}", out);
                return r;
        }
        if (strncmp(line, "FINAL_VAR(", 10) == 0)
                return call_back(context, "FINAL_VAR", "{\"variable_name\":\"v\",\"value\":\"whole\"}", out);
        return 0;
}

TOOL(tool_execute) {
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(16u << 20);
        const char *code = json_string_value(json_object_get(arguments, "code"));
        _cleanup_free_ char *copy = strdup(code);
        _cleanup_json_ json_t *result = NULL;
        bool ended;
        int r = copy != NULL ? 0 : -ENOMEM;

        if (r == 0 && strncmp(copy, "FINAL_VAR(", 10) == 0) {
                r = call_back(context, "FINAL_VAR", "{\"variable_name\":\"v\",\"value\":\"whole\"}", &out);
        } else {
                for (char *save = NULL, *line = r == 0 ? strtok_r(copy, "\n", &save) : NULL; line != NULL && r == 0;
                     line = strtok_r(NULL, "\n", &save))
                        r = run_line(context, line, &out);
        }
        if (r < 0)
                return r;
        ended = sbx_call_ended(context->call) < 0;
        result = sbx_content_text(ended, out.size > 0 ? out.data : "(no output)");
        if (result == NULL ||
            json_object_set_new(result, "_meta",
                                json_pack("{s:{s:s, s:s, s:s, s:s, s:f}}", "snipara-sandbox/execution", "end",
                                          ended ? "cancelled" : "ok", "state", "kept", "session_id", "default",
                                          "isolation", "fake", "duration_ms", 1.0)) < 0)
                return -ENOMEM;
        *ret_result = steal_pointer(result);
        return 0;
}

#define TEXT_SCHEMA "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\",\"default\":\"\"}}}"

static void add_tools(struct fake_run *fake) {
        static const char *const all[] = {"*", NULL};
        const struct sbx_tool tools[] = {
                {.name = "echo", .run = tool_echo, .annotations = "{\"readOnlyHint\":true}"},
                {.name = "write", .run = tool_write},
                {.name = "image", .run = tool_image, .annotations = "{\"readOnlyHint\":true}"},
                {.name = "meet", .run = tool_meet, .annotations = "{\"readOnlyHint\":true}"},
                {.name = "big", .run = tool_big, .annotations = "{\"readOnlyHint\":true}"},
                {.name = "fail", .run = tool_fail, .annotations = "{\"readOnlyHint\":true}"},
                {.name = "snipara_context_query",
                 .run = tool_echo,
                 .annotations = "{\"readOnlyHint\":true}",
                 .input_schema = "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\",\"default\":"
                                 "\"the facts\"}}}"},
                {.name = "execute_python",
                 .run = tool_execute,
                 .flags = SBX_TOOL_SESSION | SBX_TOOL_EXECUTES,
                 .input_schema = "{\"type\":\"object\",\"properties\":{\"code\":{\"type\":\"string\"}},\"required\":["
                                 "\"code\"]}"},
        };

        for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
                struct sbx_tool tool = tools[i];

                tool.description = "A tool.";
                tool.data = fake;
                if (tool.input_schema == NULL)
                        tool.input_schema = TEXT_SCHEMA;
                assert_int_equal(sbx_tools_add(fake->tools, &tool, &fake->err), 0);
        }
        assert_int_equal(sbx_subcall_tools_add(fake->tools, &fake->err), 0);
        assert_int_equal(sbx_tools_allow(fake->tools, SBX_CALLER_MODEL, all, &fake->err), 0);
        assert_int_equal(sbx_tools_allow(fake->tools, SBX_CALLER_CODE, all, &fake->err), 0);
}

/* ---- the watch ---- */

static void on_event(void *data, const json_t *event) {
        struct fake_run *fake = data;

        json_array_append_new(fake->told, json_copy((json_t *)event));
}

static void on_text(void *data, unsigned depth, struct sbx_bytes text) {
        struct fake_run *fake = data;

        (void)sbx_buffer_printf(&fake->text, "%u:%.*s ", depth, (int)text.size, (const char *)text.data);
}

/* ---- the run ---- */

static void open_life(struct fake_run *fake) {
        struct sbx_run *run = &fake->run;
        const struct sbx_run_limits asked = SBX_RUN_LIMITS_CONFIGURED;
        _cleanup_json_ json_t *request = json_object();

        *run = (struct sbx_run){.parts = &fake->parts,
                                .kind = SBX_RUN_COMPLETION,
                                .principal = "",
                                .session_principal = "run:fake",
                                .model = "openai/fake",
                                .provider = &fake->instance,
                                .sub_calls = sbx_config_bool(fake->config, "sub_calls_enabled"),
                                .watch = &fake->watch,
                                .call = &fake->call};
        snprintf(run->id, sizeof(run->id), "%s", run_id);
        pthread_mutex_init(&run->lock, NULL);
        run->notices = json_array();
        assert_int_equal(sbx_run_limits_settle(fake->config, run->kind, &asked, &run->limits, &fake->err), 0);
        sbx_budget_init(&run->budget, NULL, run->limits.token_budget, run->limits.tool_budget, run->limits.max_subcalls,
                        run->limits.cost_usd);
        if (fake->directory[0] != '\0')
                assert_int_equal(sbx_journal_open(fake->directory, run_id, &fake->logger, &run->journal, &fake->err),
                                 0);
        else
                assert_int_equal(sbx_journal_create(NULL, run_id, request, &fake->logger, &run->journal, &fake->err),
                                 0);
        fake->place =
                (struct sbx_place){.run = run, .budget = &run->budget, .key = "1", .principal = run->session_principal};
}

static void close_life(struct fake_run *fake) {
        sbx_journal_free(fake->run.journal);
        sbx_budget_destroy(&fake->run.budget);
        pthread_mutex_destroy(&fake->run.lock);
        json_decref(fake->run.notices);
        free(fake->run.answer);
}

void fake_run_open(struct fake_run *fake, const char *const *settings) {
        static const char *const none[] = {NULL};

        *fake = (struct fake_run){.logger = {.level = SBX_LOG_ERROR}, .text = SBX_BUFFER(1 << 20)};
        fake_guest_reset();
        fake->config = fake_config(settings != NULL ? settings : none);
        assert_int_equal(sbx_tools_new(&fake->logger, &fake->tools, &fake->err), 0);
        assert_int_equal(sbx_sessions_new(fake->config, NULL, &fake->logger, &fake->sessions, &fake->err), 0);
        assert_int_equal(sbx_trajectory_new(&fake->logger, &fake->trajectory, &fake->err), 0);
        assert_int_equal(sbx_fd_pipe(fake->cancel), 0);
        fake->parts = (struct sbx_runs_parts){.config = fake->config,
                                              .tools = fake->tools,
                                              .sessions = fake->sessions,
                                              .trajectory = fake->trajectory,
                                              .logger = &fake->logger};
        pthread_mutex_init(&fake->provider.lock, NULL);
        assert_int_equal(sbx_cond_init(&fake->provider.changed), 0);
        fake->provider.requests = json_array();
        fake->told = json_array();
        fake->ops = (struct sbx_provider_ops){.struct_size = sizeof(fake->ops), .complete = complete};
        fake->instance = (struct sbx_instance){.name = "fake", .state = fake, .ops = &fake->ops};
        fake->watch = (struct sbx_run_watch){.data = fake, .text = on_text, .event = on_event};
        fake->call = (struct sbx_call){.struct_size = sizeof(fake->call), .cancel_fd = fake->cancel[0]};
        add_tools(fake);
        open_life(fake);
}

void fake_run_close(struct fake_run *fake) {
        char path[128];

        close_life(fake);
        sbx_tools_free(fake->tools);
        sbx_sessions_free(fake->sessions);
        sbx_trajectory_free(fake->trajectory);
        sbx_config_free(fake->config);
        json_decref(fake->provider.requests);
        json_decref(fake->told);
        sbx_buffer_free(&fake->text);
        pthread_cond_destroy(&fake->provider.changed);
        pthread_mutex_destroy(&fake->provider.lock);
        close(fake->cancel[0]);
        close(fake->cancel[1]);
        if (fake->directory[0] == '\0')
                return;
        snprintf(path, sizeof(path), "%s/%s.jsonl", fake->directory, run_id);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rmdir(fake->directory), 0);
}

void fake_run_on_disk(struct fake_run *fake) {
        _cleanup_json_ json_t *request = json_object();

        sbx_journal_free(fake->run.journal);
        snprintf(fake->directory, sizeof(fake->directory), "/tmp/sbx-run-XXXXXX");
        assert_non_null(mkdtemp(fake->directory));
        assert_int_equal(
                sbx_journal_create(fake->directory, run_id, request, &fake->logger, &fake->run.journal, &fake->err), 0);
}

void fake_run_again(struct fake_run *fake) {
        char byte;

        close_life(fake);
        (void)sbx_fd_set_nonblocking(fake->cancel[0], true);
        while (read(fake->cancel[0], &byte, 1) == 1)
                continue;
        json_array_clear(fake->told);
        open_life(fake);
}

void fake_run_cancel(struct fake_run *fake) {
        assert_int_equal(write(fake->cancel[1], "x", 1), 1);
}

void fake_run_script(struct fake_run *fake, const char *const *lines, unsigned count) {
        fake->provider.script = lines;
        fake->provider.lines = count;
}

struct sbx_completion fake_run_complete(struct fake_run *fake) {
        struct sbx_completion completion = {0};

        if (sbx_complete(&fake->place, "system", "question", true, &completion, &fake->err) < 0)
                fail_msg("%s", fake->err.message);
        return completion;
}

const char *fake_run_content(struct fake_run *fake, unsigned request, size_t message) {
        const json_t *messages = json_object_get(json_array_get(fake->provider.requests, request), "messages");
        const char *content = json_string_value(json_object_get(json_array_get(messages, message), "content"));

        return content != NULL ? content : "";
}

const json_t *fake_run_event(const struct fake_run *fake, const char *name, unsigned number) {
        const json_t *event;
        size_t index;

        json_array_foreach (fake->told, index, event)
                if (strcmp(json_string_value(json_object_get(event, "event")), name) == 0 && number-- == 0)
                        return event;
        return NULL;
}

unsigned fake_run_events(const struct fake_run *fake, const char *name) {
        unsigned count = 0;

        while (fake_run_event(fake, name, count) != NULL)
                count++;
        return count;
}
