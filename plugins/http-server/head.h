/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a request: what libmicrohttpd made of it, checked against the bytes that it was made from, and copied.
 *
 * libmicrohttpd 0.9 parses leniently: it takes a bare LF for an end of line, folds lines, ends names and values at a
 * NUL. Such requests are how one is smuggled past a proxy. It parses in place, though, putting a NUL where a space, a
 * colon, a CR or an LF was; so the bytes between what it found tell how the lines really ended. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct hs_field {
        const char *name, *value;
};
#define HS_FIELDS_MAX 128

struct hs_head {
        char *copy; /* what the pointers below point into */
        const char *method;
        struct hs_field *fields;
        size_t count;
};

/* The parts as the parser reported them, all within its buffer. */
struct hs_parts {
        const char *method, *uri, *version;
        size_t uri_size; /* as it was before it was decoded in place */
        size_t size;     /* of the whole head, from `method` to behind the empty line */
        const struct hs_field *fields;
        const size_t *value_sizes;
        size_t count;
};

/* Whether the head is one that every HTTP/1.1 implementation reads in the same way: lines that end in CRLF, one space
 * between the parts of the first one, names that are tokens, no NUL or other control character, no folded line. */
bool hs_head_is_strict(const struct hs_parts *parts);
/* Copies; values lose the blanks around them. -ENOMEM. */
int hs_head_copy(const struct hs_parts *parts, struct hs_head *ret_head);
void hs_head_free(struct hs_head *head);

/* How often a field is there, and its (first) value. */
size_t hs_head_find(const struct hs_head *head, const char *name, const char **ret_value);
/* NULL: not there; "": there with different values. */
const char *hs_head_get(const struct hs_head *head, const char *name);

bool hs_is_token(const char *text, size_t size);
/* Tokens with commas between them, as names of fields are listed; at most 1024 bytes. */
bool hs_is_name_list(const char *text);
