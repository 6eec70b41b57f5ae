/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, appends to and syncs one file. */
#include "file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define LOCK_TRIES 50 /* of 20 ms: `logs` looks for a moment who has a file */

static int file_error(const struct jsonl_file *file, const char *what, const char *hint, struct sbx_error *err) {
        return jsonl_system_error(what, file->directory->path, file->name, hint, err);
}

/* ---- opening ---- */

static int lock_file(const struct jsonl_file *file, struct sbx_error *err) {
        static const struct timespec pause = {.tv_nsec = 20000000};
        int r;

        for (int i = 0; (r = flock(file->fd, LOCK_EX | LOCK_NB)) < 0 && errno == EWOULDBLOCK && i < LOCK_TRIES; i++)
                nanosleep(&pause, NULL);
        if (r < 0 && errno == EWOULDBLOCK)
                return sbx_error_set(err, -EBUSY, JSONL_ORIGIN, "Let one process at a time work on a run.",
                                     "another process writes to %s/%s", file->directory->path, file->name);
        return r < 0 ? file_error(file, "lock", NULL, err) : 0;
}

/* What is behind the descriptor decides, never a second look at the path. */
static int check_opened(const struct jsonl_file *file, uint64_t *ret_size, struct sbx_error *err) {
        struct stat st;

        if (fstat(file->fd, &st) < 0)
                return file_error(file, "look at", NULL, err);
        if (!S_ISREG(st.st_mode))
                return sbx_error_set(err, -EINVAL, JSONL_ORIGIN, "Move it away.", "%s/%s is not a regular file",
                                     file->directory->path, file->name);
        if (st.st_uid != geteuid())
                return sbx_error_set(err, -EPERM, JSONL_ORIGIN, "Move it away, or use a log_dir of your own.",
                                     "%s/%s belongs to another user", file->directory->path, file->name);
        *ret_size = (uint64_t)st.st_size;
        return 0;
}

/* Reads what is there, and takes away a line that a killed process or a full disk left half. */
static int read_opened(struct jsonl_file *file, uint64_t size, struct sbx_error *err) {
        int r = size > 0 ? jsonl_state_read(&file->state, file->fd, file->name, err) : 0;

        if (r < 0)
                return r;
        file->was_there = file->state.size > 0;
        if (file->state.size < size && ftruncate(file->fd, (off_t)file->state.size) < 0)
                return file_error(file, "cut the half line at the end of", NULL, err);
        return 0;
}

static int open_existing_or_new(struct jsonl_file *file, struct sbx_error *err) {
        /* O_NONBLOCK, so that a FIFO in its place does not make us wait. */
        int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, dir_fd = file->directory->fd;

        file->fd = openat(dir_fd, file->name, flags | O_CREAT | O_EXCL, 0600);
        if (file->fd >= 0)
                file->directory->unsynced = true;
        else if (errno == EEXIST)
                file->fd = openat(dir_fd, file->name, flags);
        if (file->fd >= 0)
                return 0;
        return file_error(file, "open",
                          errno == ELOOP ? "It is a symbolic link, which is never followed: move it away."
                                         : "Make its directory writable, or set log_dir to another.",
                          err);
}

int jsonl_file_open(struct jsonl_directory *directory, const char *id, struct jsonl_file **ret_file,
                    struct sbx_error *err) {
        struct jsonl_file *file;
        uint64_t size = 0;
        int r = jsonl_directory_open(directory, err);

        if (r < 0)
                return r;
        file = calloc(1, sizeof(*file));
        if (file == NULL)
                return jsonl_no_memory(err);
        file->directory = directory;
        file->fd = -1;
        snprintf(file->name, sizeof(file->name), "%s.jsonl", id);
        r = jsonl_state_init(&file->state, err);
        if (r == 0)
                r = open_existing_or_new(file, err);
        if (r == 0)
                r = check_opened(file, &size, err);
        if (r == 0)
                r = lock_file(file, err);
        if (r == 0) /* its size may have changed while we waited for the lock */
                r = check_opened(file, &size, err);
        if (r == 0)
                r = read_opened(file, size, err);
        if (r < 0) {
                jsonl_file_free(file);
                return r;
        }
        *ret_file = file;
        return 0;
}

void jsonl_file_free(struct jsonl_file *file) {
        if (file == NULL)
                return;
        jsonl_state_clear(&file->state);
        if (file->fd >= 0)
                close(file->fd); /* and unlock */
        free(file);
}

bool jsonl_file_is_lost(const struct jsonl_file *file) {
        struct stat opened, named;

        return file->torn || fstat(file->fd, &opened) < 0 || opened.st_nlink == 0 ||
               fstatat(file->directory->fd, file->name, &named, AT_SYMLINK_NOFOLLOW) < 0 ||
               named.st_ino != opened.st_ino || named.st_dev != opened.st_dev;
}

/* ---- adding ---- */

/* All of it or nothing: a full disk takes a part of a line, which is taken back, so that a reader finds whole lines. */
static int write_line(struct jsonl_file *file, const char *line, size_t size, struct sbx_error *err) {
        size_t done = 0;

        while (done < size) {
                ssize_t written = write(file->fd, line + done, size - done);

                if (written < 0 && errno == EINTR)
                        continue;
                if (written <= 0) {
                        int code = written < 0 ? errno : ENOSPC;

                        file->torn = done > 0 && ftruncate(file->fd, (off_t)file->state.size) < 0;
                        errno = code;
                        return file_error(file, "append to", "Make room on the disk.", err);
                }
                done += (size_t)written;
        }
        return 0;
}

static int append(struct jsonl_file *file, const struct jsonl_record *record, struct sbx_error *err) {
        const struct jsonl_place place = {file->state.line_count + 1, file->state.event_count, file->state.prev};
        _cleanup_free_ char *line = NULL;
        size_t size = 0;
        int r = jsonl_record_line(record, &place, &line, &size, err);

        if (r < 0)
                return r;
        if (record->kind == JSONL_CALL) {
                r = jsonl_state_add_call(&file->state, record->call_id, err);
                if (r < 0)
                        return r;
        }
        r = write_line(file, line, size, err);
        if (r < 0) {
                if (record->kind == JSONL_CALL)
                        json_object_del(file->state.calls, record->call_id);
                return r;
        }
        jsonl_hash_line((struct sbx_bytes){line, size - 1}, file->state.prev);
        file->state.size += size;
        file->state.line_count++;
        file->state.event_count += record->kind == JSONL_CALL;
        file->state.started = file->state.started || record->kind == JSONL_STARTED;
        file->state.ended = record->kind == JSONL_ENDED;
        file->unsynced = true;
        return 0;
}

static int append_note(struct jsonl_file *file, const struct jsonl_record *cause, const char *event, uint64_t count,
                       struct sbx_error *err) {
        _cleanup_record_ struct jsonl_record note = JSONL_RECORD;
        int r = jsonl_record_note(cause, event, count, &note, err);

        return r < 0 ? r : append(file, &note, err);
}

/* What has to stand before the event: a head in a new file, that the run goes on in an old one, that events are
 * missing.
 */
static int append_notes(struct jsonl_file *file, const struct jsonl_record *record, struct sbx_error *err) {
        int r = 0;

        if (file->state.size == 0 && record->kind != JSONL_STARTED)
                r = append_note(file, record, "log_started", 0, err);
        if (r == 0 && file->was_there) {
                r = append_note(file, record, file->state.started ? "run_resumed" : "log_resumed", 0, err);
                file->was_there = r < 0;
        }
        if (r == 0 && file->lost > 0) {
                r = append_note(file, record, "events_lost", file->lost, err);
                file->lost = r < 0 ? file->lost : 0;
        }
        return r;
}

static bool has_it(const struct jsonl_file *file, const struct jsonl_record *record) {
        switch (record->kind) {
        case JSONL_CALL:
                return json_object_get(file->state.calls, record->call_id) != NULL;
        case JSONL_STARTED:
                return file->state.started;
        case JSONL_ENDED:
                return file->state.ended;
        default:
                return false;
        }
}

int jsonl_file_add(struct jsonl_file *file, const struct jsonl_record *record, struct sbx_error *err) {
        int r;

        if (has_it(file, record))
                return 0;
        r = append_notes(file, record, err);
        if (r == 0)
                r = append(file, record, err);
        if (r < 0)
                file->lost++;
        return r;
}

int jsonl_file_sync(struct jsonl_file *file, struct sbx_error *err) {
        if (!file->unsynced || file->directory->never_sync)
                return 0;
        if (fdatasync(file->fd) < 0)
                return file_error(file, "write to the disk", "Check the disk and the system's log.", err);
        file->unsynced = false;
        return jsonl_directory_sync(file->directory, err);
}
