/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, reads, replaces and removes below a descriptor. */
#include "files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>

int directory_open(int parent_fd, const char *name, bool create, int *ret_fd) {
        _cleanup_close_ int fd = -1;
        struct stat st;

        if (create && mkdirat(parent_fd, name, 0700) < 0 && errno != EEXIST)
                return -errno;
        fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
                return -EPERM;
        *ret_fd = steal_fd(&fd);
        return 0;
}

int file_open(int parent_fd, const char *name, int flags, int *ret_fd, struct stat *ret_stat) {
        /* O_NONBLOCK: a FIFO that somebody put there must not make us wait for its other end. */
        _cleanup_close_ int fd = openat(parent_fd, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
        struct stat st;

        if (fd < 0)
                return errno == ELOOP || errno == EISDIR || errno == ENXIO ? -EBADMSG : -errno;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
                return -EBADMSG;
        if (ret_stat != NULL)
                *ret_stat = st;
        *ret_fd = steal_fd(&fd);
        return 0;
}

int file_read(int parent_fd, const char *name, size_t max, struct bytes *ret_bytes, struct stat *ret_stat) {
        _cleanup_bytes_ struct bytes bytes = {0};
        _cleanup_close_ int fd = -1;
        struct stat st;
        ssize_t size;
        int r = file_open(parent_fd, name, O_RDONLY, &fd, &st);

        if (r < 0)
                return r;
        if ((uint64_t)st.st_size > max)
                return -EFBIG;
        r = bytes_reserve(&bytes, (size_t)st.st_size, max);
        if (r < 0)
                return r;
        size = read_at(fd, bytes.data, (size_t)st.st_size, 0);
        if (size < 0)
                return (int)size;
        bytes.size = (size_t)size;
        *ret_bytes = bytes;
        bytes = (struct bytes){0};
        if (ret_stat != NULL)
                *ret_stat = st;
        return 0;
}

void file_random_name(char ret_name[FILE_NAME_RANDOM]) {
        uint8_t random[(FILE_NAME_RANDOM - 1) / 2];

        randombytes_buf(random, sizeof(random));
        sodium_bin2hex(ret_name, FILE_NAME_RANDOM, random, sizeof(random));
}

int file_replace(int fd, const char *from, const char *to) {
        /* Some file systems, ext4 among them, begin to write out a file that is renamed over another one; where there
         * was none, or the two change places, they don't. */
        if (renameat2(fd, from, fd, to, RENAME_EXCHANGE) == 0) {
                (void)unlinkat(fd, from,
                               0); /* it has happened; whoever writes the next one removes what is left here */
                return 0;
        }
        if (errno != ENOENT && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
                return -errno;
        return renameat(fd, from, fd, to) < 0 ? -errno : 0;
}

bool same_file(const struct stat *one, const struct stat *other) {
        return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

int directory_visit(int fd, int (*visit)(void *data, int fd, const char *name), void *data) {
        int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0; /* with a position of its own */
        DIR *directory = again >= 0 ? fdopendir(again) : NULL;
        const struct dirent *entry;

        if (directory == NULL) {
                r = -errno;
                if (again >= 0)
                        close(again);
                return r;
        }
        while (r == 0) {
                errno = 0;
                entry = readdir(directory);
                if (entry == NULL) {
                        r = -errno;
                        break;
                }
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        r = visit(data, fd, entry->d_name);
        }
        closedir(directory);
        return r;
}

static int remove_entry(void *data, int fd, const char *name) {
        (void)data;
        return unlinkat(fd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

int directory_remove(int parent_fd, const char *name) {
        _cleanup_close_ int fd = -1;
        int r = directory_open(parent_fd, name, false, &fd);

        if (r == 0)
                r = directory_visit(fd, remove_entry, NULL);
        if (r == 0 && unlinkat(parent_fd, name, AT_REMOVEDIR) < 0)
                r = -errno;
        return r;
}
