/* SPDX-License-Identifier: Apache-2.0 */
/* Values as a configuration layer wrote them. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "config/internal.h"

void sbx_strings_free(char **strings) {
        for (char **s = strings; s != NULL && *s != NULL; s++)
                free(*s);
        free(strings);
}

int sbx_strings_append(char ***strings, const char *text, size_t size) {
        _cleanup_free_ char *copy = strndup(text, size);
        size_t count = 0;
        char **grown;

        while (*strings != NULL && (*strings)[count] != NULL)
                count++;
        grown = copy != NULL ? reallocarray(*strings, count + 2, sizeof(*grown)) : NULL;
        if (grown == NULL)
                return -ENOMEM;
        grown[count] = steal_pointer(copy);
        grown[count + 1] = NULL;
        *strings = grown;
        return 0;
}

int sbx_text_format(char **ret, const char *format, ...) {
        va_list args;
        char *text;
        int length;

        va_start(args, format);
        length = vasprintf(&text, format, args);
        va_end(args);
        if (length < 0)
                return -ENOMEM;
        *ret = text;
        return 0;
}

void sbx_raw_clear(struct sbx_raw *raw) {
        free(raw->name);
        free(raw->text);
        sbx_strings_free(raw->list);
        free(raw->origin);
        free(raw->directory);
        *raw = (struct sbx_raw){0};
}

void sbx_raws_free(struct sbx_raws *raws) {
        for (size_t i = 0; i < raws->count; i++)
                sbx_raw_clear(&raws->items[i]);
        free(raws->items);
        *raws = (struct sbx_raws){0};
}

const struct sbx_raw *sbx_raws_find(const struct sbx_raws *raws, const char *name) {
        for (size_t i = 0; raws != NULL && i < raws->count; i++)
                if (strcmp(raws->items[i].name, name) == 0)
                        return &raws->items[i];
        return NULL;
}

int sbx_raws_put(struct sbx_raws *raws, struct sbx_raw *raw) {
        struct sbx_raw *place = (struct sbx_raw *)sbx_raws_find(raws, raw->name);

        if (place != NULL) {
                sbx_raw_clear(place);
        } else {
                if (raws->count == raws->capacity) {
                        size_t capacity = raws->capacity > 0 ? raws->capacity * 2 : 16;
                        struct sbx_raw *grown = reallocarray(raws->items, capacity, sizeof(*grown));

                        if (grown == NULL)
                                return -ENOMEM;
                        raws->items = grown;
                        raws->capacity = capacity;
                }
                place = &raws->items[raws->count++];
        }
        *place = *raw;
        *raw = (struct sbx_raw){0};
        return 0;
}

int sbx_raw_from_text(const char *name, const char *text, const char *origin, const char *directory,
                      struct sbx_raw *ret) {
        struct sbx_raw raw = {
                .type = SBX_RAW_TEXT,
                .name = strdup(name),
                .text = strdup(text),
                .origin = strdup(origin),
                .directory = strdup(directory),
        };

        if (raw.name == NULL || raw.text == NULL || raw.origin == NULL || raw.directory == NULL) {
                sbx_raw_clear(&raw);
                return -ENOMEM;
        }
        *ret = raw;
        return 0;
}
