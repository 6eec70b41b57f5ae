/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of tools that are repeated in headers: a property of a tool's schema with "x-mcp-header": "Region" is sent
 * as "Mcp-Param-Region" too, and must say the same there. */
#include <stdlib.h>

#include "http_private.h"

#define LIST_MAX (16u << 20)
#define DEPTH_MAX 8u
#define HEADER_MAX 128u

void http_params_free(struct http_params *params) {
        json_decref(params->tools);
        params->tools = NULL;
}

/* ---- which they are ---- */

static bool is_token(const char *text) {
        size_t size = strlen(text);

        return size > 0 && size <= HEADER_MAX &&
               strspn(text, "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") == size;
}

/* Adds the annotated properties below `schema`, whose place is `path`. -ENOMEM. */
static int collect(const json_t *schema, json_t *path, json_t *found, unsigned depth) {
        json_t *properties = json_object_get(schema, "properties"), *property;
        const char *name;
        int r = 0;

        if (depth > DEPTH_MAX)
                return 0;
        json_object_foreach (properties, name, property) {
                const char *header = json_string_value(json_object_get(property, "x-mcp-header"));

                if (json_array_append_new(path, json_string(name)) < 0)
                        return -ENOMEM;
                if (header != NULL && is_token(header) &&
                    json_array_append_new(found,
                                          json_pack("{s:s, s:o}", "header", header, "path", json_deep_copy(path))) < 0)
                        r = -ENOMEM;
                if (r == 0)
                        r = collect(property, path, found, depth + 1);
                (void)json_array_remove(path, json_array_size(path) - 1);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int collect_tool(const json_t *tool, json_t *tools) {
        const char *name = json_string_value(json_object_get(tool, "name"));
        json_t *path = json_array(), *found = json_array();
        int r = path != NULL && found != NULL ? 0 : -ENOMEM;

        if (r == 0)
                r = collect(json_object_get(tool, "inputSchema"), path, found, 0);
        json_decref(path);
        if (r == 0 && name != NULL && json_array_size(found) > 0)
                return json_object_set_new(tools, name, found) < 0 ? -ENOMEM : 0;
        json_decref(found);
        return r;
}

static json_t *read_tools(const struct sbx_host *host) {
        json_t *tools = json_object(), *list = NULL, *tool;
        struct sbx_output *output = NULL;
        struct sbx_error err = {0};
        struct sbx_bytes text;
        size_t index;
        int r = -ENOMEM;

        if (tools != NULL && host->output_new(host->self, LIST_MAX, &output) == 0 &&
            host->list(host->self, SBX_LIST_TOOLS, output, &err) == 0) {
                text = host->output_bytes(host->self, output);
                list = json_loadb(text.data, text.size, 0, NULL);
        }
        host->output_free(host->self, output);
        if (json_is_array(list))
                r = 0;
        json_array_foreach (list, index, tool) {
                if (r == 0)
                        r = collect_tool(tool, tools);
        }
        json_decref(list);
        if (r < 0) {
                json_decref(tools);
                return NULL;
        }
        return tools;
}

/* ---- whether they agree ---- */

static const json_t *value_at(const json_t *arguments, const json_t *path) {
        const json_t *value = arguments;
        const json_t *key;
        size_t index;

        json_array_foreach (path, index, key) {
                value = json_object_get(value, json_string_value(key));
        }
        return value;
}

/* "-42", "1.50": numbers are compared as such, whatever way they are written. */
static bool number_equal(const json_t *value, const char *text) {
        size_t digits = strspn(text + (text[0] == '-'), "0123456789");
        const char *rest = text + (text[0] == '-') + digits;
        json_t *number;
        bool same;

        if (digits == 0 ||
            (*rest != '\0' && (*rest != '.' || rest[1] == '\0' || rest[1 + strspn(rest + 1, "0123456789")] != '\0')))
                return false;
        number = json_loads(text, JSON_DECODE_ANY, NULL);
        if (json_is_integer(number) && json_is_integer(value))
                same = json_integer_value(number) == json_integer_value(value);
        else
                same = json_is_number(number) && json_number_value(number) == json_number_value(value);
        json_decref(number);
        return same;
}

static bool value_equal(const json_t *value, const char *text, size_t size) {
        if (json_is_string(value))
                return json_string_length(value) == size && memcmp(json_string_value(value), text, size) == 0;
        if (json_is_boolean(value))
                return strcmp(text, json_is_true(value) ? "true" : "false") == 0;
        return number_equal(value, text);
}

static int check_one(const struct hs_exchange *hs, const json_t *rule, const json_t *arguments,
                     struct mcp_fault *fault) {
        const json_t *value = value_at(arguments, json_object_get(rule, "path"));
        char name[HEADER_MAX + 16], *text = NULL;
        const char *header, *what = NULL;
        size_t size = 0;

        if (!json_is_string(value) && !json_is_boolean(value) && !json_is_number(value))
                return 0; /* nothing that could be in a header */
        snprintf(name, sizeof(name), "Mcp-Param-%s", json_string_value(json_object_get(rule, "header")));
        header = hs_header(hs, name);
        if (header == NULL)
                what = "the header is missing";
        else if (!http_header_decode(header, &text, &size))
                what = "the value between =?base64? and ?= is not base64 of UTF-8";
        else if (!value_equal(value, text, size))
                what = "the header and the arguments differ";
        free(text);
        if (what == NULL)
                return 0;
        fault->code = MCP_HEADER_MISMATCH;
        snprintf(fault->message, sizeof(fault->message), "%s: %s", name, what);
        return -EINVAL;
}

int http_check_params(struct mcp_http *http, const struct hs_exchange *hs, const struct mcp_message *message,
                      struct mcp_fault *ret_fault) {
        const json_t *arguments = json_object_get(message->params, "arguments"), *rules, *rule;
        const char *name = json_string_value(json_object_get(message->params, "name"));
        size_t index;

        if (__atomic_exchange_n(&http->params.out_dated, 0, __ATOMIC_ACQ_REL) != 0)
                http_params_free(&http->params);
        if (http->params.tools == NULL)
                http->params.tools = read_tools(http->host);
        if (http->params.tools == NULL) { /* not to check would be to let differing headers pass */
                ret_fault->code = MCP_INTERNAL_ERROR;
                snprintf(ret_fault->message, sizeof(ret_fault->message), "the list of tools can't be had");
                return -EIO;
        }
        rules = name != NULL ? json_object_get(http->params.tools, name) : NULL;
        json_array_foreach (rules, index, rule) {
                int r = check_one(hs, rule, arguments, ret_fault);

                if (r < 0)
                        return r;
        }
        return 0;
}
