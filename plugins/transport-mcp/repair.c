/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 8259 lets strings hold what Unicode and many parsers do not: lone surrogates and NUL, written as escapes. */
#include "repair.h"

#include <snipara-sandbox/utf8.h>

#define ESCAPE_SIZE 6u /* \uXXXX */

/* The code unit of an escape at `data`; -1: it is none. */
static int code_unit(const char *data, size_t size) {
        int code = 0;

        if (size < ESCAPE_SIZE || data[0] != '\\' || data[1] != 'u')
                return -1;
        for (size_t i = 2; i < ESCAPE_SIZE; i++) {
                char c = data[i];

                if (c >= '0' && c <= '9')
                        code = code * 16 + (c - '0');
                else if ((c | 32) >= 'a' && (c | 32) <= 'f')
                        code = code * 16 + ((c | 32) - 'a' + 10);
                else
                        return -1;
        }
        return code;
}

static bool is_suspect(int code) {
        return code == 0 || (code >= 0xD800 && code <= 0xDFFF);
}

static bool is_utf8(struct sbx_bytes text) {
        const unsigned char *bytes = text.data;
        unsigned char high = 0;

        for (size_t i = 0; i < text.size; i++)
                high |= bytes[i];
        if (high < 0x80)
                return true;
        for (size_t i = 0; i < text.size;) {
                size_t length = sbx_utf8_length(bytes + i, text.size - i);

                if (length == 0)
                        return false;
                i += length;
        }
        return true;
}

bool mcp_json_is_clean(struct sbx_bytes json) {
        const char *at = json.data, *end = at + json.size;

        while ((at = memmem(at, (size_t)(end - at), "\\u", 2)) != NULL) {
                if (is_suspect(code_unit(at, (size_t)(end - at))))
                        return false;
                at += 2;
        }
        return is_utf8(json);
}

/* How many bytes of an escape stay as they are; 0: it is replaced, all ESCAPE_SIZE of it. */
static size_t keep_escape(const char *data, size_t size) {
        int code = code_unit(data, size), next;

        if (code < 0) /* \n and the like, \\ before all; a byte that belongs to a character is not skipped */
                return size > 1 && (unsigned char)data[1] < 0x80 ? 2 : 1;
        if (!is_suspect(code))
                return ESCAPE_SIZE;
        next = code_unit(data + ESCAPE_SIZE, size - ESCAPE_SIZE);
        return code >= 0xD800 && code <= 0xDBFF && next >= 0xDC00 && next <= 0xDFFF ? 2 * ESCAPE_SIZE : 0;
}

int mcp_json_repair(struct sbx_bytes json, struct mcp_text *text) {
        const char *data = json.data;
        size_t run = 0, i = 0; /* bytes[run..i) need no change and are appended at once */

        while (i < json.size) {
                size_t left = json.size - i;
                size_t keep = data[i] == '\\' ? keep_escape(data + i, left) : sbx_utf8_length(data + i, left);

                if (keep > 0) {
                        i += keep;
                        continue;
                }
                mcp_text_append(text, data + run, i - run);
                mcp_text_append_literal(text, SBX_UTF8_REPLACEMENT);
                i += data[i] == '\\' ? ESCAPE_SIZE : 1;
                run = i;
        }
        return mcp_text_append(text, data + run, json.size - run);
}
