/* SPDX-License-Identifier: Apache-2.0 */
/* A host for one context source: takes commands as JSON lines on standard input and answers with JSON lines.
 *
 *     context-snipara-host PLUGIN [option:NAME=VALUE | setting:NAME=VALUE | env:NAME=VALUE]...
 *
 * {"id", "do": "tools"}, {"id", "do": "call", "tool", "arguments", "deadline_ms"} (each call has a thread of its own),
 * {"id", "do": "cancel"} (the call of that id), {"id", "do": "probe"}. Answers: {"id", "code", "result", "error"};
 * log lines: {"level", "log"}. The end of the input ends it, when all calls have. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>
#include <snipara-sandbox/context.h>

#define CALLS_MAX 256

struct sbx_output {
        char *data;
        size_t size, max;
};

struct sbx_host_state {
        char **words;
        int count;
        pthread_mutex_t lock; /* protects standard output */
};

static struct job {
        struct sbx_host_state *state;
        void *instance;
        const struct sbx_plugin *plugin;
        json_t *command;
        pthread_t thread;
        int cancel_fd;
} jobs[CALLS_MAX];
static size_t job_count;

/* ---- services ---- */

static void print_line(struct sbx_host_state *state, json_t *line) {
        pthread_mutex_lock(&state->lock);
        json_dumpf(line, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
        putchar('\n');
        fflush(stdout);
        pthread_mutex_unlock(&state->lock);
        json_decref(line);
}

static void host_log(struct sbx_host_state *self, int level, const char *message) {
        print_line(self, json_pack("{s:i, s:s}", "level", level, "log", message));
}

static const char *find_word(struct sbx_host_state *self, const char *kind, const char *name) {
        size_t kind_size = strlen(kind), name_size = strlen(name);

        for (int i = 0; i < self->count; i++) {
                const char *word = self->words[i];

                if (strncmp(word, kind, kind_size) == 0 && strncmp(word + kind_size, name, name_size) == 0 &&
                    word[kind_size + name_size] == '=')
                        return word + kind_size + name_size + 1;
        }
        return NULL;
}

static const char *host_option_string(struct sbx_host_state *self, const char *name) {
        return find_word(self, "option:", name);
}

static int64_t host_option_int(struct sbx_host_state *self, const char *name) {
        const char *text = find_word(self, "option:", name);

        return text != NULL ? strtoll(text, NULL, 10) : 0;
}

static const char *host_setting(struct sbx_host_state *self, const char *name) {
        return find_word(self, "setting:", name);
}

static const char *host_environment(struct sbx_host_state *self, const char *name) {
        return find_word(self, "env:", name);
}

static uint64_t host_clock_ns(struct sbx_host_state *self) {
        struct timespec now;

        (void)self;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int host_output_append(struct sbx_host_state *self, struct sbx_output *output, const void *data, size_t size) {
        char *grown;

        (void)self;
        if (size > output->max - output->size)
                return -EFBIG;
        grown = realloc(output->data, output->size + size + 1);
        if (grown == NULL)
                return -ENOMEM;
        memcpy(grown + output->size, data, size);
        output->data = grown;
        output->size += size;
        return 0;
}

/* ---- commands ---- */

static void answer(struct job *job, int code, const struct sbx_output *output, const struct sbx_error *err) {
        json_t *result = output->size > 0 ? json_loadb(output->data, output->size, JSON_ALLOW_NUL, NULL) : json_null();

        print_line(job->state,
                   json_pack("{s:O, s:i, s:o, s:{s:i, s:s, s:s, s:s}}", "id", json_object_get(job->command, "id"),
                             "code", code, "result", result != NULL ? result : json_string("(not JSON)"), "error",
                             "code", err->code, "message", err->message, "hint", err->hint, "origin", err->origin));
}

static void report(void *data, int status, const char *subject, const char *detail, const char *remedy) {
        json_array_append_new(data, json_pack("[i, s, s, s]", status, subject, detail, remedy != NULL ? remedy : ""));
}

static int run_probe(struct job *job, const struct sbx_call *call, struct sbx_output *output) {
        json_t *reports = json_array();
        const struct sbx_probe_events events = {.struct_size = sizeof(events), .data = reports, .report = report};
        int r = job->plugin->probe(job->instance, &events, call);

        output->data = json_dumps(reports, 0);
        output->size = strlen(output->data);
        json_decref(reports);
        return r;
}

static int run_call(struct job *job, const struct sbx_call *call, struct sbx_output *output, struct sbx_error *err) {
        const struct sbx_context_ops *ops = job->plugin->ops;
        const char *tool = json_string_value(json_object_get(job->command, "tool"));
        char *arguments = json_dumps(json_object_get(job->command, "arguments"), JSON_ENCODE_ANY);
        int r = ops->call(job->instance, tool, (struct sbx_bytes){arguments, strlen(arguments)}, call, output, err);

        free(arguments);
        return r;
}

static void *run_job(void *data) {
        struct job *job = data;
        const struct sbx_context_ops *ops = job->plugin->ops;
        const char *what = json_string_value(json_object_get(job->command, "do"));
        json_int_t deadline_ms = json_integer_value(json_object_get(job->command, "deadline_ms"));
        struct sbx_call call = {sizeof(call), job->cancel_fd, 0};
        struct sbx_output output = {.max = (size_t)64 << 20};
        struct sbx_error err = {0};
        int r;

        if (deadline_ms > 0)
                call.deadline_ns = host_clock_ns(job->state) + (uint64_t)deadline_ms * 1000000u;
        if (strcmp(what, "tools") == 0)
                r = ops->tools(job->instance, &output, &err);
        else if (strcmp(what, "probe") == 0)
                r = run_probe(job, &call, &output);
        else
                r = run_call(job, &call, &output, &err);
        answer(job, r, &output, &err);
        free(output.data);
        return NULL;
}

static void cancel(const json_t *id) {
        for (size_t i = 0; i < job_count; i++)
                if (json_equal(json_object_get(jobs[i].command, "id"), id))
                        eventfd_write(jobs[i].cancel_fd, 1);
}

static void serve(struct sbx_host_state *state, const struct sbx_plugin *plugin, void *instance) {
        char *line = NULL;
        size_t size = 0;

        while (getline(&line, &size, stdin) > 0 && job_count < CALLS_MAX) {
                json_t *command = json_loads(line, JSON_ALLOW_NUL, NULL);
                struct job *job = &jobs[job_count];

                if (command == NULL)
                        abort();
                if (strcmp(json_string_value(json_object_get(command, "do")), "cancel") == 0) {
                        cancel(json_object_get(command, "id"));
                        json_decref(command);
                        continue;
                }
                *job = (struct job){.state = state,
                                    .instance = instance,
                                    .plugin = plugin,
                                    .command = command,
                                    .cancel_fd = eventfd(0, EFD_CLOEXEC)};
                if (pthread_create(&job->thread, NULL, run_job, job) != 0)
                        abort();
                job_count++;
        }
        free(line);
        for (size_t i = 0; i < job_count; i++) {
                pthread_join(jobs[i].thread, NULL);
                close(jobs[i].cancel_fd);
                json_decref(jobs[i].command);
        }
}

int main(int argc, char **argv) {
        struct sbx_host_state state = {.words = argv + 2, .count = argc - 2, .lock = PTHREAD_MUTEX_INITIALIZER};
        const struct sbx_host host = {
                .struct_size = sizeof(host),
                .abi_major = SBX_ABI_MAJOR,
                .abi_minor = SBX_ABI_MINOR,
                .self = &state,
                .instance_name = "snipara",
                .version = "0",
                .log = host_log,
                .option_int = host_option_int,
                .option_string = host_option_string,
                .clock_ns = host_clock_ns,
                .output_append = host_output_append,
                .setting = host_setting,
                .environment = host_environment,
        };
        const struct sbx_plugin *(*entry)(void);
        const struct sbx_plugin *plugin;
        struct sbx_error err = {0};
        void *handle = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL, *instance = NULL;
        void *symbol = handle != NULL ? dlsym(handle, SBX_PLUGIN_ENTRY_SYMBOL) : NULL;

        if (symbol == NULL) {
                fprintf(stderr, "usage: context-snipara-host PLUGIN [WORD...] (%s)\n",
                        argc > 1 ? dlerror() : "no plugin");
                return 2;
        }
        memcpy(&entry, &symbol, sizeof(entry));
        plugin = entry();
        if (plugin->open(&host, &instance, &err) < 0) {
                print_line(&state,
                           json_pack("{s:i, s:s, s:s}", "open", err.code, "message", err.message, "hint", err.hint));
                return 1;
        }
        serve(&state, plugin, instance);
        plugin->close(instance);
        return 0;
}
