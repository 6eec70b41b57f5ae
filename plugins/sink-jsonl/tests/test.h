/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of this plugin share: a directory of their own, a host, events, and a reader of their own that checks
 * the chain. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>
#include <snipara-sandbox/sink.h>

#include "../chain.h"

#define RUN "01234567-89ab-4cde-8f01-23456789abcd"

/* cmocka's pointer assertion takes integers. */
#define assert_contains(text, part) assert_true(strstr((text), (part)) != NULL)

struct sbx_host_state {
        char directory[128]; /* of the test */
        char logs[160];      /* what the sink is told to use */
        const char *sync;
        char log[2048];
};

struct fixture {
        struct sbx_host_state state;
        struct sbx_host host;
        const struct sbx_plugin *plugin;
        const struct sbx_sink_ops *ops;
        void *instance;
};

static inline void host_log(struct sbx_host_state *self, int level, const char *message) {
        (void)level;
        snprintf(self->log, sizeof(self->log), "%s", message);
}

static inline const char *host_option_string(struct sbx_host_state *self, const char *name) {
        return strcmp(name, "sync") == 0 ? self->sync : NULL;
}

static inline const char *host_setting(struct sbx_host_state *self, const char *name) {
        return strcmp(name, "log_dir") == 0 ? self->logs : NULL;
}

static inline int fixture_open(void **ret_state, const char *sync) {
        struct fixture *fixture = calloc(1, sizeof(*fixture));

        if (fixture == NULL)
                return -1;
        fixture->state.sync = sync;
        snprintf(fixture->state.directory, sizeof(fixture->state.directory), "/tmp/sink-jsonl-XXXXXX");
        if (mkdtemp(fixture->state.directory) == NULL)
                return -1;
        snprintf(fixture->state.logs, sizeof(fixture->state.logs), "%s/a/logs", fixture->state.directory);
        fixture->host = (struct sbx_host){.struct_size = sizeof(struct sbx_host),
                                          .abi_major = SBX_ABI_MAJOR,
                                          .abi_minor = SBX_ABI_MINOR,
                                          .self = &fixture->state,
                                          .instance_name = "jsonl",
                                          .log = host_log,
                                          .option_string = host_option_string,
                                          .setting = host_setting};
        fixture->plugin = sbx_plugin_entry_v1();
        fixture->ops = fixture->plugin->ops;
        *ret_state = fixture;
        return fixture->plugin->open(&fixture->host, &fixture->instance, NULL);
}

static inline int setup(void **state) {
        return fixture_open(state, "flush");
}

/* A new life of the process. */
static inline void restart(struct fixture *fixture) {
        fixture->plugin->stop(fixture->instance);
        fixture->plugin->close(fixture->instance);
        fixture->instance = NULL;
        assert_int_equal(fixture->plugin->open(&fixture->host, &fixture->instance, NULL), 0);
}

static inline int teardown(void **state) {
        struct fixture *fixture = *state;
        char command[256];

        if (fixture->instance != NULL) {
                fixture->plugin->stop(fixture->instance);
                fixture->plugin->close(fixture->instance);
        }
        snprintf(command, sizeof(command), "rm -rf '%s'", fixture->state.directory);
        (void)!system(command);
        free(fixture);
        return 0;
}

static inline int emit(struct fixture *fixture, const char *json, struct sbx_error *err) {
        return fixture->ops->event(fixture->instance, (struct sbx_bytes){json, strlen(json)}, err);
}

/* An event of `id`; `more` is further members, with a comma before them. */
static inline int emit_event(struct fixture *fixture, const char *id, const char *event, const char *more) {
        struct sbx_error err = {0};
        char *json = NULL;
        int r;

        assert_true(asprintf(&json,
                             "{\"trajectory_id\":\"%s\",\"event\":\"%s\",\"timestamp\":\"2026-01-02T03:04:05.678Z\"%s}",
                             id, event, more) > 0);
        r = emit(fixture, json, &err);
        if (r < 0)
                snprintf(fixture->state.log, sizeof(fixture->state.log), "%s|%s", err.message, err.hint);
        free(json);
        return r;
}

static inline int emit_call(struct fixture *fixture, const char *id, unsigned number) {
        char more[96];

        snprintf(more, sizeof(more), ",\"call_id\":\"00000000-0000-8000-8000-%012u\",\"prompt\":\"p%u\"", number,
                 number);
        return emit_event(fixture, id, "completion", more);
}

static inline char *path_of(const struct fixture *fixture, const char *id) {
        char *path = NULL;

        assert_true(asprintf(&path, "%s/%s.jsonl", fixture->state.logs, id) > 0);
        return path;
}

static inline char *read_path(const char *path, size_t *ret_size) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat st;
        char *text;

        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        text = malloc((size_t)st.st_size + 1);
        assert_non_null(text);
        assert_int_equal(read(fd, text, (size_t)st.st_size), st.st_size);
        text[st.st_size] = '\0';
        close(fd);
        if (ret_size != NULL)
                *ret_size = (size_t)st.st_size;
        return text;
}

static inline void append_to(const char *path, const char *text) {
        int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        close(fd);
}

/* The file's lines as an array; fails unless all are whole JSON and the chain holds. */
static inline json_t *read_chained(const struct fixture *fixture, const char *id) {
        char *path = path_of(fixture, id), *text = read_path(path, NULL), prev[JSONL_HASH_SIZE] = JSONL_CHAIN_START;
        json_t *lines = json_array();

        for (char *line = text, *end; *line != '\0'; line = end + 1) {
                json_t *object;

                end = strchr(line, '\n');
                assert_non_null(end);
                object = json_loadb(line, (size_t)(end - line), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
                assert_non_null(object);
                assert_string_equal(json_string_value(json_object_get(object, "prev")), prev);
                assert_int_equal(json_integer_value(json_object_get(object, "line")), json_array_size(lines) + 1);
                jsonl_hash_line((struct sbx_bytes){line, (size_t)(end - line)}, prev);
                json_array_append_new(lines, object);
        }
        free(path);
        free(text);
        return lines;
}

static inline const char *text_at(const json_t *lines, size_t index, const char *key) {
        const char *text = json_string_value(json_object_get(json_array_get(lines, index), key));

        return text != NULL ? text : "";
}

static inline json_int_t int_at(const json_t *lines, size_t index, const char *key) {
        const json_t *value = json_object_get(json_array_get(lines, index), key);

        assert_true(json_is_integer(value));
        return json_integer_value(value);
}
