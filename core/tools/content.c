/* SPDX-License-Identifier: Apache-2.0 */
/* Tool results in the shape of MCP: content blocks, and texts short enough for a model. */
#include "tools/content.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

#define UNBOUNDED (SIZE_MAX / 2)

json_t *sbx_content_new(bool is_error) {
        return json_pack("{s:[], s:b}", "content", "isError", (int)is_error);
}

static int add_block(json_t *result, json_t *block) {
        return json_array_append_new(json_object_get(result, "content"), block) < 0 ? -ENOMEM : 0;
}

int sbx_content_add_text(json_t *result, struct sbx_bytes text) {
        _cleanup_buffer_ struct sbx_buffer clipped = SBX_BUFFER(UNBOUNDED);
        int r = sbx_text_clip(text, SBX_CONTENT_TEXT_MAX, &clipped);

        if (r < 0)
                return r;
        return add_block(result,
                         json_pack("{s:s, s:o}", "type", "text", "text", sbx_json_text(sbx_buffer_bytes(&clipped))));
}

int sbx_content_add_image(json_t *result, const char *mime_type, struct sbx_bytes base64) {
        return add_block(result, json_pack("{s:s, s:o, s:s}", "type", "image", "data", sbx_json_text(base64),
                                           "mimeType", mime_type));
}

int sbx_content_add_link(json_t *result, const struct sbx_content_link *link) {
        return add_block(result, json_pack("{s:s, s:s, s:s, s:s, s:s*, s:I}", "type", "resource_link", "uri", link->uri,
                                           "name", link->name, "mimeType", link->mime_type, "description",
                                           link->description, "size", (json_int_t)link->size));
}

int sbx_content_add_blob(json_t *result, const char *uri, const char *mime_type, struct sbx_bytes bytes) {
        _cleanup_buffer_ struct sbx_buffer base64 = SBX_BUFFER(UNBOUNDED);
        int r = sbx_base64_encode(bytes, &base64);

        if (r < 0)
                return r;
        return add_block(result, json_pack("{s:s, s:{s:s, s:s, s:o}}", "type", "resource", "resource", "uri", uri,
                                           "mimeType", mime_type, "blob", sbx_json_text(sbx_buffer_bytes(&base64))));
}

json_t *sbx_content_text(bool is_error, const char *text) {
        _cleanup_json_ json_t *result = sbx_content_new(is_error);

        if (result == NULL || sbx_content_add_text(result, (struct sbx_bytes){text, strlen(text)}) < 0)
                return NULL;
        return steal_pointer(result);
}

json_t *sbx_content_error(const struct sbx_error *problem) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(4096);

        if (sbx_buffer_printf(&text, "Error: %s", problem->message) < 0 ||
            (problem->hint[0] != '\0' && sbx_buffer_printf(&text, "\n%s", problem->hint) < 0))
                return NULL;
        return sbx_content_text(true, text.data);
}

/* ---- cutting ---- */

static bool begins_character(const char *at) {
        return ((unsigned char)*at & 0xC0) != 0x80;
}

/* Bytes of the first `characters` characters. */
static size_t head_size(struct sbx_bytes text, size_t characters) {
        const char *bytes = text.data;
        size_t seen = 0;

        for (size_t i = 0; i < text.size; i++)
                if (begins_character(&bytes[i]) && seen++ == characters)
                        return i;
        return text.size;
}

/* Where the last `characters` characters begin. */
static size_t tail_start(struct sbx_bytes text, size_t characters) {
        const char *bytes = text.data;

        for (size_t i = text.size; i > 0; i--)
                if (begins_character(&bytes[i - 1]) && --characters == 0)
                        return i - 1;
        return 0;
}

static size_t count_characters(struct sbx_bytes text) {
        const char *bytes = text.data;
        size_t count = 0;

        for (size_t i = 0; i < text.size; i++)
                count += begins_character(&bytes[i]);
        return count;
}

bool sbx_text_is_longer(struct sbx_bytes text, size_t max_characters) {
        return text.size > max_characters && count_characters(text) > max_characters;
}

static int clip_valid(struct sbx_bytes text, size_t max_characters, struct sbx_buffer *out) {
        size_t total = text.size > max_characters ? count_characters(text) : 0, tail = max_characters / 3, head, start;
        int r;

        if (total <= max_characters)
                return sbx_buffer_append(out, text.data, text.size);
        head = head_size(text, max_characters - tail);
        start = tail_start(text, tail);
        r = sbx_buffer_append(out, text.data, head);
        if (r == 0)
                r = sbx_buffer_printf(out, "\n\n... [cut: %zu of %zu characters are not shown] ...\n\n",
                                      total - max_characters, total);
        return r < 0 ? r : sbx_buffer_append(out, (const char *)text.data + start, text.size - start);
}

int sbx_text_clip(struct sbx_bytes text, size_t max_characters, struct sbx_buffer *out) {
        _cleanup_buffer_ struct sbx_buffer repaired = SBX_BUFFER(UNBOUNDED);
        int r;

        if (sbx_utf8_valid(text))
                return clip_valid(text, max_characters, out);
        r = sbx_utf8_repair(text, false, &repaired);
        return r < 0 ? r : clip_valid(sbx_buffer_bytes(&repaired), max_characters, out);
}
