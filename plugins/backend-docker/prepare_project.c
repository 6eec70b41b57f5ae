/* SPDX-License-Identifier: Apache-2.0 */
/* What a project says of its own installation, read and never run. */
#include <fcntl.h>
#include <sys/stat.h>

#include "prepare_internal.h"
#include "util.h"

#define FILE_MAX ((off_t)1 << 20)

/* ---- the extra "dev" ---- */

/* The line without blanks and quotes, up to a comment or the end. Returns the beginning of the next line, NULL: none.
 */
static const char *take_line(const char *text, char *line, size_t size) {
        const char *end = text + strcspn(text, "\n");
        size_t n = 0;

        for (const char *at = text; at < end && *at != '#' && n + 1 < size; at++)
                if (strchr(" \t\r\"'", *at) == NULL)
                        line[n++] = *at;
        line[n] = '\0';
        return *end == '\n' ? end + 1 : NULL;
}

static bool begins(const char *text, const char *with) {
        return strncmp(text, with, strlen(with)) == 0;
}

/* `line` in the table `table` of a pyproject.toml:
 * https://packaging.python.org/en/latest/specifications/pyproject-toml/
 */
static bool toml_declares(const char *table, const char *line) {
        if (strcmp(table, "[project.optional-dependencies]") == 0 || strcmp(table, "[tool.poetry.extras]") == 0)
                return begins(line, "dev=");
        if (strcmp(table, "[project]") == 0)
                return begins(line, "optional-dependencies.dev=") || begins(line, "optional-dependencies={dev=") ||
                       (begins(line, "optional-dependencies={") && strstr(line, ",dev=") != NULL);
        if (strcmp(table, "[tool.poetry]") == 0)
                return begins(line, "extras.dev=") || begins(line, "extras={dev=");
        return table[0] == '\0' && begins(line, "project.optional-dependencies.dev=");
}

static bool lines_declare(const char *text, bool toml) {
        char line[1024], table[256] = "";

        while (text != NULL) {
                text = take_line(text, line, sizeof(line));
                if (line[0] == '[')
                        snprintf(table, sizeof(table), "%.255s", line);
                else if (toml ? toml_declares(table, line)
                              : strcmp(table, "[options.extras_require]") == 0 && begins(line, "dev="))
                        return true;
        }
        return false;
}

bool project_declares_dev(const char *name, const char *text) {
        if (strcmp(name, "setup.py") == 0)
                return strstr(text, "extras_require") != NULL &&
                       (strstr(text, "\"dev\"") != NULL || strstr(text, "'dev'") != NULL);
        return lines_declare(text, strcmp(name, "pyproject.toml") == 0);
}

/* ---- files ---- */

static bool is_file(int directory_fd, const char *name) {
        struct stat st;

        return fstatat(directory_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

static bool file_declares_dev(int directory_fd, const char *name) {
        _cleanup_close_ int fd = openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        _cleanup_free_ char *text = NULL;
        struct stat st;
        ssize_t n;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
                return false;
        text = malloc((size_t)st.st_size + 1);
        n = text != NULL ? pread(fd, text, (size_t)st.st_size, 0) : -1;
        if (n < 0)
                return false;
        text[n] = '\0';
        return project_declares_dev(name, text);
}

int project_look(const char *directory, struct project_facts *ret_facts, struct sbx_error *err) {
        static const char *const declaring[] = {"pyproject.toml", "setup.cfg", "setup.py"};
        _cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct project_facts facts = {0};

        if (fd < 0)
                return sbx_error_set(err, -errno, DOCKER_ORIGIN,
                                     "Set workspace_path to the project's directory, or workspace_setup = \"none\".",
                                     "can't read the project %s: %s", directory, strerror(errno));
        facts.installable = is_file(fd, "pyproject.toml") || is_file(fd, "setup.py");
        for (size_t i = 0; i < sizeof(declaring) / sizeof(declaring[0]); i++)
                facts.dev_extra = facts.dev_extra || file_declares_dev(fd, declaring[i]);
        facts.requirements = is_file(fd, "requirements.txt");
        facts.requirements_dev = is_file(fd, "requirements-dev.txt");
        facts.requirements_test = is_file(fd, "requirements-test.txt");
        *ret_facts = facts;
        return 0;
}
