/* SPDX-License-Identifier: Apache-2.0 */
/* JSON in: bounded parsing, and decoding of members with the path in the error. */
#include "base/json.h"

#include "base/error.h"
#include "base/utf8.h"

#define ORIGIN "json"

/* ---- checks before parsing ---- */

/* Past the closing quote of the string whose first byte `p` is; NULL: it has no end. */
static const char *skip_string(const char *p, const char *end) {
        const char *from = p;

        for (;;) {
                const char *quote = memchr(from, '"', (size_t)(end - from));
                const char *slash = quote;

                if (quote == NULL)
                        return NULL;
                while (slash > p && slash[-1] == '\\')
                        slash--;
                if ((quote - slash) % 2 == 0)
                        return quote + 1;
                /* An escaped quote. Its backslashes are not counted again: they stand before `p` now. */
                p = from = quote + 1;
        }
}

/* Looks at the structure alone: levels of nesting, number of values. What is malformed is left to the parser, which
 * stops at the first fault and so never sees more than was counted here. */
static int check_structure(struct sbx_bytes text, const char *what, struct sbx_error *err) {
        const char *p = text.data, *end = p + text.size;
        unsigned depth = 0, values = 1;

        while (p != NULL && p < end) {
                switch (*p++) {
                case '"':
                        p = skip_string(p, end);
                        break;
                case '[':
                case '{':
                        values += 3;
                        if (++depth > SBX_JSON_DEPTH_MAX)
                                return sbx_error_set(err, -EINVAL, ORIGIN, "Send a flatter document.",
                                                     "%s: nested deeper than %d levels", what, SBX_JSON_DEPTH_MAX);
                        break;
                case ']':
                case '}':
                        if (depth-- == 0)
                                return 0;
                        break;
                case ',':
                        values++;
                        break;
                default:
                        break;
                }
                if (values > SBX_JSON_VALUES_MAX)
                        return sbx_error_set(err, -EFBIG, ORIGIN, "Send the data in parts, or as one string.",
                                             "%s: has more than %u values", what, SBX_JSON_VALUES_MAX);
        }
        return 0;
}

/* ---- parsing ---- */

static int report_parse_error(const json_error_t *fault, const char *what, struct sbx_error *err) {
        /* jansson leaves the text empty when one of its small allocations failed. */
        if (fault->text[0] == '\0' || json_error_code(fault) == json_error_out_of_memory)
                return SBX_NOMEM(err, ORIGIN);
        return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "%s: not valid JSON: %s (line %d, column %d)", what,
                             fault->text, fault->line, fault->column);
}

static int parse(struct sbx_bytes text, size_t max_bytes, const char *what, size_t flags, json_t **ret,
                 struct sbx_error *err) {
        json_error_t fault;
        json_t *value;
        int r;

        if (text.size > max_bytes)
                return sbx_error_set(err, -EFBIG, ORIGIN, NULL, "%s: %zu bytes, at most %zu are taken", what, text.size,
                                     max_bytes);
        if (text.size == 0)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "%s: empty, JSON was expected", what);
        r = check_structure(text, what, err);
        if (r < 0)
                return r;
        memset(&fault, 0, sizeof(fault));
        value = json_loadb(text.data, text.size, flags | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
        if (value == NULL)
                return report_parse_error(&fault, what, err);
        *ret = value;
        return 0;
}

int sbx_json_parse(struct sbx_bytes text, size_t max_bytes, const char *what, json_t **ret, struct sbx_error *err) {
        return parse(text, max_bytes, what, 0, ret, err);
}

int sbx_json_parse_any(struct sbx_bytes text, size_t max_bytes, const char *what, json_t **ret, struct sbx_error *err) {
        return parse(text, max_bytes, what, JSON_DECODE_ANY, ret, err);
}

json_t *sbx_json_text(struct sbx_bytes text) {
        _cleanup_buffer_ struct sbx_buffer repaired = SBX_BUFFER(SIZE_MAX - 1);

        if (sbx_utf8_valid(text))
                return json_stringn_nocheck(text.size > 0 ? text.data : "", text.size);
        if (sbx_utf8_repair(text, false, &repaired) < 0)
                return NULL;
        return json_stringn_nocheck(repaired.data, repaired.size);
}

/* ---- decoding ---- */

static const char *type_name(const json_t *value) {
        switch (json_typeof(value)) {
        case JSON_OBJECT:
                return "an object";
        case JSON_ARRAY:
                return "an array";
        case JSON_STRING:
                return "a string";
        case JSON_INTEGER:
        case JSON_REAL:
                return "a number";
        case JSON_TRUE:
        case JSON_FALSE:
                return "a boolean";
        default:
                return "null";
        }
}

/* "params" and "name" are shown as "params.name"; an empty path as "name". */
#define PATH_FORMAT "%s%s%s"
#define PATH_ARGS(path, key) (path) != NULL ? (path) : "", (path) != NULL && (path)[0] != '\0' ? "." : "", (key)

static int wrong_type(const json_t *value, const char *path, const char *key, const char *wanted,
                      struct sbx_error *err) {
        return sbx_error_set(err, -EINVAL, ORIGIN, NULL, PATH_FORMAT ": must be %s, not %s", PATH_ARGS(path, key),
                             wanted, type_name(value));
}

/* 1: *ret is the member. 0: it is absent or null, and may be. */
static int find_member(const json_t *object, const char *path, const char *key, unsigned flags, const char *wanted,
                       const json_t **ret, struct sbx_error *err) {
        const json_t *value = NULL;

        if (!json_is_object(object))
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "%s: must be an object",
                                     path != NULL && path[0] != '\0' ? path : "document");
        value = json_object_get(object, key);
        if (value != NULL && !json_is_null(value)) {
                *ret = value;
                return 1;
        }
        if ((flags & SBX_JSON_REQUIRED) == 0)
                return 0;
        return sbx_error_set(err, -EINVAL, ORIGIN, NULL, PATH_FORMAT ": missing, must be %s", PATH_ARGS(path, key),
                             wanted);
}

int sbx_json_get_text(const json_t *object, const char *path, const char *key, unsigned flags, struct sbx_bytes *ret,
                      struct sbx_error *err) {
        const json_t *value = NULL;
        int r = find_member(object, path, key, flags, "a string", &value, err);

        if (r <= 0)
                return r;
        if (!json_is_string(value))
                return wrong_type(value, path, key, "a string", err);
        *ret = (struct sbx_bytes){json_string_value(value), json_string_length(value)};
        return 0;
}

int sbx_json_get_string(const json_t *object, const char *path, const char *key, unsigned flags, const char **ret,
                        struct sbx_error *err) {
        struct sbx_bytes text = {NULL, 0};
        int r = sbx_json_get_text(object, path, key, flags, &text, err);

        if (r < 0 || text.data == NULL)
                return r;
        if (memchr(text.data, '\0', text.size) != NULL)
                return sbx_error_set(err, -EINVAL, ORIGIN, "Leave out \\u0000.",
                                     PATH_FORMAT ": must not have a NUL character in it", PATH_ARGS(path, key));
        *ret = text.data;
        return 0;
}

/* An integer, or a real without a fraction ("30.0": what some clients make of every number). */
static bool whole_number(const json_t *value, int64_t *ret) {
        double real;

        if (json_is_integer(value)) {
                *ret = json_integer_value(value);
                return true;
        }
        if (!json_is_real(value))
                return false;
        real = json_real_value(value);
        /* 2^53: beyond it a double no longer tells neighbours apart. */
        if (!(real >= -9007199254740992.0 && real <= 9007199254740992.0))
                return false;
        *ret = (int64_t)real;
        return (double)*ret == real;
}

int sbx_json_get_int(const json_t *object, const char *path, const char *key, unsigned flags, int64_t minimum,
                     int64_t maximum, int64_t *ret, struct sbx_error *err) {
        const json_t *value = NULL;
        int64_t number;
        int r = find_member(object, path, key, flags, "an integer", &value, err);

        if (r <= 0)
                return r;
        if (!whole_number(value, &number)) {
                if (json_is_real(value))
                        return sbx_error_set(err, -EINVAL, ORIGIN, NULL, PATH_FORMAT ": must be an integer, not %g",
                                             PATH_ARGS(path, key), json_real_value(value));
                return wrong_type(value, path, key, "an integer", err);
        }
        if (number < minimum || number > maximum)
                return sbx_error_set(
                        err, -EINVAL, ORIGIN, NULL,
                        PATH_FORMAT ": %" JSON_INTEGER_FORMAT " is out of range, must be %" JSON_INTEGER_FORMAT
                                    " to %" JSON_INTEGER_FORMAT,
                        PATH_ARGS(path, key), (json_int_t)number, (json_int_t)minimum, (json_int_t)maximum);
        *ret = number;
        return 0;
}

int sbx_json_get_bool(const json_t *object, const char *path, const char *key, unsigned flags, bool *ret,
                      struct sbx_error *err) {
        const json_t *value = NULL;
        int r = find_member(object, path, key, flags, "true or false", &value, err);

        if (r <= 0)
                return r;
        if (!json_is_boolean(value))
                return wrong_type(value, path, key, "true or false", err);
        *ret = json_is_true(value);
        return 0;
}
