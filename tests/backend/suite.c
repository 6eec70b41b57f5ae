/* SPDX-License-Identifier: Apache-2.0 */
/* Guests of the backend under test, and code that runs in them. */
#include "suite.h"

#include <dirent.h>
#include <fcntl.h>

struct suite suite;

void print_reason(const char *test, const char *format, ...) {
        va_list args;

        printf("# skipped %s: ", test);
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        printf("\n");
        fflush(stdout);
}

struct sbx_call patience(void) {
        return (struct sbx_call){.struct_size = sizeof(struct sbx_call),
                                 .cancel_fd = -1,
                                 .deadline_ns = sbx_clock_deadline_ms(PATIENCE_MS)};
}

void must(int r, const struct sbx_error *err) {
        if (r < 0)
                fail_msg("%s (%s) %s", err->message, err->origin, err->hint);
}

struct sbx_guest_spec spec(const char *label) {
        return (struct sbx_guest_spec){.struct_size = sizeof(struct sbx_guest_spec),
                                       .label = label,
                                       .runtime = "python",
                                       .limits = {.struct_size = sizeof(struct sbx_limits)}};
}

struct sbx_guest_process *start_limited(const char *label, const struct sbx_limits *limits) {
        struct sbx_guest_process *guest = NULL;
        struct sbx_guest_spec wanted = spec(label);
        struct sbx_call call = patience();
        struct sbx_error err = {0};

        wanted.limits = *limits;
        must(sbx_guest_start(suite.backend, &suite.logger, &wanted, &call, &guest, &err), &err);
        return guest;
}

struct sbx_guest_process *start(const char *label) {
        return start_limited(label, &(struct sbx_limits){.struct_size = sizeof(struct sbx_limits)});
}

struct sbx_result *execute_as(struct sbx_guest_process *guest, const char *code,
                              const struct sbx_guest_execution *wanted, const struct sbx_call *call) {
        struct sbx_guest_execution execution = *wanted;
        struct sbx_result *result = NULL;
        struct sbx_error err = {0};

        execution.code = (struct sbx_bytes){code, strlen(code)};
        if (execution.deadline_ns == 0)
                execution.deadline_ns = sbx_clock_deadline_ms(PATIENCE_MS);
        if (execution.grace_ns == 0)
                execution.grace_ns = GRACE_NS;
        if (execution.output_max_bytes == 0)
                execution.output_max_bytes = 1 << 20;
        if (execution.display_max_bytes == 0)
                execution.display_max_bytes = 1 << 20;
        must(sbx_guest_execute(guest, &execution, call, &result, &err), &err);
        return result;
}

struct sbx_result *execute_until(struct sbx_guest_process *guest, const char *code, uint64_t timeout_ms,
                                 const struct sbx_call *call) {
        struct sbx_guest_execution execution = {.deadline_ns = sbx_clock_deadline_ms(timeout_ms)};

        return execute_as(guest, code, &execution, call);
}

void expect(struct sbx_guest_process *guest, const char *code, enum sbx_end end, const char *output) {
        struct sbx_result *result = execute_until(guest, code, PATIENCE_MS, NULL);

        if (result->end != end)
                fail_msg("%s: ended as %s, not %s: %s", code, sbx_end_name(result->end), sbx_end_name(end),
                         result->error_message != NULL ? result->error_message : "");
        if (output != NULL)
                assert_string_equal((const char *)result->stdout_text.data, output);
        sbx_result_free(result);
}

bool holds(struct sbx_guest_process *guest, const char *expression) {
        char code[256];
        struct sbx_result *result;
        bool answer;

        snprintf(code, sizeof(code), "print(bool(%s))", expression);
        result = execute_until(guest, code, PATIENCE_MS, NULL);
        assert_int_equal(result->end, SBX_END_OK);
        answer = strcmp((const char *)result->stdout_text.data, "True\n") == 0;
        sbx_result_free(result);
        return answer;
}

bool layer_applied(const struct sbx_guest_process *guest, const char *name) {
        _cleanup_json_ json_t *report = NULL;
        struct sbx_error err = {0};
        size_t index;
        json_t *layer;

        must(sbx_json_parse(sbx_guest_report(guest), 1 << 20, "report", &report, &err), &err);
        json_array_foreach (json_object_get(report, "layers"), index, layer) {
                const char *found = json_string_value(json_object_get(layer, "name"));
                const char *word = json_string_value(json_object_get(layer, "state"));

                if (found != NULL && word != NULL && strcmp(found, name) == 0)
                        return strcmp(word, "applied") == 0;
        }
        return false;
}

static bool command_line_has(const char *pid, const char *text) {
        char path[64], line[65536];
        _cleanup_close_ int fd = -1;
        ssize_t size;

        snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        size = fd >= 0 ? read(fd, line, sizeof(line)) : -1;
        return size > 0 && memmem(line, (size_t)size, text, strlen(text)) != NULL;
}

static void write_mark(char *text, size_t size) {
        snprintf(text, size, "sbx-conformance-mark-%ld", (long)getpid());
}

void give_mark(struct sbx_guest_process *guest) {
        char mark[64], code[128];

        write_mark(mark, sizeof(mark));
        snprintf(code, sizeof(code), "mark = ' # %s'", mark);
        expect(guest, code, SBX_END_OK, "");
}

size_t marked_processes(void) {
        char mark[64];
        _cleanup_closedir_ DIR *proc = opendir("/proc");
        size_t count = 0;

        assert_non_null(proc);
        write_mark(mark, sizeof(mark));
        for (const struct dirent *entry; (entry = readdir(proc)) != NULL;)
                if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && command_line_has(entry->d_name, mark))
                        count++;
        return count;
}
