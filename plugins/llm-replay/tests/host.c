/* SPDX-License-Identifier: Apache-2.0 */
/* Drives llm-replay from standard input. A line that begins with "{" is a request; "stream {...}" asks for deltas too;
 * "cancelled {...}" and "late {...}" are calls that have ended; "threads {...}" asks from eight threads at once;
 * "probe", "stop" and "start" are what they say. Each is answered with a line: the return value, the message, the hint,
 * the response; before it, a line for each delta. */
#include "plugin_host.h"

#include <unistd.h>

#include <snipara-sandbox/provider.h>

#define THREADS 8
#define CALLS 40
#define RESPONSE_MAX ((size_t)64 << 20)

static void on_delta(void *data, struct sbx_bytes chunk) {
        (void)data;
        printf("delta\t%.*s\n", (int)chunk.size, (const char *)chunk.data);
}

static void on_report(void *data, int status, const char *subject, const char *detail, const char *remedy) {
        struct sbx_error *err = data;

        (void)status;
        snprintf(err->message, sizeof(err->message), "%s: %s", subject, detail);
        snprintf(err->hint, sizeof(err->hint), "%s", remedy != NULL ? remedy : "");
}

static int complete(const struct sbx_host_state *state, void *instance, const char *request, bool stream,
                    const struct sbx_call *call, struct sbx_output *output, struct sbx_error *err) {
        const struct sbx_provider_ops *ops = state->plugin->ops;
        struct sbx_provider_events events = {.struct_size = sizeof(events), .delta = on_delta};

        return ops->complete(instance, (struct sbx_bytes){request, strlen(request)}, stream ? &events : NULL, call,
                             output, err);
}

/* ---- from many threads ---- */

struct worker {
        struct sbx_host_state *state;
        void *instance;
        const char *request;
        int failures;
};

static void *work(void *data) {
        struct worker *worker = data;
        struct sbx_call call = {sizeof(call), -1, 0};

        for (int i = 0; i < CALLS; i++) {
                struct sbx_output output = {.max = RESPONSE_MAX};
                struct sbx_error err = {0};

                worker->failures +=
                        complete(worker->state, worker->instance, worker->request, false, &call, &output, &err) != 0;
                free(output.data);
        }
        return NULL;
}

static int many(struct sbx_host_state *state, void *instance, const char *request, struct sbx_error *err) {
        struct worker workers[THREADS];
        pthread_t threads[THREADS];
        int failures = 0;

        for (int i = 0; i < THREADS; i++) {
                workers[i] = (struct worker){state, instance, request, 0};
                if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
                        abort();
        }
        for (int i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
                failures += workers[i].failures;
        }
        snprintf(err->message, sizeof(err->message), "%d of %d failed", failures, THREADS * CALLS);
        return 0;
}

/* ---- commands ---- */

static int ended_call(const char *line, struct sbx_host_state *state, void *instance, struct sbx_output *output,
                      struct sbx_error *err) {
        struct sbx_call call = {sizeof(call), -1, 0};
        int ends[2], r;

        if (strncmp(line, "late ", 5) == 0) {
                call.deadline_ns = 1;
                return complete(state, instance, line + 5, false, &call, output, err);
        }
        if (pipe(ends) < 0 || write(ends[1], "x", 1) != 1)
                abort();
        call.cancel_fd = ends[0];
        r = complete(state, instance, strchr(line, '{'), false, &call, output, err);
        close(ends[0]);
        close(ends[1]);
        return r;
}

static int command(struct sbx_host_state *state, void *instance, const char *line, struct sbx_output *output,
                   struct sbx_error *err) {
        const struct sbx_plugin *plugin = state->plugin;
        struct sbx_call call = {sizeof(call), -1, 0};
        struct sbx_probe_events events = {.struct_size = sizeof(events), .data = err, .report = on_report};

        if (line[0] == '{')
                return complete(state, instance, line, false, &call, output, err);
        if (strncmp(line, "stream ", 7) == 0)
                return complete(state, instance, line + 7, true, &call, output, err);
        if (strncmp(line, "threads ", 8) == 0)
                return many(state, instance, line + 8, err);
        if (strncmp(line, "late ", 5) == 0 || strncmp(line, "cancelled ", 10) == 0)
                return ended_call(line, state, instance, output, err);
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

static void answer(int r, const struct sbx_error *err, const struct sbx_output *output) {
        printf("%d\t%s\t%s\t%s\n", r, err->message, err->hint, output->data != NULL ? output->data : "");
        fflush(stdout);
}

int main(int argc, char **argv) {
        struct sbx_host_state state;
        struct sbx_error err = {0};
        struct sbx_output none = {0};
        char *line = NULL;
        size_t capacity = 0;
        ssize_t size;
        void *instance = NULL;
        int r;

        if (argc < 2 || !plugin_host_load(&state, argv[1], argc - 1, argv + 1))
                return 2;
        r = state.plugin->open(&state.services, &instance, &err);
        answer(r, &err, &none);
        if (r < 0)
                return 0;
        while ((size = getline(&line, &capacity, stdin)) > 0) {
                struct sbx_output output = {.max = RESPONSE_MAX};

                err = (struct sbx_error){0};
                line[size - 1] = '\0';
                r = command(&state, instance, line, &output, &err);
                answer(r, &err, &output);
                free(output.data);
        }
        free(line);
        state.plugin->close(instance);
        return 0;
}
