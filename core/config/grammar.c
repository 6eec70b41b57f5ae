/* SPDX-License-Identifier: Apache-2.0 */
/* A look at a configuration file's text before libconfig gets it: what libconfig would take wrongly or not at all. */
#include <ctype.h>

#include "base/utf8.h"
#include "config/internal.h"

struct scanner {
        const char *path;
        const char *p, *end;
        unsigned line, depth;
        bool line_start; /* only blanks since the last newline */
        struct sbx_buffer *out;
        struct sbx_error *err;
};

static bool is_name_char(char c) {
        return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '*';
}

/* Copies `size` bytes, counting lines. */
static int copy(struct scanner *s, size_t size) {
        int r = sbx_buffer_append(s->out, s->p, size);

        for (size_t i = 0; i < size; i++)
                s->line += s->p[i] == '\n';
        s->p += size;
        if (r < 0)
                return sbx_error_set(s->err, r, SBX_CONFIG_ORIGIN, NULL, "%s: %s", s->path,
                                     r == -ENOMEM ? "out of memory" : "file too large");
        return 0;
}

/* Past the closing quote, or the end of the text: libconfig reports a string without an end itself. */
static size_t string_size(const struct scanner *s) {
        const char *p = s->p + 1;

        while (p < s->end && *p != '"')
                p += *p == '\\' && p + 1 < s->end ? 2 : 1;
        return (size_t)(p - s->p) + (p < s->end);
}

/* A comment: up to, not with, the newline; or with the closing mark. 0: there is none here. */
static size_t comment_size(const struct scanner *s) {
        size_t left = (size_t)(s->end - s->p);
        const char *stop;

        if (*s->p == '#' || (left >= 2 && memcmp(s->p, "//", 2) == 0)) {
                stop = memchr(s->p, '\n', left);
                return stop != NULL ? (size_t)(stop - s->p) : left;
        }
        if (left < 2 || memcmp(s->p, "/*", 2) != 0)
                return 0;
        stop = memmem(s->p + 2, left - 2, "*/", 2);
        return stop != NULL ? (size_t)(stop - s->p) + 2 : left;
}

/* Magnitude of an integer literal of `size` characters without its sign and suffix. */
static bool parse_magnitude(const char *digits, size_t size, uint64_t *ret) {
        unsigned base = 10;

        if (size > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) {
                base = 16;
                digits += 2;
                size -= 2;
        }
        *ret = 0;
        for (size_t i = 0; i < size; i++) {
                unsigned digit = isdigit((unsigned char)digits[i]) ? (unsigned)(digits[i] - '0')
                                                                   : (unsigned)(tolower((unsigned char)digits[i]) - 'a') + 10;

                if (__builtin_mul_overflow(*ret, base, ret) || __builtin_add_overflow(*ret, digit, ret))
                        return false;
        }
        return true;
}

/* Characters of an integer literal, without its suffix; 0: a real number, or something that libconfig will refuse. */
static size_t integer_size(const char *token, size_t size) {
        size_t i = token[0] == '-' || token[0] == '+', start;
        bool hex = size > i + 2 && token[i] == '0' && (token[i + 1] == 'x' || token[i + 1] == 'X');

        i += hex ? 2 : 0;
        start = i;
        while (i < size && (hex ? isxdigit((unsigned char)token[i]) : isdigit((unsigned char)token[i])))
                i++;
        if (i == start || (i < size && token[i] != 'L' && token[i] != 'l'))
                return 0;
        return i;
}

static int copy_number(struct scanner *s) {
        const char *token = s->p;
        bool negative = *token == '-', wide;
        size_t size = 1, digits, sign = *token == '-' || *token == '+';
        uint64_t magnitude;
        int r;

        while (token + size < s->end && (isalnum((unsigned char)token[size]) || token[size] == '.' ||
                                         ((token[size] == '-' || token[size] == '+') && tolower(token[size - 1]) == 'e')))
                size++;
        digits = integer_size(token, size);
        if (digits == 0)
                return copy(s, size);
        if (!parse_magnitude(token + sign, digits - sign, &magnitude) ||
            magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0))
                return sbx_error_set(s->err, -EINVAL, SBX_CONFIG_ORIGIN, NULL, "%s:%u: the number %.*s is too large",
                                     s->path, s->line, (int)(size < 64 ? size : 64), token);
        wide = magnitude > (uint64_t)INT32_MAX && digits == size;
        r = copy(s, size);
        if (r == 0 && wide)
                r = sbx_buffer_append(s->out, "L", 1);
        return r;
}

static int check_include(const struct scanner *s) {
        if (!s->line_start || (size_t)(s->end - s->p) < 8 || memcmp(s->p, "@include", 8) != 0)
                return 0;
        return sbx_error_set(s->err, -EINVAL, SBX_CONFIG_ORIGIN,
                             "Put the other file, named NAME.cfg, into the directory conf.d beside snipara-sandbox.cfg.",
                             "%s:%u: @include is not supported: a file that was checked must not pull in one that was not",
                             s->path, s->line);
}

static int copy_token(struct scanner *s) {
        char c = *s->p;
        size_t size = comment_size(s);

        if (size > 0)
                return copy(s, size);
        if (c == '"')
                return copy(s, string_size(s));
        if (isdigit((unsigned char)c) || ((c == '-' || c == '+') && s->p + 1 < s->end && isdigit((unsigned char)s->p[1])))
                return copy_number(s);
        if (isalpha((unsigned char)c) || c == '*') {
                for (size = 1; s->p + size < s->end && is_name_char(s->p[size]);)
                        size++;
                return copy(s, size);
        }
        if (c == '{' || c == '(' || c == '[')
                s->depth++;
        else if ((c == '}' || c == ')' || c == ']') && s->depth > 0)
                s->depth--;
        if (s->depth > SBX_CONFIG_DEPTH_MAX)
                return sbx_error_set(s->err, -EINVAL, SBX_CONFIG_ORIGIN, NULL, "%s:%u: nested deeper than %d levels",
                                     s->path, s->line, SBX_CONFIG_DEPTH_MAX);
        return copy(s, 1);
}

/* Line in which byte `offset` stands. */
static unsigned line_of(struct sbx_bytes text, size_t offset) {
        const char *bytes = text.data;
        unsigned line = 1;

        for (size_t i = 0; i < offset && i < text.size; i++)
                line += bytes[i] == '\n';
        return line;
}

static int check_text(const char *path, struct sbx_bytes text, struct sbx_error *err) {
        const char *bytes = text.data, *nul = text.size > 0 ? memchr(bytes, '\0', text.size) : NULL;
        size_t start = 0;

        if (nul != NULL)
                return sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN, "Is it really a configuration file?",
                                     "%s:%u: has a NUL byte in it", path, line_of(text, (size_t)(nul - bytes)));
        if (sbx_utf8_valid(text))
                return 0;
        /* Line by line, to name the one that is at fault. */
        for (size_t i = 0; i < text.size; i++) {
                if (bytes[i] != '\n' && i + 1 < text.size)
                        continue;
                if (!sbx_utf8_valid((struct sbx_bytes){bytes + start, i + 1 - start}))
                        break;
                start = i + 1;
        }
        return sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN, "Save the file as UTF-8.", "%s:%u: is not UTF-8 text", path,
                             line_of(text, start));
}

int sbx_grammar_prepare(const char *path, struct sbx_bytes text, struct sbx_buffer *out, struct sbx_error *err) {
        struct scanner s = {.path = path, .line = 1, .line_start = true, .out = out, .err = err};
        int r = check_text(path, text, err);

        if (text.size >= 3 && memcmp(text.data, "\xEF\xBB\xBF", 3) == 0) /* a byte order mark */
                text = (struct sbx_bytes){(const char *)text.data + 3, text.size - 3};
        s.p = text.data;
        s.end = text.size > 0 ? s.p + text.size : s.p;
        while (r == 0 && s.p < s.end) {
                char c = *s.p;

                r = check_include(&s);
                if (r < 0)
                        break;
                r = copy_token(&s);
                s.line_start = c == '\n' || (s.line_start && (c == ' ' || c == '\t' || c == '\r'));
        }
        return r;
}
