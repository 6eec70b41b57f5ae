/* SPDX-License-Identifier: Apache-2.0 */
/* A small host: loads the plugin through the core's registry and calls its tools as standard input says.
 *
 *      host PROJECT [NAME=VALUE ...]
 *
 * Each line is "TOOL\tJSON\tMILLISECONDS\tCANCEL\n"; the answer is a line of JSON: the result, or {"error", "message",
 * "hint"}. MILLISECONDS: until the call's deadline, 0: none. CANCEL: milliseconds until it is cancelled, -1: not. A
 * TOOL that begins with "&" runs on a thread of its own and is answered, with its number, at the line "wait". */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <snipara-sandbox/context.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "plugin/registry.h"

#define PARALLEL_MAX 64

static struct {
        struct sbx_logger logger;
        struct sbx_directories directories;
        struct sbx_config *config;
        struct sbx_registry *registry;
        const struct sbx_instance *source;
} host;

struct job {
        pthread_t thread;
        char *line;
        struct sbx_output *output;
        struct sbx_error err;
        int status;
};

static void die(const struct sbx_error *err) {
        fprintf(stderr, "%s\n%s\n", err->message, err->hint);
        exit(1);
}

static void set_up(const char *project, const char *const *settings) {
        struct sbx_runtime_options options = {
                .struct_size = sizeof(options), .directory = project, .settings = settings};
        struct sbx_error err = {0};

        host.logger.level = SBX_LOG_INFO;
        if (sbx_config_load(&options, &host.logger, &host.config, &err) < 0 ||
            sbx_directories_find(&host.directories, &err) < 0 ||
            sbx_registry_new(host.config, &host.logger, &host.directories, NULL, &host.registry, &err) < 0 ||
            sbx_registry_get(host.registry, "files", SBX_PLUGIN_CONTEXT, NULL, &host.source, &err) < 0)
                die(&err);
}

struct canceller {
        int fd;
        long delay_ms;
};

static void *cancel_main(void *data) {
        const struct canceller *canceller = data;

        usleep((useconds_t)canceller->delay_ms * 1000);
        eventfd_write(canceller->fd, 1);
        return NULL;
}

static void *job_main(void *data) {
        struct job *job = data;
        const struct sbx_context_ops *ops = host.source->ops;
        char *rest = job->line, *tool = strsep(&rest, "\t"), *arguments = strsep(&rest, "\t");
        long timeout = atol(rest != NULL ? strsep(&rest, "\t") : "0"), cancel = rest != NULL ? atol(rest) : -1;
        struct canceller canceller = {eventfd(0, EFD_CLOEXEC), cancel};
        struct sbx_call call = {sizeof(call), canceller.fd, timeout > 0 ? sbx_clock_deadline_ms((uint64_t)timeout) : 0};
        pthread_t thread;

        if (sbx_output_new(64 << 20, &job->output) < 0)
                abort();
        if (cancel > 0)
                pthread_create(&thread, NULL, cancel_main, &canceller);
        else if (cancel == 0)
                eventfd_write(canceller.fd, 1);
        if (strcmp(tool, "tools") == 0)
                job->status = ops->tools(host.source->state, job->output, &job->err);
        else
                job->status = ops->call(host.source->state, tool, (struct sbx_bytes){arguments, strlen(arguments)},
                                        &call, job->output, &job->err);
        if (cancel > 0)
                pthread_join(thread, NULL);
        close(canceller.fd);
        return NULL;
}

static void answer(struct job *job) {
        struct sbx_bytes result = sbx_output_bytes(job->output);

        if (job->status == 0) {
                printf("%.*s\n", (int)result.size, (const char *)result.data);
        } else {
                json_t *message = sbx_json_text((struct sbx_bytes){job->err.message, strlen(job->err.message)});
                json_t *problem =
                        json_pack("{s:i,s:o,s:s}", "error", job->status, "message", message, "hint", job->err.hint);

                json_dumpf(problem, stdout, JSON_COMPACT);
                putchar('\n');
                json_decref(problem);
        }
        fflush(stdout);
        sbx_output_free(job->output);
        free(job->line);
}

int main(int argc, char **argv) {
        struct job jobs[PARALLEL_MAX] = {0};
        size_t count = 0, capacity = 0;
        char *line = NULL;
        ssize_t size;

        if (argc < 2)
                return 2;
        set_up(argv[1], (const char *const *)argv + 2);
        while ((size = getline(&line, &capacity, stdin)) > 0) {
                struct job job = {0};

                if (line[size - 1] == '\n')
                        line[size - 1] = '\0';
                if (strcmp(line, "wait") == 0) {
                        for (size_t i = 0; i < count; i++) {
                                pthread_join(jobs[i].thread, NULL);
                                answer(&jobs[i]);
                        }
                        count = 0;
                } else if (line[0] == '&' && count < PARALLEL_MAX) {
                        jobs[count] = (struct job){.line = strdup(line + 1)};
                        pthread_create(&jobs[count].thread, NULL, job_main, &jobs[count]);
                        count++;
                } else {
                        job.line = strdup(line);
                        job_main(&job);
                        answer(&job);
                }
        }
        free(line);
        for (size_t i = 0; i < count; i++) {
                pthread_join(jobs[i].thread, NULL);
                sbx_output_free(jobs[i].output);
                free(jobs[i].line);
        }
        sbx_registry_free(host.registry);
        sbx_directories_free(&host.directories);
        sbx_config_free(host.config);
        return 0;
}
