/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreters' own files: a prefix when that is not below /usr, a virtual environment and what it is made
 * from. Only the directories that an installation has are shown, never a prefix as a whole: that could be a home
 * directory or a project. */
#include "interpreter.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "util.h"

#define LINKS_MAX 40
#define CONFIG_MAX 65536

struct finder {
        struct interpreter found;
        size_t path_count, link_count;
        int error;
};

static void add(struct finder *finder, char ***list, size_t *count, const char *text) {
        char **larger = realloc(*list, (*count + 2) * sizeof(*larger));
        char *copy = strdup(text);

        if (larger != NULL)
                *list = larger;
        if (larger == NULL || copy == NULL) {
                free(copy);
                finder->error = -ENOMEM;
                return;
        }
        larger[(*count)++] = copy;
        larger[*count] = NULL;
}

static bool is_within(const char *path, const char *directory) {
        size_t length = strlen(directory);

        return strncmp(path, directory, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* Shown already? */
static bool is_covered(const struct finder *finder, const char *path) {
        static const char *const always[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

        for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
                if (is_within(path, always[i]))
                        return true;
        for (size_t i = 0; i < finder->path_count; i++)
                if (is_within(path, finder->found.paths[i]))
                        return true;
        return false;
}

static void add_path(struct finder *finder, const char *path) {
        struct stat st;
        char target[PATH_MAX];
        ssize_t n;

        if (is_covered(finder, path) || lstat(path, &st) < 0)
                return;
        if (!S_ISLNK(st.st_mode)) {
                if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode))
                        add(finder, &finder->found.paths, &finder->path_count, path);
                return;
        }
        n = readlink(path, target, sizeof(target) - 1);
        if (n < 0)
                return;
        target[n] = '\0';
        add(finder, &finder->found.links, &finder->link_count, path);
        add(finder, &finder->found.links, &finder->link_count, target);
        if (realpath(path, target) != NULL && strcmp(target, path) != 0)
                add_path(finder, target);
}

static void add_prefix(struct finder *finder, const char *prefix) {
        static const char *const parts[] = {"bin", "lib", "lib64", "libexec", "share", "ssl", "pyvenv.cfg"};

        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
                char path[PATH_MAX];

                if (snprintf(path, sizeof(path), "%s/%s", strcmp(prefix, "/") == 0 ? "" : prefix, parts[i]) <
                    (int)sizeof(path))
                        add_path(finder, path);
        }
}

/* The directory part of `path` in place; false if there is none. */
static bool cut_last(char *path) {
        char *slash = strrchr(path, '/');

        if (slash == NULL || slash == path)
                return false;
        *slash = '\0';
        return true;
}

/* "home = /usr/bin" of a pyvenv.cfg: where the interpreter is that the environment was made from. */
static bool read_home(const char *prefix, char home[PATH_MAX]) {
        char path[PATH_MAX];
        _cleanup_free_ char *text = NULL;
        _cleanup_close_ int fd = -1;
        ssize_t n;

        if (snprintf(path, sizeof(path), "%s/pyvenv.cfg", prefix) >= (int)sizeof(path))
                return false;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        text = malloc(CONFIG_MAX);
        if (fd < 0 || text == NULL)
                return false;
        n = read(fd, text, CONFIG_MAX - 1);
        if (n < 0)
                return false;
        text[n] = '\0';
        for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
                char *value = strchr(line, '=');

                line += strspn(line, " \t");
                if (value == NULL || strncmp(line, "home", 4) != 0 || line + 4 + strspn(line + 4, " \t") != value)
                        continue;
                value += 1 + strspn(value + 1, " \t");
                value[strcspn(value, "\r")] = '\0';
                return value[0] == '/' && snprintf(home, PATH_MAX, "%s", value) < PATH_MAX;
        }
        return false;
}

static void add_location(struct finder *finder, const char *program) {
        char prefix[PATH_MAX], home[PATH_MAX];
        const char *directory;

        snprintf(prefix, sizeof(prefix), "%s", program);
        if (!cut_last(prefix))
                return;
        directory = strrchr(prefix, '/');
        if (directory != NULL && strcmp(directory, "/bin") == 0)
                *strrchr(prefix, '/') = '\0';
        if (prefix[0] != '\0')
                add_prefix(finder, prefix);
        if (prefix[0] != '\0' && read_home(prefix, home)) {
                size_t length = strlen(home);

                if (length > 4 && strcmp(home + length - 4, "/bin") == 0)
                        home[length - 4] = '\0';
                add_prefix(finder, home);
        }
        add_path(finder, program);
}

/* From one symlink to the next, until the program itself. */
static int follow(struct finder *finder, const char *path, struct sbx_error *err) {
        char at[PATH_MAX], content[PATH_MAX], next[PATH_MAX * 2], directory[PATH_MAX];

        snprintf(at, sizeof(at), "%s", path);
        for (int i = 0; i < LINKS_MAX; i++) {
                ssize_t n = readlink(at, content, sizeof(content) - 1);
                char *name;

                add_location(finder, at);
                if (n < 0)
                        return 0;
                content[n] = '\0';
                snprintf(next, sizeof(next), "%s", at);
                if (content[0] == '/' || !cut_last(next))
                        snprintf(next, sizeof(next), "%s", content);
                else
                        snprintf(next + strlen(next), sizeof(next) - strlen(next), "/%s", content);
                name = strrchr(next, '/');
                if (name == NULL)
                        break;
                *name++ = '\0';
                if (realpath(next[0] != '\0' ? next : "/", directory) == NULL ||
                    snprintf(at, sizeof(at), "%s/%s", strcmp(directory, "/") == 0 ? "" : directory, name) >=
                            (int)sizeof(at))
                        break;
        }
        return sbx_error_set(err, -ELOOP, LOCAL_ORIGIN, "name the interpreter itself", "can't follow the links of %s",
                             path);
}

static int check_program(const char *option, const char *path, struct sbx_error *err) {
        static const char hint[] =
                "set the option to an interpreter, as `which python3` or `which node` names it; for pyenv and the like, "
                "what `pyenv which python3` prints";
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        unsigned char magic[4] = {0};
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, hint, "%s: %s: %s", option, path, strerror(errno));
        if (!S_ISREG(st.st_mode) || (st.st_mode & 0111) == 0)
                return sbx_error_set(err, -EINVAL, LOCAL_ORIGIN, hint, "%s: %s is no program", option, path);
        if (read(fd, magic, sizeof(magic)) != sizeof(magic) || memcmp(magic, "\177ELF", 4) != 0)
                return sbx_error_set(err, -EINVAL, LOCAL_ORIGIN, hint, "%s: %s is a script, not an interpreter", option,
                                     path);
        return 0;
}

/* The first of the places (ends with NULL) that has a program. */
static const char *usual_place(const char *const *places) {
        for (; *places != NULL; places++)
                if (access(*places, X_OK) == 0 && check_program("", *places, NULL) == 0)
                        return *places;
        return NULL;
}

/* Adds what a program needs. `path` NULL: there is none, and nobody insists. */
static int add_program(struct finder *finder, const char *option, const char *path, char **ret_path,
                       struct sbx_error *err) {
        int r;

        if (path == NULL)
                return 0;
        r = check_program(option, path, err);
        if (r == 0)
                r = follow(finder, path, err);
        if (r == 0 && (*ret_path = strdup(path)) == NULL)
                finder->error = -ENOMEM;
        return r;
}

int interpreter_find(const char *python, const char *node, const char *const *extra, struct interpreter *ret,
                     struct sbx_error *err) {
        static const char *const pythons[] = {"/usr/bin/python3", "/usr/local/bin/python3", "/bin/python3", NULL};
        static const char *const nodes[] = {"/usr/bin/node", "/usr/local/bin/node", "/usr/bin/nodejs", NULL};
        static const char *const shells[] = {"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", NULL};
        struct finder finder = {.error = 0};
        int r;

        if (python == NULL)
                python = usual_place(pythons);
        if (python == NULL)
                return sbx_error_set(err, -ENOENT, LOCAL_ORIGIN,
                                     "install it (Debian: apt install python3), or set the option \"python\"",
                                     "no python3 in /usr/bin, /usr/local/bin, /bin");
        for (size_t i = 0; extra != NULL && extra[i] != NULL; i++)
                if (!is_covered(&finder, extra[i]))
                        add(&finder, &finder.found.paths, &finder.path_count, extra[i]);
        r = add_program(&finder, "python", python, &finder.found.path, err);
        if (r == 0)
                r = add_program(&finder, "node", node != NULL ? node : usual_place(nodes), &finder.found.node, err);
        if (r == 0)
                r = add_program(&finder, "bash", usual_place(shells), &finder.found.bash, err);
        if (r == 0 && finder.error < 0)
                r = sbx_error_set(err, finder.error, LOCAL_ORIGIN, NULL, "out of memory");
        if (r < 0) {
                interpreter_free(&finder.found);
                return r;
        }
        *ret = finder.found;
        return 0;
}

void interpreter_free(struct interpreter *interpreter) {
        for (size_t i = 0; interpreter->paths != NULL && interpreter->paths[i] != NULL; i++)
                free(interpreter->paths[i]);
        for (size_t i = 0; interpreter->links != NULL && interpreter->links[i] != NULL; i++)
                free(interpreter->links[i]);
        free(interpreter->paths);
        free(interpreter->links);
        free(interpreter->path);
        free(interpreter->node);
        free(interpreter->bash);
        *interpreter = (struct interpreter){0};
}
