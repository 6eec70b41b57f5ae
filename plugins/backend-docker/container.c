/* SPDX-License-Identifier: Apache-2.0 */
/* Containers from their creation to their removal. */
#include "container_internal.h"

#include "util.h"

#define WAIT_GONE_TRIES 100
#define WAIT_GONE_MS 50
#define TRIES_AFTER_FAULT 10

/* The engine's words in lower case, to be looked into: engines have no codes for what follows. */
static bool says(const struct sbx_error *err, const char *words) {
        return strcasestr(err->message, words) != NULL;
}

/* What to type next, where the engine's answer is known to mean something. `wish`: it was to be made; NULL: started. */
static int explain(const struct docker *docker, const struct container_wish *wish, int r, const char *what,
                   const struct sbx_error *cause, struct sbx_error *err) {
        const char *hint = cause->hint;
        char text[SBX_ERROR_HINT_MAX];

        if (r == -ENOENT && wish != NULL && says(cause, "image")) {
                snprintf(text, sizeof(text), "Bring it: `%s pull %s`, or `snipara-sandbox image build`.",
                         engine_info(docker->engine)->name, wish->runtime->image);
                hint = text;
        } else if (says(cause, "executable file not found") || says(cause, "no such file or directory")) {
                r = -ENOENT;
                hint = "The image must have python3, 3.9 or later (for bash: and bash; for node: node instead). Name "
                       "another: image = \"python:3.11-slim\", or runtimes = [ \"name:family=image\" ].";
        } else if (says(cause, "no space left")) {
                r = -EAGAIN;
                hint = "Make room on the engine's disk: `docker system df` tells what takes it, `snipara-sandbox image "
                       "prune` and `docker system prune` remove what nothing uses.";
        } else if (says(cause, "unknown runtime") || says(cause, "invalid runtime")) {
                r = -ENOTSUP;
                hint = "Use a runtime that `docker info` lists, or leave the option `runtime` out.";
        } else if (says(cause, "storage-opt") || says(cause, "pquota")) {
                r = -ENOTSUP;
                hint = "Set disk = 0 and read_only = true, or give the engine overlay2 on xfs with pquota.";
        } else if (says(cause, "network") && says(cause, "not found")) {
                hint = "Use network = \"none\", or make it: `docker network create NAME`.";
        } else if (says(cause, "userns") || says(cause, "user namespace")) {
                r = -ENOTSUP;
                hint = "Leave the option `userns` out.";
        }
        return sbx_error_set(err, r, DOCKER_ORIGIN, hint, "%s: %s", what, cause->message);
}

/* The paths that the image declares as volumes; NULL: none. */
static int image_volumes(struct docker *docker, const char *image, const struct sbx_call *call, json_t **ret_volumes,
                         struct sbx_error *err) {
        _cleanup_json_ json_t *answer = NULL;
        char path[256] = "/images/";
        int r = engine_escape(path, sizeof(path), image);

        if (r == 0 && strlen(path) + sizeof("/json") > sizeof(path))
                r = -ENAMETOOLONG;
        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN, NULL, "the id of the image is too long");
        strncat(path, "/json", sizeof(path) - strlen(path) - 1);
        r = engine_ask(docker->engine, &(struct engine_request){.method = "GET", .path = path}, call, &answer, err);
        if (r < 0)
                return r;
        *ret_volumes = json_incref(json_object_get(json_object_get(answer, "Config"), "Volumes"));
        return 0;
}

int container_explain(const struct docker *docker, int r, const char *what, const struct sbx_error *cause,
                      struct sbx_error *err) {
        return explain(docker, NULL, r, what, cause, err);
}

static bool is_id(const char *text) {
        size_t length = strlen(text);

        return length > 0 && length < CONTAINER_ID_MAX && strspn(text, "0123456789abcdef") == length;
}

static void log_warnings(const struct docker *docker, const json_t *answer) {
        const json_t *warnings = json_object_get(answer, "Warnings"), *warning;
        size_t i;

        json_array_foreach (warnings, i, warning)
                if (i < 4 && json_is_string(warning))
                        docker_log(docker, SBX_LOG_DEBUG, "the engine warns: %.500s", json_string_value(warning));
}

static int ask_create(struct docker *docker, const struct container_wish *wish, const struct sbx_call *call,
                      char ret_id[CONTAINER_ID_MAX], struct sbx_error *err) {
        _cleanup_json_ json_t *volumes = NULL, *config = NULL, *answer = NULL;
        char path[256] = "/containers/create?name=";
        const char *id;
        int r = engine_escape(path, sizeof(path), wish->name);

        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN, NULL, "the name of the container is too long");
        r = image_volumes(docker, wish->image, call, &volumes, err);
        if (r == 0)
                r = container_config(docker, wish, volumes, &config, err);
        if (r == 0)
                r = engine_ask(docker->engine, &(struct engine_request){.method = "POST", .path = path, .json = config},
                               call, &answer, err);
        if (r < 0)
                return r;
        id = json_string_value(json_object_get(answer, "Id"));
        if (id == NULL || !is_id(id))
                return sbx_error_set(err, -EPROTO, DOCKER_ORIGIN, "Run `snipara-sandbox doctor`.",
                                     "the engine did not say which container it made");
        log_warnings(docker, answer);
        snprintf(ret_id, CONTAINER_ID_MAX, "%s", id);
        return 0;
}

int container_create(struct docker *docker, const struct container_wish *wish, const struct sbx_call *call,
                     char ret_id[CONTAINER_ID_MAX], struct sbx_error *err) {
        struct sbx_error cause = {0};
        int r = ask_create(docker, wish, call, ret_id, &cause);

        return r < 0 ? explain(docker, wish, r, "the container could not be made", &cause, err) : 0;
}

static void container_path(char path[256], const char *id, const char *rest) {
        snprintf(path, 256, "/containers/%s%s", id, rest);
}

int container_start(struct docker *docker, const char *id, const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_error cause = {0};
        char path[256];
        int r;

        container_path(path, id, "/start");
        r = engine_ask(docker->engine, &(struct engine_request){.method = "POST", .path = path}, call, NULL, &cause);
        return r < 0 ? explain(docker, NULL, r, "the container did not start", &cause, err) : 0;
}

int container_remove(struct docker *docker, const char *id, struct sbx_error *err) {
        char path[256];
        int r;

        /* timeout: Podman would ask process 1 to end, and wait for ten seconds. */
        container_path(path, id, "?force=1&v=1&timeout=0");
        for (int i = 0; i < WAIT_GONE_TRIES; i++) {
                struct sbx_error cause = {0};

                r = engine_ask(docker->engine, &(struct engine_request){.method = "DELETE", .path = path}, NULL, NULL,
                               &cause);
                if (r == 0 || r == -ENOENT)
                        return 0;
                /* 409 says that somebody removes it already; 500 is Podman's word for one that ends at this moment. */
                if (r != -EBUSY && (r != -EIO || i >= TRIES_AFTER_FAULT))
                        return sbx_error_set(err, r, DOCKER_ORIGIN, cause.hint, "a container could not be removed: %s",
                                             cause.message);
                usleep(WAIT_GONE_MS * 1000);
        }
        return sbx_error_set(err, -EBUSY, DOCKER_ORIGIN, "Look at it with `docker ps -a`.",
                             "the engine does not get done with removing the container %.12s", id);
}

int container_signal(struct docker *docker, const char *id, const char *signal, const struct sbx_call *call,
                     struct sbx_error *err) {
        struct sbx_error cause = {0};
        char path[256], rest[64];
        int r;

        snprintf(rest, sizeof(rest), "/kill?signal=%s", signal);
        container_path(path, id, rest);
        r = engine_ask(docker->engine, &(struct engine_request){.method = "POST", .path = path}, call, NULL, &cause);
        if (r == -EBUSY || r == -ENOENT)
                return sbx_error_set(err, -ESRCH, DOCKER_ORIGIN, NULL, "the container does not run");
        return r < 0 ? sbx_error_set(err, r, DOCKER_ORIGIN, cause.hint, "the container could not be signalled: %s",
                                     cause.message)
                     : 0;
}

static int64_t integer_of(const json_t *object, const char *key) {
        return json_integer_value(json_object_get(object, key));
}

int container_inspect(struct docker *docker, const char *id, const struct sbx_call *call,
                      struct container_state *ret_state, json_t **ret_all, struct sbx_error *err) {
        struct container_state state = {.exists = true, .exit_code = INT32_MIN};
        _cleanup_json_ json_t *all = NULL;
        struct sbx_error cause = {0};
        const json_t *told;
        char path[256];
        int64_t pid, code;
        int r;

        container_path(path, id, "/json");
        r = engine_ask(docker->engine, &(struct engine_request){.method = "GET", .path = path}, call, &all, &cause);
        if (r == -ENOENT) {
                *ret_state = (struct container_state){.exit_code = INT32_MIN};
                if (ret_all != NULL)
                        *ret_all = NULL;
                return 0;
        }
        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN, cause.hint, "the container could not be looked at: %s",
                                     cause.message);
        told = json_object_get(all, "State");
        if (!json_is_object(told))
                return sbx_error_set(err, -EPROTO, DOCKER_ORIGIN, "Run `snipara-sandbox doctor`.",
                                     "the engine does not say in what state the container is");
        state.running = json_is_true(json_object_get(told, "Running"));
        state.oom_killed = json_is_true(json_object_get(told, "OOMKilled"));
        pid = integer_of(told, "Pid");
        code = integer_of(told, "ExitCode");
        if (state.running && pid > 0 && pid <= INT32_MAX)
                state.pid = (long)pid;
        /* Only what ran has ended. 128 + N is how engines tell of signal N. */
        if (!state.running && code >= 0 && code <= 255)
                state.exit_code = code > 128 && code <= 128 + 64 ? -(int)(code - 128) : (int)code;
        *ret_state = state;
        if (ret_all != NULL)
                *ret_all = steal_pointer(all);
        return 0;
}
