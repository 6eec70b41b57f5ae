/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are added to a running container: see exec.h. */
#include <poll.h>

#include "exec.h"
#include "util.h"

#define PATH_SIZE 256
#define END_POLL_NS 2000000u
#define DISCARD_MAX ((size_t)1 << 20) /* of a program that should say nothing */

static int add_all(json_t *array, const char *const *texts) {
        for (; texts != NULL && *texts != NULL; texts++)
                if (json_array_append_new(array, json_string(*texts)) < 0)
                        return -ENOMEM;
        return 0;
}

static json_t *describe(const struct exec_wish *wish) {
        json_t *body = json_pack("{s:b, s:b, s:b, s:b, s:[], s:[]}", "AttachStdin", (int)wish->input, "AttachStdout", 1,
                                 "AttachStderr", 1, "Tty", 0, "Cmd", "Env");

        if (body == NULL)
                return NULL;
        if (add_all(json_object_get(body, "Cmd"), wish->argv) < 0 ||
            add_all(json_object_get(body, "Cmd"), wish->arguments) < 0 ||
            add_all(json_object_get(body, "Env"), wish->variables) < 0) {
                json_decref(body);
                return NULL;
        }
        return body;
}

static bool is_id(const char *id) {
        size_t size = id != NULL ? strlen(id) : 0;

        return size > 0 && size < CONTAINER_ID_MAX && strspn(id, "0123456789abcdef") == size;
}

int exec_create(struct engine *engine, const struct exec_wish *wish, const struct sbx_call *call,
                char ret_id[CONTAINER_ID_MAX], struct sbx_error *err) {
        _cleanup_json_ json_t *body = describe(wish), *answer = NULL;
        char path[PATH_SIZE];
        struct engine_request request = {.method = "POST", .path = path, .json = body};
        const char *id;
        int r;

        if (body == NULL)
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        snprintf(path, sizeof(path), "/containers/%.*s/exec", CONTAINER_ID_MAX - 1, wish->container);
        r = engine_ask(engine, &request, call, &answer, err);
        if (r < 0)
                return r;
        id = json_string_value(json_object_get(answer, "Id"));
        if (!is_id(id))
                return sbx_error_set(err, -EPROTO, DOCKER_ORIGIN, "run `snipara-sandbox doctor`",
                                     "the engine made an exec without an id");
        memcpy(ret_id, id, strlen(id) + 1);
        return 0;
}

int exec_open(struct engine *engine, const char *id, const struct sbx_call *call, struct engine_stream **ret_stream,
              struct sbx_error *err) {
        _cleanup_json_ json_t *body = json_pack("{s:b, s:b}", "Detach", 0, "Tty", 0);
        char path[PATH_SIZE];

        if (body == NULL)
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        snprintf(path, sizeof(path), "/exec/%.*s/start", CONTAINER_ID_MAX - 1, id);
        return engine_stream_open(engine, "POST", path, body, call, ret_stream, err);
}

int exec_look(struct engine *engine, const char *id, const struct sbx_call *call, int *ret_code,
              struct sbx_error *err) {
        _cleanup_json_ json_t *answer = NULL;
        char path[PATH_SIZE];
        const struct engine_request request = {.method = "GET", .path = path};
        const json_t *code;
        int r;

        snprintf(path, sizeof(path), "/exec/%.*s/json", CONTAINER_ID_MAX - 1, id);
        r = engine_ask(engine, &request, call, &answer, err);
        if (r < 0)
                return r;
        code = json_object_get(answer, "ExitCode");
        if (!json_is_false(json_object_get(answer, "Running")))
                *ret_code = INT32_MIN;
        else
                *ret_code = json_is_integer(code) && json_integer_value(code) >= 0 && json_integer_value(code) <= 255
                                    ? (int)json_integer_value(code)
                                    : -1;
        return 0;
}

static void docker_cleanup_stream(struct engine_stream **stream) {
        engine_stream_free(*stream);
}

/* Milliseconds until the call's deadline, for poll. */
static int remaining_ms(const struct sbx_call *call) {
        uint64_t now = monotonic_ns(), left = call->deadline_ns > now ? call->deadline_ns - now : 0;

        return left / UINT64_C(1000000) > 1000 ? 1000 : (int)(left / UINT64_C(1000000)) + (left > 0);
}

/* Reads what comes until the end of the stream. */
static int drain(struct engine_stream *stream, const struct sbx_call *call, struct sbx_error *err) {
        size_t total = 0;
        char discard[4096];

        while (total <= DISCARD_MAX) {
                struct pollfd fds[2] = {{.fd = engine_stream_fd(stream), .events = POLLIN},
                                        {.fd = call->cancel_fd, .events = POLLIN}};
                ssize_t n = engine_stream_receive(stream, discard, sizeof(discard));

                if (n == 0)
                        return 0;
                if (n > 0) {
                        total += (size_t)n;
                        continue;
                }
                if (n != -EAGAIN)
                        return sbx_error_set(err, (int)n, DOCKER_ORIGIN, "run `snipara-sandbox doctor`",
                                             "the engine's stream of an exec broke: %s", strerror((int)-n));
                if (monotonic_ns() >= call->deadline_ns)
                        return sbx_error_set(err, -ETIMEDOUT, DOCKER_ORIGIN, "see the load of the engine's machine",
                                             "an exec did not end in time");
                if (poll(fds, 2, remaining_ms(call)) > 0 && fds[1].revents != 0)
                        return sbx_error_set(err, -ECANCELED, DOCKER_ORIGIN, NULL, "the call was cancelled");
        }
        return sbx_error_set(err, -EFBIG, DOCKER_ORIGIN, NULL, "an exec said more than it has to say");
}

/* The stream's end comes a moment before the engine knows the exit code. */
static int wait_for_code(struct engine *engine, const char *id, const struct sbx_call *call, int *ret_code,
                         struct sbx_error *err) {
        int code = INT32_MIN, r = 0;

        while (r == 0 && code == INT32_MIN) {
                r = exec_look(engine, id, call, &code, err);
                if (r == 0 && code == INT32_MIN && monotonic_ns() >= call->deadline_ns)
                        r = sbx_error_set(err, -ETIMEDOUT, DOCKER_ORIGIN, "see the load of the engine's machine",
                                          "an exec did not end in time");
                if (r == 0 && code == INT32_MIN)
                        nanosleep(&(struct timespec){.tv_nsec = END_POLL_NS}, NULL);
        }
        if (r == 0)
                *ret_code = code;
        return r;
}

int exec_run(struct engine *engine, const struct exec_wish *wish, const struct sbx_call *call, int *ret_code,
             struct sbx_error *err) {
        _cleanup_(docker_cleanup_stream) struct engine_stream *stream = NULL;
        char id[CONTAINER_ID_MAX];
        int r = exec_create(engine, wish, call, id, err);

        if (r == 0)
                r = exec_open(engine, id, call, &stream, err);
        if (r == 0)
                r = drain(stream, call, err);
        return r < 0 ? r : wait_for_code(engine, id, call, ret_code, err);
}
