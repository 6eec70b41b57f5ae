/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of MCP that plugins hand over as JSON. */
#include "tools/shape.h"

#include <string.h>

#include "base/error.h"

#define ORIGIN "tools"
#define AUTHOR "Tell the author of the context source."
#define TYPE_MAX 256u
#define ICON_MAX ((size_t)128 << 10) /* a data: URI */
#define ANY SIZE_MAX

int sbx_shape_text(const json_t *object, const char *what, const char *key, size_t max, bool optional,
                   struct sbx_error *err) {
        const json_t *value = json_object_get(object, key);
        size_t size = json_string_length(value);

        if (value == NULL && optional)
                return 0;
        if (!json_is_string(value))
                return sbx_error_set(err, -EBADMSG, ORIGIN, AUTHOR, "%s: its %s must be a text", what, key);
        if ((size == 0 && !optional) || size > max)
                return sbx_error_set(err, -EBADMSG, ORIGIN, AUTHOR, "%s: its %s has %zu bytes; 1 to %zu are allowed",
                                     what, key, size, max);
        if (memchr(json_string_value(value), '\0', size) != NULL)
                return sbx_error_set(err, -EBADMSG, ORIGIN, AUTHOR, "%s: its %s has a NUL in it", what, key);
        return 0;
}

/* A text that may be empty and may have anything in it. */
static int check_content(const json_t *object, const char *what, const char *key, struct sbx_error *err) {
        if (json_is_string(json_object_get(object, key)))
                return 0;
        return sbx_error_set(err, -EBADMSG, ORIGIN, AUTHOR, "%s: its %s must be a text", what, key);
}

/* ---- URIs ---- */

static bool is_letter(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool sbx_shape_is_uri(const char *text) {
        size_t scheme = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-.");

        if (!is_letter(text[0]) || text[scheme] != ':' || text[scheme + 1] == '\0')
                return false;
        for (const char *at = text; *at != '\0'; at++)
                if ((unsigned char)*at <= 0x20 || *at == 0x7F)
                        return false;
        return true;
}

static int check_uri(const json_t *object, const char *what, struct sbx_error *err) {
        int r = sbx_shape_text(object, what, "uri", SBX_SHAPE_URI_MAX, false, err);

        if (r == 0 && !sbx_shape_is_uri(json_string_value(json_object_get(object, "uri"))))
                r = sbx_error_set(err, -EBADMSG, ORIGIN, AUTHOR, "%s: '%.80s' is no URI", what,
                                  json_string_value(json_object_get(object, "uri")));
        return r;
}

/* ---- base64 (RFC 4648, section 4) ---- */

static int check_base64(const json_t *object, const char *what, const char *key, struct sbx_error *err) {
        const json_t *value = json_object_get(object, key);
        const char *text = json_string_value(value);
        size_t size = json_string_length(value), plain = 0;

        if (text == NULL)
                return sbx_error_set(err, -EBADMSG, ORIGIN, AUTHOR, "%s: its %s must be a text", what, key);
        while (plain < size && (is_letter(text[plain]) || (text[plain] >= '0' && text[plain] <= '9') ||
                                text[plain] == '+' || text[plain] == '/'))
                plain++;
        if (size % 4 == 0 && size - plain <= 2 && strspn(text + plain, "=") == size - plain)
                return 0;
        return sbx_error_set(err, -EBADMSG, ORIGIN, AUTHOR, "%s: its %s is no base64", what, key);
}

/* ---- icons ---- */

static int check_icon(const json_t *icon, struct sbx_error *err) {
        const char *src = json_string_value(json_object_get(icon, "src"));
        int r = sbx_shape_text(icon, "icon", "src", ICON_MAX, false, err);

        if (r == 0)
                r = sbx_shape_text(icon, "icon", "mimeType", TYPE_MAX, true, err);
        if (r == 0 && strncmp(src, "https://", 8) != 0 && strncmp(src, "data:", 5) != 0)
                r = sbx_error_set(err, -EBADMSG, ORIGIN, AUTHOR,
                                  "icon: '%.80s' is neither an https: nor a data: address", src);
        return r;
}

int sbx_shape_icons(const json_t *icons, struct sbx_error *err) {
        json_t *icon;
        size_t index;

        if (!json_is_array(icons) || json_array_size(icons) > SBX_SHAPE_ICONS_MAX)
                return sbx_error_set(err, -EBADMSG, ORIGIN, AUTHOR, "icons must be an array of at most %u",
                                     SBX_SHAPE_ICONS_MAX);
        json_array_foreach ((json_t *)icons, index, icon) {
                int r = check_icon(icon, err);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- contents and blocks ---- */

int sbx_shape_contents(const json_t *contents, const char *what, struct sbx_error *err) {
        bool text = json_object_get(contents, "text") != NULL, blob = json_object_get(contents, "blob") != NULL;
        int r = check_uri(contents, what, err);

        if (r == 0)
                r = sbx_shape_text(contents, what, "mimeType", TYPE_MAX, true, err);
        if (r < 0)
                return r;
        if (text == blob)
                return sbx_error_set(err, -EBADMSG, ORIGIN, AUTHOR, "%s: it must have either a text or a blob", what);
        return text ? check_content(contents, what, "text", err) : check_base64(contents, what, "blob", err);
}

static int check_media(const json_t *block, const char *what, struct sbx_error *err) {
        int r = check_base64(block, what, "data", err);

        return r < 0 ? r : sbx_shape_text(block, what, "mimeType", TYPE_MAX, false, err);
}

static int check_link(const json_t *block, const char *what, struct sbx_error *err) {
        int r = check_uri(block, what, err);

        return r < 0 ? r : sbx_shape_text(block, what, "name", ANY, false, err);
}

int sbx_shape_block(const json_t *block, const char *what, struct sbx_error *err) {
        const char *type = json_string_value(json_object_get(block, "type"));

        if (type == NULL)
                return sbx_error_set(err, -EBADMSG, ORIGIN, AUTHOR, "%s: a content block without a type", what);
        if (strcmp(type, "text") == 0)
                return check_content(block, what, "text", err);
        if (strcmp(type, "image") == 0 || strcmp(type, "audio") == 0)
                return check_media(block, what, err);
        if (strcmp(type, "resource") == 0)
                return sbx_shape_contents(json_object_get(block, "resource"), what, err);
        if (strcmp(type, "resource_link") == 0)
                return check_link(block, what, err);
        return sbx_error_set(err, -EBADMSG, ORIGIN, AUTHOR, "%s: a content block of the unknown type '%.32s'", what,
                             type);
}

int sbx_shape_blocks(const json_t *blocks, const char *what, struct sbx_error *err) {
        json_t *block;
        size_t index;

        if (!json_is_array(blocks))
                return sbx_error_set(err, -EBADMSG, ORIGIN, AUTHOR, "%s: its result has no content array", what);
        if (json_array_size(blocks) > SBX_SHAPE_BLOCKS_MAX)
                return sbx_error_set(err, -EBADMSG, ORIGIN, AUTHOR, "%s: %zu content blocks; at most %u are taken",
                                     what, json_array_size(blocks), SBX_SHAPE_BLOCKS_MAX);
        json_array_foreach ((json_t *)blocks, index, block) {
                int r = sbx_shape_block(block, what, err);

                if (r < 0)
                        return r;
        }
        return 0;
}
