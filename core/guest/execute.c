/* SPDX-License-Identifier: Apache-2.0 */
/* One execution: the request, the frames that come, and how it ended. */
#include "guest/execution.h"

#include <inttypes.h>
#include <signal.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "guest/result.h"

#define FRAME_MAX ((size_t)18 << 20) /* display, tool_call, or a result with its JSON as blob */
#define RESULT_JSON_MAX ((size_t)4 << 20)
#define MIME_MAX 127
#define STALE_MAX 16

static void cleanup_execution(struct sbx_guest_run *run) {
        sbx_buffer_free(&run->head);
        sbx_buffer_free(&run->exchange.reply);
        sbx_buffer_free(&run->captures[0].text);
        sbx_buffer_free(&run->captures[1].text);
        sbx_result_free(run->result);
        json_decref(run->answer);
}

/* ---- the request ---- */

static int encode_request(struct sbx_guest_run *run, struct sbx_error *err) {
        const struct sbx_guest_execution *request = run->request;
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(SBX_EXECUTION_HEAD_MAX);
        const char *filename = request->filename != NULL ? request->filename : "<execution>";
        _cleanup_json_ json_t *name = sbx_json_text((struct sbx_bytes){filename, strlen(filename)});
        int r = name != NULL ? 0 : -ENOMEM;

        run->id = ++run->guest->last_id;
        if (r == 0)
                r = sbx_buffer_printf(
                        &text, "{\"id\":%" PRId64 ",\"memory_bytes\":%" PRIu64 ",\"tools\":%s,\"filename\":", run->id,
                        request->memory_bytes, request->code_calls != NULL ? "true" : "false");
        if (r == 0)
                r = sbx_json_encode(name, &text);
        if (r == 0)
                r = sbx_buffer_append(&text, "}", 1);
        if (r == 0)
                r = sbx_frame_encode_head(SBX_FRAME_EXEC, sbx_buffer_bytes(&text), request->code.size, &run->head);
        if (r == -EFBIG)
                return sbx_error_set(err, r, SBX_GUEST_ORIGIN, "Write data to a file and read it from the code.",
                                     "%zu bytes of code are more than a guest takes", request->code.size);
        return r < 0 ? SBX_NOMEM(err, SBX_GUEST_ORIGIN) : 0;
}

/* ---- frames ---- */

/* A type and a subtype of printable ASCII: it goes to clients as it is. */
static bool good_mime_type(struct sbx_bytes mime) {
        const char *text = mime.data;

        if (mime.size == 0 || mime.size > MIME_MAX || memchr(text, '/', mime.size) == NULL)
                return false;
        for (size_t i = 0; i < mime.size; i++)
                if (text[i] <= ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\')
                        return false;
        return true;
}

static int parse_header(struct sbx_bytes text, const char *what, json_t **ret, struct sbx_error *err) {
        int r = sbx_json_parse(text, SBX_EXECUTION_ANSWER_MAX, what, ret, err);

        return r == 0 || r == -ENOMEM ? r : -EPROTO;
}

static int take_display(struct sbx_guest_run *run, const struct sbx_frame *frame, struct sbx_error *err) {
        _cleanup_json_ json_t *header = NULL;
        struct sbx_bytes mime = {0};
        char name[MIME_MAX + 1];
        int r = parse_header(frame->json, "display", &header, err);

        if (r < 0)
                return r;
        if (sbx_json_get_text(header, "display", "mime", SBX_JSON_REQUIRED, &mime, err) < 0)
                return -EPROTO;
        if (!good_mime_type(mime))
                return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL, "display.mime is no MIME type");
        if (frame->blob.size > run->request->display_max_bytes - run->display_bytes) {
                run->result->display_dropped_count++;
                return 0;
        }
        snprintf(name, sizeof(name), "%.*s", (int)mime.size, (const char *)mime.data);
        r = sbx_result_add_display(run->result, name, frame->blob);
        if (r == -E2BIG)
                run->result->display_dropped_count++;
        else if (r < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        else
                run->display_bytes += frame->blob.size;
        return 0;
}

static int take_result(struct sbx_guest_run *run, const struct sbx_frame *frame, struct sbx_error *err) {
        _cleanup_json_ json_t *answer = NULL;
        bool has_json = false;
        int64_t id;
        int r = parse_header(frame->json, "result", &answer, err);

        if (r < 0)
                return r;
        if (sbx_json_get_int(answer, "result", "id", SBX_JSON_REQUIRED, INT64_MIN, INT64_MAX, &id, err) < 0)
                return -EPROTO;
        if (id != run->id)
                return ++run->stale > STALE_MAX ? sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL,
                                                                "more than %d results of other requests", STALE_MAX)
                                                : 0;
        if (sbx_json_get_bool(answer, "result", "result_json", 0, &has_json, err) < 0)
                return -EPROTO;
        if (has_json) {
                _cleanup_json_ json_t *value = NULL;

                r = sbx_json_parse_any(frame->blob, RESULT_JSON_MAX, "result.result_json", &value, err);
                if (r < 0)
                        return r == -ENOMEM ? r : -EPROTO;
                if (sbx_result_set(&run->result->result_json, frame->blob) < 0)
                        return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        }
        run->answer = steal_pointer(answer);
        return 1;
}

static int take_frame(struct sbx_exchange *exchange, const struct sbx_frame *frame, struct sbx_error *err) {
        struct sbx_guest_run *run = exchange->data;

        switch (frame->type) {
        case SBX_FRAME_STDOUT:
        case SBX_FRAME_STDERR:
                return sbx_channel_output(exchange, frame->type == SBX_FRAME_STDOUT ? 1 : 2, frame->blob, err);
        case SBX_FRAME_DISPLAY:
                return take_display(run, frame, err);
        case SBX_FRAME_TOOL_CALL:
                return sbx_guest_take_call(run, frame, err);
        case SBX_FRAME_RESULT:
                return take_result(run, frame, err);
        default:
                return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL, "a frame of type 0x%02x in an execution",
                                     frame->type);
        }
}

/* ---- how it ended ---- */

SBX_PRINTF(2, 3)
static int set_message(struct sbx_guest_run *run, const char *format, ...) {
        char text[SBX_ERROR_MESSAGE_MAX];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        return sbx_result_set(&run->result->error_message, (struct sbx_bytes){text, strlen(text)});
}

static const char *signal_name(int number) {
        static const struct {
                int number;
                const char *name;
        } names[] = {
                {SIGSEGV, "SIGSEGV, a crash in native code"},
                {SIGBUS, "SIGBUS, a crash in native code"},
                {SIGABRT, "SIGABRT"},
                {SIGFPE, "SIGFPE"},
                {SIGILL, "SIGILL"},
                {SIGKILL, "SIGKILL"},
                {SIGTERM, "SIGTERM"},
                {SIGSYS, "SIGSYS, a forbidden system call"},
                {SIGXCPU, "SIGXCPU"},
                {SIGPIPE, "SIGPIPE"},
                {SIGHUP, "SIGHUP"},
                {SIGINT, "SIGINT"},
                {SIGQUIT, "SIGQUIT"},
                {SIGTRAP, "SIGTRAP"},
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (names[i].number == number)
                        return names[i].name;
        return "no common one";
}

/* Seconds for a person, to the nearest hundredth: "5", "2.5". */
static double seconds(uint64_t ns) {
        return (double)((ns + 5 * SBX_NS_PER_MS) / (10 * SBX_NS_PER_MS)) / 100.0;
}

static int tell_stop(struct sbx_guest_run *run, bool killed) {
        const struct sbx_exchange *exchange = &run->exchange;
        uint64_t own_ns = run->request->deadline_ns, limit_ns;
        const char *what = killed ? "it did not stop and was killed" : "it was interrupted and its variables are kept";

        run->result->end = exchange->stop == SBX_STOP_CANCELLED ? SBX_END_CANCELLED : SBX_END_TIMEOUT;
        if (exchange->stop == SBX_STOP_CANCELLED)
                return set_message(run, "the execution was cancelled; %s", what);
        if (exchange->stop == SBX_STOP_CPU)
                return set_message(run, "the code used its CPU time of %g s; %s", seconds(exchange->cpu_limit_ns),
                                   what);
        limit_ns = own_ns != 0 && own_ns + run->answered_ns == exchange->deadline_ns ? own_ns : exchange->deadline_ns;
        return set_message(run, "the code ran longer than its limit of %g s; %s",
                           seconds(limit_ns > run->started_ns ? limit_ns - run->started_ns : 0), what);
}

/* The guest is gone: `problem` is how the exchange failed. */
static int tell_death(struct sbx_guest_run *run, int problem, const struct sbx_error *why) {
        struct sbx_guest_death death = {.exit_code = INT32_MIN};

        run->result->state = SBX_STATE_LOST;
        if (problem == -EPIPE) {
                sbx_guest_bury(run->guest, &run->before, &run->after, &death);
        } else {
                sbx_guest_usage(run->guest, &run->after);
                sbx_guest_kill(run->guest);
        }
        if (problem == -EPROTO) {
                run->result->end = SBX_END_LOST;
                return set_message(run, "the guest broke the protocol and was killed: %s", why->message);
        }
        if (death.oom) {
                run->result->end = SBX_END_MEMORY;
                return set_message(run, "the memory limit was reached and the kernel ended the session's interpreter");
        }
        if (run->exchange.stop != SBX_STOP_NONE)
                return tell_stop(run, true);
        if (death.exit_code < 0 && death.exit_code > INT32_MIN) {
                run->result->end = SBX_END_KILLED;
                return set_message(run, "the session's interpreter was ended by signal %d (%s)", -death.exit_code,
                                   signal_name(-death.exit_code));
        }
        run->result->end = SBX_END_LOST;
        if (death.exit_code >= 0)
                return set_message(run, "the session's interpreter exited with code %d", death.exit_code);
        return set_message(run, "the session's interpreter closed its connection to the host and was killed");
}

static int copy_member(const json_t *object, const char *path, const char *key, const char **field,
                       struct sbx_error *err) {
        struct sbx_bytes text = {0};

        if (sbx_json_get_text(object, path, key, 0, &text, err) < 0)
                return -EPROTO;
        return text.data != NULL && sbx_result_set(field, text) < 0 ? SBX_NOMEM(err, SBX_GUEST_ORIGIN) : 0;
}

static int copy_answer(struct sbx_guest_run *run, struct sbx_error *err) {
        const json_t *error = json_object_get(run->answer, "error");
        struct sbx_result *result = run->result;
        int r = copy_member(run->answer, "result", "value", &result->value, err);

        if (r == 0)
                r = copy_member(run->answer, "result", "result", &result->result, err);
        if (r == 0 && error != NULL && !json_is_null(error)) {
                if (!json_is_object(error))
                        return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL, "result.error is not an object");
                r = copy_member(error, "result.error", "type", &result->error_type, err);
                if (r == 0)
                        r = copy_member(error, "result.error", "message", &result->error_message, err);
                if (r == 0)
                        r = copy_member(error, "result.error", "traceback", &result->traceback, err);
        }
        return r < 0 ? r : sbx_guest_take_names(run->guest, run->answer, err);
}

/* What the worker said, against what the host knows. */
static int tell_answer(struct sbx_guest_run *run, struct sbx_error *err) {
        struct sbx_result *result = run->result;
        const char *end = NULL;
        int r = copy_answer(run, err);

        if (r < 0)
                return r;
        if (sbx_json_get_string(run->answer, "result", "end", SBX_JSON_REQUIRED, &end, err) < 0)
                return -EPROTO;
        if (run->exchange.stop != SBX_STOP_NONE) {
                /* The KeyboardInterrupt is ours; its traceback says where the code was. */
                r = sbx_result_set(&result->error_type, (struct sbx_bytes){0});
                return r < 0 ? r : tell_stop(run, false);
        }
        if (strcmp(end, "ok") == 0) {
                result->end = SBX_END_OK;
                return 0;
        }
        if (strcmp(end, "memory") == 0)
                result->end = SBX_END_MEMORY;
        else if (strcmp(end, "error") == 0 || strcmp(end, "interrupted") == 0)
                result->end = SBX_END_ERROR; /* interrupted, but not by us: the code signalled itself */
        else
                return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL, "result.end is \"%.32s\"", end);
        if (result->error_type == NULL && result->end == SBX_END_ERROR)
                return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL, "result.error is missing");
        if (result->error_message != NULL && result->error_message[0] != '\0')
                return 0;
        if (result->end == SBX_END_MEMORY)
                return set_message(run, "the memory limit was reached; variables that were set before are kept");
        return set_message(run, "%s", result->error_type);
}

static int finish(struct sbx_guest_run *run, struct sbx_error *err) {
        const struct sbx_guest_execution *request = run->request;
        struct sbx_result *result = run->result;
        const char *isolation = run->guest->isolation;

        result->duration_ns = sbx_clock_ns() - run->started_ns;
        result->cpu_ns = run->after.cpu_ns > run->before.cpu_ns ? run->after.cpu_ns - run->before.cpu_ns : 0;
        result->memory_peak_bytes = run->after.memory_peak_bytes;
        result->stdout_dropped_bytes = run->captures[0].dropped;
        result->stderr_dropped_bytes = run->captures[1].dropped;
        if (sbx_result_set_output(&result->stdout_text, &run->captures[0].text, run->captures[0].dropped > 0) < 0 ||
            sbx_result_set_output(&result->stderr_text, &run->captures[1].text, run->captures[1].dropped > 0) < 0 ||
            sbx_result_set(&result->isolation, (struct sbx_bytes){isolation, strlen(isolation)}) < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        if (request->session_id != NULL &&
            sbx_result_set(&result->session_id, (struct sbx_bytes){request->session_id, strlen(request->session_id)}) <
                    0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        if (request->notice != NULL &&
            sbx_result_set(&result->notice, (struct sbx_bytes){request->notice, strlen(request->notice)}) < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        return 0;
}

/* ---- the execution ---- */

static void set_limits(struct sbx_guest_run *run, const struct sbx_call *call) {
        const struct sbx_guest_execution *request = run->request;
        struct sbx_exchange *exchange = &run->exchange;

        run->call = call;
        sbx_guest_set_deadline(run);
        exchange->cancel_fd = call != NULL ? call->cancel_fd : -1;
        exchange->cpu_limit_ns = request->cpu_limit_ns;
        exchange->cpu_start_ns = run->before.cpu_ns;
        exchange->grace_ns = request->grace_ns;
}

/* 0 and a filled-in result, or the error of a request that could not be made. */
static int perform(struct sbx_guest_run *run, struct sbx_error *err) {
        struct sbx_error why = {0};
        int r = sbx_channel_run(run->guest, &run->exchange, &why);

        if (r == -EPIPE && sbx_channel_untouched(&run->exchange)) {
                sbx_guest_kill(run->guest);
                return sbx_error_set(err, -ESRCH, SBX_GUEST_ORIGIN, NULL, "the guest is dead");
        }
        if (r == 0) {
                sbx_guest_usage(run->guest, &run->after);
                r = tell_answer(run, &why);
                if (r == 0)
                        return 0;
        }
        if (r != -EPIPE && r != -EPROTO && r != -ETIMEDOUT) {
                sbx_guest_kill(run->guest);
                return sbx_error_set(err, r, SBX_GUEST_ORIGIN, why.hint, "%s", why.message);
        }
        return tell_death(run, r, &why) < 0 ? SBX_NOMEM(err, SBX_GUEST_ORIGIN) : 0;
}

int sbx_guest_execute(struct sbx_guest_process *guest, const struct sbx_guest_execution *execution,
                      const struct sbx_call *call, struct sbx_result **ret_result, struct sbx_error *err) {
        __attribute__((cleanup(cleanup_execution))) struct sbx_guest_run run = {
                .guest = guest,
                .request = execution,
                .head = SBX_BUFFER(SBX_EXECUTION_HEAD_MAX),
                .captures = {{.text = SBX_BUFFER(execution->output_max_bytes)},
                             {.text = SBX_BUFFER(execution->output_max_bytes)}},
                .exchange = {.blob = execution->code,
                             .reply = SBX_BUFFER(SBX_EXECUTION_REPLY_MAX),
                             .frame_max = FRAME_MAX,
                             .events = execution->events,
                             .take = take_frame},
        };
        int r;

        if (guest->dead)
                return sbx_error_set(err, -ESRCH, SBX_GUEST_ORIGIN, NULL, "the guest is dead");
        if (sbx_result_new(&run.result) < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        r = encode_request(&run, err);
        if (r < 0)
                return r;
        run.exchange.head = sbx_buffer_bytes(&run.head);
        run.exchange.captures = run.captures;
        run.exchange.data = &run;
        run.started_ns = sbx_clock_ns();
        sbx_guest_usage(guest, &run.before);
        set_limits(&run, call);
        r = perform(&run, err);
        if (r == 0)
                r = finish(&run, err);
        if (r == 0)
                *ret_result = steal_pointer(run.result);
        return r;
}
