/* SPDX-License-Identifier: Apache-2.0 */
/* Revisions of MCP (https://modelcontextprotocol.io/specification/versioning) and results that fit each. */
#include "protocol.h"

#include "repair.h"

#define REPAIRED_BYTES_MAX (512u << 20)

static const char *const revision_names[] = {
        [MCP_REVISION_NONE] = "none",    [MCP_2024_11_05] = "2024-11-05", [MCP_2025_03_26] = "2025-03-26",
        [MCP_2025_06_18] = "2025-06-18", [MCP_2025_11_25] = "2025-11-25", [MCP_2026_07_28] = "2026-07-28",
};

enum mcp_revision mcp_revision_negotiate(const char *protocol_version) {
        for (enum mcp_revision i = MCP_2024_11_05; i <= MCP_2025_11_25; i++)
                if (strcmp(protocol_version, revision_names[i]) == 0)
                        return i;
        return MCP_2025_11_25;
}

enum mcp_revision mcp_revision_find(const char *name) {
        for (enum mcp_revision i = MCP_2024_11_05; i <= MCP_2026_07_28; i++)
                if (strcmp(name, revision_names[i]) == 0)
                        return i;
        return MCP_REVISION_NONE;
}

const char *mcp_revision_name(enum mcp_revision revision) {
        return revision_names[revision];
}

/* One line that looks like an object or array of the host's: no control bytes, which JSON has only between tokens. */
static bool is_one_line(struct sbx_bytes json) {
        const unsigned char *bytes = json.data;
        bool control = false;

        if (json.size < 2 ||
            !((bytes[0] == '{' && bytes[json.size - 1] == '}') || (bytes[0] == '[' && bytes[json.size - 1] == ']')))
                return false;
        for (size_t i = 0; i < json.size; i++)
                control |= bytes[i] < 0x20;
        return !control;
}

static int append_dump(const char *data, size_t size, void *text) {
        return mcp_text_append(text, data, size) < 0 ? -1 : 0;
}

int mcp_text_append_json(struct mcp_text *text, const json_t *value) {
        if (json_dump_callback(value, append_dump, text, JSON_COMPACT | JSON_ENCODE_ANY) < 0 && text->error == 0)
                text->error = -ENOMEM;
        return text->error;
}

static int encode(const json_t *value, struct mcp_text *storage, struct sbx_bytes *ret) {
        int r = mcp_text_append_json(storage, value);

        if (r == 0)
                *ret = mcp_text_bytes(storage);
        return r;
}

/* Of text whose strings are in order. */
static int make_one_line(struct sbx_bytes json, struct mcp_text *storage, struct sbx_bytes *ret_json) {
        json_t *value;
        int r;

        if (is_one_line(json)) {
                *ret_json = json;
                return 0;
        }
        value = json_loadb(json.data, json.size, 0, NULL);
        if (value == NULL)
                return -EINVAL;
        mcp_text_free(storage); /* `json` may be in there, and is read */
        r = encode(value, storage, ret_json);
        json_decref(value);
        return r;
}

int mcp_json_one_line(struct sbx_bytes json, struct mcp_text *storage, struct sbx_bytes *ret_json) {
        if (mcp_json_is_clean(json))
                return make_one_line(json, storage, ret_json);
        if (mcp_json_repair(json, storage) < 0)
                return storage->error;
        return make_one_line(mcp_text_bytes(storage), storage, ret_json);
}

json_t *mcp_json_load(struct sbx_bytes json) {
        _cleanup_text_ struct mcp_text storage = MCP_TEXT(REPAIRED_BYTES_MAX);
        struct sbx_bytes clean = json;

        if (!mcp_json_is_clean(json)) {
                if (mcp_json_repair(json, &storage) < 0)
                        return NULL;
                clean = mcp_text_bytes(&storage);
        }
        return json_loadb(clean.data, clean.size, 0, NULL);
}

static bool mentions(struct sbx_bytes json, const char *quoted) {
        return memmem(json.data, json.size, quoted, strlen(quoted)) != NULL;
}

/* Blocks that the revision does not know. The test is on the bytes, where a text's own quotes are escaped. */
static bool needs_conversion(struct sbx_bytes result, enum mcp_revision revision) {
        return (revision < MCP_2025_06_18 && mentions(result, "\"resource_link\"")) ||
               (revision < MCP_2025_03_26 && mentions(result, "\"audio\""));
}

static const char *member_text(const json_t *object, const char *key, const char *otherwise) {
        const char *value = json_string_value(json_object_get(object, key));

        return value != NULL ? value : otherwise;
}

/* The text that stands for a block which the client's revision lacks; NULL when the block may stay. */
static json_t *replace_block(const json_t *block, enum mcp_revision revision) {
        const char *type = member_text(block, "type", "");
        json_t *text = NULL;

        if (revision < MCP_2025_06_18 && strcmp(type, "resource_link") == 0)
                text = json_sprintf("%s: %s (%s)", member_text(block, "name", "resource"),
                                    member_text(block, "uri", ""),
                                    member_text(block, "mimeType", "application/octet-stream"));
        else if (revision < MCP_2025_03_26 && strcmp(type, "audio") == 0)
                text = json_sprintf("[%s left out: this client's protocol revision has no audio]",
                                    member_text(block, "mimeType", "audio"));
        return text != NULL ? json_pack("{s:s, s:o}", "type", "text", "text", text) : NULL;
}

/* The blocks of a tool's result, and those of a prompt's messages. */
static void replace_blocks(json_t *root, enum mcp_revision revision) {
        json_t *content = json_object_get(root, "content"), *messages = json_object_get(root, "messages");
        json_t *item, *replacement;
        size_t index;

        json_array_foreach (content, index, item) {
                replacement = replace_block(item, revision);
                if (replacement != NULL)
                        json_array_set_new(content, index, replacement);
        }
        json_array_foreach (messages, index, item) {
                replacement = replace_block(json_object_get(item, "content"), revision);
                if (replacement != NULL)
                        json_object_set_new(item, "content", replacement);
        }
}

static int convert(struct sbx_bytes result, enum mcp_revision revision, struct mcp_text *storage,
                   struct sbx_bytes *ret_result) {
        json_t *root = mcp_json_load(result);
        int r;

        if (root == NULL)
                return -EINVAL;
        replace_blocks(root, revision);
        r = encode(root, storage, ret_result);
        json_decref(root);
        return r;
}

int mcp_result_prepare(struct sbx_bytes result, enum mcp_revision revision, struct mcp_text *storage,
                       struct sbx_bytes *ret_result) {
        struct sbx_bytes prepared;
        int r;

        if (revision != MCP_REVISION_NONE && needs_conversion(result, revision))
                r = convert(result, revision, storage, &prepared);
        else
                r = mcp_json_one_line(result, storage, &prepared);
        if (r < 0)
                return r;
        if (prepared.size == 0 || *(const char *)prepared.data != '{')
                return -EINVAL;
        *ret_result = prepared;
        return 0;
}
