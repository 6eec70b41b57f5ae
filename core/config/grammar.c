/* SPDX-License-Identifier: Apache-2.0 */
/* The syntax of a configuration file, checked before libconfig gets the text: for messages that help, because libconfig
 * 1.5 leaks memory on syntax errors and cuts long integers, and to leave out @include. */
#include "config/grammar.h"

#include "base/error.h"
#include "base/utf8.h"

/* ---- syntax ---- */

static bool is_mark(const struct token *token, char mark) {
        return token->kind == TOKEN_MARK && *token->text == mark;
}

static bool is_scalar(const struct token *token) {
        return token->kind == TOKEN_BOOLEAN || token->kind == TOKEN_NUMBER || token->kind == TOKEN_WIDE_NUMBER ||
               token->kind == TOKEN_STRING;
}

static char innermost(const struct syntax *syntax) {
        return syntax->depth > 0 ? syntax->open[syntax->depth - 1] : '{';
}

static bool is_closing(const struct syntax *syntax, const struct token *token) {
        static const char pairs[] = "{}[]()";

        return syntax->depth > 0 && is_mark(token, strchr(pairs, innermost(syntax))[1]);
}

static void value_done(struct syntax *syntax, const struct token *token) {
        syntax->state = innermost(syntax) == '{' ? SYNTAX_AFTER_VALUE : SYNTAX_AFTER_ITEM;
        syntax->after_string = token->kind == TOKEN_STRING;
}

static const char *step_value(struct syntax *syntax, const struct token *token) {
        if (is_scalar(token)) {
                value_done(syntax, token);
                return NULL;
        }
        if (!is_mark(token, '{') && !is_mark(token, '[') && !is_mark(token, '('))
                return token->kind == TOKEN_NAME ? "a value was expected; text stands in double quotes"
                                                 : "a value was expected";
        if (innermost(syntax) == '[')
                return "a [ ] list holds plain values alone; use ( )";
        if (syntax->depth == SBX_CONFIG_DEPTH_MAX)
                return "brackets are nested too deep";
        syntax->open[syntax->depth++] = *token->text;
        syntax->state = *token->text == '{' ? SYNTAX_NAME : SYNTAX_FIRST_ITEM;
        return NULL;
}

static const char *step_name(struct syntax *syntax, const struct token *token) {
        if (token->kind == TOKEN_NAME) {
                syntax->state = SYNTAX_ASSIGN;
                return NULL;
        }
        if (token->kind == TOKEN_END && syntax->depth == 0)
                return NULL;
        return syntax->depth > 0 ? "the name of a setting or } was expected" : "the name of a setting was expected";
}

static const char *close_bracket(struct syntax *syntax, const struct token *token) {
        syntax->depth--;
        value_done(syntax, token);
        return NULL;
}

const char *sbx_syntax_step(struct syntax *syntax, const struct token *token) {
        bool closing = is_closing(syntax, token);

        switch (syntax->state) {
        case SYNTAX_NAME:
                return closing ? close_bracket(syntax, token) : step_name(syntax, token);
        case SYNTAX_ASSIGN:
                if (!is_mark(token, '=') && !is_mark(token, ':'))
                        return "= was expected after the name of a setting";
                syntax->state = SYNTAX_VALUE;
                return NULL;
        case SYNTAX_VALUE:
                return step_value(syntax, token);
        case SYNTAX_ITEM:
                syntax->comma_dangles = closing;
                __attribute__((fallthrough));
        case SYNTAX_FIRST_ITEM:
                return closing ? close_bracket(syntax, token) : step_value(syntax, token);
        case SYNTAX_AFTER_VALUE:
                if (token->kind == TOKEN_STRING && syntax->after_string)
                        return NULL;
                if (closing)
                        return close_bracket(syntax, token);
                syntax->state = SYNTAX_NAME;
                if (is_mark(token, ';') || is_mark(token, ','))
                        return NULL;
                return token->kind == TOKEN_NAME || token->kind == TOKEN_END ? step_name(syntax, token)
                                                                             : "; was expected after a value";
        case SYNTAX_AFTER_ITEM:
                if (token->kind == TOKEN_STRING && syntax->after_string)
                        return NULL;
                if (closing)
                        return close_bracket(syntax, token);
                syntax->state = SYNTAX_ITEM;
                return is_mark(token, ',') ? NULL : "a comma or the closing bracket was expected after a value";
        }
        return "unknown state";
}

/* ---- text ---- */

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
        return sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN, "Save the file as UTF-8.", "%s:%u: is not UTF-8 text",
                             path, line_of(text, start));
}

/* A token's kind in words. Not its text: an API key that lacks its quotes is a token too. */
static const char *describe(const struct token *token, char mark[4]) {
        switch (token->kind) {
        case TOKEN_NAME:
        case TOKEN_BOOLEAN:
                return "a word";
        case TOKEN_NUMBER:
        case TOKEN_WIDE_NUMBER:
                return "a number";
        case TOKEN_STRING:
                return "a text";
        case TOKEN_END:
                return "the end of the file";
        default:
                mark[0] = mark[2] = '\'';
                mark[1] = *token->text;
                mark[3] = '\0';
                return mark;
        }
}

static int refuse(const char *path, struct sbx_bytes text, const struct token *token, const char *problem,
                  struct sbx_error *err) {
        static const char hint[] =
                "Settings look like  name = value;  text stands in double quotes. docs/configuration.md has "
                "examples.";
        unsigned line = line_of(text, (size_t)(token->text - (const char *)text.data));
        char mark[4];

        if (token->kind == TOKEN_BAD)
                return sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN, token->hint != NULL ? token->hint : hint,
                                     "%s:%u: %s", path, line, problem);
        return sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN, hint, "%s:%u: %s, not %s", path, line, problem,
                             describe(token, mark));
}

static int copy_token(const struct token *token, struct sbx_buffer *out) {
        int r = sbx_buffer_append(out, token->text, token->size);

        return r == 0 && token->kind == TOKEN_WIDE_NUMBER ? sbx_buffer_append(out, "L", 1) : r;
}

int sbx_grammar_prepare(const char *path, struct sbx_bytes text, struct sbx_buffer *out, struct sbx_error *err) {
        struct syntax syntax = {.state = SYNTAX_NAME};
        struct token token = {0};
        const char *p = text.size > 0 ? text.data : "", *end = p + text.size;
        size_t comma = 0; /* where the last one stands in `out` */
        int r = check_text(path, text, err);

        if (text.size >= 3 && memcmp(p, "\xEF\xBB\xBF", 3) == 0) /* a byte order mark */
                p += 3;
        while (r == 0 && token.kind != TOKEN_END) {
                const char *problem = NULL;

                token = sbx_token_read(p, end);
                if (token.kind != TOKEN_BLANK)
                        problem = token.kind == TOKEN_BAD ? token.problem : sbx_syntax_step(&syntax, &token);
                if (problem != NULL)
                        return refuse(path, text, &token, problem, err);
                if (is_mark(&token, ','))
                        comma = out->size;
                if (syntax.comma_dangles) {
                        out->data[comma] = ' ';
                        syntax.comma_dangles = false;
                }
                r = copy_token(&token, out);
                if (r < 0)
                        sbx_error_set(err, r, SBX_CONFIG_ORIGIN, NULL, "%s: %s", path, SBX_ERRNO_TEXT(r));
                p += token.size;
        }
        return r;
}
