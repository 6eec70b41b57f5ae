/* SPDX-License-Identifier: Apache-2.0 */
/* JSON on jansson: bounded parsing, decoding into C with the path in the error, compact encoding. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buffer.h"

/* RFC 8259. Duplicate keys are refused. Size, nesting (at most 64 levels) and the number of values are checked before
 * anything is allocated: "[[],[],...]" would else take some fifty times its size in memory. A container counts as four
 * values. `what` names the document in errors: "frame", "arguments". -EINVAL, -EFBIG, -ENOMEM. */
#define SBX_JSON_DEPTH_MAX 64
#define SBX_JSON_VALUES_MAX (1u << 20)
int sbx_json_parse(struct sbx_bytes text, size_t max_bytes, const char *what, json_t **ret, struct sbx_error *err);
/* The same, for a value of any type (not only object and array). */
int sbx_json_parse_any(struct sbx_bytes text, size_t max_bytes, const char *what, json_t **ret, struct sbx_error *err);
/* Appends compact UTF-8 JSON, without newlines; a real number in 15 to 17 digits, as it takes to read back the same.
 * -EINVAL: `value` is NULL, or nested deeper than twice SBX_JSON_DEPTH_MAX (a parsed document may be wrapped, not a
 * cycle). */
int sbx_json_encode(const json_t *value, struct sbx_buffer *out);
/* A JSON string from bytes of any quality: repaired UTF-8; NUL is kept as \u0000. NULL: -ENOMEM. */
json_t *sbx_json_text(struct sbx_bytes text);

/* Decoding: read one member of `object`; `path` names the object in errors ("params.arguments"). A missing or null
 * optional member leaves the output untouched and returns 0. Borrowed strings live as long as `object`; a string
 * with NUL in it is refused by sbx_json_get_string. */
#define SBX_JSON_REQUIRED (1u << 0)
int sbx_json_get_string(const json_t *object, const char *path, const char *key, unsigned flags, const char **ret,
                        struct sbx_error *err);
int sbx_json_get_text(const json_t *object, const char *path, const char *key, unsigned flags, struct sbx_bytes *ret,
                      struct sbx_error *err);
int sbx_json_get_int(const json_t *object, const char *path, const char *key, unsigned flags, int64_t minimum,
                     int64_t maximum, int64_t *ret, struct sbx_error *err);
int sbx_json_get_bool(const json_t *object, const char *path, const char *key, unsigned flags, bool *ret,
                      struct sbx_error *err);

static inline void sbx_cleanup_json(json_t **value) {
        json_decref(*value);
}
#define _cleanup_json_ __attribute__((cleanup(sbx_cleanup_json)))
