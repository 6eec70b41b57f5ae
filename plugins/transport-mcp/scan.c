/* SPDX-License-Identifier: Apache-2.0 */
/* Lexical looks at JSON text: brackets and strings only, never out of bounds whatever the bytes are. */
#include "scan.h"

/* Index just behind the string whose opening quote is at `i`; `size` when it does not end. Strings may be megabytes of
 * base64, so quotes are searched for, and escaped ones told by the backslashes before them. */
static size_t skip_string(const char *data, size_t size, size_t i) {
        size_t start = i + 1;

        for (i = start; i < size; i++) {
                const char *quote = memchr(data + i, '"', size - i);
                size_t slashes = 0;

                if (quote == NULL)
                        return size;
                i = (size_t)(quote - data);
                while (i - slashes > start && data[i - slashes - 1] == '\\')
                        slashes++;
                if (slashes % 2 == 0)
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

/* One member of an object: reads it at `*i`, and leaves `*i` behind its value. False: there is no member. */
static bool next_member(struct sbx_bytes text, size_t *i, struct sbx_bytes *ret_key, struct sbx_bytes *ret_value) {
        const char *data = text.data;
        size_t at = skip_space(data, text.size, *i), key = at;

        if (at >= text.size || data[at] != '"')
                return false;
        at = skip_string(data, text.size, at);
        *ret_key = (struct sbx_bytes){data + key, at - key};
        at = skip_space(data, text.size, at);
        if (at >= text.size || data[at] != ':')
                return false;
        at = skip_space(data, text.size, at + 1);
        *i = skip_value(data, text.size, at);
        *ret_value = (struct sbx_bytes){data + at, *i - at};
        return true;
}

size_t mcp_scan_members(struct sbx_bytes text, struct mcp_scan_member *members, size_t count) {
        const char *data = text.data;
        struct sbx_bytes key, value;
        size_t i = skip_space(data, text.size, 0), found = 0;

        for (size_t m = 0; m < count; m++)
                members[m].value = (struct sbx_bytes){NULL, 0};
        if (i >= text.size || data[i] != '{')
                return 0;
        do {
                i++;
                if (!next_member(text, &i, &key, &value))
                        break;
                for (size_t m = 0; m < count; m++) {
                        if (key.size != strlen(members[m].quoted) || memcmp(key.data, members[m].quoted, key.size) != 0)
                                continue;
                        members[m].value = value;
                        found++;
                }
        } while (i < text.size && data[i] == ',');
        return i < text.size && data[i] == '}' ? found : SIZE_MAX;
}

bool mcp_scan_id(struct sbx_bytes text, struct sbx_bytes *ret) {
        struct mcp_scan_member id = {"\"id\"", {NULL, 0}};

        if (mcp_scan_members(text, &id, 1) != 1)
                return false;
        *ret = id.value;
        return true;
}
