/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin gets from its host: options, log, directories, outputs, tools. */
#include "scratch.h"

#include "plugin/internal.h"

static char log_text[4096];

static void keep_log(void *data, int level, const char *message) {
        size_t used = strlen(log_text);

        snprintf(log_text + used, sizeof(log_text) - used, "%d %s\n", level, message);
}

static const struct sbx_logger logger = {keep_log, NULL, SBX_LOG_DEBUG};

#define OPTION(kind, text)                                                                                             \
        { .struct_size = sizeof(struct sbx_option), .type = SBX_OPTION_##kind, .name = (text), .help = "h" }

static const struct sbx_option table[] = {
        OPTION(BOOL, "bool"),       OPTION(INT, "int"),       OPTION(SIZE, "size"),     OPTION(DURATION, "duration"),
        OPTION(FLOAT, "float"),     OPTION(STRING, "string"), OPTION(ENUM, "enum"),     OPTION(PATH, "path"),
        OPTION(STRINGS, "strings"), OPTION(STRING, "unset"),  OPTION(INT, "unset_int"), {.name = NULL},
};
static char *strings[] = {(char *)"a", (char *)"b", NULL};
static char *no_strings[] = {NULL};
static struct sbx_value values[] = {
        {.set = true, .boolean = true},
        {.set = true, .integer = -7},
        {.set = true, .integer = 1024},
        {.set = true, .integer = 1500},
        {.set = true, .real = 0.5},
        {.set = true, .string = "text"},
        {.set = true, .string = "word"},
        {.set = true, .string = "/a/b"},
        {.set = true, .strings = strings},
        {.strings = no_strings},
        {.integer = 3},
};
static const struct sbx_settings settings = {table, sizeof(table) / sizeof(table[0]) - 1, values};

struct fixture {
        struct sbx_directories directories;
        struct sbx_tool_services tools;
        struct sbx_host_state *state;
        const struct sbx_host *host;
};

static struct fixture *make_host(bool build_tree) {
        struct fixture *fixture = calloc(1, sizeof(*fixture));
        const struct sbx_host_setup setup = {.instance_name = "here",
                                             .plugin_name = "sink-test",
                                             .settings = &settings,
                                             .logger = &logger,
                                             .directories = &fixture->directories,
                                             .tools = &fixture->tools};

        fixture->directories = (struct sbx_directories){.plugins = (char *)"/p",
                                                        .libexec = (char *)"/l",
                                                        .guests = (char *)"/g",
                                                        .data = (char *)"/d",
                                                        .config = (char *)"/c",
                                                        .build_tree = build_tree};
        fixture->state = sbx_host_new(&setup);
        fixture->host = sbx_host_services(fixture->state);
        log_text[0] = '\0';
        return fixture;
}

static void free_host(struct fixture *fixture) {
        sbx_host_free(fixture->state);
        free(fixture);
}

static void every_service_is_there(void **state) {
        struct fixture *f = make_host(false);
        const char *end = (const char *)f->host + sizeof(*f->host);

        assert_int_equal(f->host->struct_size, sizeof(struct sbx_host));
        assert_int_equal(f->host->abi_major, SBX_ABI_MAJOR);
        assert_string_equal(f->host->instance_name, "here");
        assert_string_equal(f->host->version, SBX_VERSION);
        /* From the first pointer on no member is empty, also those that are added later. */
        for (const char *p = (const char *)&f->host->self; p < end; p += sizeof(void *)) {
                void *member;

                memcpy(&member, p, sizeof(member));
                assert_non_null(member);
        }
        free_host(f);
}

static void options_come_by_name_and_type(void **state) {
        struct fixture *f = make_host(false);
        const struct sbx_host *host = f->host;

        assert_int_equal(host->option_bool(host->self, "bool"), 1);
        assert_int_equal(host->option_int(host->self, "int"), -7);
        assert_int_equal(host->option_int(host->self, "size"), 1024);
        assert_int_equal(host->option_int(host->self, "duration"), 1500);
        assert_true(host->option_float(host->self, "float") > 0.4 && host->option_float(host->self, "float") < 0.6);
        assert_string_equal(host->option_string(host->self, "string"), "text");
        assert_string_equal(host->option_string(host->self, "enum"), "word");
        assert_string_equal(host->option_string(host->self, "path"), "/a/b");
        assert_int_equal(host->option_count(host->self, "strings"), 2);
        assert_string_equal(host->option_item(host->self, "strings", 1), "b");
        assert_null(host->option_item(host->self, "strings", 2));
        assert_null(host->option_string(host->self, "unset"));
        assert_int_equal(host->option_int(host->self, "unset_int"), 0);
        assert_string_equal(log_text, "");
        free_host(f);
}

static void a_wrong_name_or_type_is_told_in_the_log(void **state) {
        struct fixture *f = make_host(false);
        const struct sbx_host *host = f->host;

        assert_int_equal(host->option_int(host->self, "string"), 0);
        assert_contains(log_text, "1 here: plugin sink-test asks for option \"string\"");
        log_text[0] = '\0';
        assert_null(host->option_string(host->self, "nothing"));
        assert_contains(log_text, "\"nothing\"");
        assert_null(host->option_string(host->self, NULL));
        assert_int_equal(host->option_bool(host->self, "int"), 0);
        assert_int_equal(host->option_count(host->self, "int"), 0);
        assert_null(host->option_item(host->self, "int", 0));
        free_host(f);
}

static void log_lines_carry_the_name(void **state) {
        struct fixture *f = make_host(false);

        f->host->log(f->host->self, SBX_LOG_WARNING, "careful");
        f->host->log(f->host->self, -5, "low");
        f->host->log(f->host->self, 99, NULL);
        assert_string_equal(log_text, "2 here: careful\n1 here: low\n4 here: (null)\n");
        free_host(f);
}

static void directories(void **state) {
        struct fixture *f = make_host(false);
        const struct sbx_host *host = f->host;
        struct stat st;

        assert_string_equal(host->directory(host->self, "libexec"), "/l");
        assert_string_equal(host->directory(host->self, "guests"), "/g");
        assert_string_equal(host->directory(host->self, "plugins"), "/p");
        assert_null(host->directory(host->self, "other"));
        assert_null(host->directory(host->self, NULL));
        assert_string_equal(log_text, "");
        assert_null(host->directory(host->self, "state"));
        assert_contains(log_text, "no home directory");

        f->directories.state = (char *)scratch_path("state/here");
        assert_true(stat(f->directories.state, &st) < 0);
        assert_string_equal(host->directory(host->self, "state"), f->directories.state);
        assert_int_equal(stat(f->directories.state, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);

        log_text[0] = '\0';
        f->directories.runtime = (char *)"/proc/nowhere/run";
        assert_null(host->directory(host->self, "runtime"));
        assert_contains(log_text, "/proc/nowhere/run");
        free_host(f);

        f = make_host(true);
        assert_string_equal(f->host->directory(f->host->self, "libexec"), "/l/sink-test");
        free_host(f);
}

static void outputs_have_a_maximum(void **state) {
        struct fixture *f = make_host(false);
        const struct sbx_host *host = f->host;
        struct sbx_output *output = NULL;

        assert_int_equal(host->output_new(host->self, 8, &output), 0);
        assert_int_equal(host->output_append(host->self, output, "hello", 5), 0);
        assert_int_equal(host->output_append(host->self, output, "hello", 5), -EFBIG);
        assert_int_equal(host->output_append(host->self, output, "you", 3), 0);
        assert_int_equal(host->output_append(host->self, output, NULL, 0), 0);
        assert_int_equal(host->output_bytes(host->self, output).size, 8);
        assert_memory_equal(host->output_bytes(host->self, output).data, "helloyou", 8);
        host->output_free(host->self, output);
        host->output_free(host->self, NULL);
        free_host(f);
}

static void time_goes_on(void **state) {
        struct fixture *f = make_host(false);
        uint64_t before = f->host->clock_ns(f->host->self);

        assert_true(before > 0 && f->host->clock_ns(f->host->self) >= before);
        free_host(f);
}

/* ---- tools ----------------------------------------------------------------------------------------------- */

static struct {
        struct sbx_request request;
        struct sbx_client client;
        char principal[16];
        int cancelled, released;
} seen;

static int list_tools(void *data, struct sbx_output *ret_json, struct sbx_error *err) {
        return sbx_output_append(ret_json, "[]", 2);
}
static int submit_tool(void *data, const struct sbx_request *request, const struct sbx_client *client,
                       const struct sbx_request_done *done, struct sbx_tool_task **ret_task, struct sbx_error *err) {
        assert_ptr_equal(client->data, done->data);
        seen.request = *request;
        seen.client = *client;
        snprintf(seen.principal, sizeof(seen.principal), "<%s>", request->principal);
        *ret_task = (struct sbx_tool_task *)&seen;
        return 0;
}
static void cancel_tool(void *data, struct sbx_tool_task *task) {
        seen.cancelled++;
}
static void release_tool(void *data, struct sbx_tool_task *task) {
        seen.released++;
}
static void tool_done(void *data, int status, struct sbx_bytes result, const struct sbx_error *err) {
}

static void without_tools_a_plugin_is_told_so(void **state) {
        struct fixture *f = make_host(false);
        const struct sbx_host *host = f->host;
        const struct sbx_tool_events events = {.struct_size = sizeof(events), .done = tool_done};
        struct sbx_tool_task *task = NULL;
        struct sbx_error err = {0};

        assert_int_equal(host->tool_list(host->self, NULL, &err), -ENOTSUP);
        assert_contains(err.message, "here");
        assert_int_equal(host->tool_submit(host->self, "x", BYTES("{}"), "", &events, &task, NULL), -ENOTSUP);
        host->tool_cancel(host->self, NULL);
        host->tool_release(host->self, NULL);
        free_host(f);
}

static void tools_are_read_at_each_call(void **state) {
        struct fixture *f = make_host(false);
        const struct sbx_host *host = f->host;
        struct {
                struct sbx_tool_events known;
                uint64_t later[2];
        } wide = {.known = {.struct_size = sizeof(wide), .data = f, .done = tool_done}};
        struct sbx_tool_events events = {.struct_size = sizeof(events)};
        struct sbx_tool_task *task = NULL;
        struct sbx_output *output = NULL;

        f->tools = (struct sbx_tool_services){
                .list = list_tools, .submit = submit_tool, .cancel = cancel_tool, .release = release_tool};
        assert_int_equal(host->output_new(host->self, 16, &output), 0);
        assert_int_equal(host->tool_list(host->self, output, NULL), 0);
        assert_int_equal(host->output_bytes(host->self, output).size, 2);
        host->output_free(host->self, output);

        assert_int_equal(host->tool_submit(host->self, "x", BYTES("{}"), NULL, &wide.known, &task, NULL), 0);
        assert_string_equal(seen.principal, "<>");
        assert_int_equal(seen.request.kind, SBX_REQUEST_TOOL);
        assert_ptr_equal(seen.client.data, f);
        assert_int_equal(seen.client.struct_size, sizeof(struct sbx_client));
        host->tool_cancel(host->self, task);
        host->tool_release(host->self, task);
        assert_int_equal(seen.cancelled, 1);
        assert_int_equal(seen.released, 1);

        /* Without done(); too small. */
        assert_int_equal(host->tool_submit(host->self, "x", BYTES("{}"), "", &events, &task, NULL), -EINVAL);
        events = (struct sbx_tool_events){.struct_size = 8, .done = tool_done};
        assert_int_equal(host->tool_submit(host->self, "x", BYTES("{}"), "", &events, &task, NULL), -EINVAL);
        assert_int_equal(host->tool_submit(host->self, NULL, BYTES("{}"), "", &wide.known, &task, NULL), -EINVAL);
        free_host(f);
}

/* Secrets go to the kind of plugin that needs them, and to no other. */
static void settings_and_environment(void **state) {
        const char *const flags[] = {"api_key=sk-1", "snipara_api_key=snp-1", "temperature=0.25", "memory_enabled=true",
                                     NULL};
        struct sbx_runtime_options options = {
                .struct_size = sizeof(options), .settings = flags, .directory = scratch_directory};
        struct fixture *f = calloc(1, sizeof(*f));
        struct sbx_host_setup setup = {.instance_name = "here",
                                       .plugin_name = "llm-test",
                                       .settings = &settings,
                                       .logger = &logger,
                                       .directories = &f->directories};
        struct sbx_config *config = NULL;
        static const struct {
                uint32_t kind;
                const char *name, *value;
        } wanted[] = {
                {SBX_PLUGIN_PROVIDER, "api_key", "sk-1"},       {SBX_PLUGIN_PROVIDER, "temperature", "0.25"},
                {SBX_PLUGIN_PROVIDER, "snipara_api_key", NULL}, {SBX_PLUGIN_CONTEXT, "snipara_api_key", "snp-1"},
                {SBX_PLUGIN_CONTEXT, "memory_enabled", "true"}, {SBX_PLUGIN_CONTEXT, "snipara_project_slug", NULL},
                {SBX_PLUGIN_CONTEXT, "api_key", NULL},          {SBX_PLUGIN_SINK, "api_key", NULL},
                {SBX_PLUGIN_BACKEND, "api_key", NULL},          {SBX_PLUGIN_TRANSPORT, "snipara_api_key", NULL},
                {SBX_PLUGIN_PROVIDER, "no_such", NULL},
        };

        scratch_write(".env", "SBX_TEST_OF_DOTENV=from the file\nSBX_TEST_OF_BOTH=from the file\n");
        setenv("SBX_TEST_OF_BOTH", "from the process", 1);
        f->directories = (struct sbx_directories){.libexec = (char *)"/l", .data = (char *)"/d", .build_tree = true};
        assert_int_equal(sbx_config_load(&options, &logger, &config, NULL), 0);
        setup.config = config;
        for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
                const char *value;

                setup.kind = wanted[i].kind;
                f->state = sbx_host_new(&setup);
                f->host = sbx_host_services(f->state);
                value = f->host->setting(f->host->self, wanted[i].name);
                if (wanted[i].value == NULL)
                        assert_null(value);
                else
                        assert_string_equal(value, wanted[i].value);
                assert_null(f->host->setting(f->host->self, NULL));
                assert_string_equal(f->host->environment(f->host->self, "SBX_TEST_OF_DOTENV"), "from the file");
                assert_string_equal(f->host->environment(f->host->self, "SBX_TEST_OF_BOTH"), "from the process");
                assert_null(f->host->environment(f->host->self, "SBX_TEST_OF_NOTHING"));
                assert_string_equal(f->host->directory(f->host->self, "project"), sbx_config_directory(config));
                assert_string_equal(f->host->directory(f->host->self, "data"), "/d/llm-test");
                sbx_host_free(f->state);
        }
        sbx_config_free(config);
        options.flags = SBX_RUNTIME_NO_ENVIRONMENT;
        assert_int_equal(sbx_config_load(&options, &logger, &config, NULL), 0);
        assert_null(sbx_config_environment(config, "SBX_TEST_OF_BOTH"));
        assert_null(sbx_config_environment(config, "SBX_TEST_OF_DOTENV"));
        sbx_config_free(config);
        unsetenv("SBX_TEST_OF_BOTH");
        free(f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_service_is_there),
                cmocka_unit_test(options_come_by_name_and_type),
                cmocka_unit_test(a_wrong_name_or_type_is_told_in_the_log),
                cmocka_unit_test(log_lines_carry_the_name),
                cmocka_unit_test(directories),
                cmocka_unit_test(outputs_have_a_maximum),
                cmocka_unit_test(time_goes_on),
                cmocka_unit_test(without_tools_a_plugin_is_told_so),
                cmocka_unit_test(tools_are_read_at_each_call),
                cmocka_unit_test(settings_and_environment),
        };

        return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
