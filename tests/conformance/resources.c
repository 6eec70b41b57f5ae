/* SPDX-License-Identifier: Apache-2.0 */
/* Resources: text, bytes, one that changes, and those of a template. */
#include <stdlib.h>

#include "fixtures.h"

#define TEMPLATE_BEGIN "test://template/"
#define TEMPLATE_END "/data"

static int static_text(const struct fixture_call *call, json_t **ret_content) {
        (void)call;
        *ret_content = json_pack("{s:s}", "text", "This is the content of the static text resource.");
        return 0;
}

static int static_binary(const struct fixture_call *call, json_t **ret_content) {
        (void)call;
        *ret_content = json_pack("{s:s}", "blob", fixture_png);
        return 0;
}

static int watched(const struct fixture_call *call, json_t **ret_content) {
        *ret_content = json_pack(
                "{s:o}", "text",
                json_sprintf("The watched resource, version %u.", atomic_load(&call->fixtures->watched_version)));
        return 0;
}

/* Sorted by URI, as lists are. */
static const struct resource {
        const char *uri, *name, *description, *mime_type;
        int (*read)(const struct fixture_call *call, json_t **ret_content); /* {"text" | "blob"}; NULL: no memory */
} resources[] = {
        {"test://static-binary", "static-binary", "A picture that never changes.", "image/png", static_binary},
        {"test://static-text", "static-text", "A text that never changes.", "text/plain", static_text},
        {FIXTURE_WATCHED_URI, "watched-resource", "A text that test_trigger_resource_change changes.", "text/plain",
         watched},
};

int fixture_resources_list(const struct fixture_call *call, json_t **ret_result) {
        json_t *list = json_array(), *result;

        for (size_t i = 0; i < FIXTURE_COUNT(resources); i++) {
                const struct resource *resource = &resources[i];
                json_t *item = json_pack("{s:s, s:s, s:s, s:s}", "uri", resource->uri, "name", resource->name,
                                         "description", resource->description, "mimeType", resource->mime_type);

                if (json_array_append_new(list, item) < 0) {
                        json_decref(list);
                        return fixture_nomem(call->err);
                }
        }
        result = json_pack("{s:o}", "resources", list);
        if (result == NULL)
                return fixture_nomem(call->err);
        *ret_result = result;
        return 0;
}

/* Takes the reference `content`. */
static int contents(const struct fixture_call *call, json_t *content, const char *mime_type, json_t **ret_result) {
        json_t *result = NULL;

        if (content != NULL && json_object_set_new(content, "uri", json_string(call->name)) == 0 &&
            json_object_set_new(content, "mimeType", json_string(mime_type)) == 0)
                result = json_pack("{s:[O]}", "contents", content);
        json_decref(content);
        if (result == NULL)
                return fixture_nomem(call->err);
        *ret_result = result;
        return 0;
}

/* The `id` of test://template/{id}/data: one path segment. -ENOENT: another URI. */
static int read_template(const struct fixture_call *call, json_t **ret_result) {
        size_t begin = strlen(TEMPLATE_BEGIN), end = strlen(TEMPLATE_END), size = strlen(call->name);
        const char *id = call->name + begin;
        json_t *data;
        char *text;
        int length, r;

        if (size <= begin + end || strncmp(call->name, TEMPLATE_BEGIN, begin) != 0 ||
            strcmp(call->name + size - end, TEMPLATE_END) != 0 || memchr(id, '/', size - begin - end) != NULL)
                return sbx_error_set(call->err, -ENOENT, FIXTURES_ORIGIN, NULL, "there is no resource %.200s",
                                     call->name);
        length = (int)(size - begin - end);
        data = json_pack("{s:s%, s:b, s:o}", "id", id, (size_t)length, "templateTest", 1, "data",
                         json_sprintf("Data for ID: %.*s", length, id));
        text = data != NULL ? json_dumps(data, JSON_COMPACT) : NULL;
        r = contents(call, text != NULL ? json_pack("{s:s}", "text", text) : NULL, "application/json", ret_result);
        free(text);
        json_decref(data);
        return r;
}

int fixture_resources_read(const struct fixture_call *call, json_t **ret_result) {
        for (size_t i = 0; i < FIXTURE_COUNT(resources); i++) {
                json_t *content = NULL;
                int r;

                if (strcmp(resources[i].uri, call->name) != 0)
                        continue;
                r = resources[i].read(call, &content);
                return r < 0 ? r : contents(call, content, resources[i].mime_type, ret_result);
        }
        return read_template(call, ret_result);
}

int fixture_resources_templates(json_t **ret_list) {
        json_t *list = json_pack("[{s:s, s:s, s:s, s:s}]", "uriTemplate", TEMPLATE_BEGIN "{id}" TEMPLATE_END, "name",
                                 "template-data", "description", "Tells its own id.", "mimeType", "application/json");

        if (list == NULL)
                return -ENOMEM;
        *ret_list = list;
        return 0;
}
