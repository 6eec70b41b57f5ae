/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Schema: $ref within the document. Nothing is ever fetched. */
#include "tools/schema.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"

#define ORIGIN "tools"

/* ---- JSON Pointer (RFC 6901), as a fragment of a URI ---- */

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* In place: percent-encoding first, then ~1 and ~0. False: neither is as it should be. */
static bool decode_segment(char *text) {
        char *out = text;

        for (const char *at = text; *at != '\0'; at++) {
                char c = *at;

                if (c == '%') {
                        int high = hex_digit(at[1]), low = high >= 0 ? hex_digit(at[2]) : -1;

                        if (low < 0 || (high == 0 && low == 0))
                                return false;
                        c = (char)(high << 4 | low);
                        at += 2;
                }
                *out++ = c;
        }
        *out = '\0';
        out = text;
        for (const char *at = text; *at != '\0'; at++) {
                char c = *at;

                if (c == '~' && at[1] != '0' && at[1] != '1')
                        return false;
                if (c == '~')
                        c = *++at == '0' ? '~' : '/';
                *out++ = c;
        }
        *out = '\0';
        return true;
}

static const json_t *step_into(const json_t *value, const char *segment) {
        size_t index = 0, length = strlen(segment);

        if (json_is_object(value))
                return json_object_get(value, segment);
        if (!json_is_array(value) || length == 0 || length > 6 || strspn(segment, "0123456789") != length)
                return NULL;
        for (const char *at = segment; *at != '\0'; at++)
                index = index * 10 + (size_t)(*at - '0');
        return json_array_get(value, index);
}

/* `pointer` begins with '/'. `*ret` is NULL when it leads nowhere. */
static int follow_pointer(const json_t *root, const char *pointer, const struct sbx_schema_place *at,
                          const json_t **ret) {
        _cleanup_free_ char *copy = strdup(pointer + 1);
        char *rest = copy;
        const json_t *found = root;

        if (copy == NULL)
                return SBX_NOMEM(at->err, ORIGIN);
        while (found != NULL && rest != NULL) {
                char *segment = strsep(&rest, "/");

                found = decode_segment(segment) ? step_into(found, segment) : NULL;
        }
        *ret = found;
        return 0;
}

/* ---- anchors ---- */

/* Not schemas, whatever they look like. */
static bool is_data(const char *key) {
        return strcmp(key, "enum") == 0 || strcmp(key, "const") == 0 || strcmp(key, "default") == 0 ||
               strcmp(key, "examples") == 0;
}

/* A document nests 64 deep at most. */
static int find_anchor(const json_t *value, const char *name, const struct sbx_schema_place *at, const json_t **ret) {
        const char *key, *anchor = json_string_value(json_object_get(value, "$anchor"));
        json_t *child;
        size_t index;
        int r = sbx_schema_spend(at, 1);

        if (r < 0)
                return r;
        if (anchor != NULL && strcmp(anchor, name) == 0) {
                *ret = value;
                return 0;
        }
        json_object_foreach ((json_t *)value, key, child) {
                if (r == 0 && *ret == NULL && !is_data(key) && (json_is_object(child) || json_is_array(child)))
                        r = find_anchor(child, name, at, ret);
        }
        json_array_foreach (value, index, child) {
                if (r == 0 && *ret == NULL && (json_is_object(child) || json_is_array(child)))
                        r = find_anchor(child, name, at, ret);
        }
        return r;
}

/* ---- references ---- */

/* What follows the document's own address; NULL: the reference leads elsewhere. */
static const char *own_fragment(const json_t *root, const char *ref) {
        const char *id = json_string_value(json_object_get(root, "$id"));
        size_t length = id != NULL ? strcspn(id, "#") : 0;

        if (ref[0] == '#')
                return ref + 1;
        if (length == 0 || strncmp(ref, id, length) != 0)
                return NULL;
        if (ref[length] == '\0')
                return "";
        return ref[length] == '#' ? ref + length + 1 : NULL;
}

int sbx_schema_resolve(const char *ref, const struct sbx_schema_place *at, const json_t **ret_schema) {
        const json_t *root = at->run->root, *found = NULL;
        const char *fragment = own_fragment(root, ref);
        int r = 0;

        if (fragment == NULL)
                return sbx_error_set(at->err, -ELOOP, ORIGIN, "Tell the author of the tool.",
                                     "%s: the tool's schema refers to '%.120s', which is not fetched", at->path, ref);
        if (fragment[0] == '\0')
                found = root;
        else if (fragment[0] == '/')
                r = follow_pointer(root, fragment, at, &found);
        else
                r = find_anchor(root, fragment, at, &found);
        if (r < 0)
                return r;
        if (!sbx_schema_is_schema(found))
                return sbx_error_set(at->err, -ELOOP, ORIGIN, "Tell the author of the tool.",
                                     "%s: the tool's schema refers to '%.120s', which it does not have", at->path, ref);
        *ret_schema = found;
        return 0;
}

static int check_refs(const json_t *value, const struct sbx_schema_place *at) {
        const char *key, *ref = json_string_value(json_object_get(value, "$ref"));
        const json_t *target = NULL;
        json_t *child;
        size_t index;
        int r = 0;

        if (ref != NULL && own_fragment(at->run->root, ref) != NULL)
                r = sbx_schema_resolve(ref, at, &target);
        json_object_foreach ((json_t *)value, key, child) {
                if (r == 0 && !is_data(key) && (json_is_object(child) || json_is_array(child)))
                        r = check_refs(child, at);
        }
        json_array_foreach (value, index, child) {
                if (r == 0 && (json_is_object(child) || json_is_array(child)))
                        r = check_refs(child, at);
        }
        return r;
}

int sbx_schema_check_refs(const json_t *schema, struct sbx_error *err) {
        struct sbx_schema_run run = {.root = schema, .steps_left = SIZE_MAX};
        const struct sbx_schema_place at = {.run = &run, .path = "schema", .err = err};
        int r = check_refs(schema, &at);

        return r == -ELOOP ? -EINVAL : r;
}
