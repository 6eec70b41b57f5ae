/* SPDX-License-Identifier: Apache-2.0 */
/* Ignore files in git's format. The rules are those of gitignore(5); where that page is silent, those of git itself,
 * which the tests compare with. */
#include "ignore.h"

#include <string.h>

#include "glob.h"

#define PATTERNS_MAX 20000u

struct pattern {
        char *text; /* without "!", and without the slash at its end */
        size_t size;
        size_t literal; /* bytes before the first special one */
        bool negative, directory_only;
        bool anywhere;     /* no slash: it is about the last component of a path */
        struct glob *glob; /* of all of `text` if `anywhere`, else of what follows the literal part; NULL: nothing to
                              match */
};

struct ignore_list {
        char *base;
        size_t base_size;
        struct pattern *patterns;
        size_t count, capacity;
};

void ignore_free(struct ignore_list *list) {
        if (list == NULL)
                return;
        for (size_t i = 0; i < list->count; i++) {
                free(list->patterns[i].text);
                glob_free(list->patterns[i].glob);
        }
        free(list->patterns);
        free(list->base);
        free(list);
}

/* ---- parsing ---- */

/* Spaces at the end go, unless a backslash is before them. */
static size_t trimmed_size(const char *line, size_t size) {
        size_t kept = 0;

        for (size_t i = 0; i < size; i++) {
                if (line[i] == '\\' && i + 1 < size)
                        i++;
                else if (line[i] == '\\')
                        return size;
                else if (line[i] == ' ')
                        continue;
                kept = i + 1;
        }
        return kept;
}

static int compile(struct pattern *pattern) {
        size_t from = pattern->anywhere ? 0 : pattern->literal;

        if (pattern->literal == pattern->size)
                return 0;
        return glob_compile(pattern->text + from, pattern->size - from, !pattern->anywhere, &pattern->glob);
}

static int add_pattern(struct ignore_list *list, const char *line, size_t size) {
        struct pattern *pattern;

        if (list->count == list->capacity) {
                size_t capacity = list->capacity > 0 ? list->capacity * 2 : 16;
                struct pattern *grown = realloc(list->patterns, capacity * sizeof(*grown));

                if (grown == NULL)
                        return -ENOMEM;
                list->patterns = grown;
                list->capacity = capacity;
        }
        pattern = &list->patterns[list->count];
        *pattern = (struct pattern){.negative = size > 0 && line[0] == '!'};
        if (pattern->negative) {
                line++;
                size--;
        }
        pattern->directory_only = size > 0 && line[size - 1] == '/';
        if (pattern->directory_only)
                size--;
        pattern->anywhere = memchr(line, '/', size) == NULL;
        if (!pattern->anywhere && line[0] == '/') { /* it has said that it is relative to the base */
                line++;
                size--;
        }
        pattern->text = strndup(line, size);
        if (pattern->text == NULL)
                return -ENOMEM;
        list->count++;
        pattern->size = size;
        pattern->literal = strcspn(pattern->text, "*?[\\");
        return compile(pattern);
}

static int add_line(struct ignore_list *list, const char *line, size_t size) {
        const char *nul = memchr(line, '\0', size);

        if (size == 0 || line[0] == '#')
                return 0;
        if (list->count == PATTERNS_MAX)
                return -EFBIG;
        if (line[size - 1] == '\r')
                size--;
        if (nul != NULL && (size_t)(nul - line) < size)
                size = (size_t)(nul - line);
        size = trimmed_size(line, size);
        return size > 0 ? add_pattern(list, line, size) : 0;
}

static int parse_lines(struct ignore_list *list, const char *text, size_t size) {
        if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
                text += 3;
                size -= 3;
        }
        while (size > 0) {
                const char *newline = memchr(text, '\n', size);
                size_t length = newline != NULL ? (size_t)(newline - text) : size;
                int r = add_line(list, text, length);

                if (r < 0)
                        return r;
                length += newline != NULL;
                text += length;
                size -= length;
        }
        return 0;
}

int ignore_parse(struct sbx_bytes text, const char *base, struct ignore_list **ret_list) {
        struct ignore_list *list = calloc(1, sizeof(*list));
        int r;

        if (list == NULL)
                return -ENOMEM;
        list->base = strdup(base);
        list->base_size = strlen(base);
        r = list->base == NULL ? -ENOMEM : parse_lines(list, text.data, text.size);
        if (r < 0) {
                ignore_free(list);
                return r;
        }
        *ret_list = list;
        return 0;
}

/* ---- checking ---- */

static bool matches(const struct pattern *pattern, const char *text, size_t size) {
        if (pattern->glob == NULL)
                return size == pattern->size && memcmp(text, pattern->text, size) == 0;
        if (pattern->anywhere)
                return glob_match(pattern->glob, text, size);
        return size >= pattern->literal && memcmp(text, pattern->text, pattern->literal) == 0 &&
               glob_match(pattern->glob, text + pattern->literal, size - pattern->literal);
}

enum ignore_verdict ignore_check(const struct ignore_list *list, const char *path, bool directory) {
        const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path, *below = path;
        size_t name_size = strlen(name), below_size;

        if (list->base_size > 0) {
                if (strncmp(path, list->base, list->base_size) != 0 || path[list->base_size] != '/')
                        return IGNORE_UNDECIDED;
                below += list->base_size + 1;
        }
        below_size = strlen(below);
        for (size_t i = list->count; i > 0; i--) {
                const struct pattern *pattern = &list->patterns[i - 1];

                if (pattern->directory_only && !directory)
                        continue;
                if (pattern->anywhere ? matches(pattern, name, name_size) : matches(pattern, below, below_size))
                        return pattern->negative ? IGNORE_NO : IGNORE_YES;
        }
        return IGNORE_UNDECIDED;
}
