/* SPDX-License-Identifier: Apache-2.0 */
/* Drives a provider plugin, loaded through the program's own registry, for tests of any llm-* plugin.
 *
 *      provider-drive INSTANCE [NAME=VALUE ...]
 *
 * INSTANCE is an entry of the configuration ("litellm"); NAME=VALUE are settings as flags give them
 * ("api_base=http://...", "litellm.max_retries=0"). Environment variables and .env count as they do in the program.
 * Each line of standard input is a JSON object, and is answered with one line on standard output when it is done:
 *
 *      {"request": {...}}          what complete() gets; with "raw": TEXT instead, those bytes
 *      "stream": true              ask for deltas
 *      "timeout_ms": N             deadline (default: 60000)
 *      "cancel_after_chunks": N    cancel once so many deltas have come; 0: before the call
 *      "cancel_after_ms": N        cancel so long after the call began
 *      "parallel": N               the same call from N threads at once; the answers are then a list
 *      {"probe": true}             the plugin's check instead: {"code", "reports": [{"status", "subject", "detail",
 * "remedy"}]}
 *
 *      {"code": "OK" or "EACCES"..., "response": {...}, "chunks": [...], "message", "hint", "origin", "output_bytes",
 * "fds"}
 *
 * "fds" counts the descriptors of the process after the call. tests/provider/provider_case.py drives it from Python. */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <snipara-sandbox/provider.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "plugin/registry.h"

#define LINE_MAX_BYTES ((size_t)256 << 20)
#define PARALLEL_MAX 512

static struct program {
        struct sbx_logger logger;
        struct sbx_directories directories;
        struct sbx_config *config;
        struct sbx_registry *registry;
        const struct sbx_instance *provider;
} program;

/* One call of complete(). */
struct asked {
        const json_t *command;
        json_t *chunks, *answer;
        int cancel_fd;
};

static void cancel(struct asked *asked) {
        if (eventfd_write(asked->cancel_fd, 1) < 0)
                abort();
}

static void take_delta(void *data, struct sbx_bytes chunk) {
        struct asked *asked = data;
        const json_t *limit = json_object_get(asked->command, "cancel_after_chunks");
        json_t *parsed = NULL;

        if (sbx_json_parse(chunk, 64 << 20, "chunk", &parsed, NULL) < 0)
                parsed = json_string("not JSON");
        json_array_append_new(asked->chunks, parsed);
        if (limit != NULL && json_array_size(asked->chunks) == (size_t)json_integer_value(limit))
                cancel(asked);
}

static void *cancel_later(void *data) {
        struct asked *asked = data;
        struct pollfd done = {.fd = asked->cancel_fd, .events = POLLIN};

        if (poll(&done, 1, (int)json_integer_value(json_object_get(asked->command, "cancel_after_ms"))) == 0)
                cancel(asked);
        return NULL;
}

static size_t count_fds(void) {
        DIR *dir = opendir("/proc/self/fd");
        size_t count = 0;

        while (dir != NULL && readdir(dir) != NULL)
                count++;
        if (dir != NULL)
                closedir(dir);
        return count;
}

static int complete(struct asked *asked, const char *request, struct sbx_output *output, struct sbx_error *err) {
        const struct sbx_provider_ops *ops = program.provider->ops;
        const json_t *timeout = json_object_get(asked->command, "timeout_ms");
        const struct sbx_provider_events events = {.struct_size = sizeof(events), .data = asked, .delta = take_delta};
        struct sbx_call call = {sizeof(call), asked->cancel_fd,
                                sbx_clock_deadline_ms(timeout != NULL ? (uint64_t)json_integer_value(timeout) : 60000)};
        bool later = json_object_get(asked->command, "cancel_after_ms") != NULL;
        const json_t *chunks = json_object_get(asked->command, "cancel_after_chunks");
        pthread_t canceller;
        int r;

        if (chunks != NULL && json_integer_value(chunks) == 0)
                cancel(asked);
        if (later && pthread_create(&canceller, NULL, cancel_later, asked) != 0)
                abort();
        r = ops->complete(program.provider->state, (struct sbx_bytes){request, strlen(request)},
                          json_is_true(json_object_get(asked->command, "stream")) ? &events : NULL, &call, output, err);
        if (later) {
                cancel(asked);
                pthread_join(canceller, NULL);
        }
        return r;
}

static void *ask(void *data) {
        struct asked *asked = data;
        const char *raw = json_string_value(json_object_get(asked->command, "raw"));
        _cleanup_free_ char *request =
                raw != NULL ? strdup(raw) : json_dumps(json_object_get(asked->command, "request"), JSON_COMPACT);
        struct sbx_output *output = NULL;
        struct sbx_error err = {0};
        json_t *response = NULL;
        int r;

        asked->chunks = json_array();
        asked->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (request == NULL || asked->cancel_fd < 0 || sbx_output_new(64 << 20, &output) < 0)
                abort();
        r = complete(asked, request, output, &err);
        if (r == 0 && sbx_json_parse(sbx_output_bytes(output), 64 << 20, "response", &response, &err) < 0)
                r = err.code;
        asked->answer =
                json_pack("{s:s, s:o*, s:o, s:s, s:s, s:s, s:I}", "code", r == 0 ? "OK" : strerrorname_np(-r),
                          "response", response, "chunks", asked->chunks, "message", err.message, "hint", err.hint,
                          "origin", err.origin, "output_bytes", (json_int_t)sbx_output_bytes(output).size);
        sbx_output_free(output);
        close(asked->cancel_fd);
        return NULL;
}

static json_t *ask_in_parallel(const json_t *command, size_t count) {
        static struct asked asked[PARALLEL_MAX];
        static pthread_t threads[PARALLEL_MAX];
        json_t *answers = json_array();

        if (count > PARALLEL_MAX)
                abort();
        for (size_t i = 0; i < count; i++) {
                asked[i] = (struct asked){.command = command};
                if (pthread_create(&threads[i], NULL, ask, &asked[i]) != 0)
                        abort();
        }
        for (size_t i = 0; i < count; i++) {
                pthread_join(threads[i], NULL);
                json_array_append_new(answers, asked[i].answer);
        }
        return json_pack("{s:o, s:I}", "answers", answers, "fds", (json_int_t)count_fds());
}

static void take_report(void *data, int status, const char *subject, const char *detail, const char *remedy) {
        json_array_append_new(data, json_pack("{s:i, s:s, s:s, s:s?}", "status", status, "subject", subject, "detail",
                                              detail, "remedy", remedy));
}

static json_t *probe(void) {
        json_t *reports = json_array();
        const struct sbx_probe_events events = {.struct_size = sizeof(events), .data = reports, .report = take_report};
        const struct sbx_plugin *plugin = &program.provider->module->plugin;
        int r = plugin->probe != NULL ? plugin->probe(program.provider->state, &events, NULL) : -ENOSYS;

        return json_pack("{s:s, s:o}", "code", r == 0 ? "OK" : strerrorname_np(-r), "reports", reports);
}

static json_t *obey(const json_t *command) {
        const json_t *parallel = json_object_get(command, "parallel");
        struct asked one = {.command = command};

        if (json_is_true(json_object_get(command, "probe")))
                return probe();
        if (parallel != NULL)
                return ask_in_parallel(command, (size_t)json_integer_value(parallel));
        ask(&one);
        json_object_set_new(one.answer, "fds", json_integer((json_int_t)count_fds()));
        return one.answer;
}

static int set_up(const char *instance, const char *const *settings, struct sbx_error *err) {
        struct sbx_runtime_options options = {.struct_size = sizeof(options), .settings = settings};
        struct sbx_call call = {sizeof(call), -1, sbx_clock_deadline_ms(60000)};
        int r;

        program.logger.level = SBX_LOG_INFO;
        r = sbx_config_load(&options, &program.logger, &program.config, err);
        if (r == 0)
                r = sbx_directories_find(&program.directories, err);
        if (r == 0)
                r = sbx_registry_new(program.config, &program.logger, &program.directories, NULL, &program.registry,
                                     err);
        if (r == 0)
                r = sbx_registry_get(program.registry, instance, SBX_PLUGIN_PROVIDER, &call, &program.provider, err);
        return r;
}

int main(int argc, char **argv) {
        _cleanup_free_ char *line = NULL;
        struct sbx_error err = {0};
        size_t capacity = 0;
        ssize_t size;

        if (argc < 2) {
                fprintf(stderr, "usage: provider-drive INSTANCE [NAME=VALUE ...]\n");
                return 2;
        }
        if (set_up(argv[1], (const char *const *)argv + 2, &err) < 0) {
                fprintf(stderr, "%s\n%s\n", err.message, err.hint);
                return 1;
        }
        while ((size = getline(&line, &capacity, stdin)) > 0) {
                _cleanup_json_ json_t *command = NULL, *answer = NULL;

                err = (struct sbx_error){0};
                if (sbx_json_parse((struct sbx_bytes){line, (size_t)size}, LINE_MAX_BYTES, "command", &command, &err) <
                    0) {
                        fprintf(stderr, "%s\n", err.message);
                        return 2;
                }
                answer = obey(command);
                if (answer == NULL || json_dumpf(answer, stdout, JSON_COMPACT) < 0)
                        abort();
                putchar('\n');
                fflush(stdout);
        }
        sbx_registry_free(program.registry);
        sbx_directories_free(&program.directories);
        sbx_config_free(program.config);
        return 0;
}
