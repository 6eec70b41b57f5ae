/* SPDX-License-Identifier: Apache-2.0 */
/* Every tool, on a small project, with one allocation after another failing: a call ends in an error or in an answer,
 * and nothing leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>

#include "../../../tests/unit/alloc_fail.h"

#include "calls.h"

#define OUTPUT_MAX 65536u

struct sbx_output {
        size_t size;
        char text[OUTPUT_MAX];
};

static int output_append(struct sbx_host_state *self, struct sbx_output *output, const void *data, size_t size) {
        if (size > OUTPUT_MAX - 1 - output->size)
                return -EFBIG;
        memcpy(output->text + output->size, data, size);
        output->size += size;
        output->text[output->size] = '\0';
        return 0;
}

static void log_nothing(struct sbx_host_state *self, int level, const char *message) {
}

static struct {
        char path[64], database[96];
        struct sbx_host host;
        struct sbx_output output;
} test;

static const struct {
        const char *tool, *arguments;
} calls[] = {
        {"snipara_context_query", "{\"query\":\"what is a zebra_crossing\",\"search_mode\":\"hybrid\"}"},
        {"snipara_search", "{\"pattern\":\"zeb\"}"},
        {"snipara_sections", "{\"filter\":\"a\"}"},
        {"snipara_read", "{\"file\":\"a.md\",\"start_line\":1,\"end_line\":2}"},
        {"snipara_read", "{\"start_line\":1,\"end_line\":2}"},
        {"snipara_remember", "{\"content\":\"zebra\",\"related_to\":[\"x\"],\"ttl_days\":1}"},
        {"snipara_recall", "{\"query\":\"the zebra of yesterday\",\"min_relevance\":0.1}"},
        {"snipara_memories", "{\"search\":\"z\"}"},
        {"snipara_forget", "{\"type\":\"fact\"}"},
};

static int set_up(struct files *files, struct sbx_error *err) {
        int r;

        files->options = (struct files_options){.host = &test.host,
                                                .project = test.path,
                                                .database = test.database,
                                                .file_bytes_max = 1 << 20,
                                                .total_bytes_max = 1 << 20,
                                                .files_max = 100,
                                                .wait_ns = UINT64_C(60000000000),
                                                .memories_max = 100000,
                                                .memory = true};
        r = database_new(&test.host, test.database, &files->database, err);
        return r < 0 ? r : refresh_new(&files->options, files->database, &files->refresh, err);
}

static int body(void *data) {
        const size_t *which = data;
        const char *arguments = calls[*which].arguments;
        struct sbx_call call = {sizeof(call), -1, 0};
        struct sbx_error err = {0};
        struct files files = {0};
        int r = set_up(&files, &err);

        test.output.size = 0;
        if (r == 0)
                r = files_call(&files, calls[*which].tool, (struct sbx_bytes){arguments, strlen(arguments)}, &call,
                               &test.output, &err);
        refresh_free(files.refresh);
        database_free(files.database);
        if (r < 0 && (err.code != r || err.message[0] == '\0'))
                return -EPROTO;
        /* jansson calls a text malformed when it had no memory for one of its parts. */
        if (r == -EINVAL && strstr(err.message, "not a JSON object") != NULL)
                return -ENOMEM;
        return r;
}

static void each_tool(void **state) {
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
                assert_true(alloc_fail_sweep(body, &i) > 5);
                assert_non_null(strstr(test.output.text, "\"isError\":false"));
        }
}

static int definitions(void *data) {
        struct files files = {.options = {.host = &test.host, .memory = true}};

        test.output.size = 0;
        return files_tools(&files, &test.output, NULL);
}

static void the_definitions(void **state) {
        assert_true(alloc_fail_sweep(definitions, NULL) > 50);
}

static int make_project(void **state) {
        static const char text[] = "# Zebra crossing\n\nA zebra_crossing is striped.\n";
        char file[96];
        int fd;

        strcpy(test.path, "/tmp/context-files-XXXXXX");
        if (mkdtemp(test.path) == NULL)
                return -1;
        snprintf(test.database, sizeof(test.database), "%s.db", test.path);
        snprintf(file, sizeof(file), "%s/a.md", test.path);
        fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, text, sizeof(text) - 1) != sizeof(text) - 1)
                return -1;
        close(fd);
        test.host =
                (struct sbx_host){.struct_size = sizeof(test.host), .log = log_nothing, .output_append = output_append};
        json_set_alloc_funcs(malloc, free); /* those of this program, which can fail */
        return 0;
}

static int remove_project(void **state) {
        static const char *const endings[] = {"/a.md", ".db", ".db-wal", ".db-shm"};
        char file[96];

        for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
                snprintf(file, sizeof(file), "%s%s", test.path, endings[i]);
                unlink(file);
        }
        return rmdir(test.path);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(each_tool), cmocka_unit_test(the_definitions)};

        return cmocka_run_group_tests(tests, make_project, remove_project);
}
