/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON that nobody vouches for, and writing it. */
#include "json.h"

#include <errno.h>

#include "util.h"

/* Past the closing quote of the string that begins at `p`; NULL: it has no end. */
static const char *skip_string(const char *p, const char *end) {
        for (; p < end; p++) {
                if (*p == '"')
                        return p + 1;
                if (*p == '\\')
                        p++;
        }
        return NULL;
}

/* Looks at the structure alone: "[[],[],..." would take some fifty times its size in memory once it is parsed. */
static bool has_sane_structure(struct sbx_bytes text) {
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
                        if (++depth > LLM_JSON_DEPTH_MAX)
                                return false;
                        break;
                case ']':
                case '}':
                        if (depth-- == 0)
                                return false;
                        break;
                case ',':
                        values++;
                        break;
                default:
                        break;
                }
                if (values > LLM_JSON_VALUES_MAX)
                        return false;
        }
        return true;
}

static int hex_value(const char *digits) {
        int value = 0;

        for (int i = 0; i < 4; i++) {
                char c = digits[i];

                if (c >= '0' && c <= '9')
                        value = value * 16 + (c - '0');
                else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
                        value = value * 16 + ((c | 0x20) - 'a' + 10);
                else
                        return -1;
        }
        return value;
}

/* The unit of a \uXXXX escape at `p`; -1: none is there. */
static int escaped_unit(const char *p, const char *end) {
        return end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? hex_value(p + 2) : -1;
}

/* A stream that is cut into pieces by UTF-16 units leaves halves of surrogate pairs behind. */
static void repair_escapes(struct llm_text *out, const char *p, size_t size) {
        const char *end = p + size, *run = p;

        while (p < end) {
                int unit;

                if (*p != '\\' || end - p < 2) {
                        p++;
                        continue;
                }
                unit = escaped_unit(p, end);
                if (unit < 0xD800 || unit > 0xDFFF) {
                        p += 2;
                        continue;
                }
                if (unit < 0xDC00) {
                        int low = escaped_unit(p + 6, end);

                        if (low >= 0xDC00 && low <= 0xDFFF) {
                                p += 12;
                                continue;
                        }
                }
                llm_text_append(out, run, (size_t)(p - run));
                llm_text_literal(out, "\\ufffd");
                run = p += 6;
        }
        llm_text_append(out, run, (size_t)(end - run));
}

/* -EBADMSG, or -ENOMEM, which jansson tells with a code, and sometimes with nothing at all. */
static int load(struct sbx_bytes text, json_t **ret_value) {
        json_error_t fault;

        memset(&fault, 0, sizeof(fault));
        *ret_value = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
        if (*ret_value != NULL)
                return 0;
        return fault.text[0] == '\0' || json_error_code(&fault) == json_error_out_of_memory ? -ENOMEM : -EBADMSG;
}

static int parse_repaired(struct sbx_bytes text, json_t **ret_value) {
        _cleanup_text_ struct llm_text valid = LLM_TEXT(text.size * 3), whole = LLM_TEXT(text.size * 3);

        if (llm_text_repaired(&valid, text.data, text.size) < 0)
                return -ENOMEM;
        repair_escapes(&whole, valid.data, valid.size);
        return whole.error != 0 ? -ENOMEM : load(llm_text_bytes(&whole), ret_value);
}

int llm_json_parse(struct sbx_bytes text, json_t **ret_object, bool *ret_repaired) {
        _cleanup_json_ json_t *value = NULL;
        bool repaired = false;
        int r;

        if (text.size == 0 || !has_sane_structure(text))
                return -EBADMSG;
        r = load(text, &value);
        if (r == -EBADMSG) {
                r = parse_repaired(text, &value);
                repaired = true;
        }
        if (r < 0)
                return r;
        if (!json_is_object(value))
                return -EBADMSG;
        *ret_object = steal_pointer(value);
        if (ret_repaired != NULL)
                *ret_repaired = repaired;
        return 0;
}

const char *llm_json_string(const json_t *object, const char *key) {
        const json_t *value = json_object_get(object, key);
        const char *text = json_string_value(value);

        return text != NULL && strlen(text) == json_string_length(value) ? text : NULL;
}

bool llm_json_count(const json_t *object, const char *key, int64_t *ret) {
        const json_t *value = json_object_get(object, key);
        double real;

        if (json_is_integer(value)) {
                if (json_integer_value(value) < 0 || json_integer_value(value) > INT64_C(1000000000000))
                        return false;
                *ret = json_integer_value(value);
                return true;
        }
        if (!json_is_real(value))
                return false;
        real = json_real_value(value);
        if (!(real >= 0 && real <= 1e12))
                return false;
        *ret = (int64_t)real;
        return true;
}

static int append(const char *data, size_t size, void *text) {
        return llm_text_append(text, data, size) < 0 ? -1 : 0;
}

int llm_json_encode(const json_t *value, struct llm_text *text) {
        if (value == NULL || json_dump_callback(value, append, text, JSON_COMPACT | JSON_ENCODE_ANY) < 0)
                if (text->error == 0)
                        text->error = -ENOMEM;
        return text->error;
}
