/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the target of a request. */
#include "target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

/* RFC 3986: what may stand in a path or a query unencoded, and '%'. */
static bool is_uri_character(unsigned char c) {
        return c > 0x20 && c < 0x7f && strchr("\"<>\\^`{|}#", c) == NULL;
}

/* Decodes in place. -1: a broken encoding, or a NUL. `path`: nor may separators and dots be encoded. */
static int decode(char *text, bool path) {
        char *out = text;

        for (const char *in = text; *in != '\0'; in++) {
                int high, low;

                if (!path && *in == '+') {
                        *out++ = ' ';
                        continue;
                }
                if (*in != '%') {
                        *out++ = *in;
                        continue;
                }
                high = hex_digit(in[1]);
                low = high >= 0 ? hex_digit(in[2]) : -1;
                if (low < 0 || (high == 0 && low == 0))
                        return -1;
                *out = (char)(high * 16 + low);
                if (path && (strchr("./\\%", *out) != NULL || (unsigned char)*out < 0x20 || *out == 0x7f))
                        return -1;
                out++;
                in += 2;
        }
        *out = '\0';
        return 0;
}

static bool has_odd_segment(const char *path) {
        for (const char *slash = path; slash != NULL; slash = strchr(slash + 1, '/')) {
                const char *segment = slash + 1;
                size_t size = strcspn(segment, "/");

                if ((size == 0 && segment[0] == '/') || (size == 1 && segment[0] == '.') ||
                    (size == 2 && segment[0] == '.' && segment[1] == '.'))
                        return true;
        }
        return false;
}

static int parse_parameters(char *query, struct hs_target *target) {
        char *rest = query, *pair;

        while ((pair = strsep(&rest, "&")) != NULL) {
                char *value = pair;
                const char *name;

                if (*pair == '\0')
                        continue;
                if (target->count == HS_PARAMETERS_MAX)
                        return -EINVAL;
                name = strsep(&value, "=");
                if (decode(pair, false) < 0 || (value != NULL && decode(value, false) < 0))
                        return -EINVAL;
                target->parameters[target->count++] =
                        (struct hs_parameter){.name = name, .value = value != NULL ? value : ""};
        }
        return 0;
}

int hs_target_parse(const char *text, size_t size, struct hs_target *ret_target) {
        struct hs_target target = {0};
        char *query;
        size_t path_size;

        if (size == 0 || text[0] != '/')
                return -EINVAL;
        for (size_t i = 0; i < size; i++)
                if (!is_uri_character((unsigned char)text[i]))
                        return -EINVAL;
        target.copy = strndup(text, size);
        if (target.copy == NULL)
                return -ENOMEM;
        query = strchr(target.copy, '?');
        if (query != NULL)
                *query++ = '\0';
        if (decode(target.copy, true) < 0 || has_odd_segment(target.copy) ||
            (query != NULL && parse_parameters(query, &target) < 0)) {
                hs_target_free(&target);
                return -EINVAL;
        }
        path_size = strlen(target.copy);
        if (path_size > 1 && target.copy[path_size - 1] == '/')
                target.copy[path_size - 1] = '\0';
        target.path = target.copy;
        *ret_target = target;
        return 0;
}

void hs_target_free(struct hs_target *target) {
        free(target->copy);
        *target = (struct hs_target){0};
}

const char *hs_target_query(const struct hs_target *target, const char *name) {
        for (size_t i = 0; i < target->count; i++)
                if (strcmp(target->parameters[i].name, name) == 0)
                        return target->parameters[i].value;
        return NULL;
}
