/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of configuration files. */
#include <ctype.h>
#include <strings.h>

#include "config/grammar.h"

static bool is_name_char(char c) {
        return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '*';
}

static size_t digits_size(const char *text, const char *end) {
        size_t size = 0;

        while (text + size < end && isdigit((unsigned char)text[size]))
                size++;
        return size;
}

static struct token make_token(enum token_kind kind, const char *text, size_t size) {
        return (struct token){.kind = kind, .text = text, .size = size};
}

static struct token bad_token(const char *text, const char *problem) {
        return (struct token){.kind = TOKEN_BAD, .text = text, .problem = problem};
}

/* ---- numbers ---- */

/* A number as far as a person would see one: malformed ones are one token too, so that they can be refused whole. */
static size_t number_extent(const char *text, const char *end) {
        size_t size = 1;

        while (text + size < end) {
                char c = text[size];
                bool exponent_sign = (c == '-' || c == '+') && tolower((unsigned char)text[size - 1]) == 'e';

                if (!isalnum((unsigned char)c) && c != '.' && c != '_' && !exponent_sign)
                        break;
                size++;
        }
        return size;
}

/* Magnitude of an integer literal without its sign and suffix; false: more than 64 bits. */
static bool parse_magnitude(const char *digits, size_t size, bool hex, uint64_t *ret) {
        *ret = 0;
        for (size_t i = 0; i < size; i++) {
                unsigned digit = isdigit((unsigned char)digits[i])
                                         ? (unsigned)(digits[i] - '0')
                                         : (unsigned)(tolower((unsigned char)digits[i]) - 'a') + 10;

                if (__builtin_mul_overflow(*ret, hex ? 16 : 10, ret) || __builtin_add_overflow(*ret, digit, ret))
                        return false;
        }
        return true;
}

/* [sign] digits [L[L]] or 0x digits [L[L]]; TOKEN_BLANK: something else. */
static struct token read_integer(const char *text, size_t size) {
        size_t sign = text[0] == '-' || text[0] == '+', start = sign, i;
        bool hex = size > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X'), marked;
        uint64_t magnitude;

        start += hex ? 2 : 0;
        for (i = start; i < size && (hex ? isxdigit((unsigned char)text[i]) : isdigit((unsigned char)text[i]));)
                i++;
        marked = (size - i == 1 && text[i] == 'L') || (size - i == 2 && text[i] == 'L' && text[i + 1] == 'L');
        if (i == start || (i < size && !marked))
                return make_token(TOKEN_BLANK, text, size);
        if (!parse_magnitude(text + start, i - start, hex, &magnitude) ||
            magnitude > (uint64_t)INT64_MAX + (text[0] == '-'))
                return bad_token(text, "the number is too large");
        return make_token(!marked && magnitude > (uint64_t)INT32_MAX ? TOKEN_WIDE_NUMBER : TOKEN_NUMBER, text, size);
}

/* [sign] digits . digits [e [sign] digits], where one of the first two groups of digits may be missing. */
static bool is_real(const char *text, const char *end) {
        size_t whole, fraction = 0, exponent;

        text += *text == '-' || *text == '+';
        whole = digits_size(text, end);
        text += whole;
        if (text < end && *text == '.') {
                fraction = digits_size(++text, end);
                text += fraction;
        }
        if (whole + fraction == 0)
                return false;
        if (text < end && (*text == 'e' || *text == 'E')) {
                text++;
                text += text < end && (*text == '-' || *text == '+');
                exponent = digits_size(text, end);
                if (exponent == 0)
                        return false;
                text += exponent;
        }
        return text == end;
}

static struct token read_number(const char *text, const char *end) {
        size_t size = number_extent(text, end);
        struct token token = read_integer(text, size);

        if (token.kind != TOKEN_BLANK)
                return token;
        if (is_real(text, text + size))
                return make_token(TOKEN_NUMBER, text, size);
        return bad_token(text, "a number was begun that is none; a size like 512m or a time like 30s stands in quotes");
}

static bool begins_number(const char *text, const char *end) {
        text += *text == '-' || *text == '+';
        text += text < end && *text == '.';
        return text < end && isdigit((unsigned char)*text);
}

/* ---- the rest ---- */

/* Up to, not with, the newline; or with the closing mark. */
static struct token read_comment(const char *text, const char *end) {
        size_t left = (size_t)(end - text);
        const char *stop;

        if (text[0] == '#' || text[1] == '/') {
                stop = memchr(text, '\n', left);
                return make_token(TOKEN_BLANK, text, stop != NULL ? (size_t)(stop - text) : left);
        }
        stop = memmem(text + 2, left - 2, "*/", 2);
        if (stop == NULL)
                return bad_token(text, "a comment begins here that has no end */");
        return make_token(TOKEN_BLANK, text, (size_t)(stop - text) + 2);
}

static struct token read_string(const char *text, const char *end) {
        const char *p = text + 1;

        while (p < end && *p != '"')
                p += *p == '\\' && p + 1 < end ? 2 : 1;
        if (p >= end)
                return bad_token(text, "a text begins here that has no closing quote");
        return make_token(TOKEN_STRING, text, (size_t)(p - text) + 1);
}

static struct token read_name(const char *text, const char *end) {
        size_t size = 1;

        while (text + size < end && is_name_char(text[size]))
                size++;
        if ((size == 4 && strncasecmp(text, "true", 4) == 0) || (size == 5 && strncasecmp(text, "false", 5) == 0))
                return make_token(TOKEN_BOOLEAN, text, size);
        return make_token(TOKEN_NAME, text, size);
}

static size_t blank_size(const char *text, const char *end) {
        size_t size = 0;

        while (text + size < end && strchr(" \t\r\n\f", text[size]) != NULL)
                size++;
        return size;
}

struct token sbx_token_read(const char *text, const char *end) {
        size_t size;

        if (text == end)
                return make_token(TOKEN_END, text, 0);
        size = blank_size(text, end);
        if (size > 0)
                return make_token(TOKEN_BLANK, text, size);
        if (*text == '#' || (*text == '/' && end - text >= 2 && (text[1] == '/' || text[1] == '*')))
                return read_comment(text, end);
        if (*text == '"')
                return read_string(text, end);
        if (begins_number(text, end))
                return read_number(text, end);
        if (isalpha((unsigned char)*text) || *text == '*')
                return read_name(text, end);
        if (strchr("=:;,{}[]()", *text) != NULL)
                return make_token(TOKEN_MARK, text, 1);
        if (end - text >= 8 && memcmp(text, "@include", 8) == 0)
                return (struct token){
                        .kind = TOKEN_BAD,
                        .text = text,
                        .problem =
                                "@include is not supported: a file that was checked must not pull in one that was not",
                        .hint = "Put the other file, as NAME.cfg, into the directory conf.d beside "
                                "snipara-sandbox.cfg.",
                };
        return bad_token(text, "a character stands here that has no meaning");
}
