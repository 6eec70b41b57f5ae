/* SPDX-License-Identifier: Apache-2.0 */
/* Runs within the call of a client: as its task, and with its own model (sampling). */
#include <poll.h>
#include <sys/eventfd.h>

#include "base/fd.h"
#include "base/number.h"
#include "fake_world.h"

#define ASKED_MAX 64u
#define TOLD_MAX 256u

static struct world world;

/* A client whose model answers from a script. A line "{...}" is a whole result of sampling/createMessage, "!-13" the
 * errno of ask, "block" waits until the call ends; anything else is the text of the answer. */
static struct fake_client {
        struct sbx_client client;
        const char *const *script;
        unsigned blocked;     /* atomic */
        pthread_mutex_t lock; /* protects what follows */
        unsigned asked, became_task, told;
        json_t *questions[ASKED_MAX]; /* whole, as they came */
        int task_answer;
        double last_progress;
        char last_message[256];
        bool rose;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int respond(const char *key, const char *line, struct sbx_output *ret_responses) {
        json_t *result = line[0] == '{'
                                 ? json_loads(line, 0, NULL)
                                 : json_pack("{s:s, s:{s:s, s:s}, s:s, s:s}", "role", "assistant", "content", "type",
                                             "text", "text", line, "model", "their-model-1", "stopReason", "endTurn");
        json_t *whole = json_pack("{s:o}", key, result);
        char *text = json_dumps(whole, JSON_COMPACT);
        int r;

        assert_non_null(text);
        r = sbx_output_append(ret_responses, text, strlen(text));
        free(text);
        json_decref(whole);
        return r;
}

static int block(const struct sbx_call *call) {
        int never = eventfd(0, EFD_CLOEXEC), r;

        __atomic_add_fetch(&fake.blocked, 1, __ATOMIC_SEQ_CST);
        r = sbx_fd_wait(never, POLLIN, call);
        close(never);
        return r;
}

static int ask(void *data, struct sbx_bytes requests, const struct sbx_call *call, struct sbx_output *ret_responses,
               struct sbx_error *err) {
        json_t *question = json_loadb(requests.data, requests.size, 0, NULL);
        const char *line, *key;
        int64_t code = 0;

        assert_ptr_equal(data, &fake);
        assert_non_null(question);
        assert_int_equal(json_object_size(question), 1);
        key = json_object_iter_key(json_object_iter(question));
        pthread_mutex_lock(&fake.lock);
        assert_true(fake.asked < ASKED_MAX);
        line = fake.script[fake.asked];
        fake.questions[fake.asked++] = question;
        pthread_mutex_unlock(&fake.lock);
        assert_non_null(line);
        if (strcmp(line, "block") == 0)
                return sbx_error_set(err, block(call), "fake", NULL, "the call ended");
        if (line[0] == '!' && sbx_number_int(line + 1, &code) == 0)
                return sbx_error_set(err, (int)code, "fake", NULL, "User rejected sampling request");
        return respond(key, line, ret_responses);
}

static int become_task(void *data) {
        SBX_LOCKED(&fake.lock);
        fake.became_task++;
        return fake.task_answer;
}

static void on_progress(void *data, double progress, double total, const char *message) {
        SBX_LOCKED(&fake.lock);
        fake.rose = fake.rose && (fake.told == 0 || progress > fake.last_progress) && progress <= total;
        fake.told++;
        fake.last_progress = progress;
        snprintf(fake.last_message, sizeof(fake.last_message), "%s", message != NULL ? message : "");
}

static void client_is(uint32_t capabilities, int task_answer, const char *const *script) {
        for (unsigned i = 0; i < fake.asked; i++)
                json_decref(fake.questions[i]);
        fake.asked = fake.blocked = fake.became_task = fake.told = 0;
        fake.rose = true;
        fake.script = script;
        fake.task_answer = task_answer;
        fake.client = (struct sbx_client){.struct_size = sizeof(fake.client),
                                          .capabilities = capabilities,
                                          .data = &fake,
                                          .ask = ask,
                                          .become_task = become_task};
}

static const json_t *question(unsigned number) {
        const json_t *whole, *inner;
        char key[32];

        assert_true(number < fake.asked);
        whole = fake.questions[number];
        snprintf(key, sizeof(key), "completion-%u", number + 1);
        inner = json_object_get(whole, key);
        assert_non_null(inner);
        assert_string_equal(json_string_value(json_object_get(inner, "method")), "sampling/createMessage");
        return json_object_get(inner, "params");
}

/* "role: text" of each message, on lines of their own. */
static char *conversation(unsigned number) {
        const json_t *messages = json_object_get(question(number), "messages"), *message;
        struct sbx_buffer text = SBX_BUFFER(1u << 20);
        size_t i;

        json_array_foreach (messages, i, message) {
                const json_t *content = json_object_get(message, "content");

                assert_string_equal(json_string_value(json_object_get(content, "type")), "text");
                assert_int_equal(sbx_buffer_printf(&text, "%s: %s\n",
                                                   json_string_value(json_object_get(message, "role")),
                                                   json_string_value(json_object_get(content, "text"))),
                                 0);
        }
        return sbx_buffer_steal(&text);
}

static const char *system_of(unsigned number) {
        const char *text = json_string_value(json_object_get(question(number), "systemPrompt"));

        return text != NULL ? text : "";
}

static void open_world(const char *const *settings) {
        world = (struct world){.state = scratch_path("state")};
        world_open(&world, settings);
        client_is(0, 0, NULL);
}

static int setup(void **state) {
        open_world(NULL);
        return 0;
}

static int teardown(void **state) {
        client_is(0, 0, NULL);
        world_close(&world);
        return nftw(scratch_path("state"), scratch_remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT ? 0
                                                                                                                   : -1;
}

/* The result object; the caller's. */
static json_t *call_as(const char *principal, const char *name, json_t *arguments) {
        char *text = json_dumps(arguments, JSON_COMPACT);
        struct sbx_tool_context context = {.principal = principal,
                                           .caller = SBX_CALLER_CLIENT,
                                           .call = &world.call,
                                           .client = &fake.client,
                                           .progress = on_progress};
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(1u << 22);
        struct sbx_error err = {0};
        json_t *result = NULL;

        if (sbx_tools_call(world.tools, name, (struct sbx_bytes){text, strlen(text)}, &context, &out, &err) < 0)
                fail_msg("%s: %s", name, err.message);
        free(text);
        json_decref(arguments);
        assert_int_equal(sbx_json_parse(sbx_buffer_bytes(&out), 1u << 22, "result", &result, NULL), 0);
        return result;
}

static json_t *agent(unsigned max_iterations) {
        return call_as("one", "snipara_agent_run",
                       json_pack("{s:s, s:i}", "task", "Count.", "max_iterations", (int)max_iterations));
}

/* The status that a call of an agent came back with; the caller's. Checks what is the same in all of them. */
static json_t *status_of(json_t *result, const char *status) {
        json_t *facts = json_incref(json_object_get(result, "structuredContent"));
        const char *text =
                json_string_value(json_object_get(json_array_get(json_object_get(result, "content"), 0), "text"));
        const char *id = json_string_value(json_object_get(facts, "run_id"));
        json_t *mirrored = json_loads(text, 0, NULL), *known;

        if (facts == NULL)
                fail_msg("%s", text);
        if (strcmp(json_string_value(json_object_get(facts, "status")), status) != 0)
                fail_msg("%s", text);
        assert_true(json_equal(facts, mirrored));
        assert_string_equal(json_string_value(json_object_get(json_object_get(result, "_meta"), "run_id")), id);
        assert_int_equal(json_is_true(json_object_get(result, "isError")), strcmp(status, "error") == 0);
        known = call_as("one", "snipara_agent_status", json_pack("{s:s}", "run_id", id));
        assert_string_equal(json_string_value(json_object_get(json_object_get(known, "structuredContent"), "status")),
                            status);
        json_decref(known);
        json_decref(mirrored);
        json_decref(result);
        return facts;
}

static const json_t *in_result(const json_t *facts, const char *name) {
        const json_t *value = json_object_get(json_object_get(facts, "result"), name);

        if (value == NULL)
                fail_msg("the result has no %s", name);
        return value;
}

/* ---- the client's model ---- */

static void their_model_answers(void **state) {
        static const char *const script[] = {"I count.\n```python\nadd 7; show\n```\nIgnored.", "FINAL: seven", NULL};
        json_t *facts;
        char *text;

        world_unavailable(-EACCES);
        client_is(SBX_CLIENT_SAMPLING, 0, script);
        facts = status_of(agent(3), "completed");
        assert_string_equal(json_string_value(in_result(facts, "answer")), "seven");
        assert_string_equal(json_string_value(in_result(facts, "answer_source")), "final");
        assert_string_equal(json_string_value(in_result(facts, "provider")), "sampling");
        assert_string_equal(json_string_value(in_result(facts, "model")), "their-model-1");
        assert_true(json_is_null(in_result(facts, "total_cost_usd"))); /* not known, which is not 0 */
        assert_true(json_integer_value(in_result(facts, "total_input_tokens")) > 0);
        text = json_dumps(in_result(facts, "notices"), 0);
        assert_contains(text, "tokens are estimates");
        assert_contains(text, "the cost is unknown");
        free(text);
        json_decref(facts);
        assert_int_equal(world_calls(), 0);
        assert_int_equal(fake.asked, 2);
        assert_contains(system_of(0), "```python");
        assert_contains(system_of(0), "FINAL:");
        assert_true(json_integer_value(json_object_get(question(0), "maxTokens")) > 0);
        assert_null(json_object_get(question(0), "tools"));
        assert_true(json_is_object(json_object_get(question(0), "modelPreferences")));
        text = conversation(1);
        assert_contains(text, "assistant: I count.\n\n```python\nadd 7; show\n```\n");
        assert_contains(text, "user: What came of it:\nn is 7");
        assert_null(strstr(text, "Ignored."));
        free(text);
        assert_true(fake.rose && fake.told >= 2);
        assert_contains(fake.last_message, "iteration 1 of 3: ");
}

/* Its words are a model's: what models may not do, it may not. */
static void their_model_has_no_more_rights(void **state) {
        static const char *const script[] = {"```python\nadd 7; show\n```", "```python\nadd 7; show\n```",
                                             "FINAL: none", NULL};
        static const char *const some[] = {"note", NULL};
        json_t *facts;

        assert_int_equal(sbx_tools_allow(world.tools, SBX_CALLER_MODEL, some, NULL), 0);
        world_unavailable(-EACCES);
        client_is(SBX_CLIENT_SAMPLING, 0, script);
        facts = status_of(agent(5), "completed");
        assert_int_equal(json_integer_value(in_result(facts, "total_tool_calls")), 0);
        assert_null(strstr(system_of(0), "```python"));
        json_decref(facts);
        assert_int_equal(world_sessions(), 0);
}

static void sub_calls_ask_it_too(void **state) {
        static const char *const script[] = {"```python\ncall llm_query {\"prompt\": \"How many?\"}\n```",
                                             "```python\nnever\n```\nor FINAL: never", "FINAL: done", NULL};
        char *text;

        world_unavailable(-EACCES);
        client_is(SBX_CLIENT_SAMPLING, 0, script);
        json_decref(status_of(agent(2), "completed"));
        assert_int_equal(fake.asked, 3);
        text = conversation(1);
        assert_string_equal(text, "user: How many?\n");
        free(text);
        assert_null(strstr(system_of(1), "FINAL:")); /* a plain question: nothing to act with, and nothing acted on */
        text = conversation(2);
        assert_contains(text, "or FINAL: never");
        free(text);
}

static void iterations_are_capped(void **state) {
        static const char *script[2 * SBX_SAMPLING_ITERATIONS_MAX + 3];
        json_t *facts;

        for (unsigned i = 0; i < 2 * SBX_SAMPLING_ITERATIONS_MAX + 2; i++)
                script[i] = i % 2 == 0 ? "```python\nadd 1\n```" : "Thinking.";
        world_unavailable(-EACCES);
        client_is(SBX_CLIENT_SAMPLING, 0, script);
        facts = status_of(agent(50), "completed");
        assert_string_equal(json_string_value(in_result(facts, "end")), "max_iterations");
        assert_int_equal(json_integer_value(in_result(facts, "iterations")), SBX_SAMPLING_ITERATIONS_MAX);
        json_decref(facts);
}

static void failures_are_told(void **state) {
        static const struct {
                const char *line, *told;
        } cases[] = {
                {"!-13", "the client refused to ask its model: User rejected sampling request"},
                {"!-95", "the client's model can't be asked"},
                {"!-110", "the client's model can't be asked"},
                {"!-16", "the client's model can't be asked"},
                {"{}", "its content is not text"},
                {"{\"content\": \"text\"}", "its content is not text"},
                {"{\"content\": {\"type\": \"image\", \"data\": \"AAAA\", \"mimeType\": \"image/png\"}}",
                 "its content is not text"},
                {"{\"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"tool_use\"}]}",
                 "its content is not text"},
                {"{\"content\": {\"type\": \"text\", \"text\": 7}}", "its content is not text"},
        };

        world_unavailable(-EACCES);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const char *const script[] = {cases[i].line, NULL};
                json_t *facts;

                client_is(SBX_CLIENT_SAMPLING, 0, script);
                facts = status_of(agent(3), "error");
                assert_contains(json_string_value(json_object_get(facts, "error")), cases[i].told);
                json_decref(facts);
                assert_int_equal(fake.asked, 1);
        }
}

static void junk_has_an_end(void **state) {
        static const char *const junk[] = {"Hello.", "How are you?", "Fine weather.", "More.", NULL};
        static const char *const mixed[] = {"Hello.", "Hm.",
                                            "{\"content\": [{\"type\": \"text\", \"text\": \"FINAL: \"}, "
                                            "{\"type\": \"text\", \"text\": \"x\"}], \"model\": 7}",
                                            NULL};
        json_t *facts;

        world_unavailable(-EACCES);
        client_is(SBX_CLIENT_SAMPLING, 0, junk);
        facts = status_of(agent(10), "error");
        assert_contains(json_string_value(json_object_get(facts, "error")), "does not keep to the form");
        json_decref(facts);
        assert_int_equal(fake.asked, SBX_SAMPLING_JUNK_MAX);
        client_is(SBX_CLIENT_SAMPLING, 0, mixed);
        facts = status_of(agent(10), "completed");
        assert_string_equal(json_string_value(in_result(facts, "answer")), "x");
        assert_string_equal(json_string_value(in_result(facts, "model")), "their-model-1"); /* the last that was told */
        json_decref(facts);
}

/* It is the last resort, and no way around what is wrong with a provider. */
static void only_where_there_is_no_key(void **state) {
        static const char *const script[] = {"FINAL: theirs", NULL};
        static const char *const own[] = {AS_FINAL("ours"), NULL};
        json_t *result;

        client_is(SBX_CLIENT_SAMPLING, 0, script);
        world_script(own);
        result = agent(3);
        assert_string_equal(json_string_value(json_object_get(json_object_get(result, "structuredContent"), "status")),
                            "running");
        json_decref(result);
        world_unavailable(-EINVAL);
        result = agent(3);
        assert_true(json_is_true(json_object_get(result, "isError")));
        json_decref(result);
        world_unavailable(-EACCES);
        client_is(SBX_CLIENT_ELICITATION, 1, script);
        result = agent(3);
        assert_true(json_is_true(json_object_get(result, "isError")));
        json_decref(result);
        assert_int_equal(fake.asked, 0);
        assert_int_equal(fake.became_task, 0);
}

/* What a client's model began, the configured one may end. */
static void is_resumed_with_a_provider(void **state) {
        static const char *const script[] = {"```python\nadd 7\n```", "!-13", NULL};
        static const char *const own[] = {AS_CODE("add 1; show"), AS_FINAL("eight"), NULL};
        struct sbx_run_request request = {.kind = SBX_RUN_AGENT, .principal = "one"};
        json_t *facts, *result;
        char id[SBX_RUN_ID_SIZE], *text;

        world_unavailable(-EACCES);
        client_is(SBX_CLIENT_SAMPLING, 0, script);
        facts = status_of(agent(3), "error");
        snprintf(id, sizeof(id), "%s", json_string_value(json_object_get(facts, "run_id")));
        assert_true(json_is_true(in_result(facts, "resumable")));
        json_decref(facts);
        world_script(own);
        request.resume_id = id;
        request.limits = (struct sbx_run_limits)SBX_RUN_LIMITS_CONFIGURED;
        result = world_run(&world, &request);
        assert_string_equal(json_string_value(json_object_get(result, "answer")), "eight");
        text = json_dumps(json_object_get(result, "notices"), 0);
        assert_contains(text, "began with the model of its client");
        free(text);
        json_decref(result);
}

/* ---- tasks ---- */

static void a_task_has_the_result(void **state) {
        static const char *const script[] = {AS_CODE("add 7; show"), AS_TEXT("hm"), AS_FINAL("seven"), NULL};
        json_t *facts, *list = NULL;

        world_script(script);
        client_is(SBX_CLIENT_TASKS, 1, NULL);
        facts = status_of(agent(3), "completed");
        assert_string_equal(json_string_value(in_result(facts, "answer")), "seven");
        assert_string_equal(json_string_value(in_result(facts, "provider")), "litellm");
        assert_int_equal(fake.became_task, 1);
        assert_true(fake.rose && fake.told >= 4); /* two iterations, and a tool */
        assert_string_equal(fake.last_message, "iteration 2 of 3: asking the model");
        assert_int_equal(sbx_runs_list(world.runs, &list, NULL), 0); /* it has a journal, as every run has */
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "run_id")),
                            json_string_value(json_object_get(facts, "run_id")));
        json_decref(list);
        json_decref(facts);
}

static void who_takes_no_task_gets_an_id(void **state) {
        static const char *const script[] = {AS_FINAL("seven"), NULL};
        json_t *result;

        world_script(script);
        client_is(0, 0, NULL);
        result = agent(3);
        assert_string_equal(json_string_value(json_object_get(json_object_get(result, "structuredContent"), "status")),
                            "running");
        assert_int_equal(fake.became_task, 1);
        json_decref(result);
}

struct helper {
        pthread_t thread;
        json_t *result;
};

static void *run_agent(void *data) {
        struct helper *helper = data;

        helper->result = agent(3);
        return NULL;
}

/* The id of the one run that goes on. */
static void find_run(char id[SBX_RUN_ID_SIZE]) {
        json_t *list = NULL;

        assert_int_equal(sbx_runs_list(world.runs, &list, NULL), 0);
        assert_int_equal(json_array_size(list), 1);
        snprintf(id, SBX_RUN_ID_SIZE, "%s", json_string_value(json_object_get(json_array_get(list, 0), "run_id")));
        json_decref(list);
}

static void a_cancelled_task_keeps_what_it_reached(void **state) {
        static const char *const script[] = {"{\"content\": \"so far\", \"tools\": [[\"execute_python\", {\"code\": "
                                             "\"add 7\"}]]}",
                                             "block", NULL};
        struct helper helper = {0};
        json_t *facts;

        world_script(script);
        client_is(SBX_CLIENT_TASKS, 1, NULL);
        assert_int_equal(pthread_create(&helper.thread, NULL, run_agent, &helper), 0);
        world_wait_blocked(1);
        assert_int_equal(write(world.cancel[1], "x", 1), 1);
        pthread_join(helper.thread, NULL);
        facts = status_of(helper.result, "cancelled");
        assert_string_equal(json_string_value(in_result(facts, "answer")), "so far");
        assert_string_equal(json_string_value(in_result(facts, "end")), "cancelled");
        assert_true(json_is_true(in_result(facts, "resumable")));
        json_decref(facts);
}

static void its_id_cancels_it(void **state) {
        static const char *const script[] = {"block", NULL};
        struct helper helper = {0};
        char id[SBX_RUN_ID_SIZE];
        json_t *result;

        world_unavailable(-EACCES);
        client_is(SBX_CLIENT_SAMPLING, 1, script);
        assert_int_equal(pthread_create(&helper.thread, NULL, run_agent, &helper), 0);
        for (unsigned i = 0; i < 60000 && __atomic_load_n(&fake.blocked, __ATOMIC_SEQ_CST) == 0; i++)
                usleep(1000);
        find_run(id);
        result = call_as("two", "snipara_agent_cancel", json_pack("{s:s}", "run_id", id));
        assert_true(json_is_true(json_object_get(result, "isError"))); /* another's */
        json_decref(result);
        json_decref(call_as("one", "snipara_agent_cancel", json_pack("{s:s}", "run_id", id)));
        pthread_join(helper.thread, NULL);
        json_decref(status_of(helper.result, "cancelled"));
}

static void the_end_of_the_program_ends_it(void **state) {
        static const char *const script[] = {"block", NULL};
        struct helper helper = {0};

        world_unavailable(-EACCES);
        client_is(SBX_CLIENT_SAMPLING, 1, script);
        assert_int_equal(pthread_create(&helper.thread, NULL, run_agent, &helper), 0);
        for (unsigned i = 0; i < 60000 && __atomic_load_n(&fake.blocked, __ATOMIC_SEQ_CST) == 0; i++)
                usleep(1000);
        sbx_runs_stop(world.runs);
        pthread_join(helper.thread, NULL);
        assert_string_equal(
                json_string_value(json_object_get(json_object_get(helper.result, "structuredContent"), "status")),
                "cancelled");
        json_decref(helper.result);
}

static void a_principal_has_a_limit(void **state) {
        static const char *const settings[] = {"max_runs_per_principal=1", NULL};
        static const char *const script[] = {"block", "block", NULL};
        json_t *result;

        teardown(NULL);
        open_world(settings);
        world_script(script);
        client_is(0, 0, NULL);
        json_decref(agent(3));
        world_wait_blocked(1);
        result = agent(3);
        assert_true(json_is_true(json_object_get(result, "isError")));
        assert_contains(
                json_string_value(json_object_get(json_array_get(json_object_get(result, "content"), 0), "text")),
                "max_runs_per_principal");
        json_decref(result);
        result = call_as("two", "snipara_agent_run", json_pack("{s:s}", "task", "Count."));
        assert_false(json_is_true(json_object_get(result, "isError")));
        json_decref(result);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(their_model_answers, setup, teardown),
                cmocka_unit_test_setup_teardown(their_model_has_no_more_rights, setup, teardown),
                cmocka_unit_test_setup_teardown(sub_calls_ask_it_too, setup, teardown),
                cmocka_unit_test_setup_teardown(iterations_are_capped, setup, teardown),
                cmocka_unit_test_setup_teardown(failures_are_told, setup, teardown),
                cmocka_unit_test_setup_teardown(junk_has_an_end, setup, teardown),
                cmocka_unit_test_setup_teardown(only_where_there_is_no_key, setup, teardown),
                cmocka_unit_test_setup_teardown(is_resumed_with_a_provider, setup, teardown),
                cmocka_unit_test_setup_teardown(a_task_has_the_result, setup, teardown),
                cmocka_unit_test_setup_teardown(who_takes_no_task_gets_an_id, setup, teardown),
                cmocka_unit_test_setup_teardown(a_cancelled_task_keeps_what_it_reached, setup, teardown),
                cmocka_unit_test_setup_teardown(its_id_cancels_it, setup, teardown),
                cmocka_unit_test_setup_teardown(the_end_of_the_program_ends_it, setup, teardown),
                cmocka_unit_test_setup_teardown(a_principal_has_a_limit, setup, teardown),
        };

        return cmocka_run_group_tests_name("sampling", tests, scratch_setup, scratch_teardown);
}
