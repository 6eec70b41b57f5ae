/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of guests that share the host's file tree. What is in them was made by a guest, so it is removed by
 * descriptor, never by path, and links are not followed. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "local.h"
#include "util.h"

#define DEPTH_MAX 256

int scratch_create(const struct local *local, uint64_t id, char ret_path[ZYGOTE_SCRATCH_MAX], struct sbx_error *err) {
        const char *runtime = local->host.directory != NULL ? local->host.directory(local->host.self, "runtime") : NULL;
        char path[ZYGOTE_SCRATCH_MAX];
        int n;

        /* Root's own runtime directory is closed to the guests' uid. */
        if (runtime == NULL || local->drop)
                runtime = "/tmp";
        n = snprintf(path, sizeof(path), "%s/sbx-%d-%llu-XXXXXX", runtime, (int)getpid(), (unsigned long long)id);
        if (n < 0 || (size_t)n >= sizeof(path))
                return sbx_error_set(err, -ENAMETOOLONG, LOCAL_ORIGIN, NULL, "the runtime directory's path is too long");
        if (mkdtemp(path) == NULL)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "can't make a directory in %s: %s", runtime,
                                     strerror(errno));
        if (local->drop && lchown(path, local->uid, local->gid) < 0) {
                int code = -errno;

                rmdir(path);
                return sbx_error_set(err, code, LOCAL_ORIGIN, NULL, "can't give %s to the guest: %s", path,
                                     strerror(-code));
        }
        memcpy(ret_path, path, sizeof(path));
        return 0;
}

/* Empties the directory. Takes over `fd`. */
static void empty(int fd, unsigned depth) {
        DIR *directory = fdopendir(fd);
        struct dirent *entry;

        if (directory == NULL) {
                close(fd);
                return;
        }
        while ((entry = readdir(directory)) != NULL) {
                const char *name = entry->d_name;
                int child;

                if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                        continue;
                if (unlinkat(dirfd(directory), name, 0) == 0 || (errno != EISDIR && errno != EPERM))
                        continue;
                if (depth < DEPTH_MAX) {
                        child = openat(dirfd(directory), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                        if (child < 0 && errno == EACCES &&
                            fchmodat(dirfd(directory), name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
                                child = openat(dirfd(directory), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                        if (child >= 0)
                                empty(child, depth + 1);
                }
                unlinkat(dirfd(directory), name, AT_REMOVEDIR);
        }
        closedir(directory);
}

void scratch_remove(const char *path) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd >= 0)
                empty(fd, 0);
        rmdir(path);
}
