/* SPDX-License-Identifier: Apache-2.0 */
/* Asks an engine what the command line says, and prints one JSON object for each command: the tests judge them. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>

#include "engine_internal.h"

/* What the tests set as options of the plugin comes from the environment. */
static const char *environment(struct sbx_host_state *self, const char *name) {
        const char *value = getenv(name);

        return value != NULL && value[0] != '\0' ? value : NULL;
}

static const char *option(const char *name) {
        return environment(NULL, name);
}

static uint64_t number(const char *text) {
        uint64_t value = 0;

        for (; text != NULL && *text >= '0' && *text <= '9'; text++)
                value = value * 10 + (uint64_t)(*text - '0');
        return value;
}

static void print(json_t *value) {
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

        puts(text != NULL ? text : "null");
        fflush(stdout);
        free(text);
        json_decref(value);
}

static void print_error(int code, const struct sbx_error *err) {
        print(json_pack("{s:i, s:s, s:s}", "code", -code, "message", err->message, "hint", err->hint));
}

static void print_info(const struct engine_info *info) {
        print(json_pack(
                "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b}",
                "address", info->place.address, "found_by", info->place.found_by, "name", info->name, "version",
                info->version, "api_version", info->api_version, "os", info->os, "architecture", info->architecture,
                "storage_driver", info->storage_driver, "default_runtime", info->default_runtime, "seccomp",
                info->seccomp, "cgroup_version", info->cgroup_version, "tls", info->place.tls, "rootless",
                info->rootless, "userns", info->userns, "local", info->local, "disk_quota", info->disk_quota, "init",
                info->init, "memory_swap", info->memory_swap, "pids", info->pids));
}

struct seen {
        unsigned count, stop_after;
};

static int count_item(void *data, const json_t *item) {
        struct seen *items = data;

        print(json_deep_copy(item));
        return ++items->count == items->stop_after ? -EXDEV : 0;
}

static struct sbx_call bounded(void) {
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};

        if (option("TEST_DEADLINE_MS") != NULL)
                call.deadline_ns = monotonic_ns() + number(option("TEST_DEADLINE_MS")) * ENGINE_NS_PER_MS;
        if (option("TEST_CANCEL_FD") != NULL)
                call.cancel_fd = (int)number(option("TEST_CANCEL_FD"));
        return call;
}

/* ask METHOD PATH [BODY] */
static int ask(struct engine *engine, char **words, bool items) {
        struct seen seen = {.stop_after = (unsigned)number(option("TEST_STOP_AFTER"))};
        _cleanup_json_ json_t *body = words[2] != NULL ? json_loads(words[2], 0, NULL) : NULL;
        struct engine_request request = {
                .method = words[0],
                .path = words[1],
                .json = body,
                .header = option("TEST_HEADER"),
                .timeout_ms = number(option("TEST_TIMEOUT_MS")),
                .answer_max_bytes = (size_t)number(option("TEST_ANSWER_MAX")),
                .item = items ? count_item : NULL,
                .data = &seen,
        };
        struct sbx_call call = bounded();
        struct sbx_error err = {0};
        json_t *answer = NULL;
        int r = engine_ask(engine, &request, &call, &answer, &err);

        if (r < 0)
                print_error(r, &err);
        else
                print(json_pack("{s:o}", "answer", answer != NULL ? answer : json_null()));
        return r < 0 ? 1 : 0;
}

static int wait_for(const struct engine_stream *stream, short events) {
        struct pollfd pfd = {.fd = engine_stream_fd(stream), .events = events};

        return poll(&pfd, 1, 60000) == 1 ? 0 : -ETIMEDOUT;
}

/* Sends `size` bytes and takes as many back, in whatever pieces; checks them. */
static int echo(struct engine_stream *stream, size_t size) {
        size_t sent = 0, taken = 0;
        char out[32768], in[32768];
        ssize_t n;

        while (taken < size) {
                for (size_t i = 0; i < sizeof(out); i++)
                        out[i] = (char)((sent + i) * 31 >> 3);
                n = sent < size ? engine_stream_send(stream, out, size - sent < sizeof(out) ? size - sent : sizeof(out))
                                : -EAGAIN;
                if (n < 0 && n != -EAGAIN)
                        return (int)n;
                sent += n > 0 ? (size_t)n : 0;
                n = engine_stream_receive(stream, in, sizeof(in));
                if (n == 0 || (n < 0 && n != -EAGAIN))
                        return n == 0 ? -EPIPE : (int)n;
                for (ssize_t i = 0; i < n; i++)
                        if (in[i] != (char)((taken + (size_t)i) * 31 >> 3))
                                return -EBADMSG;
                taken += n > 0 ? (size_t)n : 0;
                if (n == -EAGAIN && wait_for(stream, sent < size ? POLLIN | POLLOUT : POLLIN) < 0)
                        return -ETIMEDOUT;
        }
        return 0;
}

/* Everything until the end, as text. */
static int drain(struct engine_stream *stream) {
        char text[4096];
        size_t used = 0;

        for (;;) {
                ssize_t n = engine_stream_receive(stream, text + used, sizeof(text) - 1 - used);

                if (n == -EAGAIN && wait_for(stream, POLLIN) == 0)
                        continue;
                if (n <= 0) {
                        print(json_pack("{s:o, s:i}", "drained", json_stringn(text, used), "end", (int)-n));
                        return 0;
                }
                used += (size_t)n;
        }
}

/* stream METHOD PATH BODY SIZE: echoes SIZE bytes, or reads to the end if 0 */
static int use_stream(struct engine *engine, char **words) {
        _cleanup_json_ json_t *body = json_loads(words[2], 0, NULL);
        struct engine_stream *stream = NULL;
        struct sbx_call call = bounded();
        struct sbx_error err = {0};
        size_t size = (size_t)number(words[3]);
        int r = engine_stream_open(engine, words[0], words[1], body, &call, &stream, &err);

        if (r < 0) {
                print_error(r, &err);
                return 1;
        }
        r = size > 0 ? echo(stream, size) : drain(stream);
        engine_stream_free(stream);
        print(json_pack("{s:i, s:I}", "echo", -r, "size", (json_int_t)size));
        return r < 0 ? 1 : 0;
}

/* A container whose `cat` gives back what it gets, each piece behind 8 bytes that say whose it is and how long. */
struct cat {
        struct engine *engine;
        struct engine_stream *stream;
        char id[80];
        unsigned char head[8];
        size_t head_size, left, taken;
};

static int cat_ask(struct cat *cat, const char *method, const char *what, json_t **ret_answer, struct sbx_error *err) {
        char path[160];
        const struct engine_request request = {.method = method, .path = path};

        snprintf(path, sizeof(path), "/containers/%s%s", cat->id, what);
        return engine_ask(cat->engine, &request, NULL, ret_answer, err);
}

static int cat_start(struct cat *cat, const char *image, struct sbx_error *err) {
        _cleanup_json_ json_t *wish =
                json_pack("{s:s, s:[s], s:b, s:b, s:b, s:b, s:{s:s, s:{s:s}}}", "Image", image, "Cmd", "cat",
                          "OpenStdin", 1, "AttachStdin", 1, "AttachStdout", 1, "NetworkDisabled", 1, "HostConfig",
                          "NetworkMode", "none", "LogConfig", "Type", "none");
        const struct engine_request create = {.method = "POST", .path = "/containers/create", .json = wish};
        _cleanup_json_ json_t *made = NULL;
        char path[160];
        int r = engine_ask(cat->engine, &create, NULL, &made, err);

        if (r < 0)
                return r;
        snprintf(cat->id, sizeof(cat->id), "%s", json_string_value(json_object_get(made, "Id")));
        snprintf(path, sizeof(path), "/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1", cat->id);
        r = engine_stream_open(cat->engine, "POST", path, NULL, NULL, &cat->stream, err);
        return r < 0 ? r : cat_ask(cat, "POST", "/start", NULL, err);
}

static int cat_take(struct cat *cat, const unsigned char *bytes, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (cat->left > 0) {
                        if (bytes[i] != (unsigned char)(cat->taken * 31 >> 3))
                                return -EBADMSG;
                        cat->taken++;
                        cat->left--;
                } else {
                        cat->head[cat->head_size++] = bytes[i];
                        if (cat->head_size < sizeof(cat->head))
                                continue;
                        cat->head_size = 0;
                        cat->left = (size_t)cat->head[4] << 24 | (size_t)cat->head[5] << 16 |
                                    (size_t)cat->head[6] << 8 | cat->head[7];
                        if (cat->head[0] != 1)
                                return -EPROTO;
                }
        return 0;
}

static int cat_echo(struct cat *cat, size_t size) {
        unsigned char out[32768], in[32768];
        size_t sent = 0;

        while (cat->taken < size) {
                ssize_t n = -EAGAIN;

                for (size_t i = 0; i < sizeof(out); i++)
                        out[i] = (unsigned char)((sent + i) * 31 >> 3);
                if (sent < size)
                        n = engine_stream_send(cat->stream, out, size - sent < sizeof(out) ? size - sent : sizeof(out));
                if (n < 0 && n != -EAGAIN)
                        return (int)n;
                sent += n > 0 ? (size_t)n : 0;
                n = engine_stream_receive(cat->stream, in, sizeof(in));
                if (n == 0 || (n < 0 && n != -EAGAIN))
                        return n == 0 ? -EPIPE : (int)n;
                if (n > 0 && cat_take(cat, in, (size_t)n) < 0)
                        return -EBADMSG;
                if (n == -EAGAIN && wait_for(cat->stream, sent < size ? POLLIN | POLLOUT : POLLIN) < 0)
                        return -ETIMEDOUT;
        }
        return 0;
}

/* cat IMAGE SIZE: SIZE bytes there and back, then it is killed. `hold`: says "holding" and waits until somebody else
 * ends the stream. */
static int use_cat(struct engine *engine, char **words, bool hold) {
        struct cat cat = {.engine = engine};
        struct sbx_error err = {0};
        int r = cat_start(&cat, words[0], &err);

        if (r == 0)
                r = cat_echo(&cat, (size_t)number(words[1]));
        if (r == 0 && hold)
                print(json_pack("{s:s}", "holding", cat.id));
        else if (r == 0)
                r = cat_ask(&cat, "POST", "/kill?signal=SIGKILL", NULL, &err);
        if (r == 0)
                drain(cat.stream);
        engine_stream_free(cat.stream);
        if (cat.id[0] != '\0' && !hold)
                cat_ask(&cat, "DELETE", "?force=1", NULL, NULL);
        if (err.code != 0)
                print_error(r, &err);
        else
                print(json_pack("{s:i, s:I}", "echo", -r, "size", (json_int_t)cat.taken));
        return r < 0 ? 1 : 0;
}

static int places(const struct sbx_host *host, const struct docker_options *options) {
        struct engine_place found[8];
        struct sbx_error err = {0};
        json_t *list = json_array();
        int n = engine_places(host, options, found, 8, &err);

        if (n < 0) {
                json_decref(list);
                print_error(n, &err);
                return 1;
        }
        for (int i = 0; i < n; i++) {
                struct sbx_call call = bounded();
                struct sbx_error reason = {0};
                int r = engine_place_try(host, options, &found[i], &call, &reason);

                json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:i, s:s, s:s}", "address", found[i].address,
                                                      "found_by", found[i].found_by, "tls", found[i].tls, "code", -r,
                                                      "message", reason.message, "hint", reason.hint));
        }
        print(list);
        return 0;
}

struct worker {
        struct engine *engine;
        char **words;
        pthread_t thread;
        int result;
};

static void *work(void *data) {
        struct worker *worker = data;
        const struct engine_request request = {.method = worker->words[0], .path = worker->words[1]};

        for (unsigned i = 0; worker->result == 0 && i < 20; i++)
                worker->result = engine_ask(worker->engine, &request, NULL, NULL, NULL);
        return NULL;
}

/* parallel METHOD PATH: many threads ask at the same time */
static int parallel(struct engine *engine, char **words) {
        struct worker workers[8];
        int r = 0;

        for (size_t i = 0; i < 8; i++) {
                workers[i] = (struct worker){.engine = engine, .words = words};
                if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
                        abort();
        }
        for (size_t i = 0; i < 8; i++) {
                pthread_join(workers[i].thread, NULL);
                r = r < 0 ? r : workers[i].result;
        }
        print(json_pack("{s:i}", "parallel", -r));
        return r < 0 ? 1 : 0;
}

/* Connections that a child process would get. */
static int inherited(struct engine *engine) {
        struct engine_request request = {.method = "GET", .path = "/info"};
        int r = engine_ask(engine, &request, NULL, NULL, NULL), count = 0, open = 0;

        for (int fd = 3; fd < 256; fd++) {
                struct sockaddr_storage address;
                socklen_t size = sizeof(address);

                if (getpeername(fd, (struct sockaddr *)&address, &size) < 0 || size <= sizeof(sa_family_t))
                        continue;
                open++;
                count += (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0;
        }
        print(json_pack("{s:i, s:i, s:i}", "ask", -r, "open", open, "inherited", count));
        return 0;
}

static int one(struct engine *engine, int argc, char **argv) {
        if (argc >= 3 && strcmp(argv[0], "ask") == 0)
                return ask(engine, argv + 1, false);
        if (argc >= 3 && strcmp(argv[0], "items") == 0)
                return ask(engine, argv + 1, true);
        if (argc >= 5 && strcmp(argv[0], "stream") == 0)
                return use_stream(engine, argv + 1);
        if (argc >= 3 && (strcmp(argv[0], "cat") == 0 || strcmp(argv[0], "hold") == 0))
                return use_cat(engine, argv + 1, argv[0][0] == 'h');
        if (argc >= 3 && strcmp(argv[0], "parallel") == 0)
                return parallel(engine, argv + 1);
        if (argc >= 1 && strcmp(argv[0], "inherited") == 0)
                return inherited(engine);
        print_info(engine_info(engine));
        return 0;
}

/* Commands are separated by "then". */
static int all(struct engine *engine, int argc, char **argv) {
        int r = 0, start = 0;

        for (int i = 0; i <= argc; i++)
                if (i == argc || strcmp(argv[i], "then") == 0) {
                        argv[i] = NULL;
                        r |= one(engine, i - start, argv + start);
                        start = i + 1;
                }
        return r;
}

static void print_log(struct sbx_host_state *self, int level, const char *message) {
        fprintf(stderr, "log %d: %s\n", level, message);
}

int main(int argc, char **argv) {
        const struct sbx_host host = {
                .struct_size = sizeof(host), .version = "0", .log = print_log, .environment = environment};
        const struct docker_options options = {
                .engine = option("TEST_ENGINE"),
                .tls_ca = option("TEST_TLS_CA"),
                .tls_certificate = option("TEST_TLS_CERTIFICATE"),
                .tls_key = option("TEST_TLS_KEY"),
                .timeout_ms =
                        option("TEST_OPTION_TIMEOUT_MS") != NULL ? number(option("TEST_OPTION_TIMEOUT_MS")) : 60000,
        };
        struct engine *engine = NULL;
        struct sbx_call call = bounded();
        struct sbx_error err = {0};
        int r;

        if (argc >= 2 && strcmp(argv[1], "places") == 0)
                return places(&host, &options);
        r = engine_new(&host, &options, &call, &engine, &err);
        if (r < 0) {
                print_error(r, &err);
                return 1;
        }
        r = all(engine, argc - 1, argv + 1);
        engine_free(engine);
        return r;
}
