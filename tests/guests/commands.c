/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of drive-guests: one guest's beginning, executions, files, limits and end. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "guest/process.h"
#include "guests/driver.h"

#define ORIGIN "drive-guests"
#define FILE_MAX_BYTES ((size_t)64 << 20)
#define OUTPUT_MAX_BYTES ((int64_t)64 << 20)

int driver_spec(const json_t *command, struct sbx_guest_spec *ret_spec, struct sbx_error *err) {
        int64_t memory = 0;
        int r;

        *ret_spec = (struct sbx_guest_spec){.struct_size = sizeof(*ret_spec),
                                            .label = "driven",
                                            .runtime = "python",
                                            .owner = "",
                                            .limits = {.struct_size = sizeof(struct sbx_limits)}};
        r = sbx_json_get_string(command, "", "label", 0, &ret_spec->label, err);
        if (r == 0)
                r = sbx_json_get_string(command, "", "runtime", 0, &ret_spec->runtime, err);
        if (r == 0)
                r = sbx_json_get_int(command, "", "memory_bytes", 0, 0, INT64_MAX, &memory, err);
        ret_spec->limits.memory_bytes = (uint64_t)memory;
        return r;
}

int driver_start(const json_t *command, const struct sbx_call *call, json_t *answer, struct sbx_error *err) {
        struct sbx_guest_process *guest = NULL;
        struct sbx_guest_spec spec;
        json_t *report = NULL;
        int r = driver_spec(command, &spec, err);

        if (r == 0)
                r = sbx_guest_start(driver.backend, &driver.logger, &spec, call, &guest, err);
        if (r == 0)
                r = driver_keep(guest, answer, err);
        if (r == 0)
                r = sbx_json_parse(sbx_guest_report(guest), 1 << 20, "report", &report, err);
        if (r == 0 && json_object_set_new(answer, "report", report) < 0)
                r = SBX_NOMEM(err, ORIGIN);
        return r;
}

static json_t *text_or_null(const char *text) {
        return text != NULL ? sbx_json_text((struct sbx_bytes){text, strlen(text)}) : json_null();
}

static int encode_result(const struct sbx_result *result, json_t *answer, struct sbx_error *err) {
        int r = json_object_set_new(answer, "end", json_string(sbx_end_name(result->end)));

        r |= json_object_set_new(answer, "state", json_string(sbx_state_name(result->state)));
        r |= json_object_set_new(answer, "stdout", sbx_json_text(result->stdout_text));
        r |= json_object_set_new(answer, "stderr", sbx_json_text(result->stderr_text));
        r |= json_object_set_new(answer, "dropped", json_integer((json_int_t)result->stdout_dropped_bytes));
        r |= json_object_set_new(answer, "value", text_or_null(result->value));
        r |= json_object_set_new(answer, "error_type", text_or_null(result->error_type));
        r |= json_object_set_new(answer, "error", text_or_null(result->error_message));
        r |= json_object_set_new(answer, "traceback", text_or_null(result->traceback));
        r |= json_object_set_new(answer, "duration_ns", json_integer((json_int_t)result->duration_ns));
        r |= json_object_set_new(answer, "cpu_ns", json_integer((json_int_t)result->cpu_ns));
        r |= json_object_set_new(answer, "memory_peak", json_integer((json_int_t)result->memory_peak_bytes));
        return r != 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

int driver_execute(const json_t *command, const struct sbx_call *call, json_t *answer, struct sbx_error *err) {
        struct sbx_guest_execution execution = {.grace_ns = 5 * SBX_NS_PER_S, .display_max_bytes = 1 << 20};
        struct sbx_call unbounded = *call; /* the execution has a deadline of its own */
        struct sbx_guest_process **guest = NULL;
        struct sbx_result *result = NULL;
        int64_t timeout_ms = PATIENCE_MS, output = 1 << 20;
        int r = driver_guest(command, &guest, err);

        if (r == 0)
                r = sbx_json_get_text(command, "", "code", SBX_JSON_REQUIRED, &execution.code, err);
        if (r == 0)
                r = sbx_json_get_int(command, "", "timeout_ms", 0, 1, 3600000, &timeout_ms, err);
        if (r == 0)
                r = sbx_json_get_int(command, "", "output_max_bytes", 0, 0, OUTPUT_MAX_BYTES, &output, err);
        if (r < 0)
                return r;
        execution.deadline_ns = sbx_clock_deadline_ms((uint64_t)timeout_ms);
        execution.output_max_bytes = (size_t)output;
        unbounded.deadline_ns = 0;
        r = sbx_guest_execute(*guest, &execution, &unbounded, &result, err);
        if (r == 0)
                r = encode_result(result, answer, err);
        sbx_result_free(result);
        return r;
}

int driver_write(const json_t *command, const struct sbx_call *call, json_t *answer, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer content = SBX_BUFFER(FILE_MAX_BYTES);
        struct sbx_guest_process **guest = NULL;
        const char *path = NULL, *from = NULL;
        int r = driver_guest(command, &guest, err);

        if (r == 0)
                r = sbx_json_get_string(command, "", "path", SBX_JSON_REQUIRED, &path, err);
        if (r == 0)
                r = sbx_json_get_string(command, "", "from", SBX_JSON_REQUIRED, &from, err);
        if (r == 0)
                r = sbx_file_read(AT_FDCWD, from, FILE_MAX_BYTES, &content, err);
        if (r == 0)
                r = sbx_guest_file_write(*guest, path, sbx_buffer_bytes(&content), call, err);
        return r < 0 || json_object_set_new(answer, "size", json_integer((json_int_t)content.size)) == 0
                       ? r
                       : SBX_NOMEM(err, ORIGIN);
}

int driver_put_file(const char *path, struct sbx_bytes content, struct sbx_error *err) {
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        int r = fd < 0 ? -errno : sbx_fd_write_all(fd, content, NULL);

        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "%s: %s", path, SBX_ERRNO_TEXT(r)) : 0;
}

int driver_read(const json_t *command, const struct sbx_call *call, json_t *answer, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer content = SBX_BUFFER(FILE_MAX_BYTES);
        struct sbx_guest_process **guest = NULL;
        const char *path = NULL, *to = NULL;
        int r = driver_guest(command, &guest, err);

        if (r == 0)
                r = sbx_json_get_string(command, "", "path", SBX_JSON_REQUIRED, &path, err);
        if (r == 0)
                r = sbx_json_get_string(command, "", "to", SBX_JSON_REQUIRED, &to, err);
        if (r == 0)
                r = sbx_guest_file_read(*guest, path, FILE_MAX_BYTES, call, &content, err);
        if (r == 0)
                r = driver_put_file(to, sbx_buffer_bytes(&content), err);
        return r < 0 || json_object_set_new(answer, "size", json_integer((json_int_t)content.size)) == 0
                       ? r
                       : SBX_NOMEM(err, ORIGIN);
}

int driver_limit(const json_t *command, const struct sbx_call *call, json_t *answer, struct sbx_error *err) {
        struct sbx_limits limits = {.struct_size = sizeof(limits)};
        struct sbx_guest_process **guest = NULL;
        int64_t memory = 0;
        int r = driver_guest(command, &guest, err);

        (void)call;
        (void)answer;
        if (r == 0)
                r = sbx_json_get_int(command, "", "memory_bytes", SBX_JSON_REQUIRED, 1, INT64_MAX, &memory, err);
        limits.memory_bytes = (uint64_t)memory;
        return r == 0 ? sbx_guest_limit(*guest, &limits, err) : r;
}

int driver_usage(const json_t *command, const struct sbx_call *call, json_t *answer, struct sbx_error *err) {
        struct sbx_guest_process **guest = NULL;
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage)};
        int r = driver_guest(command, &guest, err);

        (void)call;
        if (r < 0)
                return r;
        sbx_guest_usage(*guest, &usage);
        r = json_object_set_new(answer, "alive", json_boolean(sbx_guest_alive(*guest)));
        r |= json_object_set_new(answer, "cpu_ns", json_integer((json_int_t)usage.cpu_ns));
        r |= json_object_set_new(answer, "memory", json_integer((json_int_t)usage.memory_bytes));
        r |= json_object_set_new(answer, "memory_peak", json_integer((json_int_t)usage.memory_peak_bytes));
        r |= json_object_set_new(answer, "exit_code", json_integer(usage.exit_code));
        return r != 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

int driver_end(const json_t *command, const struct sbx_call *call, json_t *answer, struct sbx_error *err) {
        struct sbx_guest_process **guest = NULL;
        int r = driver_guest(command, &guest, err);

        (void)call;
        (void)answer;
        if (r < 0)
                return r;
        sbx_guest_free(*guest);
        *guest = NULL;
        return 0;
}
