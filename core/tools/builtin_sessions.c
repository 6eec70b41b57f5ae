/* SPDX-License-Identifier: Apache-2.0 */
/* list_sessions and destroy_session. */
#include "tools/builtin.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN "tools"
#define TEXT_MAX_BYTES ((size_t)16 << 20)
#define STORE_TIME_MS 2000 /* for a store to say what it has: those that run are listed without it then */

/* ---- list ---- */

static bool is_plain(const char *name) {
        return name[strcspn(name, "'\"\\")] == '\0' && strpbrk(name, "\n\r\t") == NULL;
}

/* As Python would show a list of strings; names with anything odd in them are shown as JSON. */
static int add_names(const json_t *names, struct sbx_buffer *out) {
        json_t *name;
        size_t index;
        int r = sbx_buffer_append_text(out, ", context: [");

        json_array_foreach ((json_t *)names, index, name) {
                if (r == 0 && index > 0)
                        r = sbx_buffer_append_text(out, ", ");
                if (r == 0 && is_plain(json_string_value(name)))
                        r = sbx_buffer_printf(out, "'%s'", json_string_value(name));
                else if (r == 0)
                        r = sbx_json_encode(name, out);
        }
        return r < 0 ? r : sbx_buffer_append(out, "]", 1);
}

static int add_session(const json_t *session, struct sbx_buffer *out) {
        const json_t *names = json_object_get(session, "context_keys");
        const char *isolation = json_string_value(json_object_get(session, "isolation"));
        int r = sbx_buffer_printf(out, "\n  - %s: idle %llds, age %llds",
                                  json_string_value(json_object_get(session, "id")),
                                  (long long)json_integer_value(json_object_get(session, "idle_seconds")),
                                  (long long)json_integer_value(json_object_get(session, "age_seconds")));

        if (r == 0 && json_array_size(names) > 0)
                r = add_names(names, out);
        if (r == 0)
                r = sbx_buffer_printf(out, ", environment: %s (%s)",
                                      json_string_value(json_object_get(session, "environment")),
                                      isolation != NULL ? isolation : "not started");
        if (r == 0 && json_is_true(json_object_get(session, "busy")))
                r = sbx_buffer_append_text(out, ", busy");
        return r;
}

/* "  - plots: 3 checkpoints, 12 executions, 40 KB, last used 2026-11-21T07:34:48Z, environment: local" */
static int add_stored(const json_t *session, struct sbx_buffer *out) {
        const char *server = json_string_value(json_object_get(session, "server"));
        const char *damaged = json_string_value(json_object_get(session, "damaged"));
        const char *environment = json_string_value(json_object_get(session, "environment"));
        const char *used_at = json_string_value(json_object_get(session, "used_at"));
        int r = sbx_buffer_printf(out, "\n  - %s: ", json_string_value(json_object_get(session, "id")));

        if (r == 0 && damaged != NULL)
                return sbx_buffer_printf(out, "damaged: %s", damaged);
        if (r == 0)
                r = sbx_buffer_printf(out, "%lld checkpoints, %lld executions, ",
                                      (long long)json_integer_value(json_object_get(session, "checkpoints")),
                                      (long long)json_integer_value(json_object_get(session, "executions")));
        if (r == 0)
                r = sbx_builtin_add_size((uint64_t)json_integer_value(json_object_get(session, "bytes")), out);
        if (r == 0)
                r = sbx_buffer_printf(out, ", last used %s, environment: %s", used_at != NULL ? used_at : "?",
                                      environment != NULL ? environment : "?");
        return r == 0 && server != NULL ? sbx_buffer_printf(out, ", in use by %s", server) : r;
}

/* Those of the store that do not run here; an empty list, and `problem` says why, when the store does not answer. */
static int get_stored(const struct sbx_tool_context *context, json_t **ret_list, struct sbx_error *problem) {
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        _cleanup_json_ json_t *all = NULL, *list = json_array();
        json_t *session;
        size_t index;
        int r;

        if (context->call != NULL)
                call = *context->call;
        if (call.deadline_ns == 0 || call.deadline_ns > sbx_clock_deadline_ms(STORE_TIME_MS))
                call.deadline_ns = sbx_clock_deadline_ms(STORE_TIME_MS);
        r = sbx_sessions_stored(context->data, context->principal, &call, &all, problem);
        if (r == -ENOMEM || list == NULL)
                return -ENOMEM;
        if (r == -ENOENT) /* there is no such store: none is stored, and each result says so */
                *problem = (struct sbx_error){0};
        json_array_foreach (all, index, session) {
                if (!json_is_true(json_object_get(session, "running")) && json_array_append(list, session) < 0)
                        return -ENOMEM;
        }
        *ret_list = steal_pointer(list);
        return 0;
}

static int add_all_stored(const json_t *stored, const struct sbx_error *problem, struct sbx_buffer *out) {
        json_t *session;
        size_t index;
        int r = 0;

        if (problem->code != 0)
                return sbx_buffer_printf(out, "\n\nStored sessions can't be listed: %s", problem->message);
        if (json_array_size(stored) > 0)
                r = sbx_buffer_printf(out, "\n\nStored sessions (%zu), which go on when they are used:\n",
                                      json_array_size(stored));
        json_array_foreach ((json_t *)stored, index, session) {
                if (r == 0)
                        r = add_stored(session, out);
        }
        return r;
}

SBX_BUILTIN(sbx_builtin_list_sessions) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(TEXT_MAX_BYTES);
        _cleanup_json_ json_t *sessions = NULL, *stored = NULL;
        const char *trust_level = sbx_config_string(sbx_sessions_config(context->data), "trust_level");
        struct sbx_error problem = {0};
        json_t *session;
        size_t index;
        int r = sbx_sessions_list(context->data, context->principal, &sessions, err);

        if (r < 0)
                return r;
        r = get_stored(context, &stored, &problem);
        if (r == 0)
                r = sbx_buffer_printf(&text, "Active sessions (%zu):\nTrust level: %s\n", json_array_size(sessions),
                                      trust_level != NULL ? trust_level : "sandboxed");
        json_array_foreach (sessions, index, session) {
                if (r == 0)
                        r = add_session(session, &text);
        }
        if (r == 0)
                r = add_all_stored(stored, &problem, &text);
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, NULL, "the sessions can't be shown: %s", SBX_ERRNO_TEXT(r));
        r = sbx_builtin_text(false, text.data, ret_result, err);
        if (r == 0 && json_object_set_new(*ret_result, "structuredContent",
                                          json_pack("{s:O, s:O}", "sessions", sessions, "stored", stored)) < 0) {
                json_decref(steal_pointer(*ret_result));
                r = SBX_NOMEM(err, ORIGIN);
        }
        return r;
}

/* ---- destroy ---- */

SBX_BUILTIN(sbx_builtin_destroy_session) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(4096);
        struct sbx_error problem = {0};
        const char *id = NULL;
        int r = sbx_json_get_string(arguments, "arguments", "session_id", SBX_JSON_REQUIRED, &id, err);

        if (r < 0)
                return r;
        if (id[0] == '\0')
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "No session_id provided");
        r = sbx_sessions_destroy(context->data, context->principal, id, &problem);
        if (r < 0 && r != -ENOENT) {
                *err = problem;
                return r;
        }
        if (r == 0 && strcmp(id, SBX_SESSION_DEFAULT) == 0)
                return sbx_builtin_text(false, "Default session reset", ret_result, err);
        if (sbx_buffer_printf(&text, "Session '%.*s' %s", SBX_SESSION_ID_MAX, id, r == 0 ? "destroyed" : "not found") <
            0)
                return SBX_NOMEM(err, ORIGIN);
        return sbx_builtin_text(r < 0, text.data, ret_result, err);
}
