/* SPDX-License-Identifier: Apache-2.0 */
/* A file of lines with a maximum size, which always ends in a whole line. */
#include "file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define ORIGIN "sink-example"

/* Sets `err` to "can't <what> PATH: <reason>" from errno, and returns -errno. */
static int system_error(const struct event_file *file, const char *what, const char *hint, struct sbx_error *err) {
        int code = -errno;
        char reason[96];

        return sbx_error_set(err, code, ORIGIN, hint, "can't %s %s: %s", what, file->path,
                             strerror_r(-code, reason, sizeof(reason)));
}

void event_file_init(struct event_file *file, const char *path, uint64_t max_bytes) {
        *file = (struct event_file){.path = path, .max_bytes = max_bytes, .fd = -1};
}

/* What is in the descriptor decides, never a second look at the path. */
static int check_opened(struct event_file *file, struct sbx_error *err) {
        struct stat st;

        if (fstat(file->fd, &st) < 0)
                return system_error(file, "look at", NULL, err);
        if (!S_ISREG(st.st_mode))
                return sbx_error_set(err, -EINVAL, ORIGIN, "Set `file` to a path of its own.",
                                     "%s is not a regular file", file->path);
        if (flock(file->fd, LOCK_EX | LOCK_NB) < 0) {
                if (errno == EWOULDBLOCK)
                        return sbx_error_set(err, -EBUSY, ORIGIN, "Give each instance and server a `file` of its own.",
                                             "another process or instance appends to %s", file->path);
                return system_error(file, "lock", NULL, err);
        }
        file->size = (uint64_t)st.st_size;
        return 0;
}

int event_file_open(struct event_file *file, struct sbx_error *err) {
        int r;

        /* O_NONBLOCK, so that a FIFO in its place does not make us wait for a reader. */
        file->fd = open(file->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
        if (file->fd < 0)
                return system_error(file, "open", "Make its directory, or set `file` to a path that you can write.",
                                    err);
        r = check_opened(file, err);
        if (r < 0)
                event_file_close(file);
        return r;
}

int event_file_append(struct event_file *file, struct sbx_bytes line, struct sbx_error *err) {
        char newline = '\n';
        struct iovec parts[] = {{(void *)line.data, line.size}, {&newline, 1}};
        ssize_t written;

        if (line.size > 0 && memchr(line.data, '\n', line.size) != NULL)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "an event of %zu bytes is more than one line",
                                     line.size);
        if (file->size >= file->max_bytes || line.size >= file->max_bytes - file->size)
                return sbx_error_set(err, -EFBIG, ORIGIN, "Move the file away and restart, or raise `max_size`.",
                                     "%s is full: %llu of %llu bytes, and the event has %zu", file->path,
                                     (unsigned long long)file->size, (unsigned long long)file->max_bytes, line.size);
        do
                written = writev(file->fd, parts, 2);
        while (written < 0 && errno == EINTR);
        if (written == (ssize_t)(line.size + 1)) {
                file->size += line.size + 1;
                return 0;
        }
        /* A full disk takes a part of a line: take it back, so that a reader finds whole lines only. */
        if (written >= 0) {
                if (ftruncate(file->fd, (off_t)file->size) < 0)
                        return system_error(file, "take back a part of a line in", NULL, err);
                errno = ENOSPC;
        }
        return system_error(file, "append to", "Make room on the disk.", err);
}

int event_file_flush(struct event_file *file, struct sbx_error *err) {
        if (fdatasync(file->fd) < 0)
                return system_error(file, "write to the disk", "Check the disk and the system's log.", err);
        return 0;
}

void event_file_close(struct event_file *file) {
        if (file->fd >= 0)
                close(file->fd);
        file->fd = -1;
}
