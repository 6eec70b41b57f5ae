/* SPDX-License-Identifier: Apache-2.0 */
/* Reads small files. */
#include "file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

void hs_wipe(void *memory, size_t size) {
        if (memory != NULL)
                explicit_bzero(memory, size);
}

static int check_file(const char *path, const char *what, const struct stat *st, size_t max, bool secret,
                      struct sbx_error *err) {
        if (!S_ISREG(st->st_mode))
                return sbx_error_set(err, -EISDIR, HS_ORIGIN, "Name a regular file.", "the %s %s is not a file", what,
                                     path);
        if (secret && st->st_uid != geteuid() && st->st_uid != 0)
                return sbx_error_set(err, -EACCES, HS_ORIGIN, "Make the user that runs the server its owner.",
                                     "the %s %s belongs to another user", what, path);
        if (secret && (st->st_mode & (S_IRWXG | S_IRWXO)) != 0)
                return sbx_error_set(err, -EACCES, HS_ORIGIN, "Close it to others: chmod 600.",
                                     "the %s %s is open to other users (mode %04o)", what, path,
                                     (unsigned)(st->st_mode & 07777));
        if ((size_t)st->st_size > max)
                return sbx_error_set(err, -EFBIG, HS_ORIGIN, "Is it the right file?",
                                     "the %s %s has more than %zu bytes", what, path, max);
        return 0;
}

static int read_all(int fd, size_t max, char **ret_text, size_t *ret_size) {
        char *text = malloc(max + 1);
        size_t size = 0;

        if (text == NULL)
                return -ENOMEM;
        for (;;) {
                ssize_t n = read(fd, text + size, max - size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        hs_wipe(text, size);
                        free(text);
                        return -EIO;
                }
                if (n == 0)
                        break;
                size += (size_t)n;
        }
        text[size] = '\0';
        *ret_text = text;
        *ret_size = size;
        return 0;
}

int hs_file_read(const char *path, const char *what, size_t max, bool secret, char **ret_text, size_t *ret_size,
                 struct stat *ret_st, struct sbx_error *err) {
        struct stat st;
        int fd, r;

        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0) {
                r = errno == ENOENT || errno == ENOTDIR ? -ENOENT : -EACCES;
                return sbx_error_set(err, r, HS_ORIGIN, "Check the path and who may read it.",
                                     "the %s %s can't be opened: %s", what, path, strerror(errno));
        }
        r = fstat(fd, &st) < 0 ? -EIO : check_file(path, what, &st, max, secret, err);
        if (r == 0)
                r = read_all(fd, (size_t)st.st_size, ret_text, ret_size);
        close(fd);
        if (r < 0)
                return sbx_error_set(err, r, HS_ORIGIN, NULL, "the %s %s can't be read: %s", what, path, strerror(-r));
        if (ret_st != NULL)
                *ret_st = st;
        return 0;
}
