/* SPDX-License-Identifier: Apache-2.0 */
/* The project's .env: assignments as shells and other tools write them, read without touching the environment. */
#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "config/internal.h"

struct parser {
        const char *path;
        const char *p;
        unsigned line;
};

static bool is_blank(char c) {
        return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(struct parser *parser) {
        while (is_blank(*parser->p))
                parser->p++;
}

static void skip_line(struct parser *parser) {
        parser->p += strcspn(parser->p, "\n");
        if (*parser->p == '\n') {
                parser->p++;
                parser->line++;
        }
}

/* What stands for a backslash and `c` between double quotes; 0: both are kept. */
static char unescape(char c) {
        switch (c) {
        case 'n':
                return '\n';
        case 't':
                return '\t';
        case 'r':
                return '\r';
        case '"':
        case '\\':
        case '$':
        case '`':
                return c;
        default:
                return 0;
        }
}

/* 'as it is' or "with \escapes"; either may span lines. -EINVAL: no closing quote. */
static int parse_quoted(struct parser *parser, struct sbx_buffer *out) {
        char quote = *parser->p++;
        int r = 0;

        while (r == 0 && *parser->p != quote) {
                char c = *parser->p;

                if (c == '\0')
                        return -EINVAL;
                parser->line += c == '\n';
                if (quote == '"' && c == '\\' && unescape(parser->p[1]) != 0) {
                        c = unescape(*++parser->p);
                }
                r = sbx_buffer_append(out, &c, 1);
                parser->p++;
        }
        if (r == 0)
                parser->p++;
        return r;
}

/* Up to the end of the line, or to a comment that a blank sets apart; blanks at the end do not count. */
static int parse_bare(struct parser *parser, struct sbx_buffer *out) {
        const char *start = parser->p;
        size_t size = strcspn(start, "\n");

        for (size_t i = 0; i < size; i++)
                if (start[i] == '#' && (i == 0 || is_blank(start[i - 1])))
                        size = i;
        parser->p += size;
        while (size > 0 && is_blank(start[size - 1]))
                size--;
        return sbx_buffer_append(out, start, size);
}

static size_t name_size(const char *text) {
        size_t size = 0;

        if (!isalpha((unsigned char)text[0]) && text[0] != '_')
                return 0;
        while (isalnum((unsigned char)text[size]) || text[size] == '_')
                size++;
        return size;
}

/* `export NAME = VALUE # comment`. -EINVAL: not an assignment. */
static int parse_assignment(struct parser *parser, struct sbx_variables *variables) {
        _cleanup_buffer_ struct sbx_buffer value = SBX_BUFFER(SBX_CONFIG_FILE_MAX);
        _cleanup_free_ char *name = NULL, *origin = NULL;
        unsigned line = parser->line;
        size_t size;
        int r;

        if (strncmp(parser->p, "export", 6) == 0 && is_blank(parser->p[6])) {
                parser->p += 6;
                skip_blanks(parser);
        }
        size = name_size(parser->p);
        if (size == 0)
                return -EINVAL;
        name = strndup(parser->p, size);
        if (name == NULL || sbx_text_format(&origin, "%s:%u %s", parser->path, line, name) < 0)
                return -ENOMEM;
        parser->p += size;
        skip_blanks(parser);
        if (*parser->p != '=')
                return -EINVAL;
        parser->p++;
        skip_blanks(parser);
        r = *parser->p == '"' || *parser->p == '\'' ? parse_quoted(parser, &value) : parse_bare(parser, &value);
        if (r < 0)
                return r;
        skip_blanks(parser);
        if (*parser->p != '\0' && *parser->p != '\n' && *parser->p != '#')
                return -EINVAL;
        return sbx_variables_put(variables, name, value.data != NULL ? value.data : "", origin);
}

int sbx_dotenv_parse(const char *path, const char *text, const struct sbx_logger *logger,
                     struct sbx_variables *variables) {
        struct parser parser = {.path = path, .p = text, .line = 1};

        if (strncmp(text, "\xEF\xBB\xBF", 3) == 0)
                parser.p += 3;
        while (*parser.p != '\0') {
                struct parser start;
                int r = 0;

                skip_blanks(&parser);
                start = parser;
                if (*parser.p != '\n' && *parser.p != '#' && *parser.p != '\0')
                        r = parse_assignment(&parser, variables);
                if (r == -ENOMEM)
                        return r;
                if (r < 0) {
                        /* Never the line itself: it may hold a secret. */
                        sbx_log(logger, SBX_LOG_WARNING, "%s:%u: not a line of the form NAME=VALUE, passed over", path,
                                start.line);
                        parser = start;
                }
                skip_line(&parser);
        }
        return 0;
}

/* ---- finding it ---- */

static int read_candidate(const char *directory, const char *path, const struct sbx_logger *logger,
                          struct sbx_variables *variables, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(SBX_CONFIG_FILE_MAX);
        struct sbx_error problem = {0};
        int r = sbx_config_read_file(AT_FDCWD, path, path, SBX_TRUST_FOUND, &text, &problem);

        if (r == -ENOENT)
                return r;
        if (r == 0 && text.data != NULL && memchr(text.data, '\0', text.size) != NULL)
                r = sbx_error_set(&problem, -EINVAL, SBX_CONFIG_ORIGIN, NULL, "%s: has a NUL byte in it", path);
        if (r == 0) {
                variables->directory = strdup(directory);
                if (variables->directory == NULL ||
                    sbx_dotenv_parse(path, text.data != NULL ? text.data : "", logger, variables) < 0)
                        return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
                return 0;
        }
        if (r == -ENOMEM)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        sbx_log(logger, SBX_LOG_WARNING, "%s; the file is passed over. %s", problem.message, problem.hint);
        return -EPERM;
}

/* True when `directory` holds .git: a project ends there. */
static bool is_project_root(const char *directory, int *ret_error) {
        _cleanup_free_ char *git = NULL;

        *ret_error = sbx_text_format(&git, "%s/.git", directory);
        return *ret_error == 0 && access(git, F_OK) == 0;
}

int sbx_dotenv_load(const char *directory, const struct sbx_logger *logger, struct sbx_variables *ret_variables,
                    char **ret_path, struct sbx_error *err) {
        _cleanup_(sbx_variables_free) struct sbx_variables variables = {0};
        _cleanup_free_ char *current = strdup(directory);
        int failure = 0;

        while (current != NULL) {
                _cleanup_free_ char *path = NULL;
                char *slash = strrchr(current, '/');
                int r = sbx_text_format(&path, "%s/.env", strcmp(current, "/") == 0 ? "" : current);

                if (r == 0)
                        r = read_candidate(current, path, logger, &variables, err);
                if (r == 0) {
                        *ret_variables = variables;
                        variables = (struct sbx_variables){0};
                        *ret_path = steal_pointer(path);
                        return 0;
                }
                if (r == -ENOMEM)
                        return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
                if (r == -EPERM || is_project_root(current, &failure) || slash == NULL || strcmp(current, "/") == 0)
                        break;
                if (failure < 0)
                        return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
                slash[slash == current] = '\0';
        }
        if (current == NULL || failure < 0)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        *ret_path = NULL;
        return 0;
}
