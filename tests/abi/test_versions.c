/* SPDX-License-Identifier: Apache-2.0 */
/* A host and a plugin of different minor versions. Built twice: with today's headers, and with wider ones (widen.py) as
 * the host of a later version; each meets plugins of both, and one whose structs end early.
 *
 *      test_versions DIRECTORY   that of the fixtures
 */
#include <snipara-sandbox/backend.h>
#include <snipara-sandbox/context.h>
#include <snipara-sandbox/sink.h>

#include "base/cleanup.h"
#include "plugin/internal.h"

#ifdef SBX_ABI_TEST_NEXT
#define HOST "next host"
#define NEXT_HOST 1
#else
#define HOST "host of today"
#define NEXT_HOST 0
#endif

struct run {
        const char *directory;
        int count, failed;
        char log[4096];
};

static void ok(struct run *run, bool good, const char *plugin, const char *what) {
        run->failed += !good;
        printf("%sok %d - %s, %s: %s\n", good ? "" : "not ", ++run->count, HOST, plugin, what);
}

static void keep_log(void *data, int level, const char *message) {
        struct run *run = data;
        size_t used = strlen(run->log);

        snprintf(run->log + used, sizeof(run->log) - used, "%s\n", message);
}

static struct sbx_module *load(struct run *run, const char *kind, const char *variant) {
        _cleanup_free_ char *path = NULL;
        struct sbx_module *module = NULL;
        struct sbx_error err = {0};

        if (asprintf(&path, "%s/%s-%s.so", run->directory, kind, variant) < 0) {
                path = NULL;
                return NULL;
        }
        if (sbx_module_load(path, &module, &err) < 0)
                printf("# %s. %s\n", err.message, err.hint);
        ok(run, module != NULL, variant, "loads");
        return module;
}

static void check_options(struct run *run, const struct sbx_module *module, const char *variant) {
        const struct sbx_option *options = module->plugin.options;
        size_t count = 0;

        while (options[count].name != NULL)
                count++;
        ok(run, count == 4, variant, "the whole option table is read, at the plugin's stride");
        ok(run,
           strcmp(options[1].name, "number") == 0 && strcmp(options[1].default_value, "7") == 0 &&
                   options[1].minimum == 1 && options[1].maximum == 9 && strcmp(options[3].name, "fail") == 0,
           variant, "options keep their values");
        ok(run, options[0].struct_size == sizeof(options[0]) && options[3].struct_size == sizeof(options[0]), variant,
           "copied options have the host's size");
}

/* Members that only the later version has: the plugin's value if both know them, else zero. */
static void check_next_members(struct run *run, const struct sbx_module *module, const char *variant) {
#ifdef SBX_ABI_TEST_NEXT
        const struct sbx_sink_ops *ops = module->plugin.ops;
        bool next = strcmp(variant, "next") == 0;

        ok(run, module->plugin.next_member_b == (next ? 62 : 0), variant, "descriptor's later members");
        ok(run, ops->next_member_b == (next ? 92 : 0), variant, "operations' later members");
        ok(run,
           module->plugin.options[0].next_member_b == (next ? 72 : 0) &&
                   module->plugin.options[1].next_member_a == (next ? 81 : 0),
           variant, "options' later members");
#endif
}

static void on_report(void *data, int status, const char *subject, const char *detail, const char *remedy) {
        *(int *)data += status == SBX_PROBE_OK;
}

static void check_life(struct run *run, const struct sbx_module *module, const char *variant) {
        char *items[] = {"a", "b", NULL};
        struct sbx_value values[] = {{.set = true, .string = "hello"},
                                     {.set = true, .integer = 7},
                                     {.set = true, .strings = items},
                                     {.set = false}};
        const struct sbx_settings settings = {module->plugin.options, 4, values};
        const struct sbx_logger logger = {keep_log, run, SBX_LOG_DEBUG};
        const struct sbx_directories directories = {.libexec = "/libexec", .data = "/data"};
        const struct sbx_host_setup setup = {.instance_name = "test",
                                             .plugin_name = module->plugin.name,
                                             .settings = &settings,
                                             .logger = &logger,
                                             .directories = &directories};
        struct sbx_host_state *host = sbx_host_new(&setup);
        const struct sbx_sink_ops *ops = module->plugin.ops;
        const struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        bool both_next = NEXT_HOST && strcmp(variant, "next") == 0, small = strcmp(variant, "small") == 0;
        int reports = 0;
        const struct sbx_probe_events events = {.struct_size = sizeof(events), .data = &reports, .report = on_report};
        void *state = NULL;

        run->log[0] = '\0';
        ok(run, module->plugin.open(sbx_host_services(host), &state, NULL) == 0, variant, "open");
        ok(run, strstr(run->log, "test: open text=hello number=7 items=2 last=b") != NULL, variant,
           "host services work");
        ok(run, strstr(run->log, both_next ? "next=1" : "next=0") != NULL, variant,
           "the plugin sees what the host has");
        ok(run, module->plugin.start(state, &call, NULL) == 0, variant, "start");
        ok(run, ops->event(state, (struct sbx_bytes){"{}", 2}, NULL) == 0, variant, "event");
        if (small) {
                ok(run, ops->flush == NULL && module->plugin.probe == NULL, variant,
                   "what lies past struct_size is not read");
        } else {
                ok(run, ops->flush(state, NULL) == 1, variant, "flush");
                ok(run, module->plugin.probe(state, &events, &call) == 0 && reports == 1, variant, "probe");
        }
        module->plugin.stop(state);
        module->plugin.close(state);
        sbx_host_free(host);
}

static void test_sink(struct run *run, const char *variant) {
        struct sbx_module *module = load(run, "sink", variant);

        if (module == NULL)
                return;
        ok(run, module->plugin.struct_size == sizeof(struct sbx_plugin), variant, "the copy has the host's size");
        check_options(run, module, variant);
        check_next_members(run, module, variant);
        check_life(run, module, variant);
        sbx_module_free(module);
}

/* The plugin fills a struct of the host's: it must keep to the host's size. */
static void test_backend(struct run *run, const char *variant) {
        struct sbx_module *module = load(run, "backend", variant);
        struct {
                struct sbx_guest guest;
                uint64_t beyond[4];
        } place = {.guest.struct_size = sizeof(place.guest), .beyond = {1, 2, 3, 4}};
        const struct sbx_guest_spec spec = {.struct_size = sizeof(spec),
                                            .label = "x",
                                            .runtime = "python",
                                            .limits = {.struct_size = sizeof(spec.limits)}};
        const struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        const struct sbx_backend_ops *ops;
        char instance = 0;

        if (module == NULL)
                return;
        ops = module->plugin.ops;
        ok(run,
           ops->guest_start(&instance, &spec, &call, &place.guest, NULL) == 0 && place.guest.control_fd == -1 &&
                   place.guest.report.size == 2,
           variant, "guest_start fills the guest");
        ok(run, place.beyond[0] == 1 && place.beyond[3] == 4, variant, "and writes nothing beyond it");
        ok(run, ops->guest_limit == NULL && ops->prepare == NULL, variant, "operations that it lacks are NULL");
#ifdef SBX_ABI_TEST_NEXT
        ok(run, place.guest.next_member_b == (strcmp(variant, "next") == 0 ? 51 : 0), variant, "guest's later members");
#endif
        sbx_module_free(module);
}

static void on_progress(void *data, double progress, double total, const char *message) {
        *(double *)data = progress;
}

/* Operations came with ABI 1.2: an older source has none of them, and answers as it always did. */
static void test_context(struct run *run, const char *variant) {
        struct sbx_module *module = load(run, "context", variant);
        const struct sbx_request request = {.struct_size = sizeof(request),
                                            .kind = SBX_REQUEST_READ,
                                            .name = "x:a",
                                            .principal = "token:one"};
        bool small = strcmp(variant, "small") == 0, both_next = NEXT_HOST && strcmp(variant, "next") == 0;
        double progress = 0;
        const struct sbx_client client = {
                .struct_size = sizeof(client), .data = &progress, .progress = on_progress};
        const struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        const struct sbx_context_ops *ops;
        struct sbx_error err = {0};

        if (module == NULL)
                return;
        ops = module->plugin.ops;
        ok(run, (ops->call != NULL) == small && (ops->prompts == NULL) == small && (ops->request == NULL) == small,
           variant, "has the operations of its version");
        if (small) {
                (void)ops->call(NULL, "t", (struct sbx_bytes){"{}", 2}, &call, NULL, &err);
                ok(run, strcmp(err.message, "call of t") == 0, variant, "call");
        } else {
                (void)ops->request(NULL, &request, &client, &call, NULL, &err);
                ok(run, strcmp(err.message, "request 3 of x:a by token:one") == 0, variant, "request");
                ok(run, progress == (both_next ? 2.0 : 1.0), variant, "the client hears, and each sees what both know");
        }
        sbx_module_free(module);
}

int main(int argc, char **argv) {
        struct run run = {.directory = argv[1]};

        if (argc != 2) {
                printf("Bail out! usage: test_versions DIRECTORY\n");
                return 1;
        }
        test_sink(&run, "now");
        test_sink(&run, "next");
        test_sink(&run, "small");
        test_backend(&run, "now");
        test_backend(&run, "next");
        test_context(&run, "now");
        test_context(&run, "next");
        test_context(&run, "small");
        printf("1..%d\n", run.count);
        return run.failed > 0;
}
