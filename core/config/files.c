/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and reading configuration files: which there are, in which order, and whether they can be trusted. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "config/internal.h"

#define FILE_NAME "snipara-sandbox.cfg"
#define SNIPPET_DIRECTORY "conf.d"
#define SNIPPET_SUFFIX ".cfg"

/* ---- one file ---- */

static int check_owner(int dir_fd, const char *name, const char *path, const struct stat *file, struct sbx_error *err) {
        _cleanup_free_ char *parent = NULL;
        const char *slash = strrchr(name, '/');
        struct stat directory;

        if (file->st_uid == 0 || file->st_uid == geteuid())
                return 0;
        parent = slash != NULL ? strndup(name, (size_t)(slash - name) + 1) : strdup(".");
        if (parent == NULL)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        /* A file in its owner's directory is that person's project, which the user chose to work in. One that somebody
         * put into a shared directory, such as /tmp, was not chosen by anybody. */
        if (fstatat(dir_fd, parent, &directory, 0) == 0 && directory.st_uid == file->st_uid)
                return 0;
        return sbx_error_set(err, -EPERM, SBX_CONFIG_ORIGIN,
                             "Remove it, or name it with --config if it is meant to be used.",
                             "%s belongs to user %lu, who is neither root, nor you, nor the owner of its directory",
                             path, (unsigned long)file->st_uid);
}

int sbx_config_read_file(int dir_fd, const char *name, const char *path, enum sbx_trust trust, struct sbx_buffer *out,
                         struct sbx_error *err) {
        /* Without O_NONBLOCK, opening a FIFO that somebody put there would wait for ever. */
        _cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        struct stat st;
        int r;

        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
                return -ENOENT;
        if (fd < 0 || fstat(fd, &st) < 0) {
                r = -errno;
                return sbx_error_set(err, r, SBX_CONFIG_ORIGIN, "Make it readable for the user who runs this program.",
                                     "can't read %s: %s", path, SBX_ERRNO_TEXT(r));
        }
        if ((st.st_mode & S_IWOTH) != 0 && S_ISREG(st.st_mode))
                return sbx_error_set(err, -EPERM, SBX_CONFIG_ORIGIN,
                                     "Type: chmod o-w FILE, after a look at what is in it.",
                                     "%s can be written by everybody, so it is not trusted", path);
        if (trust == SBX_TRUST_FOUND) {
                r = check_owner(dir_fd, name, path, &st, err);
                if (r < 0)
                        return r;
        }
        return sbx_fd_read_file(fd, path, SBX_CONFIG_FILE_MAX, out, err);
}

/* Reads and merges one file; `dir_fd` may be AT_FDCWD. -ENOENT without an error: there is none. */
static int merge_file(struct sbx_config *config, int dir_fd, const char *directory, const char *name,
                      enum sbx_trust trust, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(SBX_CONFIG_FILE_MAX);
        _cleanup_free_ char *path = NULL;
        int r;

        if (sbx_text_format(&path, "%s/%s", strcmp(directory, "/") == 0 ? "" : directory, name) < 0)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        r = sbx_config_read_file(dir_fd, dir_fd == AT_FDCWD ? path : name, path, trust, &text, err);
        if (r == 0)
                r = sbx_config_merge(config, path, directory, sbx_buffer_bytes(&text), err);
        if (r == 0 && sbx_strings_append(&config->files, path, strlen(path)) < 0)
                r = SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        return r;
}

/* ---- a directory with its conf.d ---- */

static int compare_names(const void *a, const void *b) {
        return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_snippet(const char *name) {
        size_t length = strlen(name), suffix = strlen(SNIPPET_SUFFIX);

        return name[0] != '.' && length > suffix && strcmp(name + length - suffix, SNIPPET_SUFFIX) == 0;
}

/* Names in byte order, whatever the locale, so that every user gets the same configuration. */
static int list_snippets(DIR *dir, const char *path, char ***ret_names, struct sbx_error *err) {
        char **names = NULL;
        size_t count = 0;
        int r = 0;

        for (;;) {
                const struct dirent *entry;

                errno = 0;
                entry = readdir(dir);
                if (entry == NULL) {
                        r = -errno;
                        break;
                }
                if (!is_snippet(entry->d_name))
                        continue;
                r = ++count > SBX_CONFIG_SNIPPETS_MAX
                            ? -E2BIG
                            : sbx_strings_append(&names, entry->d_name, strlen(entry->d_name));
                if (r < 0)
                        break;
        }
        if (r < 0) {
                sbx_strings_free(names);
                return sbx_error_set(err, r, SBX_CONFIG_ORIGIN, NULL, "can't list %s: %s", path, SBX_ERRNO_TEXT(r));
        }
        if (count > 1)
                qsort(names, count, sizeof(*names), compare_names);
        *ret_names = names;
        return 0;
}

static int merge_snippets(struct sbx_config *config, int dir_fd, const char *directory, struct sbx_error *err) {
        _cleanup_free_ char *path = NULL;
        _cleanup_closedir_ DIR *dir = NULL;
        char **names = NULL;
        int fd, r;

        if (sbx_text_format(&path, "%s/" SNIPPET_DIRECTORY, directory) < 0)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        fd = openat(dir_fd, SNIPPET_DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
                return 0;
        dir = fd >= 0 ? fdopendir(fd) : NULL;
        if (dir == NULL) {
                r = -errno;
                if (fd >= 0)
                        close(fd);
                return sbx_error_set(err, r, SBX_CONFIG_ORIGIN, "Make it readable for the user who runs this program.",
                                     "can't read %s: %s", path, SBX_ERRNO_TEXT(r));
        }
        r = list_snippets(dir, path, &names, err);
        for (size_t i = 0; r == 0 && names != NULL && names[i] != NULL; i++) {
                r = merge_file(config, dirfd(dir), path, names[i], SBX_TRUST_FOUND, err);
                if (r == -ENOENT) /* removed meanwhile, or a link to nothing */
                        r = 0;
        }
        sbx_strings_free(names);
        return r;
}

static int merge_directory(struct sbx_config *config, const char *directory, bool snippets,
                           const struct sbx_logger *logger, struct sbx_error *err) {
        _cleanup_close_ int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
        int r;

        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
                return 0;
        if (fd < 0) {
                /* Another user's home, after su or sudo: nothing in it was meant for this user. */
                r = -errno;
                sbx_log(logger, SBX_LOG_WARNING, "can't look for configuration in %s: %s", directory,
                        SBX_ERRNO_TEXT(r));
                return 0;
        }
        r = merge_file(config, fd, directory, FILE_NAME, SBX_TRUST_FOUND, err);
        if (r == -ENOENT)
                r = 0;
        return r == 0 && snippets ? merge_snippets(config, fd, directory, err) : r;
}

/* ---- all of them ---- */

/* The file that the user named. Relative to the working directory. */
static int merge_named(struct sbx_config *config, const char *file, struct sbx_error *err) {
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int dir_fd = -1;
        const char *directory;
        char *slash;
        int r = file[0] == '/' ? sbx_text_format(&path, "%s", file)
                               : sbx_text_format(&path, "%s/%s", config->working, file);

        if (r < 0)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        slash = strrchr(path, '/');
        *slash = '\0';
        directory = path[0] != '\0' ? path : "/";
        dir_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
        r = dir_fd < 0 ? -ENOENT : merge_file(config, dir_fd, directory, slash + 1, SBX_TRUST_NAMED, err);
        if (r != -ENOENT)
                return r;
        return sbx_error_set(err, -ENOENT, SBX_CONFIG_ORIGIN, "`snipara-sandbox init` writes a commented one.",
                             "there is no configuration file %s", file);
}

/* A project of the Python version: its TOML file is not read, and its owner should know. */
static void report_legacy(const char *project, const struct sbx_logger *logger) {
        static const char *const names[] = {"snipara-sandbox.toml", "rlm.toml"};
        _cleanup_close_ int fd = open(project, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 || faccessat(fd, FILE_NAME, F_OK, 0) == 0)
                return;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (faccessat(fd, names[i], F_OK, 0) == 0)
                        sbx_log(logger, SBX_LOG_WARNING,
                                "%s/%s is of the former format and is not read: `snipara-sandbox init` writes %s, "
                                "where its settings go under the same names",
                                project, names[i], FILE_NAME);
}

int sbx_config_read_layers(struct sbx_config *config, const struct sbx_config_places *places,
                           const struct sbx_logger *logger, struct sbx_error *err) {
        int r = 0;

        if (places->file != NULL)
                return merge_named(config, places->file, err);
        if (places->system != NULL)
                r = merge_directory(config, places->system, true, logger, err);
        if (r == 0 && places->user != NULL)
                r = merge_directory(config, places->user, true, logger, err);
        if (r == 0 && places->project != NULL) {
                report_legacy(places->project, logger);
                r = merge_directory(config, places->project, false, logger, err);
        }
        return r;
}
