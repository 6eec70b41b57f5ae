/* SPDX-License-Identifier: Apache-2.0 */
/* Headers that say of a message what its body says too, for those who route requests without reading them: a modern
 * server refuses a request in which the two differ. */
#include <stdlib.h>
#include <strings.h>

#include <snipara-sandbox/utf8.h>

#include "http_private.h"

/* ---- media types ---- */

static const char *skip_blanks(const char *at, const char *end) {
        while (at < end && (*at == ' ' || *at == '\t'))
                at++;
        return at;
}

static size_t trim(const char *begin, const char *end) {
        while (end > begin && (end[-1] == ' ' || end[-1] == '\t'))
                end--;
        return (size_t)(end - begin);
}

static bool is(const char *text, size_t size, const char *word) {
        return size == strlen(word) && strncasecmp(text, word, size) == 0;
}

/* The parameter `q` of one range of Accept is 0. */
static bool is_refused(const char *at, const char *end) {
        while ((at = memchr(at, ';', (size_t)(end - at))) != NULL) {
                at = skip_blanks(at + 1, end);
                if (end - at < 3 || strncasecmp(at, "q=0", 3) != 0)
                        continue;
                for (at += 3; at < end && (*at == '.' || *at == '0'); at++)
                        ;
                return at == end || *at == ';' || *at == ' ' || *at == '\t';
        }
        return false;
}

/* How closely a media range names `type`: 3 exactly, 2 its group, 1 anything, 0 not at all. */
static unsigned closeness(const char *range, size_t size, const char *type) {
        size_t group = (size_t)(strchr(type, '/') - type) + 1;

        if (is(range, size, type))
                return 3;
        if (size == group + 1 && range[group] == '*' && strncasecmp(range, type, group) == 0)
                return 2;
        return is(range, size, "*/*") ? 1 : 0;
}

bool http_accepts(const char *accept, const char *type) {
        const char *at = accept, *end, *parameters;
        unsigned closest = 0;
        bool taken = false;

        if (accept == NULL)
                return true;
        while (*at != '\0') {
                unsigned close;

                end = at + strcspn(at, ",");
                at = skip_blanks(at, end);
                parameters = memchr(at, ';', (size_t)(end - at));
                if (parameters == NULL)
                        parameters = end;
                close = closeness(at, trim(at, parameters), type);
                if (close > closest) {
                        closest = close;
                        taken = !is_refused(parameters, end);
                }
                at = *end == ',' ? end + 1 : end;
        }
        return taken;
}

bool http_is_json(const char *content_type) {
        const char *end, *parameters, *charset;

        if (content_type == NULL)
                return false;
        end = content_type + strlen(content_type);
        parameters = memchr(content_type, ';', (size_t)(end - content_type));
        if (parameters == NULL)
                parameters = end;
        if (!is(content_type, trim(content_type, parameters), "application/json"))
                return false;
        charset = strcasestr(parameters, "charset=");
        if (charset == NULL)
                return true;
        charset += strlen("charset=");
        charset += *charset == '"';
        return strncasecmp(charset, "utf-8", 5) == 0 || strncasecmp(charset, "utf8", 4) == 0;
}

/* ---- values ---- */

static int base64_digit(char c) {
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Only what an encoder would have made: padded, no other character, no bits beyond the last byte. */
static bool base64_decode(const char *text, size_t size, char *to, size_t *ret_size) {
        size_t out = 0, padding = 0;

        if (size % 4 != 0)
                return false;
        while (padding < 2 && size > padding && text[size - 1 - padding] == '=')
                padding++;
        for (size_t i = 0; i < size; i += 4) {
                size_t digits = i + 4 == size ? 4 - padding : 4;
                uint32_t group = 0;

                for (size_t j = 0; j < 4; j++) {
                        int digit = j < digits ? base64_digit(text[i + j]) : 0;

                        if (digit < 0)
                                return false;
                        group = group << 6 | (uint32_t)digit;
                }
                if (digits < 4 && (group & (digits == 2 ? 0xFFFFu : 0xFFu)) != 0)
                        return false;
                for (size_t j = 0; j < digits - 1; j++)
                        to[out++] = (char)(group >> (16 - 8 * j));
        }
        *ret_size = out;
        return true;
}

static bool is_utf8(const char *text, size_t size) {
        size_t length;

        for (size_t at = 0; at < size; at += length) {
                length = sbx_utf8_length(text + at, size - at);
                if (length == 0)
                        return false;
        }
        return true;
}

bool http_header_decode(const char *value, char **ret_text, size_t *ret_size) {
        static const char before[] = "=?base64?", after[] = "?=";
        size_t size = strlen(value), around = sizeof(before) - 1 + sizeof(after) - 1;
        char *text = malloc(size + 1);
        bool encoded;

        if (text == NULL)
                return false;
        encoded = size >= around && strncmp(value, before, sizeof(before) - 1) == 0 &&
                  strcmp(value + size - (sizeof(after) - 1), after) == 0;
        if (encoded &&
            (!base64_decode(value + sizeof(before) - 1, size - around, text, &size) || !is_utf8(text, size))) {
                free(text);
                return false;
        }
        if (!encoded)
                memcpy(text, value, size);
        text[size] = '\0';
        *ret_text = text;
        *ret_size = size;
        return true;
}

/* ---- what a message and its headers say ---- */

static int mismatch(struct mcp_fault *fault, const char *header, const char *what) {
        fault->code = MCP_HEADER_MISMATCH;
        snprintf(fault->message, sizeof(fault->message), "%s: %s", header, what);
        return -EINVAL;
}

static const json_t *claimed_version(const struct mcp_message *message) {
        return json_object_get(json_object_get(message->params, "_meta"), MCP_META_VERSION);
}

/* The parameter that Mcp-Name repeats. NULL: none for this method. */
static const char *name_parameter(const char *method) {
        static const char *const table[][2] = {
                {"tools/call", "name"},  {"prompts/get", "name"},    {"resources/read", "uri"},
                {"tasks/get", "taskId"}, {"tasks/update", "taskId"}, {"tasks/cancel", "taskId"},
        };

        for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
                if (strcmp(method, table[i][0]) == 0)
                        return table[i][1];
        return NULL;
}

/* A parameter that is missing, or no string, is for the method to refuse. */
static int check_name(const struct hs_exchange *hs, const struct mcp_message *message, struct mcp_fault *fault) {
        const char *parameter = name_parameter(message->method), *header = hs_header(hs, "Mcp-Name");
        const json_t *value = parameter != NULL ? json_object_get(message->params, parameter) : NULL;
        char *text = NULL;
        size_t size = 0;
        bool same;

        if (!json_is_string(value))
                return 0;
        if (header == NULL)
                return mismatch(fault, "Mcp-Name", "the header is missing");
        if (!http_header_decode(header, &text, &size))
                return mismatch(fault, "Mcp-Name", "the value between =?base64? and ?= is not base64 of UTF-8");
        same = size == json_string_length(value) && memcmp(text, json_string_value(value), size) == 0;
        free(text);
        return same ? 0 : mismatch(fault, "Mcp-Name", "the header and the body name different things");
}

static int check_method(const struct hs_exchange *hs, const struct mcp_message *message, struct mcp_fault *fault) {
        const char *header = hs_header(hs, "Mcp-Method");

        if (header == NULL)
                return message->kind == MCP_REQUEST ? mismatch(fault, "Mcp-Method", "the header is missing") : 0;
        return strcmp(header, message->method) == 0
                       ? 0
                       : mismatch(fault, "Mcp-Method", "the header and the body name different methods");
}

int http_check_modern(struct mcp_http *http, const struct hs_exchange *hs, const struct mcp_message *message,
                      struct mcp_fault *ret_fault, struct mcp_text *ret_data) {
        const char *version = hs_header(hs, "MCP-Protocol-Version");
        const json_t *claim = claimed_version(message);
        struct mcp_meta meta;
        int r;

        /* Before anything else: a proxy that routed by the header routed something else. */
        if (version != NULL && json_is_string(claim) && strcmp(version, json_string_value(claim)) != 0)
                return mismatch(ret_fault, "MCP-Protocol-Version", "the header and _meta name different revisions");
        if (message->kind == MCP_REQUEST) {
                r = mcp_meta_decode(message, &meta, ret_fault, ret_data);
                if (r < 0)
                        return r;
                if (version == NULL)
                        return mismatch(ret_fault, "MCP-Protocol-Version", "the header is missing");
        }
        r = check_method(hs, message, ret_fault);
        if (r < 0 || message->kind != MCP_REQUEST)
                return r;
        r = check_name(hs, message, ret_fault);
        if (r == 0 && strcmp(message->method, "tools/call") == 0)
                r = http_check_params(http, hs, message, ret_fault);
        return r;
}
