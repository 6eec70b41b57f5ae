/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a journal: names, the lock, reading line by line, appending a line or nothing. */
#include "agent/journal_line.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "plugin/registry.h"

#define CHUNK_BYTES (256u << 10)
#define LOCK_ATTEMPTS 20u
#define LOCK_PAUSE_NS 5000000

/* ---- names ---- */

bool sbx_journal_id_valid(const char *run_id) {
        static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

        if (run_id == NULL || strlen(run_id) != sizeof(shape) - 1)
                return false;
        for (size_t i = 0; i < sizeof(shape) - 1; i++)
                if (shape[i] == '-' ? run_id[i] != '-' : strchr("0123456789abcdef", run_id[i]) == NULL)
                        return false;
        return true;
}

bool sbx_journal_file_name(const char *run_id, char ret_name[SBX_JOURNAL_NAME_SIZE]) {
        if (!sbx_journal_id_valid(run_id))
                return false;
        snprintf(ret_name, SBX_JOURNAL_NAME_SIZE, "%s.jsonl", run_id);
        return true;
}

static int name_of(const char *run_id, char ret_name[SBX_JOURNAL_NAME_SIZE], struct sbx_error *err) {
        if (sbx_journal_file_name(run_id, ret_name))
                return 0;
        return sbx_error_set(err, -EINVAL, SBX_JOURNAL_ORIGIN, "An id looks like 1b4e28ba-2fa1-41d2-883f-0016d3cca427.",
                             "this is not the id of a run");
}

/* ---- opening ---- */

/* Whoever lists journals, or removes old ones, holds a lock for a moment: that is no other run. */
static int try_lock(int fd) {
        for (unsigned attempt = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; attempt++) {
                if (errno != EWOULDBLOCK || attempt == LOCK_ATTEMPTS)
                        return -1;
                nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS}, NULL);
        }
        return 0;
}

static int lock_file(int fd, const char *run_id, struct sbx_error *err) {
        struct stat st;

        if (try_lock(fd) < 0)
                return errno == EWOULDBLOCK
                               ? sbx_error_set(err, -EBUSY, SBX_JOURNAL_ORIGIN,
                                               "Wait until it has ended, or end that process.",
                                               "run %s is going on in another process, or elsewhere in this one",
                                               run_id)
                               : sbx_error_set(err, -errno, SBX_JOURNAL_ORIGIN, NULL,
                                               "can't lock the journal of run %s: %s", run_id, SBX_ERRNO_TEXT(-errno));
        /* Between open and lock it may have been removed as an old one. */
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink == 0)
                return sbx_error_set(err, -ENOENT, SBX_JOURNAL_ORIGIN, NULL, "the journal of run %s is gone", run_id);
        return 0;
}

static int open_directory(const char *directory, int *ret_fd, struct sbx_error *err) {
        int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

        if (fd < 0)
                return sbx_error_set(err, -errno, SBX_JOURNAL_ORIGIN, NULL,
                                     "can't open the directory of journals %s: %s", directory, SBX_ERRNO_TEXT(-errno));
        *ret_fd = fd;
        return 0;
}

int sbx_journal_file_create(const char *directory, const char *run_id, struct sbx_journal_file *ret_file,
                            struct sbx_error *err) {
        _cleanup_close_ int dir_fd = -1, fd = -1;
        char name[SBX_JOURNAL_NAME_SIZE];
        int r = name_of(run_id, name, err);

        if (r == 0)
                r = sbx_directory_create(directory, err);
        if (r == 0)
                r = open_directory(directory, &dir_fd, err);
        if (r < 0)
                return r;
        fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return sbx_error_set(err, -errno, SBX_JOURNAL_ORIGIN, NULL, "can't make the journal %s/%s: %s",
                                     directory, name, SBX_ERRNO_TEXT(-errno));
        r = lock_file(fd, run_id, err);
        if (r < 0)
                return r;
        (void)fsync(dir_fd); /* that the name survives a power cut too; not every file system can say */
        *ret_file = (struct sbx_journal_file){.fd = steal_fd(&fd)};
        return 0;
}

int sbx_journal_file_open(const char *directory, const char *run_id, struct sbx_journal_file *ret_file,
                          struct sbx_error *err) {
        _cleanup_close_ int dir_fd = -1, fd = -1;
        char name[SBX_JOURNAL_NAME_SIZE];
        struct stat st;
        int r = name_of(run_id, name, err);

        if (r < 0)
                return r;
        dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (dir_fd >= 0)
                fd = openat(dir_fd, name, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0)
                return sbx_error_set(
                        err, -errno, SBX_JOURNAL_ORIGIN, errno == ENOENT ? "Journals are kept for a while only." : NULL,
                        "can't open the journal of run %s in %s: %s", run_id, directory, SBX_ERRNO_TEXT(-errno));
        r = lock_file(fd, run_id, err);
        if (r < 0)
                return r;
        if (fstat(fd, &st) < 0)
                return sbx_error_set(err, -errno, SBX_JOURNAL_ORIGIN, NULL, "can't look at the journal of run %s: %s",
                                     run_id, SBX_ERRNO_TEXT(-errno));
        if ((uint64_t)st.st_size > SBX_JOURNAL_FILE_MAX_BYTES)
                return sbx_error_set(err, -EBADMSG, SBX_JOURNAL_ORIGIN, NULL,
                                     "the journal of run %s is larger than any that is written here", run_id);
        *ret_file = (struct sbx_journal_file){.fd = steal_fd(&fd), .size = (uint64_t)st.st_size};
        return 0;
}

void sbx_journal_file_close(struct sbx_journal_file *file) {
        if (file->fd >= 0)
                close(file->fd);
        file->fd = -1;
}

/* ---- reading ---- */

static int fail(const char *doing, int code, struct sbx_error *err) {
        return sbx_error_set(err, code, SBX_JOURNAL_ORIGIN,
                             code == -ENOSPC || code == -EDQUOT ? "Make room on the disk; then the run can be resumed."
                                                                : NULL,
                             "can't %s the journal: %s", doing, SBX_ERRNO_TEXT(code));
}

/* Passes the whole lines at the front of `bytes`; how many bytes these are. */
static int pass_lines(const struct sbx_buffer *bytes, size_t *number,
                      int (*each)(void *data, size_t number, struct sbx_bytes line, struct sbx_error *err), void *data,
                      size_t *ret_used, struct sbx_error *err) {
        const char *from = bytes->data, *newline;
        size_t used = 0;

        while (used < bytes->size && (newline = memchr(from + used, '\n', bytes->size - used)) != NULL) {
                size_t length = (size_t)(newline - from) - used;
                int r = each(data, ++*number, (struct sbx_bytes){from + used, length}, err);

                if (r < 0)
                        return r;
                used += length + 1;
        }
        *ret_used = used;
        return 0;
}

/* One more piece of the file; 0: its end. */
static ssize_t read_chunk(int fd, uint64_t at, struct sbx_buffer *bytes) {
        ssize_t n;
        int r = sbx_buffer_reserve(bytes, CHUNK_BYTES);

        if (r < 0)
                return r;
        do
                n = pread(fd, bytes->data + bytes->size, CHUNK_BYTES, (off_t)at);
        while (n < 0 && errno == EINTR);
        if (n > 0)
                bytes->size += (size_t)n;
        return n < 0 ? -errno : n;
}

int sbx_journal_file_read(struct sbx_journal_file *file,
                          int (*each)(void *data, size_t number, struct sbx_bytes line, struct sbx_error *err),
                          void *data, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer bytes = SBX_BUFFER(SBX_JOURNAL_LINE_MAX_BYTES + 2 * CHUNK_BYTES);
        uint64_t at = 0, whole = 0;
        size_t number = 0;
        ssize_t n;
        int r;

        while ((n = read_chunk(file->fd, at, &bytes)) > 0) {
                size_t used = 0;

                at += (uint64_t)n;
                r = pass_lines(&bytes, &number, each, data, &used, err);
                if (r < 0)
                        return r;
                whole += used;
                sbx_buffer_consume(&bytes, used);
        }
        if (n == -EFBIG)
                return sbx_error_set(err, -EBADMSG, SBX_JOURNAL_ORIGIN, NULL,
                                     "the journal is damaged at line %zu: too long", number + 1);
        if (n < 0)
                return fail("read", (int)n, err);
        if (whole < at && ftruncate(file->fd, (off_t)whole) < 0)
                return fail("cut the last, half line off", -errno, err);
        file->size = whole;
        return 0;
}

/* ---- writing ---- */

int sbx_journal_file_append(struct sbx_journal_file *file, struct sbx_bytes line, struct sbx_error *err) {
        int r;

        if (file->broken)
                return fail("write to", -EIO, err);
        if (line.size > SBX_JOURNAL_LINE_MAX_BYTES || file->size + line.size > SBX_JOURNAL_FILE_MAX_BYTES)
                return sbx_error_set(err, -EFBIG, SBX_JOURNAL_ORIGIN, NULL,
                                     "the journal is full (%llu bytes, and %zu more)", (unsigned long long)file->size,
                                     line.size);
        r = sbx_fd_write_all(file->fd, line, NULL);
        if (r == 0) {
                file->size += line.size;
                return 0;
        }
        /* A half line must not stand before the next one. */
        if (ftruncate(file->fd, (off_t)file->size) < 0)
                file->broken = true;
        return fail("write to", r, err);
}

int sbx_journal_file_sync(struct sbx_journal_file *file, struct sbx_error *err) {
        if (fdatasync(file->fd) == 0)
                return 0;
        /* After a failed one the kernel may have dropped what it could not write. */
        file->broken = true;
        return fail("sync", -errno, err);
}
