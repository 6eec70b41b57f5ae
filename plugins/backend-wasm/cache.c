/* SPDX-License-Identifier: Apache-2.0 */
/* Expanded images: guests are private mappings of them, so they are made once and kept.
 *
 * A file in the cache is believed by its owner, its mode and its name, which is the image's hash: hashing it at each
 * start would take longer than the start. Where nothing can be kept, an expanded image lives in memory. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cache.h"
#include "engine/image.h"
#include "util.h"

#define NAME_SIZE (IMAGE_HASH_TEXT + 64)
#define CACHE_DIRECTORY "wasm" /* in the state directory */
#define PROBLEM_MAX 256

/* ---- the directory ---- */

int cache_directory_path(const struct backend *backend, char **ret_path) {
        const char *state = backend->options.cache_directory;

        if (state != NULL) {
                *ret_path = strdup(state);
                return *ret_path != NULL ? 0 : -ENOMEM;
        }
        state = backend->host.directory(backend->host.self, "state");
        if (state == NULL)
                return -ENOENT;
        if (asprintf(ret_path, "%s/" CACHE_DIRECTORY, state) < 0)
                return -ENOMEM;
        return 0;
}

/* -EPERM: it is not this user's alone. */
static int check_directory(int fd, const char *path, struct sbx_error *err) {
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
                return sbx_error_set(err, -EPERM, WASM_ORIGIN,
                                     "chown and chmod it, or set cache_directory to another one",
                                     "%s is not a directory of this user's alone (owner %u, mode %03o)", path,
                                     st.st_uid, st.st_mode & 07777);
        return 0;
}

int cache_directory_open(const struct backend *backend, int *ret_fd, struct sbx_error *err) {
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -1;
        int r = cache_directory_path(backend, &path);

        if (r < 0) {
                path = NULL;
                return sbx_error_set(err, r, WASM_ORIGIN, "set cache_directory",
                                     "there is no directory to keep images in");
        }
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return sbx_error_set(err, -errno, WASM_ORIGIN, "make it by hand, or set cache_directory",
                                     "can't make the directory %s: %s", path, strerror(errno));
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return sbx_error_set(err, -errno, WASM_ORIGIN, "make it by hand, or set cache_directory",
                                     "can't use the directory %s: %s", path, strerror(errno));
        r = check_directory(fd, path, err);
        if (r == 0)
                *ret_fd = steal_fd(&fd);
        return r;
}

/* ---- its files ---- */

/* -ENOENT: not there, or not to be believed. */
static int open_kept(int directory, const struct guest_image *image, const char *name, int *ret_fd) {
        _cleanup_close_ int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
        _cleanup_free_ char *manifest = NULL;
        uint8_t hash[WASM_IMAGE_HASH_SIZE];
        char problem[PROBLEM_MAX];
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
            (st.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
            image_describe(fd, hash, &manifest, problem, sizeof(problem)) < 0 ||
            memcmp(hash, image->hash, sizeof(hash)) != 0)
                return -ENOENT;
        *ret_fd = steal_fd(&fd);
        return 0;
}

static int open_packed(const struct guest_image *image, int *ret_fd, struct sbx_error *err) {
        int fd = open(image->packed_path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

        if (fd < 0)
                return sbx_error_set(err, -errno, WASM_ORIGIN, "reinstall the program", "%s: %s", image->packed_path,
                                     strerror(errno));
        *ret_fd = fd;
        return 0;
}

static int expand(const struct guest_image *image, int to_fd, struct sbx_error *err) {
        _cleanup_close_ int from_fd = -1;
        char problem[PROBLEM_MAX] = "";
        int r = open_packed(image, &from_fd, err);

        if (r < 0)
                return r;
        r = image_expand(from_fd, to_fd, problem, sizeof(problem));
        return r < 0 ? sbx_error_set(err, r, WASM_ORIGIN,
                                     r == -ENOSPC ? "make room, or set cache_directory" : "reinstall the program",
                                     "the image %s can't be unpacked: %s", image->packed_path,
                                     problem[0] != '\0' ? problem : strerror(-r))
                     : 0;
}

/* Written beside its place and moved there whole, so that nobody ever sees half of it. */
static int make_kept(int directory, const struct guest_image *image, const char *name, struct sbx_error *err) {
        _cleanup_close_ int fd = -1;
        char temporary[NAME_SIZE];
        int r;

        snprintf(temporary, sizeof(temporary), CACHE_TEMPORARY "%.32s.%d", image->hash_text, (int)getpid());
        unlinkat(directory, temporary, 0); /* of a process of the same number that was killed */
        fd = openat(directory, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return sbx_error_set(err, -errno, WASM_ORIGIN, "set cache_directory", "can't write to the cache: %s",
                                     strerror(errno));
        r = expand(image, fd, err);
        if (r == 0 && (fsync(fd) < 0 || renameat(directory, temporary, directory, name) < 0))
                r = sbx_error_set(err, -errno, WASM_ORIGIN, "set cache_directory", "can't write to the cache: %s",
                                  strerror(errno));
        if (r < 0)
                unlinkat(directory, temporary, 0);
        return r;
}

static int open_in_memory(const struct guest_image *image, int *ret_fd, struct sbx_error *err) {
        _cleanup_close_ int fd = memfd_create("sbx-image", MFD_CLOEXEC | MFD_ALLOW_SEALING), read_only = -1;
        char path[32];
        int r;

        if (fd < 0)
                return sbx_error_set(err, -errno, WASM_ORIGIN, NULL, "memfd: %s", strerror(errno));
        r = expand(image, fd, err);
        if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
                r = sbx_error_set(err, -errno, WASM_ORIGIN, NULL, "memfd: %s", strerror(errno));
        if (r < 0)
                return r;
        /* Kernels before 6.7 don't share what could be written by its descriptor, sealed or not; nor does the helper.
         */
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        read_only = open(path, O_RDONLY | O_CLOEXEC);
        if (read_only < 0)
                return sbx_error_set(err, -errno, WASM_ORIGIN, "mount /proc", "%s: %s", path, strerror(errno));
        *ret_fd = steal_fd(&read_only);
        return 0;
}

static bool is_about_place(int code) {
        return code == -EACCES || code == -EPERM || code == -EROFS || code == -ENOSPC || code == -EDQUOT ||
               code == -ENOENT || code == -ENOTDIR || code == -ELOOP;
}

int cache_open(struct backend *backend, const struct guest_image *image, const struct sbx_call *call, int *ret_fd,
               struct sbx_error *err) {
        _cleanup_close_ int directory = -1;
        struct sbx_error own = {0};
        char name[NAME_SIZE];
        int r = cache_directory_open(backend, &directory, &own);

        snprintf(name, sizeof(name), "%s" CACHE_EXPANDED, image->hash_text);
        if (r == 0 && open_kept(directory, image, name, ret_fd) == 0)
                return 0;
        sbx_call_progress(call, "unpacking the image of the interpreter");
        if (r == 0)
                r = make_kept(directory, image, name, &own);
        if (r == 0)
                r = open_kept(directory, image, name, ret_fd);
        if (r == 0)
                return 0;
        if (!is_about_place(r))
                return sbx_error_set(err, r, WASM_ORIGIN, own.hint, "%s", own.message);
        backend_log(backend, SBX_LOG_WARNING, "images are unpacked at each start, and kept in memory:");
        backend_log(backend, SBX_LOG_WARNING, own.code != 0 ? own.message : "the cache does not keep them");
        return open_in_memory(image, ret_fd, err);
}
