/* SPDX-License-Identifier: Apache-2.0 */
/* Requirement specifiers (https://peps.python.org/pep-0508/), checked before they become arguments of pip. */
#include <ctype.h>

#include "options_internal.h"
#include "util.h"

#define REQUIREMENT_MAX 256
#define EXTRAS_MAX 128
#define MARKER_DEPTH 8

static void skip_space(const char **at) {
        while (**at == ' ' || **at == '\t')
                (*at)++;
}

static bool take(const char **at, const char *word) {
        size_t length = strlen(word);

        if (strncmp(*at, word, length) != 0)
                return false;
        *at += length;
        return true;
}

/* letter or digit, then those and ". _ -", and a letter or digit at the end */
static bool take_identifier(const char **at) {
        const char *start = *at;

        while (isalnum((unsigned char)**at) || (*at > start && **at != '\0' && strchr("._-", **at) != NULL))
                (*at)++;
        return *at > start && isalnum((unsigned char)(*at)[-1]);
}

static bool take_operator(const char **at) {
        static const char *const operators[] = {"===", "~=", "==", "!=", "<=", ">=", "<", ">"};

        for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
                if (take(at, operators[i]))
                        return true;
        return false;
}

static bool take_versions(const char **at) {
        do {
                const char *start;

                skip_space(at);
                if (!take_operator(at))
                        return false;
                skip_space(at);
                start = *at;
                while (isalnum((unsigned char)**at) || (**at != '\0' && strchr("._*+!-", **at) != NULL))
                        (*at)++;
                if (*at == start || *start == '-')
                        return false;
                skip_space(at);
        } while (take(at, ","));
        return true;
}

static bool take_extras(const char **at) {
        skip_space(at);
        if (take(at, "]"))
                return true;
        do {
                skip_space(at);
                if (!take_identifier(at))
                        return false;
                skip_space(at);
        } while (take(at, ","));
        return take(at, "]");
}

static bool take_marker_value(const char **at) {
        char quote = **at;
        const char *start = *at;

        if (quote == '\'' || quote == '"') {
                for ((*at)++; **at != quote; (*at)++)
                        if (!isalnum((unsigned char)**at) && (**at == '\0' || strchr(" ._-+*<>=!~,", **at) == NULL))
                                return false;
                (*at)++;
                return true;
        }
        while (islower((unsigned char)**at) || **at == '_' || **at == '.')
                (*at)++;
        return *at > start;
}

static bool take_marker_operator(const char **at) {
        if (take_operator(at) || take(at, "in "))
                return true;
        if (!take(at, "not "))
                return false;
        skip_space(at);
        return take(at, "in ");
}

static bool take_marker(const char **at, unsigned depth) {
        do {
                skip_space(at);
                if (take(at, "(")) {
                        if (depth == MARKER_DEPTH || !take_marker(at, depth + 1) || !take(at, ")"))
                                return false;
                } else {
                        if (!take_marker_value(at))
                                return false;
                        skip_space(at);
                        if (!take_marker_operator(at))
                                return false;
                        skip_space(at);
                        if (!take_marker_value(at))
                                return false;
                }
                skip_space(at);
        } while (take(at, "and ") || take(at, "or "));
        return true;
}

bool docker_requirement_ok(const char *text) {
        const char *at = text;

        if (strlen(text) > REQUIREMENT_MAX || !take_identifier(&at))
                return false;
        skip_space(&at);
        if (take(&at, "[") && !take_extras(&at))
                return false;
        skip_space(&at);
        if (take(&at, "(")) {
                if (!take_versions(&at) || !take(&at, ")"))
                        return false;
        } else if (*at != '\0' && *at != ';' && !take_versions(&at))
                return false;
        skip_space(&at);
        if (take(&at, ";") && !take_marker(&at, 0))
                return false;
        return *at == '\0';
}

static int add(struct docker_options *options, const char *text, size_t length, struct sbx_error *err) {
        _cleanup_free_ char *copy = NULL;

        while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
                length--;
        copy = strndup(text, length);
        if (copy == NULL)
                return sbx_error_set(err, -ENOMEM, DOCKER_OPTIONS_ORIGIN, NULL, "out of memory");
        if (!docker_requirement_ok(copy))
                return sbx_error_set(err, -EINVAL, DOCKER_OPTIONS_ORIGIN,
                                     "Write packages with versions, as \"requests>=2.31\"; no options, paths or "
                                     "addresses. For anything else there is workspace_install_command.",
                                     "workspace_install_extras: \"%s\" is no requirement specifier", copy);
        if (options->install_extra_count == EXTRAS_MAX)
                return sbx_error_set(err, -EINVAL, DOCKER_OPTIONS_ORIGIN,
                                     "Put them into a requirements file, and name that in workspace_install_command.",
                                     "workspace_install_extras: there can be at most %d", EXTRAS_MAX);
        options->install_extras[options->install_extra_count++] = steal_pointer(copy);
        return 0;
}

/* A comma that stands between versions ("a>=1,<2") or extras ("a[b,c]") belongs to its specifier. */
static size_t piece_length(const char *text) {
        unsigned depth = 0;
        size_t i;

        for (i = 0; text[i] != '\0'; i++) {
                const char *next = text + i + 1;

                if (text[i] == '[' || text[i] == '(')
                        depth++;
                else if ((text[i] == ']' || text[i] == ')') && depth > 0)
                        depth--;
                if (text[i] != ',' || depth > 0)
                        continue;
                skip_space(&next);
                if (*next == '\0' || strchr("<>=!~", *next) == NULL)
                        break;
        }
        return i;
}

int docker_extras_read(const struct sbx_host *host, struct docker_options *options, struct sbx_error *err) {
        size_t count = host->option_count(host->self, "workspace_install_extras");
        const char *text = count == 0 ? host->setting(host->self, "docker_workspace_install_extras") : NULL;
        int r = 0;

        options->install_extras = calloc(EXTRAS_MAX, sizeof(*options->install_extras));
        if (options->install_extras == NULL)
                return sbx_error_set(err, -ENOMEM, DOCKER_OPTIONS_ORIGIN, NULL, "out of memory");
        for (size_t i = 0; r == 0 && i < count; i++) {
                const char *item = host->option_item(host->self, "workspace_install_extras", i);

                r = item != NULL ? add(options, item, strlen(item), err) : 0;
        }
        while (r == 0 && text != NULL && *text != '\0') {
                size_t length;

                skip_space(&text);
                length = piece_length(text);
                if (length > 0)
                        r = add(options, text, length, err);
                text += length + (text[length] == ',' ? 1 : 0);
        }
        return r;
}
