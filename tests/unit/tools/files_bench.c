/* SPDX-License-Identifier: Apache-2.0 */
#include "files_bench.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

const char *at(const struct bench *bench, const char *path) {
        static char text[4][512];
        static unsigned next;

        next = (next + 1) % 4;
        snprintf(text[next], sizeof(text[next]), "%s/%s", bench->directory, path);
        return text[next];
}

void put(const struct bench *bench, const char *path, const void *data, size_t size) {
        int fd = open(at(bench, path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, data, size), size);
        close(fd);
}

void put_text(const struct bench *bench, const char *path, const char *text) {
        put(bench, path, text, strlen(text));
}

void make_directory(const struct bench *bench, const char *path) {
        assert_int_equal(mkdir(at(bench, path), 0700), 0);
}

void make_link(const struct bench *bench, const char *target, const char *path) {
        assert_int_equal(symlink(target, at(bench, path)), 0);
}

void open_tools(struct bench *bench, const char *more) {
        static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        static const char *const all[] = {"*", NULL};
        char allowed[256];

        if (more != NULL)
                snprintf(allowed, sizeof(allowed), "allowed_paths=%s/root,%s/%s", bench->directory, bench->directory,
                         more);
        else
                snprintf(allowed, sizeof(allowed), "allowed_paths=%s/root", bench->directory);
        table_open(&bench->table, (const char *const[]){allowed, NULL});
        assert_int_equal(sbx_tools_new(&logger, &bench->tools, NULL), 0);
        assert_int_equal(
                sbx_tools_add_builtin(bench->tools, bench->table.sessions, bench->table.config, &bench->table.err), 0);
        for (enum sbx_tool_caller caller = SBX_CALLER_CLIENT; caller <= SBX_CALLER_CODE; caller++)
                assert_int_equal(sbx_tools_allow(bench->tools, caller, all, NULL), 0);
}

void close_tools(struct bench *bench) {
        sbx_tools_free(bench->tools);
        table_close(&bench->table);
}

int setup(void **state) {
        struct bench *bench = calloc(1, sizeof(*bench));

        if (bench == NULL)
                return -1;
        snprintf(bench->directory, sizeof(bench->directory), "/tmp/sbx-files-XXXXXX");
        if (mkdtemp(bench->directory) == NULL)
                return -1;
        bench->caller = SBX_CALLER_MODEL;
        make_directory(bench, "root");
        open_tools(bench, NULL);
        *state = bench;
        return 0;
}

int teardown(void **state) {
        struct bench *bench = *state;
        char command[128];

        json_decref(bench->result);
        json_decref(bench->report);
        close_tools(bench);
        snprintf(command, sizeof(command), "rm -rf %s", bench->directory);
        if (system(command) != 0)
                return -1;
        free(bench);
        return 0;
}

bool call(struct bench *bench, const char *tool, json_t *arguments) {
        struct sbx_tool_context context = {.principal = "", .caller = bench->caller};
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(64 * MIB), encoded = SBX_BUFFER(MIB);
        struct sbx_error err = {0};
        const char *text;
        json_t *structured;

        json_decref(bench->result);
        json_decref(bench->report);
        bench->result = bench->report = NULL;
        assert_int_equal(sbx_json_encode(arguments, &encoded), 0);
        json_decref(arguments);
        if (sbx_tools_call(bench->tools, tool, sbx_buffer_bytes(&encoded), &context, &out, &err) < 0)
                fail_msg("%s", err.message);
        if (sbx_json_parse(sbx_buffer_bytes(&out), 64 * MIB, "result", &bench->result, &err) < 0)
                fail_msg("%s", err.message);
        structured = json_object_get(bench->result, "structuredContent");
        text = json_string_value(json_object_get(json_array_get(json_object_get(bench->result, "content"), 0), "text"));
        if (structured != NULL)
                bench->report = json_incref(structured);
        else if (sbx_json_parse((struct sbx_bytes){text, strlen(text)}, 64 * MIB, "report", &bench->report, &err) < 0)
                fail_msg("%s: %s", err.message, text);
        return !json_is_true(json_object_get(bench->result, "isError"));
}

const char *text_of(const struct bench *bench, const char *member) {
        const char *text = json_string_value(json_object_get(bench->report, member));

        return text != NULL ? text : "(none)";
}

json_int_t number_of(const struct bench *bench, const char *member) {
        return json_integer_value(json_object_get(bench->report, member));
}

bool is_true(const struct bench *bench, const char *member) {
        return json_is_true(json_object_get(bench->report, member));
}

bool read_path(struct bench *bench, const char *path) {
        return call(bench, "file_read", json_pack("{s:s}", "path", path));
}

void assert_refused(struct bench *bench, const char *path) {
        if (read_path(bench, path))
                fail_msg("%s was read: %s", path, text_of(bench, "content"));
        if (strstr(text_of(bench, "error"), "Access denied") == NULL)
                fail_msg("%s: %s", path, text_of(bench, "error"));
        assert_true(json_is_null(json_object_get(bench->report, "content")));
}
