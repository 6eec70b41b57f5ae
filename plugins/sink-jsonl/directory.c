/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, opens and syncs the directory of the files. */
#include "directory.h"

#include <fcntl.h>
#include <sys/stat.h>

#define HINT "Set `directory` of the sink, or the setting log_dir, to a directory that you can write."

/* Makes each directory of the path that is not there. What can't be made shows when it is opened. */
static int make_directories(const char *path, struct sbx_error *err) {
        _cleanup_free_ char *copy = strdup(path);

        if (copy == NULL)
                return jsonl_no_memory(err);
        for (char *slash = strchr(copy + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                if (mkdir(copy, 0700) < 0 && errno != EEXIST)
                        return jsonl_system_error("make", copy, NULL, HINT, err);
                *slash = '/';
        }
        if (mkdir(copy, 0700) < 0 && errno != EEXIST)
                return jsonl_system_error("make", path, NULL, HINT, err);
        return 0;
}

static bool is_gone(int fd) {
        struct stat st;

        return fstat(fd, &st) < 0 || st.st_nlink == 0;
}

int jsonl_directory_open(struct jsonl_directory *directory, struct sbx_error *err) {
        int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, r;

        if (directory->fd >= 0 && !is_gone(directory->fd))
                return 0;
        jsonl_directory_close(directory);
        directory->fd = open(directory->path, flags);
        if (directory->fd < 0 && errno == ENOENT) {
                r = make_directories(directory->path, err);
                if (r < 0)
                        return r;
                directory->fd = open(directory->path, flags);
        }
        return directory->fd < 0 ? jsonl_system_error("open", directory->path, NULL, HINT, err) : 0;
}

int jsonl_directory_sync(struct jsonl_directory *directory, struct sbx_error *err) {
        if (!directory->unsynced)
                return 0;
        if (fsync(directory->fd) < 0)
                return jsonl_system_error("write to the disk", directory->path, NULL,
                                          "Check the disk and the system's log.", err);
        directory->unsynced = false;
        return 0;
}

void jsonl_directory_close(struct jsonl_directory *directory) {
        if (directory->fd >= 0)
                close(directory->fd);
        directory->fd = -1;
}
