/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a plugin's file only if nobody but root and the user can have written it, or can put another in its place. */
#include "plugin/internal.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"

static bool owner_trusted(const struct stat *st) {
        return st->st_uid == 0 || st->st_uid == geteuid();
}

static int check_owner_and_mode(const struct stat *st, const char *path, const char *what, struct sbx_error *err) {
        char hint[SBX_ERROR_HINT_MAX];

        if (!owner_trusted(st)) {
                snprintf(hint, sizeof(hint), "If you trust it: chown root '%s'", path);
                return sbx_error_set(err, -EPERM, SBX_PLUGIN_ORIGIN, hint,
                                     "%s %s belongs to user id %u, who is neither root nor the one who runs this "
                                     "program: what it holds is not to be trusted", what, path, st->st_uid);
        }
        if ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
                snprintf(hint, sizeof(hint), "If you trust what it holds: chmod go-w '%s'", path);
                return sbx_error_set(err, -EPERM, SBX_PLUGIN_ORIGIN, hint,
                                     "%s %s can be written by %s (mode %03o): others could have put their code there",
                                     what, path, (st->st_mode & S_IWOTH) != 0 ? "everybody" : "its group",
                                     st->st_mode & 07777);
        }
        return 0;
}

/* True if no other user can replace a directory on the way: then the path means the same when dlopen() walks it. */
static bool ancestors_trusted(const char *real_path) {
        char path[PATH_MAX];
        struct stat st;

        if (strlen(real_path) >= sizeof(path))
                return false;
        for (const char *slash = real_path; slash != NULL; slash = strchr(slash + 1, '/')) {
                size_t length = slash == real_path ? 1 : (size_t)(slash - real_path);

                memcpy(path, real_path, length);
                path[length] = '\0';
                if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || !owner_trusted(&st))
                        return false;
                /* In a sticky directory only the owner of an entry renames it; whose the entry is, is checked next. */
                if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (st.st_mode & S_ISVTX) == 0)
                        return false;
        }
        return true;
}

static int path_error(const char *path, int code, struct sbx_error *err) {
        struct stat st;

        if (code == -ENOENT && lstat(path, &st) == 0)
                return sbx_error_set(err, code, SBX_PLUGIN_ORIGIN,
                                     "Point the link to a plugin file, or remove it.",
                                     "plugin file %s is a symbolic link to nothing", path);
        if (code == -ENOENT || code == -ENOTDIR)
                return sbx_error_set(err, -ENOENT, SBX_PLUGIN_ORIGIN,
                                     "See what is installed with: snipara-sandbox plugins list",
                                     "plugin file %s does not exist", path);
        return sbx_error_set(err, code, SBX_PLUGIN_ORIGIN, "Check the path and its permissions with: ls -l",
                             "can't open plugin file %s: %s", path, SBX_ERRNO_TEXT(code));
}

/* The directory is looked at through a descriptor, and the file through that, so that both are the ones that count. */
static int open_checked(const char *path, const char *real_path, int *ret_fd, struct sbx_error *err) {
        _cleanup_close_ int dir_fd = -1, fd = -1;
        _cleanup_free_ char *directory = NULL;
        const char *slash = strrchr(real_path, '/');
        struct stat st;
        int r;

        directory = strndup(real_path, slash == real_path ? 1 : (size_t)(slash - real_path));
        if (directory == NULL)
                return SBX_NOMEM(err, SBX_PLUGIN_ORIGIN);
        dir_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir_fd < 0 || fstat(dir_fd, &st) < 0)
                return path_error(path, -errno, err);
        r = check_owner_and_mode(&st, directory, "plugin directory", err);
        if (r < 0)
                return r;
        if (fstatat(dir_fd, slash + 1, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
                return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN, "Give the path of a plugin's .so file.",
                                     "plugin %s is %s", path,
                                     S_ISDIR(st.st_mode) ? "a directory, not a file" : "not a regular file");
        fd = openat(dir_fd, slash + 1, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return path_error(path, -errno, err);
        if (!S_ISREG(st.st_mode))
                return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN, "Give the path of a plugin's .so file.",
                                     "plugin %s is not a regular file", path);
        r = check_owner_and_mode(&st, real_path, "plugin file", err);
        if (r < 0)
                return r;
        *ret_fd = steal_fd(&fd);
        return 0;
}

static int check_magic(int fd, const char *path, struct sbx_error *err) {
        char magic[4] = {0};

        if (pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) && memcmp(magic, "\177ELF", 4) == 0)
                return 0;
        return sbx_error_set(err, -ENOEXEC, SBX_PLUGIN_ORIGIN,
                             "Build it as a shared object (cc -shared -fPIC), or install it again.",
                             "plugin file %s is not an ELF shared object", path);
}

int sbx_plugin_file_open(const char *path, struct sbx_plugin_file *ret_file, struct sbx_error *err) {
        _cleanup_free_ char *real_path = NULL, *load_path = NULL;
        _cleanup_close_ int fd = -1;
        bool direct;
        int r;

        if (path[0] != '/')
                return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN, "Give the whole path, from the root directory.",
                                     "plugin path %s is not absolute", path);
        real_path = realpath(path, NULL);
        if (real_path == NULL)
                return path_error(path, -errno, err);
        r = open_checked(path, real_path, &fd, err);
        if (r == 0)
                r = check_magic(fd, path, err);
        if (r < 0)
                return r;
        /* By its own name where that is safe, because debuggers and sanitizers look for symbols there; else through the
         * descriptor, which can't come to mean another file between the check and the load. */
        direct = ancestors_trusted(real_path);
        if (direct)
                load_path = steal_pointer(real_path);
        else if (asprintf(&load_path, "/proc/self/fd/%d", fd) < 0)
                load_path = NULL;
        if (load_path == NULL)
                return SBX_NOMEM(err, SBX_PLUGIN_ORIGIN);
        *ret_file = (struct sbx_plugin_file){.fd = steal_fd(&fd), .load_path = steal_pointer(load_path),
                                             .needs_fd = !direct};
        return 0;
}

void sbx_plugin_file_close(struct sbx_plugin_file *file) {
        if (file->fd >= 0)
                close(file->fd);
        free(file->load_path);
        *file = (struct sbx_plugin_file)SBX_PLUGIN_FILE;
}
