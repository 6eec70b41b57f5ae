/* SPDX-License-Identifier: Apache-2.0 */
/* The instances of a runtime: brought up when they are asked for, once, by any thread; taken down in reverse. */
#include "scratch.h"

#include <pthread.h>

#include <snipara-sandbox/sink.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "plugin/internal.h"

/* ---- a registry with a configuration and a log ------------------------------------------------------------- */

struct fixture {
        pthread_mutex_t lock; /* log */
        char log[16384];
        struct sbx_logger logger;
        struct sbx_directories directories;
        struct sbx_config *config;
        struct sbx_registry *registry;
};

static void keep_log(void *data, int level, const char *message) {
        struct fixture *f = data;
        size_t used;

        pthread_mutex_lock(&f->lock);
        used = strlen(f->log);
        snprintf(f->log + used, sizeof(f->log) - used, "%s\n", message);
        pthread_mutex_unlock(&f->lock);
}

static struct fixture *make(const char *plugins) {
        struct fixture *f = calloc(1, sizeof(*f));
        char text[2048];
        struct sbx_runtime_options options = {.struct_size = sizeof(options), .flags = SBX_RUNTIME_NO_ENVIRONMENT};
        struct sbx_error err = {0};

        snprintf(text, sizeof(text), "plugins = (\n%s\n);\n", plugins);
        scratch_write("test.cfg", text);
        options.config_path = scratch_path("test.cfg");
        options.directory = scratch_directory;
        pthread_mutex_init(&f->lock, NULL);
        f->logger = (struct sbx_logger){keep_log, f, SBX_LOG_DEBUG};
        f->directories =
                (struct sbx_directories){.plugins = getenv("PLUGINS"), .libexec = (char *)"/l", .data = (char *)"/d"};
        if (sbx_config_load(&options, &f->logger, &f->config, &err) < 0 ||
            sbx_registry_new(f->config, &f->logger, &f->directories, NULL, &f->registry, &err) < 0)
                fail_msg("%s. %s", err.message, err.hint);
        f->log[0] = '\0';
        return f;
}

static void drop_registry(struct fixture *f) {
        sbx_registry_free(f->registry);
        f->registry = NULL;
}

static void drop(struct fixture *f) {
        drop_registry(f);
        sbx_config_free(f->config);
        pthread_mutex_destroy(&f->lock);
        free(f);
}

static int get(struct fixture *f, const char *name, uint32_t kind, struct sbx_error *err) {
        const struct sbx_instance *instance = NULL;
        int r = sbx_registry_get(f->registry, name, kind, NULL, &instance, err);

        assert_true((r == 0) == (instance != NULL));
        return r;
}

static unsigned count_in(const char *text, const char *part) {
        unsigned count = 0;

        for (; (text = strstr(text, part)) != NULL; text += strlen(part))
                count++;
        return count;
}

/* ---- one thread -------------------------------------------------------------------------------------------- */

static void starts_at_the_first_request_only(void **state) {
        struct fixture *f = make("{ name = \"a\"; plugin = \"sink-fixture\"; text = \"mine\"; number = 3; }");
        const struct sbx_instance *one = NULL, *two = NULL;
        const struct sbx_sink_ops *ops;

        assert_string_equal(f->log, "");
        assert_int_equal(sbx_registry_get(f->registry, "a", SBX_PLUGIN_SINK, NULL, &one, NULL), 0);
        assert_string_equal(f->log, "a: open text=mine number=3 items=2 last=b next=0\na: start\n");
        assert_int_equal(sbx_registry_get(f->registry, "a", SBX_PLUGIN_SINK, NULL, &two, NULL), 0);
        assert_ptr_equal(one, two);
        assert_int_equal(count_in(f->log, "start"), 1);
        assert_string_equal(one->name, "a");
        assert_string_equal(one->module->plugin.name, "sink-fixture");
        ops = one->ops;
        assert_int_equal(ops->event(one->state, BYTES("{}"), NULL), 0);
        drop_registry(f);
        assert_contains(f->log, "a: start\na: stop\na: close\n");
        drop(f);
}

static void two_instances_of_one_plugin_are_apart(void **state) {
        struct fixture *f = make("{ name = \"a\"; plugin = \"sink-fixture\"; },"
                                 "{ name = \"b\"; plugin = \"sink-fixture\"; }");
        const struct sbx_instance *a = NULL, *b = NULL;

        assert_int_equal(sbx_registry_get(f->registry, "a", SBX_PLUGIN_SINK, NULL, &a, NULL), 0);
        assert_int_equal(sbx_registry_get(f->registry, "b", SBX_PLUGIN_SINK, NULL, &b, NULL), 0);
        assert_ptr_not_equal(a->state, b->state);
        assert_int_equal(((const struct sbx_sink_ops *)a->ops)->event(a->state, BYTES("{}"), NULL), 0);
        assert_int_equal(((const struct sbx_sink_ops *)a->ops)->flush(a->state, NULL), 1);
        assert_int_equal(((const struct sbx_sink_ops *)b->ops)->flush(b->state, NULL), 0);
        drop(f);
}

static void goes_down_in_reverse_order(void **state) {
        struct fixture *f = make("{ name = \"a\"; plugin = \"sink-fixture\"; },"
                                 "{ name = \"b\"; plugin = \"sink-fixture\"; },"
                                 "{ name = \"c\"; plugin = \"sink-fixture\"; }");
        const struct sbx_instance *instance = NULL;

        assert_int_equal(get(f, "c", SBX_PLUGIN_SINK, NULL), 0);
        assert_int_equal(sbx_registry_open(f->registry, "b", &instance, NULL), 0);
        assert_int_equal(get(f, "a", SBX_PLUGIN_SINK, NULL), 0);
        f->log[0] = '\0';
        drop_registry(f);
        assert_string_equal(f->log, "a: stop\nc: stop\na: close\nb: close\nc: close\n");
        drop(f);
}

static void opening_does_not_start(void **state) {
        struct fixture *f = make("{ name = \"a\"; plugin = \"sink-fixture\"; }");
        const struct sbx_instance *instance = NULL;

        assert_int_equal(sbx_registry_open(f->registry, "a", &instance, NULL), 0);
        assert_non_null(instance->state);
        assert_int_equal(count_in(f->log, "start"), 0);
        assert_int_equal(get(f, "a", SBX_PLUGIN_SINK, NULL), 0);
        assert_int_equal(count_in(f->log, "open"), 1);
        assert_int_equal(count_in(f->log, "start"), 1);
        drop(f);
}

static void the_core_adds_options_to_backends(void **state) {
        struct fixture *f = make("{ name = \"a\"; plugin = \"backend-fixture\"; pool = 5; },"
                                 "{ name = \"b\"; plugin = \"backend-fixture\"; },"
                                 "{ name = \"c\"; plugin = \"backend-fixture\"; pool = 65; }");
        const struct sbx_instance *instance = NULL;
        struct sbx_error err = {0};

        assert_int_equal(sbx_registry_get(f->registry, "a", SBX_PLUGIN_BACKEND, NULL, &instance, NULL), 0);
        assert_int_equal(sbx_settings_get(instance->core_settings, "pool")->integer, 5);
        assert_int_equal(instance->settings->count, 0);
        assert_int_equal(sbx_registry_get(f->registry, "b", SBX_PLUGIN_BACKEND, NULL, &instance, NULL), 0);
        assert_int_equal(sbx_settings_get(instance->core_settings, "pool")->integer, 2);
        assert_int_equal(get(f, "c", SBX_PLUGIN_BACKEND, &err), -EINVAL);
        assert_contains(err.message, "pool");
        drop(f);
}

static void says_what_is_configured(void **state) {
        struct fixture *f = make("{ name = \"a\"; plugin = \"sink-fixture\"; },"
                                 "{ name = \"b\"; plugin = \"backend-fixture\"; },"
                                 "{ name = \"c\"; plugin = \"sink-fixture\"; enabled = false; }");
        struct sbx_error err = {0};

        assert_int_equal(get(f, "x", SBX_PLUGIN_SINK, &err), -ENOENT);
        assert_string_equal(err.message, "there is no sink \"x\"");
        assert_string_equal(err.hint, "Configured are: jsonl, a.");
        err = (struct sbx_error){0};
        assert_int_equal(get(f, "x", SBX_PLUGIN_STORE, &err), -ENOENT);
        assert_string_equal(err.hint, "Configured are: store.");
        err = (struct sbx_error){0};
        assert_int_equal(get(f, "c", SBX_PLUGIN_SINK, &err), -ENOENT);
        assert_contains(err.message, "disabled");
        assert_contains(err.message, "test.cfg:");
        drop(f);
}

static void another_kind_is_refused_and_not_held_against_it(void **state) {
        struct fixture *f = make("{ name = \"a\"; plugin = \"sink-fixture\"; }");
        struct sbx_error err = {0};

        assert_int_equal(get(f, "a", SBX_PLUGIN_BACKEND, &err), -EINVAL);
        assert_contains(err.message, "is a sink, not a backend");
        assert_int_equal(count_in(f->log, "open"), 0);
        assert_int_equal(get(f, "a", SBX_PLUGIN_SINK, NULL), 0);
        assert_int_equal(get(f, "a", SBX_PLUGIN_BACKEND, NULL), -EINVAL);
        drop(f);
}

/* ---- failures ---------------------------------------------------------------------------------------------- */

static void a_failure_is_remembered(void **state) {
        static const char *const modes[][2] = {{"open", "the lock is jammed"},
                                               {"start", "the wheel does not turn"},
                                               {"silently", "start() failed: Input/output error"}};

        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
                char text[256];
                struct sbx_error first = {0}, second = {0};
                struct fixture *f;
                int r;

                snprintf(text, sizeof(text), "{ name = \"a\"; plugin = \"sink-fixture\"; fail = \"%s\"; }",
                         modes[i][0]);
                f = make(text);
                r = get(f, "a", SBX_PLUGIN_SINK, &first);
                assert_true(r < 0);
                assert_contains(first.message, modes[i][1]);
                assert_contains(first.message, "plugin entry \"a\" (sink-fixture)");
                f->log[0] = '\0';
                assert_int_equal(get(f, "a", SBX_PLUGIN_SINK, &second), r);
                assert_string_equal(second.message, first.message);
                assert_string_equal(second.hint, first.hint);
                assert_string_equal(f->log, ""); /* it was not tried again */
                drop(f);
        }
}

static void a_critical_one_is_tried_again(void **state) {
        struct fixture *f = make("{ name = \"a\"; plugin = \"sink-fixture\"; fail = \"start\"; critical = true; }");

        assert_int_equal(get(f, "a", SBX_PLUGIN_SINK, NULL), -EIO);
        f->log[0] = '\0';
        assert_int_equal(get(f, "a", SBX_PLUGIN_SINK, NULL), -EIO);
        drop_registry(f);
        assert_string_equal(f->log, "a: close\n"); /* opened once; what did not start is not stopped */
        drop(f);
}

static void a_missing_file_and_a_bad_option_say_where(void **state) {
        struct fixture *f = make("{ name = \"a\"; plugin = \"sink-absent\"; },\n"
                                 "{ name = \"b\"; plugin = \"sink-fixture\"; numbr = 3; },\n"
                                 "{ name = \"c\"; plugin = \"sink-fixture\"; number = 30; }");
        struct sbx_error err = {0};

        assert_int_equal(get(f, "a", SBX_PLUGIN_SINK, &err), -ENOENT);
        assert_contains(err.message, "plugin entry \"a\"");
        assert_contains(err.message, "test.cfg:2");
        assert_contains(err.message, "sink-absent.so does not exist");
        err = (struct sbx_error){0};
        assert_int_equal(get(f, "b", SBX_PLUGIN_SINK, &err), -EINVAL);
        assert_contains(err.message, "test.cfg:3");
        assert_contains(err.message, "numbr");
        err = (struct sbx_error){0};
        assert_int_equal(get(f, "c", SBX_PLUGIN_SINK, &err), -EINVAL);
        assert_contains(err.message, "test.cfg:4");
        drop(f);
}

static void a_caller_that_gives_up_leaves_no_mark(void **state) {
        struct fixture *f = make("{ name = \"a\"; plugin = \"sink-fixture\"; fail = \"slow\"; }");
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1, .deadline_ns = sbx_clock_deadline_ms(30)};
        const struct sbx_instance *instance = NULL;
        struct sbx_error err = {0};
        int fds[2];

        assert_int_equal(sbx_registry_get(f->registry, "a", SBX_PLUGIN_SINK, &call, &instance, &err), -ETIMEDOUT);
        assert_int_equal(pipe(fds), 0);
        assert_int_equal(write(fds[1], "x", 1), 1);
        call = (struct sbx_call){.struct_size = sizeof(call), .cancel_fd = fds[0]};
        /* Not the answer from before: it was asked again. */
        assert_int_equal(sbx_registry_get(f->registry, "a", SBX_PLUGIN_SINK, &call, &instance, NULL), -ECANCELED);
        assert_null(instance);
        close(fds[0]);
        close(fds[1]);
        drop(f);
}

static void required_ones_are_started(void **state) {
        struct fixture *f = make("{ name = \"lazy\"; plugin = \"backend-fixture\"; },"
                                 "{ name = \"sink\"; plugin = \"sink-fixture\"; },"
                                 "{ name = \"broken\"; plugin = \"sink-fixture\"; fail = \"start\"; },"
                                 "{ name = \"off\"; plugin = \"sink-fixture\"; enabled = false; critical = true; },"
                                 "{ name = \"gone\"; plugin = \"context-absent\"; }");

        assert_int_equal(sbx_registry_start_required(f->registry, NULL, NULL), 0);
        assert_contains(f->log, "sink: start\n");
        assert_contains(f->log, "going on without an entry that could not be started: plugin entry \"broken\"");
        assert_contains(f->log, "the wheel does not turn. Oil it.");
        assert_contains(f->log, "started: plugin entry \"gone\"");
        assert_int_equal(count_in(f->log, "\"off\""), 0);
        assert_int_equal(get(f, "lazy", SBX_PLUGIN_BACKEND, NULL), 0);
        drop(f);
}

static void a_critical_one_that_fails_is_an_error(void **state) {
        struct fixture *f = make("{ name = \"first\"; plugin = \"sink-fixture\"; },"
                                 "{ name = \"must\"; plugin = \"sink-fixture\"; fail = \"start\"; critical = true; }");
        struct sbx_error err = {0};

        assert_int_equal(sbx_registry_start_required(f->registry, NULL, &err), -EIO);
        assert_contains(err.message, "\"must\"");
        assert_string_equal(err.hint, "Oil it.");
        drop_registry(f);
        assert_contains(f->log, "first: stop\n");
        drop(f);
}

/* ---- threads ------------------------------------------------------------------------------------------------ */

struct request {
        struct fixture *fixture;
        const struct sbx_instance *instance;
        int result;
};

static void *ask(void *data) {
        struct request *request = data;

        request->result =
                sbx_registry_get(request->fixture->registry, "a", SBX_PLUGIN_SINK, NULL, &request->instance, NULL);
        return NULL;
}

static void many_threads_start_it_once(void **state) {
        struct fixture *f = make("{ name = \"a\"; plugin = \"sink-fixture\"; fail = \"late\"; }");
        struct request requests[8];
        pthread_t threads[8];

        for (int i = 0; i < 8; i++) {
                requests[i] = (struct request){.fixture = f};
                assert_int_equal(pthread_create(&threads[i], NULL, ask, &requests[i]), 0);
        }
        for (int i = 0; i < 8; i++) {
                assert_int_equal(pthread_join(threads[i], NULL), 0);
                assert_int_equal(requests[i].result, 0);
                assert_ptr_equal(requests[i].instance, requests[0].instance);
        }
        assert_int_equal(count_in(f->log, "open"), 1);
        assert_int_equal(count_in(f->log, "start"), 1);
        drop(f);
}

static void waiting_for_another_thread_has_a_deadline(void **state) {
        struct fixture *f = make("{ name = \"a\"; plugin = \"sink-fixture\"; fail = \"late\"; }");
        struct request request = {.fixture = f};
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1, .deadline_ns = 1};
        const struct sbx_instance *instance = NULL;
        struct sbx_error err = {0};
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, ask, &request), 0);
        for (bool begun = false; !begun; usleep(1000)) {
                pthread_mutex_lock(&f->lock);
                begun = strstr(f->log, "open") != NULL;
                pthread_mutex_unlock(&f->lock);
        }
        assert_int_equal(sbx_registry_get(f->registry, "a", SBX_PLUGIN_SINK, &call, &instance, &err), -ETIMEDOUT);
        assert_contains(err.message, "gave up waiting");
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(request.result, 0);
        drop(f);
}

/* ---- scan ---------------------------------------------------------------------------------------------------- */

static int note_file(void *data, const char *path, const struct sbx_module *module, const struct sbx_error *problem) {
        char *text = data;
        size_t used = strlen(text);

        assert_true((module == NULL) == (problem != NULL));
        snprintf(text + used, 1024 - used, "%s=%s;", strrchr(path, '/') + 1,
                 module != NULL ? sbx_plugin_kind_name(module->plugin.kind) : problem->message);
        return 0;
}

static int stop_at_once(void *data, const char *path, const struct sbx_module *module,
                        const struct sbx_error *problem) {
        ++*(int *)data;
        return -ECANCELED;
}

static void lists_the_directory_with_what_is_wrong(void **state) {
        struct fixture *f = make("");
        char text[1024] = "";
        int calls = 0;

        assert_int_equal(sbx_registry_scan(f->registry, note_file, text), 0);
        assert_contains(text, "backend-fixture.so=backend;context-fixture.so=");
        assert_contains(text, "does not begin with \"sink-\"");
        assert_contains(text, "sink-fixture.so=sink;");
        assert_int_equal(sbx_registry_scan(f->registry, stop_at_once, &calls), -ECANCELED);
        assert_int_equal(calls, 1);
        drop(f);
}

static int setup(void **state) {
        if (getenv("PLUGINS") == NULL) {
                print_message("PLUGINS is not set: run it with meson test\n");
                return -1;
        }
        return scratch_setup(state);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(starts_at_the_first_request_only),
                cmocka_unit_test(two_instances_of_one_plugin_are_apart),
                cmocka_unit_test(goes_down_in_reverse_order),
                cmocka_unit_test(opening_does_not_start),
                cmocka_unit_test(the_core_adds_options_to_backends),
                cmocka_unit_test(says_what_is_configured),
                cmocka_unit_test(another_kind_is_refused_and_not_held_against_it),
                cmocka_unit_test(a_failure_is_remembered),
                cmocka_unit_test(a_critical_one_is_tried_again),
                cmocka_unit_test(a_missing_file_and_a_bad_option_say_where),
                cmocka_unit_test(a_caller_that_gives_up_leaves_no_mark),
                cmocka_unit_test(required_ones_are_started),
                cmocka_unit_test(a_critical_one_that_fails_is_an_error),
                cmocka_unit_test(many_threads_start_it_once),
                cmocka_unit_test(waiting_for_another_thread_has_a_deadline),
                cmocka_unit_test(lists_the_directory_with_what_is_wrong),
        };

        return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
