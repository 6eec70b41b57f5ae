/* SPDX-License-Identifier: Apache-2.0 */
/* Drives sink-otlp from standard input: a line that begins with "{" is an event, "flush", "stop", "start", "probe" are
 * what they say. Each is answered with a line: the return value, and the error as JSON would have it cut to one line.
 */
#include "plugin_host.h"

#include <snipara-sandbox/sink.h>

static void answer(int r, const struct sbx_error *err) {
        printf("%d\t%s\t%s\n", r, err->message, err->hint);
        fflush(stdout);
}

static void on_report(void *data, int status, const char *subject, const char *detail, const char *remedy) {
        struct sbx_error *err = data;

        snprintf(err->message, sizeof(err->message), "%s: %s", subject, detail);
        snprintf(err->hint, sizeof(err->hint), "%s", remedy != NULL ? remedy : "");
}

static int command(const struct sbx_plugin *plugin, void *instance, const char *line, size_t size,
                   struct sbx_error *err) {
        const struct sbx_sink_ops *ops = plugin->ops;
        struct sbx_call call = {sizeof(call), -1, 0};
        struct sbx_probe_events events = {.struct_size = sizeof(events), .data = err, .report = on_report};

        if (line[0] == '{')
                return ops->event(instance, (struct sbx_bytes){line, size}, err);
        if (strcmp(line, "flush") == 0)
                return ops->flush(instance, err);
        if (strcmp(line, "probe") == 0)
                return plugin->probe(instance, &events, &call);
        if (strcmp(line, "start") == 0)
                return plugin->start(instance, &call, err);
        if (strcmp(line, "stop") == 0) {
                plugin->stop(instance);
                return 0;
        }
        return -ENOSYS;
}

int main(int argc, char **argv) {
        struct sbx_host_state state;
        struct sbx_error err = {0};
        char *line = NULL;
        size_t capacity = 0;
        ssize_t size;
        void *instance = NULL;
        int r;

        if (argc < 2 || !plugin_host_load(&state, argv[1], argc - 1, argv + 1))
                return 2;
        r = state.plugin->open(&state.services, &instance, &err);
        answer(r, &err);
        if (r < 0)
                return 0;
        while ((size = getline(&line, &capacity, stdin)) > 0) {
                err = (struct sbx_error){0};
                line[--size] = '\0';
                r = command(state.plugin, instance, line, (size_t)size, &err);
                answer(r, &err);
        }
        free(line);
        state.plugin->close(instance);
        return 0;
}
