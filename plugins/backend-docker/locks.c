/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of locks: see locks.h. */
#include <dirent.h>
#include <fcntl.h>
#include <sha2.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "docker.h"
#include "locks.h"
#include "util.h"

#define IDENTITY_BYTES 16
#define MACHINE_ID "/etc/machine-id"
#define MACHINE_ID_MAX 64
#define HOLD_TRIES 1000 /* others may sweep each new file away before it is locked; not for ever */
#define LOCK_NAME_SIZE (LOCKS_HASH_SIZE + sizeof(".lock"))

struct locks {
        int fd; /* of <directory>/docker/<host> */
        unsigned char identity[IDENTITY_BYTES];
        char host[LOCKS_HASH_SIZE];
};

static int fail(struct sbx_error *err, const char *what, const char *directory) {
        int code = errno > 0 ? -errno : -EIO;

        return sbx_error_set(err, code, DOCKER_ORIGIN,
                             "make sure that this user alone can write there, or set XDG_STATE_HOME to a directory of "
                             "its own",
                             "%s below %s: %s", what, directory, strerror(-code));
}

static void write_hex(const unsigned char *bytes, size_t count, char *text) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < count; i++) {
                text[2 * i] = digits[bytes[i] >> 4];
                text[2 * i + 1] = digits[bytes[i] & 15];
        }
        text[2 * count] = '\0';
}

bool locks_is_id(const char *text) {
        return text != NULL && strlen(text) == LOCKS_HASH_SIZE - 1 &&
               strspn(text, "0123456789abcdef") == LOCKS_HASH_SIZE - 1;
}

void locks_hash(const struct locks *locks, const struct locks_part *parts, size_t count, char ret[LOCKS_HASH_SIZE]) {
        unsigned char digest[SHA256_DIGEST_LENGTH];
        SHA2_CTX context;

        SHA256Init(&context);
        SHA256Update(&context, locks->identity, sizeof(locks->identity));
        for (size_t i = 0; i < count; i++) {
                uint64_t size = parts[i].size;

                /* With its length, so that "a","bc" is not "ab","c". */
                SHA256Update(&context, (const uint8_t *)&size, sizeof(size));
                if (parts[i].size > 0)
                        SHA256Update(&context, parts[i].data, parts[i].size);
        }
        SHA256Final(digest, &context);
        write_hex(digest, (LOCKS_HASH_SIZE - 1) / 2, ret);
}

/* ---- opening */

static int open_below(int parent, const char *name) {
        int fd;

        if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
                return -1;
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd;
}

static int read_identity(int fd, unsigned char identity[IDENTITY_BYTES]) {
        _cleanup_close_ int file = openat(fd, "identity", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;
        ssize_t n;

        if (file < 0 || fstat(file, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_size != IDENTITY_BYTES)
                return -EBADMSG;
        n = read(file, identity, IDENTITY_BYTES);
        return n < 0 ? -errno : n == IDENTITY_BYTES ? 0 : -EBADMSG;
}

/* Under another name first: nobody reads a half-written one, and of two who make it at once one wins. */
static int make_identity(int fd) {
        unsigned char identity[IDENTITY_BYTES], random[8];
        char name[sizeof("identity.") + 2 * sizeof(random)] = "identity.";
        _cleanup_close_ int file = -1;
        int r = 0;

        if (getrandom(identity, sizeof(identity), 0) != (ssize_t)sizeof(identity) ||
            getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
                return -EIO;
        write_hex(random, sizeof(random), name + strlen(name));
        file = openat(fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file < 0)
                return -errno;
        if (write(file, identity, sizeof(identity)) != (ssize_t)sizeof(identity) || fsync(file) < 0)
                r = errno > 0 ? -errno : -EIO;
        if (r == 0 && linkat(fd, name, fd, "identity", 0) < 0 && errno != EEXIST)
                r = -errno;
        unlinkat(fd, name, 0);
        return r;
}

static int find_identity(int fd, unsigned char identity[IDENTITY_BYTES]) {
        int r = read_identity(fd, identity);

        if (r != -ENOENT)
                return r;
        r = make_identity(fd);
        return r < 0 ? r : read_identity(fd, identity);
}

static void find_host(struct locks *locks) {
        _cleanup_close_ int fd = open(MACHINE_ID, O_RDONLY | O_CLOEXEC);
        char machine[MACHINE_ID_MAX];
        ssize_t n = fd < 0 ? 0 : read(fd, machine, sizeof(machine));
        uid_t uid = geteuid();
        const struct locks_part parts[] = {{"host", 4}, {machine, n > 0 ? (size_t)n : 0}, {&uid, sizeof(uid)}};

        locks_hash(locks, parts, sizeof(parts) / sizeof(parts[0]), locks->host);
}

int locks_open(const char *directory, struct locks **ret_locks, struct sbx_error *err) {
        _cleanup_close_ int top = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int docker = top < 0 ? -1 : open_below(top, "docker");
        struct locks *locks;
        int r;

        if (docker < 0)
                return fail(err, "can't make the directory \"docker\"", directory);
        locks = calloc(1, sizeof(*locks));
        if (locks == NULL)
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        r = find_identity(docker, locks->identity);
        if (r < 0) {
                free(locks);
                errno = -r;
                return fail(err, "can't use the file \"docker/identity\"", directory);
        }
        find_host(locks);
        locks->fd = open_below(docker, locks->host);
        if (locks->fd < 0) {
                free(locks);
                return fail(err, "can't make the directory of locks", directory);
        }
        *ret_locks = locks;
        return 0;
}

void locks_free(struct locks *locks) {
        if (locks == NULL)
                return;
        close_fd(&locks->fd);
        free(locks);
}

const char *locks_host(const struct locks *locks) {
        return locks->host;
}

/* ---- locks */

static void lock_name(const char *id, char name[LOCK_NAME_SIZE]) {
        snprintf(name, LOCK_NAME_SIZE, "%s.lock", id);
}

static int lock_whole(int fd) {
        int r;

        do
                r = flock(fd, LOCK_EX);
        while (r < 0 && errno == EINTR);
        return r;
}

int locks_hold(struct locks *locks, const char *id, int *ret_fd, struct sbx_error *err) {
        char name[LOCK_NAME_SIZE];

        lock_name(id, name);
        for (int i = 0; i < HOLD_TRIES; i++) {
                _cleanup_close_ int fd =
                        openat(locks->fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
                struct stat st;

                /* Who looks at it between the two calls finds it free and removes it: then another is made. */
                if (fd < 0 || lock_whole(fd) < 0 || fstat(fd, &st) < 0)
                        return fail(err, "can't lock a file", "the directory of locks");
                if (st.st_nlink == 0)
                        continue;
                *ret_fd = steal_fd(&fd);
                return 0;
        }
        errno = EBUSY;
        return fail(err, "can't keep a lock file", "the directory of locks");
}

/* A shared lock for a moment: those who look don't take each other for the owner. */
static enum lock_state look(const struct locks *locks, const char *name, int *ret_fd) {
        _cleanup_close_ int fd = openat(locks->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

        if (fd < 0)
                return errno == ENOENT ? LOCK_MISSING : LOCK_HELD; /* can't be known: hands off */
        if (flock(fd, LOCK_SH | LOCK_NB) < 0)
                return LOCK_HELD;
        if (ret_fd != NULL)
                *ret_fd = steal_fd(&fd);
        return LOCK_FREE;
}

enum lock_state locks_look(const struct locks *locks, const char *id) {
        char name[LOCK_NAME_SIZE];

        if (!locks_is_id(id))
                return LOCK_HELD;
        lock_name(id, name);
        return look(locks, name, NULL);
}

/* Whoever removes it has it for himself, and looks whether it still stands under its name: what another has removed
 * meanwhile may stand there anew, and be somebody's. */
void locks_forget(const struct locks *locks, const char *id) {
        _cleanup_close_ int fd = -1;
        char name[LOCK_NAME_SIZE];
        struct stat st;

        lock_name(id, name);
        if (locks_is_id(id) && look(locks, name, &fd) == LOCK_FREE && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
            fstat(fd, &st) == 0 && st.st_nlink > 0)
                unlinkat(locks->fd, name, 0);
}

/* "<id>.lock" -> id. */
static bool id_of(const char *name, char id[LOCKS_HASH_SIZE]) {
        if (strlen(name) != LOCKS_HASH_SIZE - 1 + strlen(".lock") || strcmp(name + LOCKS_HASH_SIZE - 1, ".lock") != 0)
                return false;
        memcpy(id, name, LOCKS_HASH_SIZE - 1);
        id[LOCKS_HASH_SIZE - 1] = '\0';
        return locks_is_id(id);
}

static void docker_cleanup_directory(DIR **directory) {
        if (*directory != NULL)
                closedir(*directory);
}

int locks_dead(const struct locks *locks, char (**ret_ids)[LOCKS_HASH_SIZE], size_t *ret_count) {
        int fd = openat(locks->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_(docker_cleanup_directory) DIR *directory = fd < 0 ? NULL : fdopendir(fd);
        _cleanup_free_ char(*ids)[LOCKS_HASH_SIZE] = calloc(LOCKS_MAX, LOCKS_HASH_SIZE);
        const struct dirent *entry;
        size_t count = 0;

        if (directory == NULL || ids == NULL) {
                if (directory == NULL && fd >= 0)
                        close(fd);
                return -ENOMEM;
        }
        while (count < LOCKS_MAX && (entry = readdir(directory)) != NULL)
                if (id_of(entry->d_name, ids[count]) && locks_look(locks, ids[count]) == LOCK_FREE)
                        count++;
        *ret_ids = steal_pointer(ids);
        *ret_count = count;
        return 0;
}
