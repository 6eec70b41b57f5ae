/* SPDX-License-Identifier: Apache-2.0 */
/* What a container used: read from its control group, or asked of an engine that is somewhere else. */
#include "container.h"
#include "usage_files.h"
#include "util.h"

#define STATISTICS_FRESH_NS (200 * UINT64_C(1000000))
#define STATISTICS_WAIT_MS 2000
#define ONE_SHOT_SINCE "1.41" /* before it, an engine takes two seconds for an answer */

struct usage_source {
        struct docker *docker;
        char id[CONTAINER_ID_MAX];
        bool local; /* `files` are open */
        struct usage_files files;

        pthread_mutex_t lock; /* protects what follows */
        uint64_t asked_ns;    /* 0: never */
        struct sbx_guest_usage told;
};

int usage_source_new(struct docker *docker, const char *id, long pid, struct usage_source **ret_source) {
        struct usage_source *source = calloc(1, sizeof(*source));

        if (source == NULL)
                return -ENOMEM;
        source->docker = docker;
        snprintf(source->id, sizeof(source->id), "%s", id);
        pthread_mutex_init(&source->lock, NULL);
        source->local = engine_info(docker->engine)->local && pid > 0 && usage_files_open(id, pid, &source->files) == 0;
        *ret_source = source;
        return 0;
}

void usage_source_free(struct usage_source *source) {
        if (source == NULL)
                return;
        if (source->local)
                usage_files_close(&source->files);
        pthread_mutex_destroy(&source->lock);
        free(source);
}

static uint64_t number_at(const json_t *object, const char *first, const char *second, const char *third) {
        const json_t *value = json_object_get(json_object_get(object, first), second);

        if (third != NULL)
                value = json_object_get(value, third);
        return json_is_integer(value) && json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0;
}

/* https://docs.docker.com/engine/api/v1.41/#operation/ContainerStats */
static int ask_statistics(struct usage_source *source, struct sbx_error *err) {
        const struct sbx_call call = {.struct_size = sizeof(call),
                                      .cancel_fd = -1,
                                      .deadline_ns = monotonic_ns() + STATISTICS_WAIT_MS * UINT64_C(1000000)};
        struct engine *engine = source->docker->engine;
        _cleanup_json_ json_t *answer = NULL;
        char path[CONTAINER_ID_MAX + 64];
        int r;

        if (strcmp(engine_info(engine)->api_version, ONE_SHOT_SINCE) < 0)
                return sbx_error_set(err, -ENOTSUP, DOCKER_ORIGIN,
                                     "Use an engine with API 1.41 (Docker 20.10) or later.",
                                     "this engine takes too long to tell what a container uses");
        snprintf(path, sizeof(path), "/containers/%s/stats?stream=false&one-shot=true", source->id);
        r = engine_ask(engine, &(struct engine_request){.method = "GET", .path = path}, &call, &answer, err);
        if (r < 0)
                return r;
        source->told = (struct sbx_guest_usage){
                .struct_size = sizeof(source->told),
                .cpu_ns = number_at(answer, "cpu_stats", "cpu_usage", "total_usage"),
                .memory_bytes = number_at(answer, "memory_stats", "usage", NULL),
                .memory_peak_bytes = number_at(answer, "memory_stats", "max_usage", NULL),
                .pids = (uint32_t)number_at(answer, "pids_stats", "current", NULL),
                .exit_code = INT32_MIN,
        };
        if (source->told.cpu_ns == 0 && source->told.memory_bytes == 0)
                return sbx_error_set(err, -ESRCH, DOCKER_ORIGIN, NULL, "the container does not run");
        return 0;
}

int usage_read(struct usage_source *source, struct sbx_guest_usage *ret_usage, struct sbx_error *err) {
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage), .exit_code = INT32_MIN};
        int r = 0;

        if (source->local) {
                r = usage_files_read(&source->files, &usage);
                if (r < 0)
                        return sbx_error_set(err, r, DOCKER_ORIGIN, NULL, "the container's control group is gone");
                *ret_usage = usage;
                return 0;
        }
        pthread_mutex_lock(&source->lock);
        if (source->asked_ns == 0 || monotonic_ns() - source->asked_ns > STATISTICS_FRESH_NS) {
                r = ask_statistics(source, err);
                source->asked_ns = monotonic_ns();
        }
        usage = source->told;
        pthread_mutex_unlock(&source->lock);
        if (r == 0)
                *ret_usage = usage;
        return r;
}
