/* SPDX-License-Identifier: Apache-2.0 */
/* A small host: loads the plugin as snipara-sandbox does, gives it options, and drives it through its life. TAP. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <snipara-sandbox/sink.h>

/* ---- what the plugin sees -------------------------------------------------------------------------------- */

struct sbx_host_state {
        const char *file;
        int64_t max_size;
};

static void host_log(struct sbx_host_state *self, int level, const char *message) {
        (void)self;
        printf("# log %d: %s\n", level, message);
}
static const char *host_option_string(struct sbx_host_state *self, const char *name) {
        return strcmp(name, "file") == 0 ? self->file : NULL;
}
static int64_t host_option_int(struct sbx_host_state *self, const char *name) {
        return strcmp(name, "max_size") == 0 ? self->max_size : 0;
}

static struct sbx_host make_host(struct sbx_host_state *state) {
        return (struct sbx_host){
                .struct_size = sizeof(struct sbx_host),
                .abi_major = SBX_ABI_MAJOR,
                .abi_minor = SBX_ABI_MINOR,
                .self = state,
                .instance_name = "test",
                .version = "0",
                .log = host_log,
                .option_string = host_option_string,
                .option_int = host_option_int,
        };
}

/* ---- TAP ------------------------------------------------------------------------------------------------- */

struct run {
        const struct sbx_plugin *plugin;
        const struct sbx_sink_ops *ops;
        char directory[64], file[96];
        int count, failed;
};

static void ok(struct run *run, bool good, const char *what) {
        run->failed += !good;
        printf("%sok %d - %s\n", good ? "" : "not ", ++run->count, what);
}

static bool file_is(const struct run *run, const char *expected) {
        char content[4096] = "";
        int fd = open(run->file, O_RDONLY | O_CLOEXEC);
        ssize_t size = fd >= 0 ? read(fd, content, sizeof(content) - 1) : -1;

        if (fd >= 0)
                close(fd);
        return size == (ssize_t)strlen(expected) && strcmp(content, expected) == 0;
}

/* ---- tests ----------------------------------------------------------------------------------------------- */

static struct sbx_bytes text(const char *line) {
        return (struct sbx_bytes){line, strlen(line)};
}

static void test_descriptor(struct run *run) {
        const struct sbx_plugin *plugin = run->plugin;

        ok(run, plugin->struct_size == sizeof(*plugin) && plugin->abi_major == SBX_ABI_MAJOR, "descriptor of this ABI");
        ok(run, plugin->kind == SBX_PLUGIN_SINK && strcmp(plugin->name, "sink-example") == 0, "kind and name");
        ok(run, plugin->options[0].name != NULL && plugin->options[0].help != NULL, "options are described");
}

static void test_events(struct run *run) {
        struct sbx_host_state state = {run->file, 1024};
        struct sbx_host host = make_host(&state);
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        struct sbx_error err = {0};
        char large[1024];
        void *first = NULL, *second = NULL;
        int r = run->plugin->open(&host, &first, &err);

        ok(run, r == 0 && access(run->file, F_OK) < 0, "open() makes no file yet");
        ok(run, run->plugin->start(first, &call, &err) == 0 && file_is(run, ""), "start() makes the file");
        ok(run, run->ops->event(first, text("{\"event\":\"a\"}"), &err) == 0, "an event is taken");
        ok(run, run->ops->event(first, text("{\"event\":\"b\"}"), &err) == 0 && run->ops->flush(first, &err) == 0,
           "another, and flush");
        ok(run, file_is(run, "{\"event\":\"a\"}\n{\"event\":\"b\"}\n"), "the file has two lines");
        ok(run, run->ops->event(first, text("{}\n{}"), &err) == -EINVAL, "two lines in one event are refused");

        err = (struct sbx_error){0};
        memset(large, ' ', sizeof(large));
        r = run->ops->event(first, (struct sbx_bytes){large, sizeof(large)}, &err);
        ok(run, r == -EFBIG && err.code == r && strstr(err.message, run->file) != NULL && err.hint[0] != '\0',
           "beyond max_size an event is refused, with the file's name and a hint");

        err = (struct sbx_error){0};
        ok(run, run->plugin->open(&host, &second, &err) == 0 && run->plugin->start(second, &call, &err) == -EBUSY,
           "a second instance can't have the same file");
        run->plugin->close(second);

        run->plugin->stop(first);
        err = (struct sbx_error){0};
        ok(run, run->plugin->start(first, &call, &err) == 0 && run->ops->event(first, text("{}"), &err) == 0 &&
           file_is(run, "{\"event\":\"a\"}\n{\"event\":\"b\"}\n{}\n"), "stop and start again appends");
        run->plugin->stop(first);
        run->plugin->close(first);
}

static void test_bad_paths(struct run *run) {
        const char *const paths[] = {run->directory, "/dev/null", "/nonexistent/events.jsonl"};
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};

        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
                struct sbx_host_state state = {paths[i], 1024};
                struct sbx_host host = make_host(&state);
                struct sbx_error err = {0};
                void *instance = NULL;
                int r = run->plugin->open(&host, &instance, &err);

                ok(run,
                   r == 0 && run->plugin->start(instance, &call, &err) < 0 && strstr(err.message, paths[i]) != NULL,
                   "start() refuses a path that is no file, and names it");
                printf("# %s. %s\n", err.message, err.hint);
                run->plugin->close(instance);
        }
}

static void on_report(void *data, int status, const char *subject, const char *detail, const char *remedy) {
        *(int *)data = status;
        printf("# probe: %s: %s%s%s\n", subject, detail, remedy != NULL ? ". " : "", remedy != NULL ? remedy : "");
}

static void test_probe(struct run *run) {
        struct sbx_host_state state = {run->file, 1024};
        struct sbx_host host = make_host(&state);
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        struct sbx_error err = {0};
        int status = -1;
        struct sbx_probe_events events = {.struct_size = sizeof(events), .data = &status, .report = on_report};
        void *instance = NULL;
        int r = run->plugin->open(&host, &instance, &err);

        ok(run, r == 0 && run->plugin->probe(instance, &events, &call) == 0 && status == SBX_PROBE_OK,
           "probe() tries the file and says so");
        unlink(run->file);
        ok(run, run->plugin->probe(instance, &events, &call) == 0 && access(run->file, F_OK) < 0,
           "probe() leaves no file behind");
        run->plugin->close(instance);
}

int main(int argc, char **argv) {
        const struct sbx_plugin *(*entry)(void);
        struct run run = {0};
        void *handle, *symbol;

        handle = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
        symbol = handle != NULL ? dlsym(handle, SBX_PLUGIN_ENTRY_SYMBOL) : NULL;
        if (symbol == NULL) {
                printf("Bail out! usage: test-host /path/of/sink-example.so (%s)\n", argc == 2 ? dlerror() : "no path");
                return 1;
        }
        memcpy(&entry, &symbol, sizeof(entry));
        run.plugin = entry();
        run.ops = run.plugin->ops;
        snprintf(run.directory, sizeof(run.directory), "/tmp/sink-example-XXXXXX");
        if (mkdtemp(run.directory) == NULL)
                return 1;
        snprintf(run.file, sizeof(run.file), "%s/events.jsonl", run.directory);

        test_descriptor(&run);
        test_events(&run);
        test_bad_paths(&run);
        test_probe(&run);
        printf("1..%d\n", run.count);

        unlink(run.file);
        rmdir(run.directory);
        dlclose(handle);
        return run.failed > 0;
}
