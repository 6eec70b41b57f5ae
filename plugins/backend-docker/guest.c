/* SPDX-License-Identifier: Apache-2.0 */
/* How a guest comes to be. */
#include "guest.h"

#include <inttypes.h>
#include <sys/eventfd.h>

#include "owner.h"
#include "scope.h"
#include "util.h"

#define NAME_MAX_BYTES 128
#define WORKER_TRIES 3

static void cleanup_labels(char ***labels) {
        owner_labels_free(*labels);
}

/* "snipara-sandbox-<first digits of the owner>-<label>-<number>": to be read by people, and never the same twice. */
static void make_name(char name[NAME_MAX_BYTES], const struct docker *docker, const char *label, uint64_t number) {
        int n = snprintf(name, NAME_MAX_BYTES, "snipara-sandbox-%.12s-%.60s-%" PRIu64, docker->id, label, number);

        for (int i = 0; i < n && i < NAME_MAX_BYTES - 1; i++)
                if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", name[i]) == NULL)
                        name[i] = '_';
}

static uint64_t next_number(struct docker *docker) {
        DOCKER_LOCKED(&docker->lock);

        return ++docker->next_guest;
}

int guest_attach(struct docker_guest *guest, const struct sbx_call *call, struct engine_stream **ret_stream,
                 struct sbx_error *err) {
        char path[CONTAINER_ID_MAX + 80];

        snprintf(path, sizeof(path), "/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1", guest->container);
        return engine_stream_open(guest->docker->engine, "POST", path, NULL, call, ret_stream, err);
}

static int make_line(struct docker_guest *guest, struct engine_stream *stream, struct sbx_guest *ret_guest,
                     struct sbx_error *err) {
        const struct relay_end end = {.data = guest, .ended = guest_stream_ended};
        int control_fd = -1, exit_fd = -1;
        int r = relay_line_new(guest->docker->relay, stream, guest->payload->bytes, &end, &guest->line, &control_fd,
                               &exit_fd, err);

        if (r < 0) {
                engine_stream_free(stream);
                return r;
        }
        ret_guest->control_fd = control_fd;
        ret_guest->exit_fd = exit_fd;
        return 0;
}

/* A container of its own. Attached before it is started, so that nothing it says is lost. */
static int start_container(struct docker_guest *guest, const struct container_wish *wish, const struct sbx_call *call,
                           struct sbx_guest *ret_guest, struct sbx_error *err) {
        struct docker *docker = guest->docker;
        struct engine_stream *stream = NULL;
        int r = container_create(docker, wish, call, guest->container, err);

        /* An engine that did not say no may still make it. */
        if (r == -ECANCELED || r == -ETIMEDOUT || r == -ECONNRESET || r == -ECONNREFUSED || r == -EIO || r == -EPROTO ||
            r == -EFBIG)
                owner_forsake(docker->owner, wish->name);
        if (r == 0) { /* Podman prepares it here already, and says what the other says at the start */
                struct sbx_error cause = {0};

                r = guest_attach(guest, call, &stream, &cause);
                if (r < 0)
                        r = container_explain(docker, r, "the container did not start", &cause, err);
        }
        if (r == 0)
                r = make_line(guest, stream, ret_guest, err);
        if (r == 0)
                r = container_start(docker, guest->container, call, err);
        return r;
}

/* A worker in a container that is there already, or is made for the first of them. */
static int start_worker(struct docker_guest *guest, const struct container_wish *wish, const char *owner,
                        const struct sbx_call *call, struct sbx_guest *ret_guest, struct sbx_error *err) {
        struct docker *docker = guest->docker;
        struct engine_stream *stream = NULL;
        struct sbx_error cause = {0};
        int r = -EBUSY;

        /* One that ends itself may do so between the two. */
        for (int i = 0; i < WORKER_TRIES && (r == -EBUSY || r == -ENOENT); i++) {
                cause = (struct sbx_error){0};
                r = scope_container(docker->scopes, wish->runtime, wish->payload, wish->image, owner, call,
                                    guest->container, err);
                if (r < 0)
                        return r;
                r = scope_worker(docker->scopes, guest->container, wish->payload, guest->mark, call, &stream,
                                 guest->exec, &cause);
        }
        return r == 0 ? make_line(guest, stream, ret_guest, err)
                      : sbx_error_set(err, r, cause.origin, cause.hint, "%s", cause.message);
}

/* What the engine says of the container that runs; nothing is handed out before that was seen. */
static int make_report(struct docker_guest *guest, const struct container_wish *wish, const struct sbx_call *call,
                       struct sbx_error *err) {
        struct container_state state = {0};
        _cleanup_json_ json_t *inspected = NULL;
        int r = container_inspect(guest->docker, guest->container, call, &state, &inspected, err);

        if (r < 0)
                return r;
        if (!state.exists || !state.running) {
                char words[RELAY_WORDS_MAX / 8];

                relay_line_words(guest->line, words, sizeof(words));
                return sbx_error_set(
                        err, -EIO, DOCKER_ORIGIN,
                        "The image must have python3, 3.9 or later (for bash: and bash; for node: node, 18 or "
                        "later, instead). `snipara-sandbox doctor` runs a container to see what is wrong.",
                        "a container of %s ended as soon as it was started%s%s", wish->runtime->image,
                        words[0] != '\0' ? ": " : "", words);
        }
        r = container_report(guest->docker, wish, inspected, &guest->report, err);
        if (r == 0)
                r = usage_source_new(guest->docker, guest->container, state.pid, &guest->usage);
        if (r == -ENOMEM)
                sbx_error_set(err, r, DOCKER_ORIGIN, NULL, "out of memory");
        return r;
}

static int start_in_image(struct docker_guest *guest, const struct container_wish *wish, const char *owner,
                          const struct sbx_call *call, struct sbx_guest *ret_guest, struct sbx_error *err) {
        return guest->docker->options.scope == DOCKER_SCOPE_SESSION
                       ? start_container(guest, wish, call, ret_guest, err)
                       : start_worker(guest, wish, owner, call, ret_guest, err);
}

static int start(struct docker_guest *guest, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                 struct sbx_guest *ret_guest, struct sbx_error *err) {
        struct docker *docker = guest->docker;
        enum docker_scope scope = docker->options.scope;
        _cleanup_(cleanup_labels) char **labels = NULL;
        char image[IMAGE_ID_MAX], name[NAME_MAX_BYTES];
        const char *label = spec->label != NULL ? spec->label : "guest";
        uint64_t number = next_number(docker);
        struct sbx_error cause = {0};
        struct container_wish wish = {.image = image, .name = name, .keeper = scope != DOCKER_SCOPE_SESSION};
        const char *owner = spec->struct_size >= sizeof(*spec) ? spec->owner : "";
        int r;

        /* A worker that is made ahead would be in the container of somebody else. */
        if (owner == NULL && scope == DOCKER_SCOPE_AGENT)
                return sbx_error_set(err, -ENODATA, DOCKER_ORIGIN, NULL,
                                     "scope \"agent\" makes no guest without knowing for whom");
        r = docker_runtime_find(&docker->options, spec->runtime, spec->runtime_version, &guest->runtime, err);

        if (r == 0)
                r = payload_get(docker->payloads, guest->runtime->family, &guest->payload, err);
        if (r == 0)
                r = image_get(docker->images, guest->runtime, call, image, err);
        if (r == 0)
                r = owner_labels(docker->owner, scope, label, NULL, &labels, err);
        if (r < 0)
                return r;
        make_name(name, docker, label, number);
        snprintf(guest->mark, sizeof(guest->mark), "%s-%" PRIu64, docker->id, number);
        wish.runtime = guest->runtime;
        wish.payload = guest->payload;
        wish.labels = (const char *const *)labels;
        if (scope == DOCKER_SCOPE_SESSION)
                wish.limits = spec->limits;
        guest->limits = container_limits_of(&docker->options, &wish.limits);
        guest->input_kept = guest_input_is_kept(docker, &wish);
        r = start_in_image(guest, &wish, owner != NULL ? owner : "", call, ret_guest, &cause);
        if (r == -ENOENT && guest->container[0] == '\0') {
                /* The image that was found earlier may have been removed since; once is enough. */
                image_forget(docker->images, guest->runtime);
                r = image_get(docker->images, guest->runtime, call, image, err);
                cause.code = 0;
                if (r == 0)
                        r = start_in_image(guest, &wish, owner != NULL ? owner : "", call, ret_guest, &cause);
        }
        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN, cause.hint, "%s", cause.message);
        return make_report(guest, &wish, call, err);
}

static struct docker_guest *guest_new(struct docker *docker) {
        struct docker_guest *guest = calloc(1, sizeof(*guest));

        if (guest == NULL)
                return NULL;
        guest->docker = docker;
        guest->last = (struct sbx_guest_usage){.struct_size = sizeof(guest->last), .exit_code = INT32_MIN};
        guest->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (guest->cancel_fd < 0) {
                free(guest);
                return NULL;
        }
        pthread_mutex_init(&guest->kill_lock, NULL);
        pthread_mutex_init(&guest->lock, NULL);
        pthread_cond_init(&guest->changed, NULL);
        return guest;
}

int docker_guest_start(void *instance, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                       struct sbx_guest *ret_guest, struct sbx_error *err) {
        struct docker *docker = instance;
        struct sbx_guest started = {.control_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .exit_fd = -1};
        struct docker_guest *guest;
        int r;

        if (docker->engine == NULL)
                return sbx_error_set(err, -EINVAL, DOCKER_ORIGIN, NULL, "this backend was not started");
        guest = guest_new(docker);
        if (guest == NULL)
                return sbx_error_set(err, -EAGAIN, DOCKER_ORIGIN, "Raise the limit of open files (ulimit -n).",
                                     "no memory or descriptor for a guest");
        r = start(guest, spec, call, &started, err);
        if (r < 0) {
                close_fd(&started.control_fd);
                close_fd(&started.exit_fd);
                docker_guest_close(docker, guest);
                return r;
        }
        ret_guest->control_fd = started.control_fd;
        ret_guest->stdout_fd = ret_guest->stderr_fd = -1;
        ret_guest->exit_fd = started.exit_fd;
        ret_guest->handle = guest;
        ret_guest->report = (struct sbx_bytes){guest->report, strlen(guest->report)};
        return 0;
}
