/* SPDX-License-Identifier: Apache-2.0 */
/* The result of an execution as a tool result: text for a model, images, and facts for programs. */
#include "tools/render.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/builtin.h"
#include "tools/content.h"

#define ORIGIN "tools"
#define CHECKPOINT_MAX ((size_t)1 << 20) /* bytes of its JSON, which the session made */
#define UNBOUNDED (SIZE_MAX / 2)

/* ---- text ---- */

/* Adds on a line of its own. */
static int add_line(struct sbx_buffer *out, const char *prefix, struct sbx_bytes text) {
        int r = 0;

        if (out->size > 0 && out->data[out->size - 1] != '\n')
                r = sbx_buffer_append(out, "\n", 1);
        if (r == 0)
                r = sbx_buffer_append_text(out, prefix);
        return r < 0 ? r : sbx_buffer_append(out, text.data, text.size);
}

static struct sbx_bytes text_bytes(const char *text) {
        return (struct sbx_bytes){text, strlen(text)};
}

static int add_dropped(struct sbx_buffer *out, const char *stream, uint64_t dropped) {
        int r = dropped > 0 ? add_line(out, "", (struct sbx_bytes){NULL, 0}) : 0;

        if (r < 0 || dropped == 0)
                return r;
        return sbx_buffer_printf(out, "[%llu more bytes of %s are lost: the limit of max_output_bytes was reached]\n",
                                 (unsigned long long)dropped, stream);
}

static int add_output(const struct sbx_result *result, struct sbx_buffer *out) {
        int r = sbx_buffer_append(out, result->stdout_text.data, result->stdout_text.size);

        if (r == 0)
                r = add_dropped(out, "stdout", result->stdout_dropped_bytes);
        if (r == 0 && result->stderr_text.size > 0)
                r = add_line(out, "", result->stderr_text);
        return r < 0 ? r : add_dropped(out, "stderr", result->stderr_dropped_bytes);
}

static const char *end_title(enum sbx_end end) {
        switch (end) {
        case SBX_END_TIMEOUT:
                return "Timeout";
        case SBX_END_MEMORY:
                return "Out of memory";
        case SBX_END_CANCELLED:
                return "Cancelled";
        case SBX_END_KILLED:
                return "Killed";
        default:
                return "Lost";
        }
}

/* What became of the session, as far as the message has not told it already. */
static const char *state_sentence(enum sbx_state state, const char *message) {
        bool told = strstr(message, "variables are") != NULL;

        switch (state) {
        case SBX_STATE_KEPT:
                return told ? "" : "The session's variables are kept.\n";
        case SBX_STATE_ROLLED_BACK:
                return "The session's variables are back at their last checkpoint.\n";
        default:
                return told ? "The next call starts a clean session.\n"
                            : "The session's variables are lost; the next call starts a clean session.\n";
        }
}

/* "Error: ValueError: no" and its traceback, or "Error: Timeout: ..." and what became of the session. */
static int add_failure(const struct sbx_result *result, bool fresh, struct sbx_buffer *out) {
        const char *title = result->end == SBX_END_ERROR ? result->error_type : end_title(result->end);
        const char *message = result->error_message != NULL ? result->error_message : "";
        int r = sbx_buffer_printf(out, "Error: %s%s%s\n", title != NULL ? title : "",
                                  title != NULL && message[0] != '\0' ? ": " : "", message);

        if (r == 0 && !fresh && (result->end != SBX_END_ERROR || result->state != SBX_STATE_KEPT))
                r = sbx_buffer_append_text(out, state_sentence(result->state, message));
        if (r == 0 && result->traceback != NULL && result->traceback[0] != '\0')
                r = sbx_buffer_printf(out, "\n%s", result->traceback);
        if (r == 0 && result->stdout_text.size + result->stderr_text.size > 0)
                r = add_line(out, "\nOutput before the end:\n", (struct sbx_bytes){NULL, 0});
        return r < 0 ? r : add_output(result, out);
}

static int add_values(const struct sbx_result *result, struct sbx_buffer *out) {
        int r = 0;

        if (result->value != NULL)
                r = add_line(out, "", text_bytes(result->value));
        if (r == 0 && result->result != NULL)
                r = add_line(out, "result = ", text_bytes(result->result));
        return r;
}

/* A program's output as a terminal would show it: the traceback, or why it was ended, comes last. */
static int add_script(const struct sbx_result *result, struct sbx_buffer *out) {
        const char *title = result->end == SBX_END_ERROR ? result->error_type : end_title(result->end);
        int r = add_output(result, out);

        if (r < 0 || result->end == SBX_END_OK)
                return r;
        if (result->end == SBX_END_ERROR && result->traceback != NULL)
                return add_line(out, "", text_bytes(result->traceback));
        r = add_line(out, "Error: ", text_bytes(title != NULL ? title : ""));
        return r < 0 ? r : sbx_buffer_printf(out, ": %s\n", result->error_message != NULL ? result->error_message : "");
}

static int add_success(const struct sbx_result *result, struct sbx_buffer *out) {
        int r = add_output(result, out);

        return r < 0 ? r : add_values(result, out);
}

static int build_text(const struct sbx_result *result, bool fresh, bool script, struct sbx_buffer *out) {
        size_t before;
        int r = 0;

        if (result->notice != NULL)
                r = sbx_buffer_printf(out, "[%s]\n", result->notice);
        if (r < 0)
                return r;
        before = out->size;
        if (script)
                r = add_script(result, out);
        else
                r = result->end == SBX_END_OK ? add_success(result, out) : add_failure(result, fresh, out);
        if (r == 0 && out->size == before && result->display_count == 0) /* some models refuse an empty text */
                r = sbx_buffer_append_text(out, "(no output)");
        return r;
}

/* ---- the whole ---- */

static json_t *make_facts(const struct sbx_result *result, json_t *checkpoint) {
        return json_pack("{s:{s:s, s:s, s:f, s:f, s:I, s:s, s:s?, s:I, s:s?, s:s?, s:O?}}", "snipara-sandbox/execution",
                         "end", sbx_end_name(result->end), "state", sbx_state_name(result->state), "duration_ms",
                         (double)(result->duration_ns / 1000) / 1000, "cpu_ms", (double)(result->cpu_ns / 1000) / 1000,
                         "memory_peak_bytes", (json_int_t)result->memory_peak_bytes, "session_id",
                         result->session_id != NULL ? result->session_id : "", "isolation", result->isolation,
                         "dropped_bytes", (json_int_t)(result->stdout_dropped_bytes + result->stderr_dropped_bytes),
                         "notice", result->notice, "notice_kind", result->notice_kind, "checkpoint", checkpoint);
}

/* NULL: there is none. */
static json_t *parse_checkpoint(const struct sbx_result *result) {
        json_t *checkpoint = NULL;

        if (result->checkpoint != NULL)
                (void)sbx_json_parse((struct sbx_bytes){result->checkpoint, strlen(result->checkpoint)}, CHECKPOINT_MAX,
                                     "checkpoint", &checkpoint, NULL);
        return checkpoint;
}

/* What the block leaves out is there whole, if the session can keep it. */
static int add_text(struct sbx_bytes text, struct sbx_keep *keep, json_t *content) {
        int r = sbx_content_add_text(content, text);

        if (r == 0 && keep != NULL && sbx_text_is_longer(text, SBX_CONTENT_TEXT_MAX))
                r = sbx_keep_add(keep, "output", "text/plain", text,
                                 "The whole output, of which the text shows a part.", content);
        return r < 0 ? r : 0;
}

/* What the session could not keep of its state, as far as earlier results have not said so: a block of its own, for
 * clients alone. What models of runs see is to be the same when a run is repeated. */
static int add_unkept(const json_t *checkpoint, json_t *content) {
        const char *reason = json_string_value(json_object_get(checkpoint, "reason"));
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(UNBOUNDED), names = SBX_BUFFER(UNBOUNDED);
        int r = sbx_builtin_add_left_out(json_object_get(checkpoint, "unsaved"), "new", &names);

        if (r == 0 && names.size > 0)
                r = sbx_buffer_printf(&text, "[If this session has to be restored, it will be without %s]", names.data);
        if (r == 0 && reason != NULL && json_is_true(json_object_get(checkpoint, "reason_new")))
                r = sbx_buffer_printf(&text, "%s[This session's state is not kept: %s]", text.size > 0 ? "\n" : "",
                                      reason);
        return r < 0 || text.size == 0 ? r : sbx_content_add_text(content, sbx_buffer_bytes(&text));
}

int sbx_render_result(const struct sbx_result *result, bool fresh, bool script, json_t **ret_result,
                      struct sbx_error *err) {
        return sbx_render_kept(result, fresh, script, NULL, ret_result, err);
}

int sbx_render_kept(const struct sbx_result *result, bool fresh, bool script, struct sbx_keep *keep,
                    json_t **ret_result, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(UNBOUNDED);
        _cleanup_json_ json_t *content = sbx_content_new(result->end != SBX_END_OK);
        _cleanup_json_ json_t *checkpoint = parse_checkpoint(result);
        int r = build_text(result, fresh, script, &text);

        if (content == NULL)
                return SBX_NOMEM(err, ORIGIN);
        if (r == 0 && text.size > 0)
                r = add_text(sbx_buffer_bytes(&text), keep, content);
        if (r == 0)
                r = sbx_render_displays(result, keep, content);
        if (r == 0 && keep != NULL)
                r = add_unkept(checkpoint, content);
        if (r == 0 && json_object_set_new(content, "_meta", make_facts(result, checkpoint)) < 0)
                r = -ENOMEM;
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, NULL, "can't make the result: %s", SBX_ERRNO_TEXT(r));
        *ret_result = steal_pointer(content);
        return 0;
}
