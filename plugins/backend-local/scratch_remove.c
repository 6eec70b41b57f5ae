/* SPDX-License-Identifier: Apache-2.0 */
/* Removes the directory of a guest that shared the host's file tree. What is in it was made by the guest, so it is
 * removed by descriptor, never by path, and links are not followed. */
#include "scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "util.h"

#define DEPTH_MAX 256

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
