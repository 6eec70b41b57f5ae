/* SPDX-License-Identifier: Apache-2.0 */
/* From the path that a model or code asks for to a descriptor beneath an allowed directory, or to a refusal. */
#include "tools/files.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/error.h"

#define ORIGIN SBX_FILES_ORIGIN
#define IS_LOG (-ENOTUNIQ) /* of look(): the file is of the logs of runs */
#define RACES_MAX 8 /* the kernel gives up when directories are moved while it looks; then it is asked again */

void sbx_file_place_clear(struct sbx_file_place *place) {
        free(place->path);
        *place = (struct sbx_file_place){0};
}

/* ---- by text ---- */

/* Appends the components of `path`, with "." and ".." taken out. "/.." is "/", as in the kernel. */
static int append_components(struct sbx_buffer *out, const char *path) {
        while (*path != '\0') {
                size_t size = strcspn(path, "/");
                int r = 0;

                if (size == 2 && path[0] == '.' && path[1] == '.') {
                        while (out->size > 0 && out->data[out->size - 1] != '/')
                                out->size--;
                        out->size -= out->size > 0;
                        if (out->data != NULL)
                                out->data[out->size] = '\0';
                } else if (size > 0 && !(size == 1 && path[0] == '.')) {
                        r = sbx_buffer_append(out, "/", 1);
                        if (r == 0)
                                r = sbx_buffer_append(out, path, size);
                }
                if (r < 0)
                        return r;
                path += size + (path[size] == '/');
        }
        return 0;
}

static int make_absolute(const char *directory, const char *path, char **ret_path, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(2 * SBX_FILES_PATH_MAX);
        int r = path[0] == '/' ? 0 : append_components(&text, directory);

        if (r == 0)
                r = append_components(&text, path);
        if (r == 0 && text.size == 0)
                r = sbx_buffer_append(&text, "/", 1);
        if (r == -EFBIG || text.size > SBX_FILES_PATH_MAX)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "the path is longer than %u bytes",
                                     SBX_FILES_PATH_MAX);
        if (r < 0)
                return SBX_NOMEM(err, ORIGIN);
        *ret_path = sbx_buffer_steal(&text);
        return *ret_path != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

/* What of `path` is below `root`; NULL: it is elsewhere. */
static const char *below_root(const char *root, const char *path) {
        size_t size = strlen(root);

        if (size == 1)
                return path + 1; /* "/" */
        if (strncmp(root, path, size) != 0)
                return NULL;
        if (path[size] == '\0')
                return path + size;
        return path[size] == '/' ? path + size + 1 : NULL;
}

static int refuse_outside(const struct sbx_files *files, const char *path, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer hint = SBX_BUFFER(SBX_ERROR_HINT_MAX);

        /* What does not fit is left out. */
        (void)sbx_buffer_append_text(&hint, "Allowed (setting allowed_paths): ");
        for (size_t i = 0; i < files->count; i++)
                (void)sbx_buffer_printf(&hint, "%s%s", i > 0 ? ", " : "", files->roots[i]);
        return sbx_error_set(err, -EACCES, ORIGIN, hint.data,
                             "Access denied: path '%.512s' is outside allowed directories", path);
}

int sbx_files_locate(const struct sbx_files *files, const char *path, struct sbx_file_place *ret_place,
                     struct sbx_error *err) {
        struct sbx_file_place place = {0};
        size_t best = 0;
        int r = make_absolute(files->directory, path, &place.path, err);

        if (r < 0)
                return r;
        for (size_t i = 0; i < files->count; i++) {
                const char *root = files->roots[i], *below = below_root(root, place.path);

                if (below == NULL || strlen(root) < best)
                        continue;
                place.files = files;
                best = strlen(root); /* the innermost: one that names the file itself says the most */
                place.root = root;
                place.below = below;
        }
        if (place.root == NULL) {
                sbx_file_place_clear(&place);
                return refuse_outside(files, path, err);
        }
        *ret_place = place;
        return 0;
}

/* ---- by the kernel ---- */

static int openat2_beneath(int directory_fd, const char *below, int flags, uint64_t resolve) {
        struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                               .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve};

        for (int i = 0;; i++) {
                long fd = syscall(SYS_openat2, directory_fd, below, &how, sizeof(how));

                if (fd >= 0)
                        return (int)fd;
                if (errno != EINTR && (errno != EAGAIN || i == RACES_MAX))
                        return -errno;
        }
}

int sbx_files_walk_beneath(int directory_fd, const char *below, int flags) {
        _cleanup_close_ int at = fcntl(directory_fd, F_DUPFD_CLOEXEC, 3);

        if (at < 0)
                return -errno;
        for (;;) {
                char name[NAME_MAX + 1];
                size_t size = strcspn(below, "/");
                bool last = below[size] == '\0';
                int next;

                if (size > NAME_MAX)
                        return -ENAMETOOLONG;
                if (size == 0 || (below[0] == '.' && (size == 1 || (size == 2 && below[1] == '.'))))
                        return -EXDEV; /* the text was cleaned of those */
                memcpy(name, below, size);
                name[size] = '\0';
                next = openat(at, name, (last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC);
                if (next < 0)
                        return -errno;
                if (last)
                        return next;
                close(at);
                at = next;
                below += size + 1;
        }
}

static bool is_unknown_call(int r) {
        return r == -ENOSYS || r == -EPERM; /* EPERM: filters of older container engines */
}

static int open_beneath(int directory_fd, const char *below, int flags) {
        int r = openat2_beneath(directory_fd, below, flags, 0);

        return is_unknown_call(r) ? sbx_files_walk_beneath(directory_fd, below, flags) : r;
}

/* Where a descriptor's file is, beneath the root's: a link with a harmless name can lead to a secret. */
static int check_target(int root_fd, int fd) {
        char link[64], root[PATH_MAX], target[PATH_MAX];
        const char *below;
        ssize_t size;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", root_fd);
        size = readlink(link, root, sizeof(root) - 1);
        if (size <= 0)
                return -ELOOP; /* without /proc it can't be told, so no link is followed */
        root[size] = '\0';
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        size = readlink(link, target, sizeof(target) - 1);
        if (size <= 0)
                return -ELOOP;
        target[size] = '\0';
        below = below_root(root, target);
        return below == NULL ? -EXDEV : sbx_files_is_secret(below) ? -EKEYREJECTED : 0;
}

/* By what it is, so that neither a link nor another name of a path makes a difference. */
static bool is_configuration(const struct sbx_config *config, int fd) {
        const char *const *paths = config != NULL ? sbx_config_files(config) : NULL;
        struct stat seen, known;

        if (fstat(fd, &seen) < 0)
                return false;
        for (; paths != NULL && *paths != NULL; paths++)
                if (stat(*paths, &known) == 0 && known.st_dev == seen.st_dev && known.st_ino == seen.st_ino)
                        return true;
        return false;
}

/* Where a descriptor's file is, by the kernel's own word. */
static bool path_of(int fd, char path[PATH_MAX]) {
        char link[64];
        ssize_t size;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        size = readlink(link, path, PATH_MAX - 1);
        if (size <= 0)
                return false;
        path[size] = '\0';
        return true;
}

bool sbx_files_is_log(const struct sbx_files *files, const char *root, int fd) {
        const char *directory = files->config != NULL ? sbx_config_string(files->config, "log_dir") : NULL;
        char target[PATH_MAX];
        _cleanup_free_ char *real = directory != NULL ? realpath(directory, NULL) : NULL;

        if (real == NULL || below_root(directory, root) != NULL || below_root(real, root) != NULL)
                return false; /* there are none, or they are what was allowed */
        return !path_of(fd, target) || below_root(real, target) != NULL;
}

static int look(const struct sbx_file_place *place) {
        _cleanup_close_ int root_fd = -1, fd = -1;
        int r;

        if (place->below[0] == '\0') {
                r = open(place->root, O_PATH | O_CLOEXEC);
                return r < 0 ? -errno : r;
        }
        if (sbx_files_is_secret(place->below))
                return -EKEYREJECTED;
        root_fd = open(place->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
                return -errno;
        fd = openat2_beneath(root_fd, place->below, O_PATH, RESOLVE_NO_SYMLINKS);
        if (is_unknown_call(fd)) {
                fd = sbx_files_walk_beneath(root_fd, place->below, O_PATH);
        } else if (fd == -ELOOP) {
                fd = openat2_beneath(root_fd, place->below, O_PATH, 0);
                r = fd >= 0 ? check_target(root_fd, fd) : 0;
                if (r < 0)
                        return r;
        }
        if (fd >= 0 && is_configuration(place->files->config, fd))
                return -EKEYREJECTED;
        if (fd >= 0 && sbx_files_is_log(place->files, place->root, fd))
                return IS_LOG;
        return fd >= 0 ? steal_fd(&fd) : fd;
}

static int tell_failure(const struct sbx_file_place *place, int r, struct sbx_error *err) {
        const char *path = place->path;

        switch (r) {
        case -ENOENT:
        case -ENOTDIR:
                return sbx_error_set(err, -ENOENT, ORIGIN, "file_list shows what is there.", "File not found: %.512s",
                                     path);
        case -EXDEV:
        case -ELOOP:
                return sbx_error_set(err, -EACCES, ORIGIN, "A symbolic link may lead to places beneath it alone.",
                                     "Access denied: path '%.512s' leads out of the allowed directory", path);
        case -EKEYREJECTED:
                return sbx_error_set(err, -EACCES, ORIGIN,
                                     "Only an entry of allowed_paths that names the file itself allows it.",
                                     "Access denied: '%.512s' may hold keys or passwords", path);
        case IS_LOG:
                return sbx_error_set(err, -EACCES, ORIGIN,
                                     "Only an entry of allowed_paths that names it, or something in it, allows it.",
                                     "Access denied: '%.512s' is where the logs of runs are kept", path);
        case -EACCES:
                return sbx_error_set(err, r, ORIGIN, "Its permissions decide.", "Access denied: %.512s", path);
        default:
                return sbx_error_set(err, r, ORIGIN, NULL, "%.512s: %s", path, SBX_ERRNO_TEXT(r));
        }
}

int sbx_files_look(const struct sbx_file_place *place, int *ret_fd, struct sbx_error *err) {
        int fd = look(place);

        if (fd < 0)
                return tell_failure(place, fd, err);
        *ret_fd = fd;
        return 0;
}

int sbx_files_open(const struct sbx_file_place *place, int looked_at, unsigned type, int *ret_fd,
                   struct sbx_error *err) {
        int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (type == S_IFDIR ? O_DIRECTORY : 0);
        _cleanup_close_ int root_fd = -1, fd = -1;
        struct stat seen, opened;

        if (fstat(looked_at, &seen) < 0)
                return tell_failure(place, -errno, err);
        if ((seen.st_mode & S_IFMT) != type)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "Not a %s: %.512s",
                                     type == S_IFDIR ? "directory" : "file", place->path);
        if (place->below[0] == '\0') {
                fd = open(place->root, flags);
                if (fd < 0)
                        return tell_failure(place, -errno, err);
        } else {
                root_fd = open(place->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
                fd = root_fd < 0 ? -errno : open_beneath(root_fd, place->below, flags);
                if (fd < 0)
                        return tell_failure(place, fd, err);
        }
        if (fstat(fd, &opened) < 0 || opened.st_dev != seen.st_dev || opened.st_ino != seen.st_ino)
                return sbx_error_set(err, -EAGAIN, ORIGIN, "Try again.", "%.512s was replaced while it was opened",
                                     place->path);
        *ret_fd = steal_fd(&fd);
        return 0;
}
