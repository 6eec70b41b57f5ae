/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions of tools: checked, copied, and made into what lists say of them. */
#include "tools/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/schema.h"
#include "tools/shape.h"

#define ORIGIN SBX_TOOLS_ORIGIN
#define NAME_MAX_BYTES 64
#define DESCRIPTION_MAX_BYTES 2048u
#define SCHEMA_MAX_BYTES ((size_t)256 << 10)
#define LISTING_MAX_BYTES ((size_t)1 << 20)

void sbx_tool_entry_free(struct sbx_tool_entry *entry) {
        if (entry->tool.free_data != NULL)
                entry->tool.free_data(entry->tool.data);
        free((char *)entry->tool.name);
        free((char *)entry->tool.lane);
        json_decref(entry->schema);
        json_decref(entry->listing);
        sbx_buffer_free(&entry->listing_text);
        free(entry);
}

/* ---- checks ---- */

int sbx_tools_check_name(const char *name, struct sbx_error *err) {
        static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
        size_t length = name != NULL ? strlen(name) : 0;

        if (length > 0 && length <= NAME_MAX_BYTES && strspn(name, allowed) == length)
                return 0;
        return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "tool '%.80s': its name must be 1 to %d of A-Z a-z 0-9 _ . -",
                             name != NULL ? name : "", NAME_MAX_BYTES);
}

static int check_texts(const struct sbx_tool *tool, struct sbx_error *err) {
        int r = sbx_tools_check_name(tool->name, err);

        if (r < 0)
                return r;
        if (tool->description == NULL || tool->description[0] == '\0' ||
            strlen(tool->description) > DESCRIPTION_MAX_BYTES)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "tool '%s': its description must have 1 to %u bytes",
                                     tool->name, DESCRIPTION_MAX_BYTES);
        if (tool->input_schema == NULL || tool->run == NULL)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "tool '%s': it needs a schema and a function",
                                     tool->name);
        if (tool->task_support != NULL && strcmp(tool->task_support, "optional") != 0 &&
            strcmp(tool->task_support, "required") != 0)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL,
                                     "tool '%s': it may become a task, \"optional\" or \"required\", not \"%.32s\"",
                                     tool->name, tool->task_support);
        return 0;
}

/* One API of a client's model refuses the whole request when a schema's root is not a plain object: ours are, those of
 * a plugin are its own business. */
static int check_schema(const struct sbx_tool *tool, const json_t *schema, struct sbx_error *err) {
        static const char *const refused[] = {"oneOf", "anyOf", "allOf"};
        const char *type = json_string_value(json_object_get(schema, "type")), *name = tool->name;
        const json_t *properties = json_object_get(schema, "properties"),
                     *required = json_object_get(schema, "required");
        int r;

        if (type == NULL || strcmp(type, "object") != 0)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL,
                                     "tool '%s': the root of its schema must have type object", name);
        for (size_t i = 0; (tool->flags & SBX_TOOL_FOREIGN) == 0 && i < sizeof(refused) / sizeof(refused[0]); i++)
                if (json_object_get(schema, refused[i]) != NULL)
                        return sbx_error_set(err, -EINVAL, ORIGIN, NULL,
                                             "tool '%s': the root of its schema must not use %s", name, refused[i]);
        if ((properties != NULL && !json_is_object(properties)) || (required != NULL && !json_is_array(required)))
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL,
                                     "tool '%s': properties must be an object and required an array", name);
        r = sbx_schema_check_refs(schema, err);
        if (r < 0)
                sbx_error_wrap(err, "tool '%s'", name);
        return r;
}

/* ---- from texts ---- */

static int parse(const struct sbx_tool *tool, const char *text, const char *what, json_t **ret, struct sbx_error *err) {
        int r = sbx_json_parse((struct sbx_bytes){text, strlen(text)}, SCHEMA_MAX_BYTES, what, ret, err);

        if (r < 0)
                sbx_error_wrap(err, "tool '%s'", tool->name);
        return r;
}

static int parse_object(const struct sbx_tool *tool, const char *text, const char *what, json_t **ret,
                        struct sbx_error *err) {
        int r = parse(tool, text, what, ret, err);

        if (r == 0 && !json_is_object(*ret))
                r = sbx_error_set(err, -EINVAL, ORIGIN, NULL, "tool '%s': its %s must be a JSON object", tool->name,
                                  what);
        return r;
}

static int add_icons(const struct sbx_tool *tool, json_t *listing, struct sbx_error *err) {
        _cleanup_json_ json_t *icons = NULL;
        int r = parse(tool, tool->icons, "icons", &icons, err);

        if (r < 0)
                return r;
        r = sbx_shape_icons(icons, err);
        if (r < 0) {
                sbx_error_wrap(err, "tool '%s'", tool->name);
                return r;
        }
        return json_object_set(listing, "icons", icons) < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

static int add_meta(const struct sbx_tool *tool, json_t *listing, struct sbx_error *err) {
        _cleanup_json_ json_t *meta = NULL;
        int r = parse_object(tool, tool->meta, "_meta", &meta, err);

        if (r < 0)
                return r;
        return json_object_set(listing, "_meta", meta) < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

static int make_listing(const struct sbx_tool *tool, struct sbx_tool_entry *entry, struct sbx_error *err) {
        _cleanup_json_ json_t *annotations = NULL;
        int r = parse_object(tool, tool->annotations != NULL ? tool->annotations : "{}", "annotations", &annotations,
                             err);

        if (r < 0)
                return r;
        entry->listing =
                json_pack("{s:s, s:s*, s:s, s:O, s:O}", "name", tool->name, "title", tool->title, "description",
                          tool->description, "inputSchema", entry->schema, "annotations", annotations);
        if (entry->listing == NULL) /* out of memory, or a text that is not UTF-8 */
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "tool '%s': its definition can't be JSON", tool->name);
        if (tool->icons != NULL)
                r = add_icons(tool, entry->listing, err);
        if (r == 0 && tool->task_support != NULL &&
            json_object_set_new(entry->listing, "execution", json_pack("{s:s}", "taskSupport", tool->task_support)) < 0)
                r = SBX_NOMEM(err, ORIGIN);
        if (r == 0 && tool->meta != NULL)
                r = add_meta(tool, entry->listing, err);
        if (r < 0)
                return r;
        entry->listing_text.max = LISTING_MAX_BYTES;
        r = sbx_json_encode(entry->listing, &entry->listing_text);
        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "tool '%s': its definition is too large", tool->name) : 0;
}

int sbx_tool_entry_new(const struct sbx_tool *tool, struct sbx_tool_entry **ret_entry, struct sbx_error *err) {
        _cleanup_tool_entry_ struct sbx_tool_entry *entry = NULL;
        int r = check_texts(tool, err);

        if (r < 0)
                return r;
        entry = calloc(1, sizeof(*entry));
        if (entry == NULL)
                return SBX_NOMEM(err, ORIGIN);
        r = parse_object(tool, tool->input_schema, "schema", &entry->schema, err);
        if (r == 0)
                r = check_schema(tool, entry->schema, err);
        if (r == 0)
                r = make_listing(tool, entry, err);
        if (r < 0)
                return r;
        entry->tool = (struct sbx_tool){.run = tool->run, .data = tool->data, .flags = tool->flags};
        if (tool->task_support != NULL)
                entry->tool.task_support = strcmp(tool->task_support, "required") == 0 ? "required" : "optional";
        entry->tool.name = strdup(tool->name);
        entry->tool.lane = tool->lane != NULL ? strdup(tool->lane) : NULL;
        if (entry->tool.name == NULL || (tool->lane != NULL && entry->tool.lane == NULL))
                return SBX_NOMEM(err, ORIGIN);
        *ret_entry = steal_pointer(entry);
        return 0;
}
