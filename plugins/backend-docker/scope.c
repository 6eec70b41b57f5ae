/* SPDX-License-Identifier: Apache-2.0 */
/* Containers that several sessions share: see scope.h. */
#include <inttypes.h>
#include <poll.h>

#include "exec.h"
#include "owner_internal.h"
#include "programs.h"
#include "scope.h"
#include "util.h"

#define NAME_SIZE 80
#define FIND_TRIES 64 /* each after a pause, while one of the name goes away */
#define PAUSE_MS 50
#define KILL_MARGIN_MS 25000 /* the killer gives up after 20 s */

struct scopes {
        struct docker *docker;
};

int scopes_new(struct docker *docker, struct scopes **ret_scopes, struct sbx_error *err) {
        struct scopes *scopes = calloc(1, sizeof(*scopes));

        if (scopes == NULL)
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        scopes->docker = docker;
        *ret_scopes = scopes;
        return 0;
}

/* Containers go on: a server that comes back finds them. */
void scopes_free(struct scopes *scopes) {
        free(scopes);
}

/* ---- which container */

/* What makes a container another one: all that it is made of. A server with another configuration gets its own. */
static json_t *describe_options(const struct docker_options *options) {
        json_t *environment = json_array(), *described;

        for (size_t i = 0; i < options->environment_count; i++)
                if (json_array_append_new(environment, json_string(options->environment[i])) < 0) {
                        json_decref(environment);
                        return NULL;
                }
        described = json_pack(
                "{s:s*, s:s*, s:s*, s:s*, s:s*, s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:f, s:i, s:i, s:s*, s:s*, s:I, s:o}",
                "network", options->network, "runtime", options->runtime, "seccomp", options->seccomp, "userns",
                options->userns, "user", options->user, "read_only", (int)options->read_only, "init_auto",
                (int)options->init_auto, "init", (int)options->init, "memory", (json_int_t)options->memory_bytes, "shm",
                (json_int_t)options->shm_bytes, "tmp", (json_int_t)options->tmp_bytes, "workspace_size",
                (json_int_t)options->workspace_bytes, "disk", (json_int_t)options->disk_bytes, "cpus", options->cpus,
                "pids", (int)options->pids, "workspace", (int)options->workspace, "workspace_path",
                options->workspace_path, "workspace_target", options->workspace_target, "ttl",
                (json_int_t)options->ttl_ms, "environment", environment);
        return described;
}

static int make_key(const struct scopes *scopes, const struct docker_runtime *runtime, const char *image,
                    const char *owner, char ret_key[LOCKS_HASH_SIZE], struct sbx_error *err) {
        const struct docker *docker = scopes->docker;
        const char *scope = owner_scope_name(docker->options.scope), *project;
        _cleanup_json_ json_t *options = describe_options(&docker->options);
        _cleanup_free_ char *text = options != NULL ? json_dumps(options, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

        if (text == NULL)
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        /* One container for all in scope shared: the owner does not count. */
        if (owner == NULL || docker->options.scope != DOCKER_SCOPE_AGENT)
                owner = "";
        project = docker->options.workspace != DOCKER_WORKSPACE_NONE && docker->options.workspace_path == NULL
                          ? docker->host->directory(docker->host->self, "project")
                          : NULL;
        if (project == NULL)
                project = "";
        locks_hash(owner_locks(docker->owner),
                   (const struct locks_part[]){{scope, strlen(scope)},
                                               {owner, strlen(owner)},
                                               {runtime->name, strlen(runtime->name)},
                                               {image, strlen(image)},
                                               {project, strlen(project)},
                                               {text, strlen(text)}},
                   6, ret_key);
        return 0;
}

/* ---- finding and making it */

enum found { FOUND_NONE = 0, FOUND_RUNNING, FOUND_NEW, FOUND_OVER, FOUND_BUSY };

static const char *label_of(const json_t *inspected, const char *name) {
        char key[64];

        snprintf(key, sizeof(key), OWNER_LABEL_PREFIX "%s", name);
        return json_string_value(json_object_get(json_object_get(json_object_get(inspected, "Config"), "Labels"), key));
}

static bool has_label(const json_t *inspected, const char *name, const char *value) {
        const char *text = label_of(inspected, name);

        return text != NULL && strcmp(text, value) == 0;
}

static enum found state_of(const json_t *inspected) {
        static const struct {
                const char *word;
                enum found found;
        } words[] = {{"running", FOUND_RUNNING}, {"created", FOUND_NEW}, {"configured", FOUND_NEW},
                     {"initialized", FOUND_NEW}, {"exited", FOUND_OVER}, {"dead", FOUND_OVER},
                     {"stopped", FOUND_OVER},    {"paused", FOUND_OVER}};
        const char *status = json_string_value(json_object_get(json_object_get(inspected, "State"), "Status"));

        for (size_t i = 0; status != NULL && i < sizeof(words) / sizeof(words[0]); i++)
                if (strcmp(status, words[i].word) == 0)
                        return words[i].found;
        return FOUND_BUSY; /* removing, stopping, restarting */
}

static bool is_id(const char *id) {
        size_t size = id != NULL ? strlen(id) : 0;

        return size > 0 && size < CONTAINER_ID_MAX && strspn(id, "0123456789abcdef") == size;
}

/* What has the name must have our labels as well: a name can be taken by anybody. */
static int find(const struct scopes *scopes, const char *name, const char *key, const struct sbx_call *call,
                enum found *ret_found, char ret_id[CONTAINER_ID_MAX], struct sbx_error *err) {
        struct docker *docker = scopes->docker;
        _cleanup_json_ json_t *inspected = NULL;
        struct container_state state = {0};
        const char *id;
        int r = container_inspect(docker, name, call, &state, &inspected, err);

        if (r < 0)
                return r;
        *ret_found = FOUND_NONE;
        if (!state.exists)
                return 0;
        id = json_string_value(json_object_get(inspected, "Id"));
        if (!is_id(id) || !has_label(inspected, "key", key) ||
            !has_label(inspected, "host", locks_host(owner_locks(docker->owner))) ||
            !has_label(inspected, "scope", owner_scope_name(docker->options.scope)))
                return sbx_error_set(
                        err, -EEXIST, DOCKER_ORIGIN,
                        "remove or rename that container; the labels org.snipara.sandbox.* tell whose it is",
                        "the container %s is not this server's", name);
        memcpy(ret_id, id, strlen(id) + 1);
        *ret_found = state_of(inspected);
        return 0;
}

static int make(const struct scopes *scopes, const struct docker_runtime *runtime, const struct payload *payload,
                const char *image, const char *name, const char *key, const struct sbx_call *call,
                struct sbx_error *err) {
        struct docker *docker = scopes->docker;
        struct container_wish wish = {
                .runtime = runtime,
                .payload = payload,
                .image = image,
                .name = name,
                .limits = {.struct_size = sizeof(wish.limits)},
                .keeper = true,
        };
        char id[CONTAINER_ID_MAX], **labels = NULL;
        int r = owner_labels(docker->owner, docker->options.scope, program_family_word(runtime->family), key, &labels,
                             err);

        if (r < 0)
                return r;
        wish.labels = (const char *const *)labels;
        r = container_create(docker, &wish, call, id, err);
        owner_labels_free(labels);
        if (r < 0)
                return r;
        r = container_start(docker, id, call, err);
        if (r < 0)
                container_remove(docker, id, NULL);
        return r;
}

/* -ECANCELED, -ETIMEDOUT. */
static int pause_for(const struct sbx_call *call, int ms, struct sbx_error *err) {
        struct pollfd fd = {.fd = call->cancel_fd, .events = POLLIN};

        if (call->deadline_ns != 0 && monotonic_ns() >= call->deadline_ns)
                return sbx_error_set(err, -ETIMEDOUT, DOCKER_ORIGIN, NULL, "no time is left to wait for a container");
        if (poll(&fd, 1, ms) > 0)
                return sbx_error_set(err, -ECANCELED, DOCKER_ORIGIN, NULL, "the call was cancelled");
        return 0;
}

/* One step towards a running container. 1: it is there; 0: look again. */
static int step(const struct scopes *scopes, enum found found, const char *id, const struct sbx_call *call,
                struct sbx_error *err) {
        struct docker *docker = scopes->docker;
        int r;

        switch (found) {
        case FOUND_RUNNING:
                return 1;
        case FOUND_NEW:
                /* Somebody else is about to start it, or died before: twice does no harm. */
                r = container_start(docker, id, call, NULL);
                return r == 0 ? 1 : r == -ENOENT || r == -EBUSY ? 0 : container_remove(docker, id, err);
        case FOUND_OVER:
                return container_remove(docker, id, err);
        case FOUND_BUSY:
        case FOUND_NONE:
                break;
        }
        return 0;
}

int scope_container(struct scopes *scopes, const struct docker_runtime *runtime, const struct payload *payload,
                    const char *image, const char *owner, const struct sbx_call *call, char ret_id[CONTAINER_ID_MAX],
                    struct sbx_error *err) {
        char key[LOCKS_HASH_SIZE], name[NAME_SIZE], id[CONTAINER_ID_MAX] = "";
        struct sbx_error why = {0};
        int r = make_key(scopes, runtime, image, owner, key, err), made = 0;

        snprintf(name, sizeof(name), "snipara-sandbox-%s-%s", owner_scope_name(scopes->docker->options.scope), key);
        for (int i = 0; r == 0 && i < FIND_TRIES; i++) {
                enum found found = FOUND_NONE;

                r = find(scopes, name, key, call, &found, id, err);
                if (r == 0 && found == FOUND_NONE && made < 0)
                        break; /* it could not be made, and nobody else made it meanwhile */
                if (r == 0 && found == FOUND_NONE) {
                        why = (struct sbx_error){0};
                        made = make(scopes, runtime, payload, image, name, key, call, &why);
                        continue;
                }
                made = 0;
                if (r == 0)
                        r = step(scopes, found, id, call, err);
                if (r > 0) {
                        memcpy(ret_id, id, strlen(id) + 1);
                        return 0;
                }
                if (r == 0 && found != FOUND_OVER)
                        r = pause_for(call, PAUSE_MS, err);
        }
        if (r < 0)
                return r;
        if (made < 0)
                return sbx_error_set(err, made, why.origin, why.hint, "%s", why.message);
        return sbx_error_set(err, -EAGAIN, DOCKER_ORIGIN, "try again; if it stays so, remove the container by hand",
                             "the container %s neither runs nor goes away", name);
}

/* ---- workers in it */

int scope_worker(struct scopes *scopes, const char *container_id, const struct payload *payload, const char *mark,
                 const struct sbx_call *call, struct engine_stream **ret_stream, char ret_exec_id[CONTAINER_ID_MAX],
                 struct sbx_error *err) {
        struct engine *engine = scopes->docker->engine;
        _cleanup_free_ char *marked = NULL;
        int r = asprintf(&marked, SCOPE_MARK "%s", mark);
        const char *const variables[] = {marked, "SBX_CONTROL_FD=0,1", NULL};
        const char *const arguments[] = {marked, NULL};
        const struct exec_wish wish = {
                .container = container_id,
                .argv = payload->argv,
                .arguments = arguments,
                .variables = variables,
                .input = true,
        };

        if (r < 0) {
                marked = NULL;
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        }
        r = exec_create(engine, &wish, call, ret_exec_id, err);
        return r < 0 ? r : exec_open(engine, ret_exec_id, call, ret_stream, err);
}

static struct sbx_call signal_call(const struct scopes *scopes, int signal) {
        const uint64_t limit_ms = scopes->docker->options.timeout_ms + (signal == 9 ? KILL_MARGIN_MS : 0);

        return (struct sbx_call){
                .struct_size = sizeof(struct sbx_call),
                .cancel_fd = -1,
                .deadline_ns = monotonic_ns() + limit_ms * UINT64_C(1000000),
        };
}

int scope_signal(struct scopes *scopes, const char *container_id, const struct payload *payload, const char *mark,
                 int signal, struct sbx_error *err) {
        const struct sbx_call call = signal_call(scopes, signal);
        const char *const arguments[] = {signal == 9 ? "9" : "2", mark, NULL};
        const struct exec_wish wish = {.container = container_id, .argv = payload->killer, .arguments = arguments};
        int code = 0, r = exec_run(scopes->docker->engine, &wish, &call, &code, err);

        if (r == 0 && code != 0)
                r = sbx_error_set(err, -EIO, DOCKER_ORIGIN, NULL,
                                  "a session's processes in container %.12s can't be signalled (exit code %d)",
                                  container_id, code);
        return r;
}

/* Is the worker gone, in the engine's own eyes? Its processes may hide from a killer inside, but not from the engine.
 */
static bool is_gone(const struct scopes *scopes, const char *exec_id) {
        const struct sbx_call call = signal_call(scopes, 0);
        int code = INT32_MIN;

        for (int i = 0; i < FIND_TRIES; i++) {
                int r = exec_look(scopes->docker->engine, exec_id, &call, &code, NULL);

                if (r == -ENOENT || (r == 0 && code != INT32_MIN))
                        return true;
                if (r < 0)
                        return false;
                nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        }
        return false;
}

/* One that is paused does, and takes no exec. */
static bool runs(struct docker *docker, const char *container_id) {
        struct container_state state = {0};

        return container_inspect(docker, container_id, NULL, &state, NULL, NULL) < 0 || state.running;
}

int scope_kill(struct scopes *scopes, const char *container_id, const struct payload *payload, const char *mark,
               const char *exec_id, struct sbx_error *err) {
        struct docker *docker = scopes->docker;
        struct sbx_error why = {0};
        int r = scope_signal(scopes, container_id, payload, mark, 9, &why);

        if (r == -ENOENT || (r == -EBUSY && !runs(docker, container_id)) || (r == 0 && is_gone(scopes, exec_id)))
                return 0;
        /* Sessions in one container can end each other anyway; none may outlive its end. */
        docker_log(docker, SBX_LOG_WARNING,
                   "a session in container %.12s can't be ended from inside%s%s; the container is removed",
                   container_id, why.message[0] != '\0' ? ": " : "", why.message);
        return container_remove(docker, container_id, err);
}
