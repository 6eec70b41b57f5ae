/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the key file; says what is wrong with one without telling what is in it. */
#include "key.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX 128u /* more than 64 digits and white space */
#define MAKE_HINT "Make one: (umask 077; head -c 32 /dev/urandom > FILE). Without it nobody reads the store again."

static int check_file(int fd, const char *path, const char *origin, struct sbx_error *err) {
        struct stat st;

        if (fstat(fd, &st) < 0)
                return sbx_error_set(err, -errno, origin, NULL, "can't look at the key file %s: %m", path);
        if (!S_ISREG(st.st_mode))
                return sbx_error_set(err, -EINVAL, origin, MAKE_HINT, "the key file %s is no regular file", path);
        if (st.st_uid != geteuid() && st.st_uid != 0)
                return sbx_error_set(err, -EACCES, origin, "Its owner has to be this user, or root.",
                                     "the key file %s belongs to user %u", path, (unsigned)st.st_uid);
        if ((st.st_mode & 077) != 0)
                return sbx_error_set(err, -EACCES, origin, "Take the others' permissions away: chmod 600 FILE.",
                                     "others than its owner have access to the key file %s (mode %03o)", path,
                                     (unsigned)st.st_mode & 0777);
        return 0;
}

static ssize_t read_all(int fd, char *text, size_t size) {
        size_t done = 0;

        while (done < size) {
                ssize_t got = read(fd, text + done, size - done);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return -errno;
                if (got == 0)
                        break;
                done += (size_t)got;
        }
        return (ssize_t)done;
}

static bool parse_key(const char *text, size_t size, uint8_t ret_key[SEALING_KEY_SIZE]) {
        const char *end = NULL;
        size_t decoded = 0;

        if (size == SEALING_KEY_SIZE) {
                memcpy(ret_key, text, SEALING_KEY_SIZE);
                return true;
        }
        while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r' || text[size - 1] == ' '))
                size--;
        return size == (size_t)2 * SEALING_KEY_SIZE &&
               sodium_hex2bin(ret_key, SEALING_KEY_SIZE, text, size, NULL, &decoded, &end) == 0 &&
               decoded == SEALING_KEY_SIZE && end == text + size;
}

int sealing_key_read(const char *path, const char *origin, uint8_t ret_key[SEALING_KEY_SIZE], struct sbx_error *err) {
        char text[TEXT_MAX];
        ssize_t size;
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), r;

        if (fd < 0)
                return sbx_error_set(err, -errno, origin, errno == ENOENT ? MAKE_HINT : NULL,
                                     "can't open the key file %s: %m", path);
        r = check_file(fd, path, origin, err);
        size = r < 0 ? r : read_all(fd, text, sizeof(text));
        close(fd);
        if (r == 0 && size < 0)
                r = sbx_error_set(err, (int)size, origin, NULL, "can't read the key file %s", path);
        if (r == 0 && !parse_key(text, (size_t)size, ret_key))
                r = sbx_error_set(err, -EINVAL, origin, MAKE_HINT,
                                  "the key file %s holds neither 32 bytes nor 64 hexadecimal digits", path);
        sodium_memzero(text, sizeof(text));
        return r;
}
