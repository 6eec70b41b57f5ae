/* SPDX-License-Identifier: Apache-2.0 */
/* Opening what is below the project's directory, safely against links, devices and races. */
#include "tree.h"

#include <fcntl.h>
#include <stdio.h>

#include "utf8.h"

int tree_open_directory(int directory_fd, const char *name, int *ret_fd, struct stat *ret_st) {
        _cleanup_close_ int fd = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0 || fstat(fd, ret_st) < 0)
                return -errno;
        *ret_fd = steal_fd(&fd);
        return 0;
}

int tree_open_file(int directory_fd, const char *name, int *ret_fd, struct stat *ret_st) {
        /* O_PATH does not open: opening a FIFO would wait, and opening a device may do things. */
        _cleanup_close_ int place = openat(directory_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), fd = -1;
        char link[40];

        if (place < 0 || fstat(place, ret_st) < 0)
                return -errno;
        if (!S_ISREG(ret_st->st_mode))
                return -EINVAL;
        snprintf(link, sizeof(link), "/proc/self/fd/%d", place);
        fd = open(link, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
                return -errno;
        *ret_fd = steal_fd(&fd);
        return 0;
}

int tree_read(int fd, size_t max, char **ret_data, size_t *ret_size) {
        size_t size = 0, capacity = 16384;
        _cleanup_free_ char *data = malloc(capacity + 1);
        ssize_t n;

        if (data == NULL)
                return -ENOMEM;
        for (;;) {
                if (size == capacity) {
                        char *grown = realloc(data, capacity * 2 + 1);

                        if (grown == NULL)
                                return -ENOMEM;
                        data = grown;
                        capacity *= 2;
                }
                n = read(fd, data + size, capacity - size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                size += (size_t)n;
                if (size > max)
                        return -EFBIG;
        }
        data[size] = '\0';
        *ret_data = steal_pointer(data);
        *ret_size = size;
        return 0;
}

bool tree_path_valid(const char *path, size_t size) {
        size_t components = 0;

        if (size == 0 || size >= TREE_PATH_MAX || !utf8_is_text(path, size, false))
                return false;
        for (size_t start = 0; start <= size;) {
                const char *slash = memchr(path + start, '/', size - start);
                size_t length = slash != NULL ? (size_t)(slash - path) - start : size - start;

                if (length == 0 || (length == 1 && path[start] == '.') ||
                    (length == 2 && path[start] == '.' && path[start + 1] == '.'))
                        return false;
                if (++components > TREE_DEPTH_MAX)
                        return false;
                start += length + 1;
        }
        return true;
}
