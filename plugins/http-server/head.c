/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and copies the head of a request. */
#include "head.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* RFC 9110, 5.6.2. */
static bool is_token_character(unsigned char c) {
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
               (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

bool hs_is_token(const char *text, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (!is_token_character((unsigned char)text[i]))
                        return false;
        return size > 0;
}

bool hs_is_name_list(const char *text) {
        if (strlen(text) > 1024)
                return false;
        for (;;) {
                size_t size;

                text += strspn(text, " ");
                size = strcspn(text, ", ");
                if (!hs_is_token(text, size))
                        return false;
                text += size;
                text += strspn(text, " ");
                if (*text == '\0')
                        return true;
                if (*text++ != ',')
                        return false;
        }
}

/* A field value: visible characters, blanks, and bytes above ASCII (RFC 9110, 5.5). */
static bool is_value(const char *text, size_t size) {
        for (size_t i = 0; i < size; i++) {
                unsigned char c = (unsigned char)text[i];

                if ((c < 0x20 && c != '\t') || c == 0x7f)
                        return false;
        }
        return true;
}

/* Both bytes of an end of line are NULs now; an LF alone left one. */
static bool is_line_end(const char *place) {
        return place[0] == '\0' && place[1] == '\0';
}

static bool first_line_is_strict(const struct hs_parts *parts) {
        size_t method_size = strlen(parts->method);
        const char *version_end = parts->version + strlen("HTTP/1.1");

        return parts->uri == parts->method + method_size + 1 && parts->version == parts->uri + parts->uri_size + 1 &&
               parts->version[-1] == '\0' && (size_t)(version_end - parts->method) + 4 <= parts->size &&
               is_line_end(version_end);
}

bool hs_head_is_strict(const struct hs_parts *parts) {
        const char *end = parts->method + parts->size;
        const char *place;

        if (parts->method == NULL || parts->uri == NULL || parts->version == NULL || !first_line_is_strict(parts))
                return false;
        place = parts->version + strlen("HTTP/1.1") + 2;
        for (size_t i = 0; i < parts->count; i++) {
                const struct hs_field *field = &parts->fields[i];
                size_t name_size;

                if (field->name != place || field->value == NULL)
                        return false; /* a line that ended otherwise, or one that was folded and so moved */
                name_size = strlen(field->name);
                if (field->value <= field->name + name_size || field->value + parts->value_sizes[i] + 4 > end ||
                    !hs_is_token(field->name, name_size) || !is_value(field->value, parts->value_sizes[i]) ||
                    !is_line_end(field->value + parts->value_sizes[i]))
                        return false;
                for (const char *c = field->name + name_size + 1; c < field->value; c++)
                        if (*c != ' ' && *c != '\t')
                                return false;
                place = field->value + parts->value_sizes[i] + 2;
        }
        return place + 2 == end && is_line_end(place);
}

int hs_head_copy(const struct hs_parts *parts, struct hs_head *ret_head) {
        size_t fields_size = parts->count * sizeof(struct hs_field);
        char *copy = malloc(fields_size + parts->size + 1);
        struct hs_field *fields;
        char *text;

        if (copy == NULL)
                return -ENOMEM;
        fields = (struct hs_field *)(void *)copy;
        text = copy + fields_size;
        memcpy(text, parts->method, parts->size);
        text[parts->size] = '\0';
        for (size_t i = 0; i < parts->count; i++) {
                size_t value = (size_t)(parts->fields[i].value - parts->method);
                size_t size = parts->value_sizes[i];

                while (size > 0 && (text[value + size - 1] == ' ' || text[value + size - 1] == '\t'))
                        size--;
                text[value + size] = '\0';
                fields[i] = (struct hs_field){
                        .name = text + (parts->fields[i].name - parts->method),
                        .value = text + value,
                };
        }
        *ret_head = (struct hs_head){
                .copy = copy,
                .method = text,
                .fields = fields,
                .count = parts->count,
        };
        return 0;
}

void hs_head_free(struct hs_head *head) {
        free(head->copy);
        *head = (struct hs_head){0};
}

size_t hs_head_find(const struct hs_head *head, const char *name, const char **ret_value) {
        size_t found = 0;

        for (size_t i = 0; i < head->count; i++)
                if (strcasecmp(head->fields[i].name, name) == 0 && found++ == 0)
                        *ret_value = head->fields[i].value;
        return found;
}

const char *hs_head_get(const struct hs_head *head, const char *name) {
        const char *value = NULL;

        for (size_t i = 0; i < head->count; i++) {
                if (strcasecmp(head->fields[i].name, name) != 0)
                        continue;
                if (value != NULL && strcmp(value, head->fields[i].value) != 0)
                        return "";
                value = head->fields[i].value;
        }
        return value;
}
