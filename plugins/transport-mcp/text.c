/* SPDX-License-Identifier: Apache-2.0 */
/* Growing JSON text: numbers and strings that are valid whatever they are made of. */
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>

#include <snipara-sandbox/utf8.h>

void mcp_text_free(struct mcp_text *text) {
        free(text->data);
        *text = (struct mcp_text)MCP_TEXT(text->max);
}

int mcp_text_reserve(struct mcp_text *text, size_t more) {
        size_t needed, capacity;
        char *data;

        if (text->error != 0)
                return text->error;
        if (more > text->max - text->size)
                return text->error = -EFBIG;
        needed = text->size + more;
        if (needed <= text->capacity)
                return 0;
        capacity = text->capacity > 0 ? text->capacity : 256;
        while (capacity < needed)
                capacity = capacity > text->max / 2 ? text->max : capacity * 2;
        data = realloc(text->data, capacity);
        if (data == NULL)
                return text->error = -ENOMEM;
        text->data = data;
        text->capacity = capacity;
        return 0;
}

int mcp_text_append(struct mcp_text *text, const void *data, size_t size) {
        if (mcp_text_reserve(text, size) < 0)
                return text->error;
        if (size > 0)
                memcpy(text->data + text->size, data, size);
        text->size += size;
        return 0;
}

int mcp_text_append_literal(struct mcp_text *text, const char *literal) {
        return mcp_text_append(text, literal, strlen(literal));
}

int mcp_text_append_int(struct mcp_text *text, int64_t value) {
        char digits[24];
        int size = snprintf(digits, sizeof(digits), "%" PRId64, value);

        return mcp_text_append(text, digits, (size_t)size);
}

int mcp_text_append_number(struct mcp_text *text, double value) {
        char digits[40];
        int size = 0;

        if (value >= -9007199254740992.0 && value <= 9007199254740992.0 && value == (double)(int64_t)value)
                return mcp_text_append_int(text, (int64_t)value);
        for (int precision = 6; precision <= 17; precision++) {
                size = snprintf(digits, sizeof(digits), "%.*g", precision, value);
                if (strtod(digits, NULL) == value)
                        break;
        }
        for (int i = 0; i < size; i++)
                if (digits[i] == ',') /* the decimal separator of some locales */
                        digits[i] = '.';
        return mcp_text_append(text, digits, (size_t)size);
}

static void append_escape(struct mcp_text *text, unsigned char character) {
        char escape[8];
        int size;

        switch (character) {
        case '"':
                mcp_text_append(text, "\\\"", 2);
                return;
        case '\\':
                mcp_text_append(text, "\\\\", 2);
                return;
        case '\n':
                mcp_text_append(text, "\\n", 2);
                return;
        default:
                size = snprintf(escape, sizeof(escape), "\\u%04x", character);
                mcp_text_append(text, escape, (size_t)size);
        }
}

int mcp_text_append_string(struct mcp_text *text, const void *data, size_t size) {
        const unsigned char *bytes = data;
        size_t run = 0, i = 0; /* bytes[run..i) need no change and are appended at once */

        mcp_text_append(text, "\"", 1);
        while (i < size) {
                size_t length = sbx_utf8_length(bytes + i, size - i);

                if (length > 0 && bytes[i] >= 0x20 && bytes[i] != '"' && bytes[i] != '\\') {
                        i += length;
                        continue;
                }
                mcp_text_append(text, bytes + run, i - run);
                if (length == 0)
                        mcp_text_append(text, SBX_UTF8_REPLACEMENT, 3);
                else
                        append_escape(text, bytes[i]);
                run = ++i;
        }
        if (size > run)
                mcp_text_append(text, bytes + run, size - run);
        return mcp_text_append(text, "\"", 1);
}
