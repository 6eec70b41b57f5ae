/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer's bytes go through before anything else looks at them. */
#include "text.h"

#include "util.h"

#include <snipara-sandbox/utf8.h>

#define DEPTH_MAX 64u
#define VALUES_MAX 200000u

char *snipara_text_repair(struct sbx_bytes bytes, size_t *ret_size) {
        const unsigned char *data = bytes.data;
        size_t bad = 0, used = 0, length;
        char *text;

        for (size_t i = 0; i<bytes.size; i += length> 0 ? length : 1) {
                length = sbx_utf8_length(data + i, bytes.size - i);
                bad += length == 0;
        }
        text = malloc(bytes.size + bad * (sizeof(SBX_UTF8_REPLACEMENT) - 1) + 1);
        if (text == NULL)
                return NULL;
        for (size_t i = 0; i<bytes.size; i += length> 0 ? length : 1) {
                length = sbx_utf8_length(data + i, bytes.size - i);
                if (length > 0) {
                        memcpy(text + used, data + i, length);
                        used += length;
                } else {
                        memcpy(text + used, SBX_UTF8_REPLACEMENT, sizeof(SBX_UTF8_REPLACEMENT) - 1);
                        used += sizeof(SBX_UTF8_REPLACEMENT) - 1;
                }
        }
        text[used] = '\0';
        *ret_size = used;
        return text;
}

size_t snipara_text_cut(const char *text, size_t size, size_t limit) {
        if (size <= limit)
                return size;
        while (limit > 0 && ((unsigned char)text[limit] & 0xC0) == 0x80)
                limit--;
        return limit;
}

void snipara_text_redact(char *text, size_t size, const char *secret) {
        size_t length = strlen(secret);
        char *found;

        while (length > 0 && (found = memmem(text, size, secret, length)) != NULL) {
                memset(found, '*', length);
                size -= (size_t)(found - text) + length;
                text = found + length;
        }
}

/* Counts brackets and commas outside of strings: a bound for what the parser would build. */
static bool is_bounded(const char *text, size_t size) {
        size_t depth = 0, values = 1;
        bool in_string = false;

        for (size_t i = 0; i < size; i++) {
                char c = text[i];

                if (in_string) {
                        if (c == '\\')
                                i++;
                        else if (c == '"')
                                in_string = false;
                } else if (c == '"') {
                        in_string = true;
                } else if (c == '[' || c == '{') {
                        values++;
                        if (++depth > DEPTH_MAX)
                                return false;
                } else if (c == ']' || c == '}') {
                        depth -= depth > 0;
                } else if (c == ',') {
                        values++;
                }
                if (values > VALUES_MAX)
                        return false;
        }
        return true;
}

int snipara_json_parse(struct sbx_bytes bytes, json_t **ret) {
        _cleanup_free_ char *text = NULL;
        json_error_t problem = {0};
        size_t size = 0;
        json_t *value;

        text = snipara_text_repair(bytes, &size);
        if (text == NULL)
                return -ENOMEM;
        if (!is_bounded(text, size))
                return -EBADMSG;
        value = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
        if (value == NULL)
                /* jansson has no words for most of its own allocations that fail. */
                return problem.text[0] == '\0' || json_error_code(&problem) == json_error_out_of_memory ? -ENOMEM
                                                                                                        : -EBADMSG;
        *ret = value;
        return 0;
}
