/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that code makes back to the host while it runs: who answers them, whose time that takes, and the reply. */
#include "guest/execution.h"

#include <inttypes.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"

#define RESULT_MAX ((size_t)16 << 20)
#define NAME_MAX_BYTES 128u

static int reply_to_tool(struct sbx_guest_run *run, int64_t call, bool ok, struct sbx_bytes value,
                         struct sbx_error *err) {
        char text[64];
        int length = snprintf(text, sizeof(text), "{\"call\":%" PRId64 ",\"ok\":%s}", call, ok ? "true" : "false");

        if (sbx_frame_encode(SBX_FRAME_TOOL_RESULT, (struct sbx_bytes){text, (size_t)length}, value,
                             &run->exchange.reply) < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        return 0;
}

/* The text of an error as a JSON string, which is what a failed tool answers with. */
static int fail_tool(struct sbx_guest_run *run, int64_t call, const char *message, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(SBX_EXECUTION_HEAD_MAX);
        _cleanup_json_ json_t *value = sbx_json_text((struct sbx_bytes){message, strlen(message)});

        if (value == NULL || sbx_json_encode(value, &text) < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        return reply_to_tool(run, call, false, sbx_buffer_bytes(&text), err);
}

void sbx_guest_set_deadline(struct sbx_guest_run *run) {
        uint64_t own_ns = run->request->deadline_ns, *deadline_ns = &run->exchange.deadline_ns;

        *deadline_ns = own_ns != 0 ? own_ns + run->answered_ns : 0;
        if (run->call != NULL && run->call->deadline_ns != 0 &&
            (*deadline_ns == 0 || run->call->deadline_ns < *deadline_ns))
                *deadline_ns = run->call->deadline_ns;
}

/* Has the host answer. What was reached meanwhile (a cancel, the caller's deadline, the CPU limit) stops the execution
 * before the guest hears of the answer: it must not end in another way because the call failed of the same cause. */
static int answer_call(struct sbx_guest_run *run, const char *name, struct sbx_bytes arguments,
                       struct sbx_buffer *value, struct sbx_error *problem) {
        const struct sbx_code_calls *calls = run->request->code_calls;
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        uint64_t begin_ns = sbx_clock_ns();
        int r;

        if (run->call != NULL)
                call = (struct sbx_call){sizeof(call), run->call->cancel_fd, run->call->deadline_ns};
        r = calls->answer(calls->data, name, arguments, &call, value, problem);
        run->answered_ns += sbx_clock_ns() - begin_ns;
        sbx_guest_set_deadline(run);
        sbx_channel_check(run->guest, &run->exchange);
        if (r == 0 && value->size == 0)
                r = sbx_error_set(problem, -ENODATA, SBX_GUEST_ORIGIN, NULL, "the call of %.64s has no result", name);
        return r;
}

static int parse_call(const struct sbx_frame *frame, int64_t *ret_call, json_t **ret_header, const char **ret_name,
                      struct sbx_error *err) {
        int r = sbx_json_parse(frame->json, SBX_EXECUTION_ANSWER_MAX, "tool_call", ret_header, err);

        if (r < 0)
                return r == -ENOMEM ? r : -EPROTO;
        if (sbx_json_get_int(*ret_header, "tool_call", "call", SBX_JSON_REQUIRED, 0, INT64_MAX, ret_call, err) < 0 ||
            sbx_json_get_string(*ret_header, "tool_call", "name", SBX_JSON_REQUIRED, ret_name, err) < 0)
                return -EPROTO;
        return 0;
}

int sbx_guest_take_call(struct sbx_guest_run *run, const struct sbx_frame *frame, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer value = SBX_BUFFER(RESULT_MAX);
        _cleanup_json_ json_t *header = NULL;
        struct sbx_error problem = {0};
        const char *name = NULL;
        int64_t call;
        int r = parse_call(frame, &call, &header, &name, err);

        if (r < 0)
                return r;
        if (run->exchange.reply.size > 0)
                return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL,
                                     "a tool call before the answer to the last one was taken");
        sbx_channel_check(run->guest, &run->exchange);
        if (run->exchange.stop != SBX_STOP_NONE)
                return fail_tool(run, call, "the execution is being stopped", err);
        if (run->request->code_calls == NULL)
                return fail_tool(run, call, "no tools can be called from this execution", err);
        if (name[0] == '\0' || strlen(name) > NAME_MAX_BYTES)
                return fail_tool(run, call, "the name of a call has 1 to 128 bytes", err);
        r = answer_call(run, name, frame->blob, &value, &problem);
        if (r == -EFBIG && problem.code == 0)
                return fail_tool(run, call, "the result of the call is larger than 16 MiB", err);
        if (r < 0)
                return fail_tool(run, call, problem.code != 0 ? problem.message : SBX_ERRNO_TEXT(r), err);
        return reply_to_tool(run, call, true, sbx_buffer_bytes(&value), err);
}
