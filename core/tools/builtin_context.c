/* SPDX-License-Identifier: Apache-2.0 */
/* get_repl_context, set_repl_context, clear_repl_context: the variables of a session. */
#include "tools/builtin.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/content.h"

#define ORIGIN "tools"
#define VALUE_MAX_BYTES ((size_t)16 << 20)
#define TEXT_MAX_BYTES ((size_t)32 << 20)

/* ---- get ---- */

static int add_json(const json_t *value, struct sbx_buffer *out) {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_INDENT(2));
        int r = text != NULL ? sbx_buffer_append_text(out, text) : -ENOMEM;

        free(text);
        return r;
}

static int add_variable(const char *name, const json_t *variable, struct sbx_buffer *out) {
        const json_t *value = json_object_get(variable, "json");
        const char *repr = json_string_value(json_object_get(variable, "repr"));
        int r = sbx_buffer_printf(out, "\n  %s = ", name);

        if (r < 0)
                return r;
        return value != NULL ? add_json(value, out) : sbx_buffer_append_text(out, repr != NULL ? repr : "");
}

SBX_BUILTIN(sbx_builtin_get_context) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(TEXT_MAX_BYTES);
        _cleanup_json_ json_t *variables = NULL;
        const char *id = NULL, *name;
        json_t *variable;
        int r = sbx_builtin_session_id(arguments, &id, err);

        if (r == 0)
                r = sbx_sessions_get(context->data, context->principal, id, context->call, &variables, err);
        if (r < 0)
                return r;
        if (json_object_size(variables) == 0)
                return sbx_builtin_text(false, "Context is empty", ret_result, err);
        r = sbx_buffer_append_text(&text, "Current REPL context:");
        json_object_foreach(variables, name, variable) {
                if (r == 0)
                        r = add_variable(name, variable, &text);
        }
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, NULL, "the variables can't be shown: %s", SBX_ERRNO_TEXT(r));
        return sbx_builtin_text(false, text.data, ret_result, err);
}

/* ---- set ---- */

/* JSON if it is JSON, else the text itself. */
static int parse_value(json_t *arguments, json_t **ret_value, struct sbx_error *err) {
        struct sbx_error unparsable = {0};
        struct sbx_bytes text = {0};
        int r = sbx_json_get_text(arguments, "arguments", "value", SBX_JSON_REQUIRED, &text, err);

        if (r < 0)
                return r;
        if (text.size > VALUE_MAX_BYTES)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "arguments.value: %zu bytes, at most %zu are taken",
                                     text.size, VALUE_MAX_BYTES);
        r = sbx_json_parse_any(text, VALUE_MAX_BYTES, "value", ret_value, &unparsable);
        if (r == 0)
                return 0;
        if (r != -EINVAL) {
                *err = unparsable;
                return r;
        }
        *ret_value = sbx_json_text(text);
        return *ret_value != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

SBX_BUILTIN(sbx_builtin_set_context) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(TEXT_MAX_BYTES);
        _cleanup_json_ json_t *value = NULL;
        _cleanup_free_ char *repr = NULL;
        const char *id = NULL, *key = NULL;
        int r = sbx_builtin_session_id(arguments, &id, err);

        if (r == 0)
                r = sbx_json_get_string(arguments, "arguments", "key", SBX_JSON_REQUIRED, &key, err);
        if (r == 0 && key[0] == '\0')
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "No key provided");
        if (r == 0)
                r = parse_value(arguments, &value, err);
        if (r == 0)
                r = sbx_sessions_set(context->data, context->principal, id, key, value, context->call, &repr, err);
        if (r < 0)
                return r;
        r = sbx_buffer_printf(&text, "Set context['%s'] = %s", key, repr);
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, NULL, "the variable is set but can't be shown: %s",
                                     SBX_ERRNO_TEXT(r));
        return sbx_builtin_text(false, text.data, ret_result, err);
}

/* ---- clear ---- */

SBX_BUILTIN(sbx_builtin_clear_context) {
        const char *id = NULL;
        int r = sbx_builtin_session_id(arguments, &id, err);

        if (r == 0)
                r = sbx_sessions_clear(context->data, context->principal, id, context->call, err);
        return r < 0 ? r : sbx_builtin_text(false, "REPL context cleared", ret_result, err);
}
