/* SPDX-License-Identifier: Apache-2.0 */
/* The world of fake_world.h. What the script and the sessions are is global: a test program has one world at a time. */
#include "fake_world.h"

#include <poll.h>

#include "base/fd.h"
#include "base/number.h"
#include "guest/result.h"
#include "tools/content.h"

#define PATIENCE_MS 60000u
#define SESSIONS_MAX 64u
#define REQUESTS_MAX 256u
#define TEXT_MAX ((size_t)64 << 20)

/* ---- sessions ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the sessions' table */
static struct world_session *sessions[SESSIONS_MAX];
static const struct sbx_config *sessions_config;

struct world_session *world_session(const char *principal, const char *id, bool make) {
        size_t free_place = SESSIONS_MAX;

        if (id == NULL)
                id = SBX_SESSION_DEFAULT;
        if (principal == NULL)
                principal = "";
        SBX_LOCKED(&lock);
        for (size_t i = 0; i < SESSIONS_MAX; i++) {
                if (sessions[i] == NULL)
                        free_place = i;
                else if (strcmp(sessions[i]->principal, principal) == 0 && strcmp(sessions[i]->id, id) == 0)
                        return sessions[i];
        }
        if (!make || free_place == SESSIONS_MAX)
                return NULL;
        sessions[free_place] = calloc(1, sizeof(struct world_session));
        snprintf(sessions[free_place]->principal, sizeof(sessions[0]->principal), "%s", principal);
        snprintf(sessions[free_place]->id, sizeof(sessions[0]->id), "%s", id);
        sessions[free_place]->texts = json_object();
        return sessions[free_place];
}

static void end_session(size_t index) {
        json_decref(sessions[index]->texts);
        free(sessions[index]);
        sessions[index] = NULL;
}

void sbx_sessions_destroy_all(struct sbx_sessions *all, const char *principal) {
        world_states_remove(principal, NULL);
        sbx_sessions_suspend_all(all, principal);
}

void sbx_sessions_suspend_all(struct sbx_sessions *all, const char *principal) {
        SBX_LOCKED(&lock);
        for (size_t i = 0; i < SESSIONS_MAX; i++)
                if (sessions[i] != NULL && strcmp(sessions[i]->principal, principal) == 0)
                        end_session(i);
}

unsigned world_sessions(void) {
        unsigned count = 0;
        SBX_LOCKED(&lock);

        for (size_t i = 0; i < SESSIONS_MAX; i++)
                count += sessions[i] != NULL;
        return count;
}

const struct sbx_config *sbx_sessions_config(const struct sbx_sessions *all) {
        return sessions_config;
}

int sbx_sessions_set(struct sbx_sessions *all, const char *principal, const char *id, const char *name,
                     const json_t *value, const struct sbx_call *call, char **ret_repr, struct sbx_error *err) {
        struct world_session *session = world_session(principal, id, true);

        json_object_set(session->texts, name, (json_t *)(uintptr_t)value);
        if (strcmp(name, "n") == 0)
                session->n = json_integer_value(value);
        *ret_repr = strdup("'...'");
        return 0;
}

int sbx_sessions_get(struct sbx_sessions *all, const char *principal, const char *id, const struct sbx_call *call,
                     json_t **ret_variables, struct sbx_error *err) {
        *ret_variables = json_object();
        return 0;
}

int sbx_sessions_clear(struct sbx_sessions *all, const char *principal, const char *id, const struct sbx_call *call,
                       struct sbx_error *err) {
        struct world_session *session = world_session(principal, id, true);

        session->n = 0;
        json_object_clear(session->texts);
        return 0;
}

int sbx_sessions_destroy(struct sbx_sessions *all, const char *principal, const char *id, struct sbx_error *err) {
        world_states_remove(principal, id);
        return 0;
}

int sbx_sessions_list(struct sbx_sessions *all, const char *principal, json_t **ret_list, struct sbx_error *err) {
        *ret_list = json_array();
        return 0;
}

/* ---- the interpreter ---- */

struct execution {
        struct world_session *session;
        const struct sbx_code_calls *calls;
        const struct sbx_call *call;
        struct sbx_buffer out;
        enum sbx_end end;
        enum sbx_state state;
};

static void call_back(struct execution *execution, const char *name, const char *arguments) {
        _cleanup_buffer_ struct sbx_buffer result = SBX_BUFFER(TEXT_MAX);
        struct sbx_error problem = {0};
        int r = -EACCES;

        if (execution->calls != NULL)
                r = execution->calls->answer(execution->calls->data, name,
                                             (struct sbx_bytes){arguments, strlen(arguments)}, execution->call, &result,
                                             &problem);
        if (r == -ECANCELED)
                execution->end = SBX_END_CANCELLED;
        else if (r < 0)
                execution->end = SBX_END_ERROR;
        (void)sbx_buffer_printf(&execution->out, "%s\n", r == 0 ? result.data : problem.message);
}

static void expect(struct execution *execution, bool holds) {
        (void)sbx_buffer_append_text(&execution->out, holds ? "as expected\n" : "not as expected\n");
        if (!holds)
                execution->end = SBX_END_ERROR;
}

static void perform(struct execution *execution, const char *word, char *argument) {
        struct world_session *session = execution->session;
        char text[64];
        int64_t number = 0;

        (void)sbx_number_int(argument, &number);
        if (strcmp(word, "add") == 0) {
                session->n += number;
        } else if (strcmp(word, "show") == 0) {
                (void)sbx_buffer_printf(&execution->out, "n is %lld\n", (long long)session->n);
        } else if (strcmp(word, "call") == 0) {
                char *rest = strchr(argument, ' ');

                if (rest != NULL)
                        *rest++ = '\0';
                call_back(execution, argument, rest != NULL ? rest : "{}");
        } else if (strcmp(word, "final") == 0) {
                snprintf(text, sizeof(text), "{\"answer\": \"%lld\"}", (long long)session->n);
                call_back(execution, "FINAL", text);
        } else if (strcmp(word, "expect") == 0) {
                const char *answer = json_string_value(json_object_get(session->texts, "answer"));

                expect(execution, answer != NULL && strcmp(answer, argument) == 0);
        } else if (strcmp(word, "expect-n") == 0) {
                expect(execution, session->n == number);
        } else if (strcmp(word, "length") == 0) {
                (void)sbx_buffer_printf(&execution->out, "%zu\n",
                                        json_string_length(json_object_get(session->texts, argument)));
        } else if (strcmp(word, "drift") == 0) {
                static unsigned drift; /* atomic */

                (void)sbx_buffer_printf(&execution->out, "%u\n", __atomic_add_fetch(&drift, 1, __ATOMIC_RELAXED));
        } else if (strcmp(word, "crash") == 0) {
                session->n = 0;
                json_object_clear(session->texts);
                execution->end = SBX_END_KILLED;
                execution->state = SBX_STATE_LOST;
        } else if (strcmp(word, "block") == 0) {
                int never[2], r;

                assert_int_equal(sbx_fd_pipe(never), 0);
                r = sbx_fd_wait(never[0], POLLIN, execution->call);
                execution->end = r == -ECANCELED ? SBX_END_CANCELLED : SBX_END_TIMEOUT;
                close(never[0]);
                close(never[1]);
        }
}

static void interpret(struct execution *execution, struct sbx_bytes code) {
        char *copy = strndup(code.data, code.size), *save = NULL;

        for (char *word = strtok_r(copy, ";", &save); word != NULL && execution->end == SBX_END_OK;
             word = strtok_r(NULL, ";", &save)) {
                char *argument;

                word += strspn(word, " \n");
                for (size_t size = strlen(word); size > 0 && word[size - 1] == '\n'; size--)
                        word[size - 1] = '\0';
                argument = strchr(word, ' ');
                if (argument != NULL)
                        *argument++ = '\0';
                perform(execution, word, argument != NULL ? argument : word + strlen(word));
        }
        free(copy);
}

int sbx_sessions_execute_with(struct sbx_sessions *all, const struct sbx_execution *given,
                              const struct sbx_code_calls *calls, const struct sbx_call *call,
                              struct sbx_result **ret_result, struct sbx_error *err) {
        struct execution execution = {.session = world_session(given->principal, given->session_id, true),
                                      .calls = calls,
                                      .call = call,
                                      .out = SBX_BUFFER(TEXT_MAX)};
        const char *id = given->session_id != NULL ? given->session_id : SBX_SESSION_DEFAULT;
        struct sbx_result *result = NULL;
        const char *checkpoint;

        world_executed();
        interpret(&execution, given->code);
        assert_int_equal(sbx_result_new(&result), 0);
        result->end = execution.end;
        result->state = execution.state;
        assert_int_equal(sbx_result_set_output(&result->stdout_text, &execution.out, false), 0);
        assert_int_equal(sbx_result_set(&result->session_id, (struct sbx_bytes){id, strlen(id)}), 0);
        if (execution.end != SBX_END_OK)
                assert_int_equal(sbx_result_set(&result->error_message, BYTES("it went wrong")), 0);
        checkpoint = execution.state == SBX_STATE_KEPT ? world_states_add(execution.session) : NULL;
        if (checkpoint != NULL)
                assert_int_equal(
                        sbx_result_set(&result->checkpoint, (struct sbx_bytes){checkpoint, strlen(checkpoint)}), 0);
        sbx_buffer_free(&execution.out);
        *ret_result = result;
        return 0;
}

int sbx_sessions_execute(struct sbx_sessions *all, const struct sbx_execution *execution, const struct sbx_call *call,
                         struct sbx_result **ret_result, struct sbx_error *err) {
        return sbx_sessions_execute_with(all, execution, NULL, call, ret_result, err);
}

/* Workspaces and what is kept with a session are for clients: runs have none here. */
#define NONE(function, ...)                                                                                            \
        int function(struct sbx_sessions *all, const char *principal, const char *id, __VA_ARGS__) {                   \
                return sbx_error_set(err, -ENOTSUP, "fake", NULL, "these sessions have no files");                     \
        }
NONE(sbx_sessions_file_read, const char *path, size_t max_bytes, const struct sbx_call *call, struct sbx_buffer *out,
     struct sbx_error *err)
NONE(sbx_sessions_file_write, const char *path, struct sbx_bytes content, const struct sbx_call *call,
     struct sbx_error *err)
NONE(sbx_sessions_file_list, const char *path, const struct sbx_call *call, json_t **ret_list, bool *ret_cut,
     struct sbx_error *err)
NONE(sbx_sessions_artifact_add, const char *prefix, const char *suffix, const char *mime_type, struct sbx_bytes content,
     char ret_name[SBX_ARTIFACT_NAME_SIZE], struct sbx_error *err)

/* ---- the provider ---- */

static struct {
        pthread_mutex_t lock; /* protects what follows */
        pthread_cond_t changed;
        const char *const *script;
        unsigned next, calls, blocked;
        json_t *requests[REQUESTS_MAX];
} provider = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int unavailable; /* what the provider's `available` answers */

void world_script(const char *const *script) {
        SBX_LOCKED(&provider.lock);
        for (size_t i = 0; i < REQUESTS_MAX; i++) {
                json_decref(provider.requests[i]);
                provider.requests[i] = NULL;
        }
        provider.script = script;
        provider.next = provider.calls = 0;
        unavailable = 0;
}

void world_answered(unsigned count) {
        SBX_LOCKED(&provider.lock);
        provider.next = count;
}

unsigned world_calls(void) {
        SBX_LOCKED(&provider.lock);
        return provider.calls;
}

json_t *world_request(unsigned number) {
        SBX_LOCKED(&provider.lock);
        assert_true(number < provider.calls);
        return json_incref(json_object_get(provider.requests[number], "messages"));
}

void world_wait_blocked(unsigned count) {
        for (unsigned i = 0; i < PATIENCE_MS; i++) {
                bool there;

                pthread_mutex_lock(&provider.lock);
                there = provider.blocked >= count;
                pthread_mutex_unlock(&provider.lock);
                if (there)
                        return;
                usleep(1000);
        }
        fail_msg("the provider was not asked %u times", count);
}

static int block(const struct sbx_call *call) {
        int never[2], r;

        pthread_mutex_lock(&provider.lock);
        provider.blocked++;
        pthread_mutex_unlock(&provider.lock);
        assert_int_equal(sbx_fd_pipe(never), 0);
        r = sbx_fd_wait(never[0], POLLIN, call);
        close(never[0]);
        close(never[1]);
        pthread_mutex_lock(&provider.lock);
        provider.blocked--;
        pthread_mutex_unlock(&provider.lock);
        return r;
}

static json_t *tool_calls_of(const json_t *tools) {
        json_t *calls = json_array();
        const json_t *tool;
        size_t i;

        json_array_foreach (tools, i, tool) {
                char *arguments = json_dumps(json_array_get(tool, 1), JSON_COMPACT);
                char id[32];

                snprintf(id, sizeof(id), "call_%zu", i);
                json_array_append_new(calls,
                                      json_pack("{s:s, s:s, s:{s:O, s:s}}", "id", id, "type", "function", "function",
                                                "name", json_array_get(tool, 0), "arguments", arguments));
                free(arguments);
        }
        return calls;
}

/* The short form of the script as a chat-completions response: 100 tokens and a cent each. */
static int answer(const char *line, struct sbx_output *ret_response) {
        _cleanup_json_ json_t *short_form = json_loads(line, 0, NULL), *response = NULL, *message = NULL;
        const json_t *tools = json_object_get(short_form, "tools"), *usage = json_object_get(short_form, "usage");
        char *text;
        int r;

        assert_non_null(short_form);
        message = json_pack("{s:s, s:O?}", "role", "assistant", "content", json_object_get(short_form, "content"));
        if (tools != NULL)
                json_object_set_new(message, "tool_calls", tool_calls_of(tools));
        response = json_pack("{s:s, s:[{s:i, s:O, s:s}], s:o}", "model", "fake/model", "choices", "index", 0, "message",
                             message, "finish_reason", tools != NULL ? "tool_calls" : "stop", "usage",
                             usage != NULL ? json_incref((json_t *)(uintptr_t)usage)
                                           : json_pack("{s:i, s:i, s:i, s:f}", "prompt_tokens", 80, "completion_tokens",
                                                       20, "total_tokens", 100, "cost_usd", 0.01));
        text = json_dumps(response, JSON_COMPACT);
        r = sbx_output_append(ret_response, text, strlen(text));
        free(text);
        return r;
}

void world_unavailable(int code) {
        unavailable = code;
}

static int available(void *instance, const char *model, struct sbx_error *err) {
        return unavailable < 0 ? sbx_error_set(err, unavailable, "fake", "Set a key.", "no API key for %s", model) : 0;
}

static int complete(void *instance, struct sbx_bytes request, const struct sbx_provider_events *events,
                    const struct sbx_call *call, struct sbx_output *ret_response, struct sbx_error *err) {
        const char *line;
        int64_t code = 0;

        pthread_mutex_lock(&provider.lock);
        assert_true(provider.calls < REQUESTS_MAX);
        provider.requests[provider.calls++] = json_loadb(request.data, request.size, 0, NULL);
        line = provider.script != NULL ? provider.script[provider.next] : NULL;
        if (line != NULL)
                provider.next++;
        pthread_mutex_unlock(&provider.lock);
        if (line == NULL)
                return sbx_error_set(err, -EREMOTEIO, "fake", NULL, "the script is at its end");
        if (strcmp(line, "block") == 0)
                return sbx_error_set(err, block(call), "fake", NULL, "the call ended");
        if (line[0] == '!' && sbx_number_int(line + 1, &code) == 0)
                return sbx_error_set(err, (int)code, "fake", "Mend it.", "the provider fails");
        return answer(line, ret_response);
}

int sbx_registry_get(struct sbx_registry *registry, const char *name, uint32_t kind, const struct sbx_call *call,
                     const struct sbx_instance **ret_instance, struct sbx_error *err) {
        static const struct sbx_provider_ops ops = {
                .struct_size = sizeof(ops), .complete = complete, .available = available};
        static const struct sbx_instance instance = {.name = "litellm", .ops = &ops};

        if (strcmp(name, "litellm") != 0 || kind != SBX_PLUGIN_PROVIDER)
                return sbx_error_set(err, -ENOENT, "fake", "Configured is: litellm.", "there is no provider \"%s\"",
                                     name);
        *ret_instance = &instance;
        return 0;
}

/* ---- the world ---- */

static int touch(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                 struct sbx_error *err) {
        struct world *world = context->data;

        __atomic_add_fetch(&world->side_effects, 1, __ATOMIC_SEQ_CST);
        *ret_result = sbx_content_text(false, "touched");
        return 0;
}

static int find_context(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                        struct sbx_error *err) {
        *ret_result = sbx_content_text(false, "The elephants are in file seven.");
        return 0;
}

static void add_tools(struct world *world) {
        static const char *const everything[] = {"*", NULL};
        const struct sbx_tool tool = {.name = "touch",
                                      .title = "Touch",
                                      .description = "Touches something outside.",
                                      .input_schema = "{\"type\": \"object\", \"properties\": {}}",
                                      .run = touch,
                                      .data = world};
        const struct sbx_tool note = {.name = "note",
                                      .title = "Note",
                                      .description = "Adds something outside.",
                                      .input_schema = "{\"type\": \"object\", \"properties\": {}}",
                                      .annotations = "{\"readOnlyHint\": false, \"destructiveHint\": false}",
                                      .run = touch,
                                      .data = world};
        const struct sbx_tool context = {
                .name = "snipara_context_query",
                .title = "Context",
                .description = "Finds context.",
                .input_schema =
                        "{\"type\": \"object\", \"properties\": {\"query\": {\"type\": \"string\"}, \"max_tokens\": "
                        "{\"type\": \"integer\"}}, \"required\": [\"query\"]}",
                .annotations = "{\"readOnlyHint\": true}",
                .run = find_context};

        assert_int_equal(sbx_tools_add(world->tools, &tool, &world->err), 0);
        assert_int_equal(sbx_tools_add(world->tools, &note, &world->err), 0);
        if (world->with_context)
                assert_int_equal(sbx_tools_add(world->tools, &context, &world->err), 0);
        assert_int_equal(sbx_tools_allow(world->tools, SBX_CALLER_MODEL, everything, &world->err), 0);
        assert_int_equal(sbx_tools_allow(world->tools, SBX_CALLER_CODE, everything, &world->err), 0);
}

static void on_event(void *data, const json_t *event) {
        struct world *world = data;

        json_array_append_new(world->told, json_copy((json_t *)(uintptr_t)event));
}

static struct sbx_config *load_config(const char *const *settings) {
        static const char *const none[] = {NULL};
        char path[] = "/tmp/sbx-test-XXXXXX";
        struct sbx_runtime_options options = {.struct_size = sizeof(options),
                                              .flags = SBX_RUNTIME_NO_ENVIRONMENT,
                                              .config_path = path,
                                              .directory = "/",
                                              .settings = settings != NULL ? settings : none};
        struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        struct sbx_config *config = NULL;
        struct sbx_error err = {0};
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        if (sbx_config_load(&options, &logger, &config, &err) < 0)
                fail_msg("%s", err.message);
        close(fd);
        unlink(path);
        return config;
}

void world_open(struct world *world, const char *const *settings) {
        struct sbx_runs_parts parts;

        world->logger = (struct sbx_logger){.level = SBX_LOG_ERROR};
        world->err = (struct sbx_error){0};
        world->config = load_config(settings);
        sessions_config = world->config;
        assert_int_equal(sbx_tools_new(&world->logger, &world->tools, &world->err), 0);
        assert_int_equal(sbx_tools_add_builtin(world->tools, NULL, world->config, &world->err), 0);
        assert_int_equal(sbx_trajectory_new(&world->logger, &world->trajectory, &world->err), 0);
        add_tools(world);
        parts = (struct sbx_runs_parts){.config = world->config,
                                        .tools = world->tools,
                                        .trajectory = world->trajectory,
                                        .logger = &world->logger,
                                        .state_directory = world->state};
        assert_int_equal(sbx_runs_new(&parts, &world->runs, &world->err), 0);
        assert_int_equal(sbx_fd_pipe(world->cancel), 0);
        world->call = (struct sbx_call){.struct_size = sizeof(world->call), .cancel_fd = world->cancel[0]};
        world->told = json_array();
        world->watch = (struct sbx_run_watch){.data = world, .event = on_event};
}

void world_close(struct world *world) {
        sbx_tools_stop(world->tools);
        sbx_runs_free(world->runs);
        sbx_tools_free(world->tools);
        sbx_trajectory_free(world->trajectory);
        sbx_config_free(world->config);
        json_decref(world->told);
        close(world->cancel[0]);
        close(world->cancel[1]);
        assert_int_equal(world_sessions(), 0);
        world_script(NULL);
}

json_t *world_run(struct world *world, const struct sbx_run_request *request) {
        json_t *result = NULL;

        world->err = (struct sbx_error){0};
        json_array_clear(world->told);
        if (sbx_runs_run(world->runs, request, &world->watch, &world->call, &result, &world->err) < 0)
                fail_msg("%s", world->err.message);
        return result;
}

unsigned world_told(const struct world *world, const char *event) {
        unsigned count = 0;
        const json_t *told;
        size_t i;

        json_array_foreach (world->told, i, told)
                count += strcmp(json_string_value(json_object_get(told, "event")), event) == 0;
        return count;
}
