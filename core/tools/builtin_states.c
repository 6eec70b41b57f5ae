/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_session, list_checkpoints, rollback_session, fork_session: the tree of a session's states. The facts are
 * structured content; the text says the same in words, for those who show only that. */
#include "tools/builtin.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "tools/content.h"

#define ORIGIN "tools"
#define TEXT_MAX_BYTES ((size_t)16 << 20)
#define LEFT_OUT_SHOWN 20u /* names of what was not saved, in a text */
#define NAME_SHOWN 80u     /* bytes of a name, a type, a reason, all of which a guest may have chosen */

/* ---- texts ---- */

static const char *text_in(const json_t *object, const char *member) {
        const char *text = json_string_value(json_object_get(object, member));

        return text != NULL ? text : "";
}

/* One line's worth of what a guest said. */
static int add_shown(struct sbx_buffer *out, const char *text) {
        struct sbx_bytes line = {text, strcspn(text, "\r\n")};

        line.size = line.size > NAME_SHOWN ? sbx_utf8_cut(line, NAME_SHOWN) : line.size;
        return sbx_buffer_append(out, line.data, line.size);
}

int sbx_builtin_add_left_out(const json_t *list, const char *only, struct sbx_buffer *out) {
        size_t index, shown = 0, more = 0;
        json_t *item;
        int r = 0;

        json_array_foreach ((json_t *)list, index, item) {
                if (only != NULL && !json_is_true(json_object_get(item, only)))
                        continue;
                if (shown == LEFT_OUT_SHOWN) {
                        more++;
                        continue;
                }
                if (r == 0 && shown++ > 0)
                        r = sbx_buffer_append_text(out, ", ");
                if (r == 0)
                        r = add_shown(out, text_in(item, "name"));
                if (r == 0)
                        r = sbx_buffer_append_text(out, " (");
                if (r == 0)
                        r = add_shown(out, text_in(item, "type"));
                if (r == 0 && text_in(item, "reason")[0] != '\0')
                        r = sbx_buffer_append_text(out, ": ");
                if (r == 0)
                        r = add_shown(out, text_in(item, "reason"));
                if (r == 0)
                        r = sbx_buffer_append_text(out, ")");
        }
        return r == 0 && more > 0 ? sbx_buffer_printf(out, ", and %zu more", more) : r;
}

int sbx_builtin_add_size(uint64_t bytes, struct sbx_buffer *out) {
        static const char *const units[] = {"KB", "MB", "GB"};
        double amount = (double)bytes / 1024;
        size_t unit = 0;

        if (bytes < 1024)
                return sbx_buffer_printf(out, "%u bytes", (unsigned)bytes);
        for (; amount >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
                amount /= 1024;
        return sbx_buffer_printf(out, amount < 10 ? "%.1f %s" : "%.0f %s", amount, units[unit]);
}

/* "c7 'before cleaning'" */
static int add_name(const json_t *checkpoint, struct sbx_buffer *out) {
        const char *label = json_string_value(json_object_get(checkpoint, "label"));
        int r = sbx_buffer_append_text(out, text_in(checkpoint, "id"));

        return r == 0 && label != NULL ? sbx_buffer_printf(out, " '%s'", label) : r;
}

/* "byte-exact, 12 KB, 1.5 ms", as far as it is told */
static int add_cost(const json_t *answer, struct sbx_buffer *out) {
        const json_t *bytes = json_object_get(answer, "bytes"), *took = json_object_get(answer, "took_ms");
        int r = sbx_buffer_append_text(out, text_in(answer, "mechanism"));

        if (r == 0 && json_is_integer(bytes)) {
                r = sbx_buffer_append_text(out, ", ");
                if (r == 0)
                        r = sbx_builtin_add_size((uint64_t)json_integer_value(bytes), out);
        }
        return r == 0 && json_is_number(took) ? sbx_buffer_printf(out, ", %.1f ms", json_number_value(took)) : r;
}

/* "c7 'before cleaning' (byte-exact, 12 KB)" */
static int add_described(const json_t *checkpoint, struct sbx_buffer *out) {
        int r = add_name(checkpoint, out);

        if (r == 0)
                r = sbx_buffer_append_text(out, " (");
        if (r == 0)
                r = add_cost(checkpoint, out);
        return r == 0 ? sbx_buffer_append_text(out, ")") : r;
}

static int add_list(const json_t *answer, const char *member, const char *begin, struct sbx_buffer *out) {
        const json_t *list = json_object_get(answer, member);
        int r;

        if (json_array_size(list) == 0)
                return 0;
        r = sbx_buffer_printf(out, "\n%s: ", begin);
        return r < 0 ? r : sbx_builtin_add_left_out(list, NULL, out);
}

/* ---- results ---- */

/* Takes `answer`, whatever becomes of it. */
static int finish(int r, struct sbx_buffer *text, json_t *answer, json_t **ret_result, struct sbx_error *err) {
        _cleanup_json_ json_t *facts = answer, *result = NULL;

        if (r == 0)
                result = sbx_content_text(false, text->data);
        if (result == NULL || facts == NULL || json_object_set(result, "structuredContent", facts) < 0)
                return SBX_NOMEM(err, ORIGIN);
        *ret_result = steal_pointer(result);
        return 0;
}

/* The arguments that these tools have beside the session; absent or empty: NULL. */
static int get_word(json_t *arguments, const char *member, const char **ret_word, struct sbx_error *err) {
        int r = sbx_json_get_string(arguments, "arguments", member, 0, ret_word, err);

        if (r == 0 && *ret_word != NULL && (*ret_word)[0] == '\0')
                *ret_word = NULL;
        return r;
}

/* ---- the tools ---- */

SBX_BUILTIN(sbx_builtin_checkpoint_session) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(TEXT_MAX_BYTES);
        const char *id = NULL, *label = NULL;
        json_t *answer = NULL;
        int r = sbx_builtin_session_id(arguments, &id, err);

        if (r == 0)
                r = get_word(arguments, "label", &label, err);
        if (r == 0)
                r = sbx_sessions_checkpoint(context->data, context->principal, id, label, context->call, &answer, err);
        if (r < 0)
                return r;
        r = sbx_buffer_printf(&text, "Session '%s' has the checkpoint ", id);
        if (r == 0)
                r = add_described(answer, &text);
        if (r == 0)
                r = add_list(answer, "unsaved", "It does not hold", &text);
        return finish(r, &text, answer, ret_result, err);
}

/* "  - c7 'before cleaning': 2026-11-21T07:34:48Z, after 12 executions, byte-exact, 12 KB, automatic, from c6" */
static int add_checkpoint(const json_t *checkpoint, struct sbx_buffer *out) {
        const char *parent = json_string_value(json_object_get(checkpoint, "parent"));
        bool head = json_is_true(json_object_get(checkpoint, "head"));
        int r = sbx_buffer_append_text(out, head ? "\n  * " : "\n  - ");

        if (r == 0)
                r = add_name(checkpoint, out);
        if (r == 0)
                r = sbx_buffer_printf(out, ": %s, after %lld executions, ", text_in(checkpoint, "created_at"),
                                      (long long)json_integer_value(json_object_get(checkpoint, "executions")));
        if (r == 0)
                r = add_cost(checkpoint, out);
        if (r == 0 && json_is_true(json_object_get(checkpoint, "automatic")))
                r = sbx_buffer_append_text(out, ", automatic");
        return r == 0 && parent != NULL && parent[0] != '\0' ? sbx_buffer_printf(out, ", from %s", parent) : r;
}

static const char *find_head(const json_t *list) {
        json_t *checkpoint;
        size_t index;

        json_array_foreach ((json_t *)list, index, checkpoint) {
                if (json_is_true(json_object_get(checkpoint, "head")))
                        return json_string_value(json_object_get(checkpoint, "id"));
        }
        return NULL;
}

SBX_BUILTIN(sbx_builtin_list_checkpoints) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(TEXT_MAX_BYTES);
        _cleanup_json_ json_t *list = NULL;
        const char *id = NULL;
        json_t *checkpoint, *answer;
        size_t index;
        int r = sbx_builtin_session_id(arguments, &id, err);

        if (r == 0)
                r = sbx_sessions_checkpoints(context->data, context->principal, id, context->call, &list, err);
        if (r < 0)
                return r;
        if (json_array_size(list) == 0)
                r = sbx_buffer_printf(&text, "Session '%s' has no checkpoint", id);
        else
                r = sbx_buffer_printf(&text, "Checkpoints of session '%s' (%zu; it goes on from the one with a *):", id,
                                      json_array_size(list));
        json_array_foreach (list, index, checkpoint) {
                if (r == 0)
                        r = add_checkpoint(checkpoint, &text);
        }
        answer = json_pack("{s:s, s:s?, s:O}", "session_id", id, "head", find_head(list), "checkpoints", list);
        return finish(r, &text, answer, ret_result, err);
}

SBX_BUILTIN(sbx_builtin_rollback_session) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(TEXT_MAX_BYTES);
        const char *id = NULL, *checkpoint = NULL;
        json_t *answer = NULL;
        int r = sbx_builtin_session_id(arguments, &id, err);

        if (r == 0)
                r = get_word(arguments, "checkpoint", &checkpoint, err);
        if (r == 0)
                r = sbx_sessions_rollback(context->data, context->principal, id, checkpoint, context->call, &answer,
                                          err);
        if (r < 0)
                return r;
        r = sbx_buffer_printf(&text, "Session '%s' is back at checkpoint ", id);
        if (r == 0)
                r = add_described(answer, &text);
        if (r == 0)
                r = add_list(answer, "missing", "These did not come back", &text);
        return finish(r, &text, answer, ret_result, err);
}

SBX_BUILTIN(sbx_builtin_fork_session) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(TEXT_MAX_BYTES);
        const char *id = NULL, *checkpoint = NULL, *new_id = NULL;
        json_t *answer = NULL;
        int r = sbx_builtin_session_id(arguments, &id, err);

        if (r == 0)
                r = get_word(arguments, "checkpoint", &checkpoint, err);
        if (r == 0)
                r = get_word(arguments, "new_session_id", &new_id, err);
        if (r == 0)
                r = sbx_sessions_fork(context->data, context->principal, id, checkpoint, new_id, context->call, &answer,
                                      err);
        if (r < 0)
                return r;
        r = sbx_buffer_printf(&text, "Session '%s' begins as session '%s' %s%s (", text_in(answer, "session_id"), id,
                              checkpoint != NULL ? "was at checkpoint " : "is now",
                              checkpoint != NULL ? text_in(answer, "checkpoint") : "");
        if (r == 0)
                r = add_cost(answer, &text);
        if (r == 0)
                r = sbx_buffer_append_text(&text, ")");
        if (r == 0)
                r = add_list(answer, "missing", "It does not have", &text);
        return finish(r, &text, answer, ret_result, err);
}
