/* SPDX-License-Identifier: Apache-2.0 */
/* Lexical looks at JSON text: brackets and strings only, never out of bounds whatever the bytes are. */
#include "scan.h"

/* Index just behind the string whose opening quote is at `i`; `size` when it does not end. */
static size_t skip_string(const char *data, size_t size, size_t i) {
        for (i++; i < size; i++) {
                if (data[i] == '\\')
                        i++;
                else if (data[i] == '"')
                        return i + 1;
        }
        return size;
}

static size_t skip_space(const char *data, size_t size, size_t i) {
        while (i < size && (data[i] == ' ' || data[i] == '\t' || data[i] == '\n' || data[i] == '\r'))
                i++;
        return i;
}

size_t mcp_scan_depth(struct sbx_bytes text, size_t limit) {
        const char *data = text.data;
        size_t depth = 0, deepest = 0, i = 0;

        while (i < text.size && deepest <= limit) {
                switch (data[i]) {
                case '"':
                        i = skip_string(data, text.size, i);
                        continue;
                case '[':
                case '{':
                        if (++depth > deepest)
                                deepest = depth;
                        break;
                case ']':
                case '}':
                        if (depth > 0)
                                depth--;
                        break;
                default:
                        break;
                }
                i++;
        }
        return deepest;
}

/* Index just behind the value at `i`: at the comma or bracket that ends it. */
static size_t skip_value(const char *data, size_t size, size_t i) {
        size_t depth = 0;

        while (i < size) {
                char c = data[i];

                if (c == '"') {
                        i = skip_string(data, size, i);
                        continue;
                }
                if (depth == 0 && (c == ',' || c == '}' || c == ']'))
                        return i;
                if (c == '[' || c == '{')
                        depth++;
                else if (c == ']' || c == '}')
                        depth--;
                i++;
        }
        return size;
}

bool mcp_scan_id(struct sbx_bytes text, struct sbx_bytes *ret) {
        const char *data = text.data;
        struct sbx_bytes found = {NULL, 0};
        size_t i = skip_space(data, text.size, 0);

        if (i >= text.size || data[i] != '{')
                return false;
        i = skip_space(data, text.size, i + 1);
        while (i < text.size && data[i] == '"') {
                size_t key = i, value, end;

                i = skip_string(data, text.size, i);
                end = i;
                i = skip_space(data, text.size, i);
                if (i >= text.size || data[i] != ':')
                        return false;
                value = skip_space(data, text.size, i + 1);
                i = skip_value(data, text.size, value);
                if (end - key == 4 && memcmp(data + key, "\"id\"", 4) == 0) {
                        if (found.data != NULL)
                                return false;
                        found = (struct sbx_bytes){data + value, i - value};
                }
                if (i >= text.size || data[i] != ',')
                        break;
                i = skip_space(data, text.size, i + 1);
        }
        if (found.data == NULL || i >= text.size || data[i] != '}')
                return false;
        *ret = found;
        return true;
}
