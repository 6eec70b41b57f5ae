/* SPDX-License-Identifier: Apache-2.0 */
/* llm-replay: the descriptor, the options and the lifecycle of an instance; one answer. */
#include <poll.h>
#include <string.h>

#include "find.h"
#include "lines.h"
#include "match.h"
#include "response.h"
#include "util.h"

#define REQUEST_MAX ((size_t)64 << 20)

struct instance {
        const struct sbx_host *host;
        struct replay_recording *recording; /* NULL: not started */
        struct replay_matcher *matcher;
        uint64_t delay_ns;
};

static const struct sbx_option options[] = {
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_PATH,
                .name = "file",
                .help = "The recorded trajectory, a .jsonl file of sink-jsonl or snipara-sandbox 2.2.7.",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_STRING,
                .name = "trajectory",
                .help = "Instead of `file`: the id of a run in log_dir, or the beginning of it (4 digits at least).",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_ENUM,
                .name = "match",
                .default_value = "strict",
                .choices = "strict|order",
                .help = "strict: a request gets the answer that was recorded for its prompt; order: answers come one "
                        "after another, whatever is asked.",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_DURATION,
                .name = "delay",
                .default_value = "0",
                .help = "Wait before each answer, for demonstrations.",
                .minimum = 0,
                .maximum = 60000,
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_SIZE,
                .name = "max_size",
                .default_value = "256m",
                .help = "A larger file is refused.",
                .minimum = 1024,
                .maximum = INT64_C(4) << 30,
        },
        {.struct_size = sizeof(struct sbx_option)},
};

/* ---- lifecycle ---- */

static int check_host(const struct sbx_host *host, struct sbx_error *err) {
        if (host->struct_size < offsetof(struct sbx_host, setting) + sizeof(host->setting) || host->setting == NULL)
                return sbx_error_set(err, -ENOTSUP, REPLAY_ORIGIN,
                                     "Use the snipara-sandbox that this plugin was built for, or a newer one.",
                                     "the host does not tell where trajectories are");
        return 0;
}

static bool is_set(const char *text) {
        return text != NULL && *text != '\0';
}

static int instance_open(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        struct instance *instance;
        int r = check_host(host, err);

        if (r < 0)
                return r;
        if (is_set(host->option_string(host->self, "file")) == is_set(host->option_string(host->self, "trajectory")))
                return sbx_error_set(err, -EINVAL, REPLAY_ORIGIN,
                                     "Set `file` to a recorded trajectory, or `trajectory` to the id of a run.",
                                     "one of `file` and `trajectory` has to be set, and not both");
        instance = calloc(1, sizeof(*instance));
        if (instance == NULL)
                return sbx_error_set(err, -ENOMEM, REPLAY_ORIGIN, NULL, "no memory for an instance");
        instance->host = host;
        instance->delay_ns = (uint64_t)host->option_int(host->self, "delay") * UINT64_C(1000000);
        *ret_instance = instance;
        return 0;
}

static void instance_stop(void *data) {
        struct instance *instance = data;

        replay_matcher_free(instance->matcher);
        replay_recording_free(instance->recording);
        instance->matcher = NULL;
        instance->recording = NULL;
}

static void instance_close(void *data) {
        instance_stop(data);
        free(data);
}

static int load(const struct instance *instance, struct replay_recording **ret_recording, struct sbx_error *err) {
        const struct sbx_host *host = instance->host;
        const char *file = host->option_string(host->self, "file");
        uint64_t max_size = (uint64_t)host->option_int(host->self, "max_size");
        _cleanup_free_ char *found = NULL;

        if (!is_set(file)) {
                int r = replay_find_file(host, host->option_string(host->self, "trajectory"), &found, err);

                if (r < 0)
                        return r;
                file = found;
        }
        return replay_recording_load(file, max_size, ret_recording, err);
}

static int instance_start(void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct instance *instance = data;
        const struct sbx_host *host = instance->host;
        char line[512];
        int r = load(instance, &instance->recording, err);

        if (r < 0)
                return r;
        r = replay_matcher_new(instance->recording, strcmp(host->option_string(host->self, "match"), "strict") == 0,
                               &instance->matcher);
        if (r < 0) {
                instance_stop(instance);
                return sbx_error_set(err, r, REPLAY_ORIGIN, NULL, "no memory for an instance");
        }
        snprintf(line, sizeof(line), "%zu recorded answers of %s", instance->recording->count,
                 instance->recording->path);
        host->log(host->self, SBX_LOG_DEBUG, line);
        return 0;
}

static int instance_probe(void *data, const struct sbx_probe_events *events, const struct sbx_call *call) {
        struct instance *instance = data;
        struct replay_recording *recording = NULL;
        struct sbx_error err = {0};
        char detail[SBX_ERROR_MESSAGE_MAX];
        int r = load(instance, &recording, &err);

        if (r < 0) {
                events->report(events->data, SBX_PROBE_FAILED, "recording", err.message, err.hint);
                return r;
        }
        snprintf(detail, sizeof(detail), "%s has %zu answers", recording->path, recording->count);
        events->report(events->data, SBX_PROBE_OK, "recording", detail, NULL);
        replay_recording_free(recording);
        return 0;
}

/* ---- one answer ---- */

/* Whether the call goes on, after the delay. */
static int wait_for_turn(const struct instance *instance, const struct sbx_call *call, struct sbx_error *err) {
        const struct sbx_host *host = instance->host;
        uint64_t until_ns = host->clock_ns(host->self) + instance->delay_ns;

        for (;;) {
                struct pollfd cancel = {.fd = call->cancel_fd, .events = POLLIN};
                uint64_t now_ns = host->clock_ns(host->self);
                int wait_ms = now_ns < until_ns ? (int)((until_ns - now_ns) / UINT64_C(1000000)) + 1 : 0;

                if (call->deadline_ns != 0 && now_ns >= call->deadline_ns)
                        return sbx_error_set(err, -ETIMEDOUT, REPLAY_ORIGIN, NULL, "the time is up");
                if (call->deadline_ns != 0 && call->deadline_ns < until_ns)
                        wait_ms = (int)((call->deadline_ns - now_ns) / UINT64_C(1000000)) + 1;
                if (poll(&cancel, 1, wait_ms) > 0)
                        return sbx_error_set(err, -ECANCELED, REPLAY_ORIGIN, NULL, "the call was cancelled");
                if (host->clock_ns(host->self) >= until_ns)
                        return 0;
        }
}

static int give(const struct instance *instance, const struct replay_entry *entry, const char *model,
                const struct sbx_provider_events *events, struct sbx_output *ret_response, struct sbx_error *err) {
        _cleanup_json_ json_t *response = replay_response(entry, model);
        _cleanup_free_ char *text = response != NULL ? json_dumps(response, JSON_COMPACT) : NULL;
        int r = text != NULL ? 0 : -ENOMEM;

        if (r == 0 && events != NULL && events->delta != NULL)
                r = replay_stream(entry, model, events);
        if (r == 0)
                r = instance->host->output_append(instance->host->self, ret_response, text, strlen(text));
        if (r == -EFBIG)
                return sbx_error_set(err, r, REPLAY_ORIGIN, NULL, "the recorded answer is larger than is taken");
        return r < 0 ? sbx_error_set(err, r, REPLAY_ORIGIN, NULL, "no memory for a recorded answer") : 0;
}

static int answer(struct instance *instance, const json_t *request, const struct sbx_provider_events *events,
                  const struct sbx_call *call, struct sbx_output *ret_response, struct sbx_error *err) {
        const char *model = json_string_value(json_object_get(request, "model"));
        const struct replay_entry *entry;
        int r = wait_for_turn(instance, call, err);

        if (r == 0)
                r = replay_match(instance->matcher, request, &entry, err);
        if (r < 0)
                return r;
        if (entry->error != NULL)
                return sbx_error_set(err, -EREMOTEIO, REPLAY_ORIGIN, "The run failed here when it was recorded, too.",
                                     "the recording has an error instead of an answer (line %llu): %s",
                                     (unsigned long long)entry->line, entry->error);
        if (entry->lost)
                return sbx_error_set(err, -EBADMSG, REPLAY_ORIGIN, "Record the run anew, with shorter prompts.",
                                     "the recording lacks the answer at line %llu of %s: it was too large",
                                     (unsigned long long)entry->line, instance->recording->path);
        return give(instance, entry, model, events, ret_response, err);
}

static int instance_complete(void *data, struct sbx_bytes text, const struct sbx_provider_events *events,
                             const struct sbx_call *call, struct sbx_output *ret_response, struct sbx_error *err) {
        _cleanup_json_ json_t *request = NULL;
        const char *problem = "it is too large";
        int r = text.size <= REQUEST_MAX ? replay_json_parse(text, &request, &problem) : -EBADMSG;

        if (r < 0)
                return sbx_error_set(err, r == -ENOMEM ? r : -EINVAL, REPLAY_ORIGIN, NULL,
                                     "the request can't be used: %s", problem);
        return answer(data, request, events, call, ret_response, err);
}

static const struct sbx_provider_ops ops = {
        .struct_size = sizeof(ops),
        .complete = instance_complete,
};

static const struct sbx_plugin plugin = {
        .struct_size = sizeof(plugin),
        .abi_major = SBX_ABI_MAJOR,
        .abi_minor = SBX_ABI_MINOR,
        .kind = SBX_PLUGIN_PROVIDER,
        .name = "llm-replay",
        .version = SBX_VERSION,
        .summary = "Answers from a recorded trajectory, so that a run can be reproduced without a model",
        .license = "Apache-2.0",
        .options = options,
        .ops = &ops,
        .open = instance_open,
        .start = instance_start,
        .stop = instance_stop,
        .close = instance_close,
        .probe = instance_probe,
};

const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        return &plugin;
}
