/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of journals: which run a few digits mean, which runs there are, and the end of old ones. */
#include "agent/journal_line.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"

#define ID_SIZE 37
#define ID_DIGITS_MIN 4
#define ENTRIES_MAX 100000u /* of a directory that other programs may have filled */
#define TAIL_BYTES 4096
#define SECONDS_PER_DAY INT64_C(86400)

struct entry {
        char id[ID_SIZE];
        int64_t changed_at_s;
        long changed_at_ns;
};

struct entries {
        int dir_fd;
        struct entry *list;
        size_t count;
};

static void entries_free(struct entries *entries) {
        if (entries->dir_fd >= 0)
                close(entries->dir_fd);
        free(entries->list);
}

static int newest_first(const void *left, const void *right) {
        const struct entry *a = left, *b = right;

        if (a->changed_at_s != b->changed_at_s)
                return a->changed_at_s > b->changed_at_s ? -1 : 1;
        if (a->changed_at_ns != b->changed_at_ns)
                return a->changed_at_ns > b->changed_at_ns ? -1 : 1;
        return strcmp(a->id, b->id);
}

static int add_entry(struct entries *entries, const char *name) {
        struct entry entry = {.id = ""};
        struct entry *more;
        struct stat st;

        if (strlen(name) != ID_SIZE - 1 + strlen(".jsonl") || strcmp(name + ID_SIZE - 1, ".jsonl") != 0)
                return 0;
        memcpy(entry.id, name, ID_SIZE - 1);
        if (!sbx_journal_id_valid(entry.id) || fstatat(entries->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(st.st_mode))
                return 0;
        if ((entries->count & (entries->count - 1)) == 0) {
                more = reallocarray(entries->list, entries->count == 0 ? 1 : entries->count * 2, sizeof(*more));
                if (more == NULL)
                        return -ENOMEM;
                entries->list = more;
        }
        entry.changed_at_s = st.st_mtim.tv_sec;
        entry.changed_at_ns = st.st_mtim.tv_nsec;
        entries->list[entries->count++] = entry;
        return 0;
}

/* Newest first. Without a directory: none. */
static int scan(const char *directory, struct entries *entries, struct sbx_error *err) {
        _cleanup_closedir_ DIR *dir = NULL;
        struct dirent *found;
        int fd, r = 0;

        entries->dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (entries->dir_fd < 0)
                return errno == ENOENT ? 0
                                       : sbx_error_set(err, -errno, SBX_JOURNAL_ORIGIN, NULL,
                                                       "can't open the directory of journals %s: %s", directory,
                                                       SBX_ERRNO_TEXT(-errno));
        fd = openat(entries->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        dir = fd >= 0 ? fdopendir(fd) : NULL;
        if (dir == NULL) {
                r = -errno;
                if (fd >= 0)
                        close(fd);
                return sbx_error_set(err, r, SBX_JOURNAL_ORIGIN, NULL, "can't list the journals in %s: %s", directory,
                                     SBX_ERRNO_TEXT(r));
        }
        while (r == 0 && entries->count < ENTRIES_MAX && (found = readdir(dir)) != NULL)
                r = add_entry(entries, found->d_name);
        if (r < 0)
                return SBX_NOMEM(err, SBX_JOURNAL_ORIGIN);
        if (entries->count > 1)
                qsort(entries->list, entries->count, sizeof(*entries->list), newest_first);
        return 0;
}

/* ---- ids ---- */

/* The digits in lower case; -EINVAL when they can't begin an id. */
static int normalize(const char *beginning, char ret_text[ID_SIZE], struct sbx_error *err) {
        size_t length = beginning != NULL ? strlen(beginning) : 0;
        bool valid = length >= ID_DIGITS_MIN && length < ID_SIZE;

        for (size_t i = 0; i < length && valid; i++) {
                char c = beginning[i];

                ret_text[i] = c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
                valid = strchr("0123456789abcdef-", ret_text[i]) != NULL;
        }
        if (!valid)
                return sbx_error_set(err, -EINVAL, SBX_JOURNAL_ORIGIN,
                                     "Give the id of a run, or at least the first 4 digits of it.",
                                     "this is not the id of a run, or the beginning of one");
        ret_text[length] = '\0';
        return 0;
}

int sbx_journal_resolve(const char *directory, const char *beginning, char ret_id[37], struct sbx_error *err) {
        _cleanup_(entries_free) struct entries entries = {.dir_fd = -1};
        const struct entry *match = NULL;
        char digits[ID_SIZE] = "";
        int r = normalize(beginning, digits, err);

        if (r == 0 && directory != NULL)
                r = scan(directory, &entries, err);
        if (r < 0)
                return r;
        for (size_t i = 0; i < entries.count; i++) {
                if (strncmp(entries.list[i].id, digits, strlen(digits)) != 0)
                        continue;
                if (match != NULL)
                        return sbx_error_set(err, -EINVAL, SBX_JOURNAL_ORIGIN, "Give more digits.",
                                             "several runs begin with %s, such as %s and %s", digits, match->id,
                                             entries.list[i].id);
                match = &entries.list[i];
        }
        if (match == NULL)
                return sbx_error_set(err, -ENOENT, SBX_JOURNAL_ORIGIN, "Journals are kept for a while only.",
                                     "there is no journal of a run %s%s%s", digits, directory != NULL ? " in " : "",
                                     directory != NULL ? directory : "");
        memcpy(ret_id, match->id, ID_SIZE);
        return 0;
}

/* ---- listing ---- */

static bool is_locked(int fd) {
        if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
                flock(fd, LOCK_UN);
                return false;
        }
        return errno == EWOULDBLOCK;
}

/* The first line's members, and the last line's if that is short. */
static int read_ends(int fd, json_t **ret_first, json_t **ret_last) {
        _cleanup_buffer_ struct sbx_buffer bytes = SBX_BUFFER(SBX_JOURNAL_LINE_MAX_BYTES);
        struct stat st;
        const char *newline = NULL, *last;
        char tail[TAIL_BYTES];
        ssize_t n = 1;

        for (off_t at = 0; newline == NULL && n > 0; at += n) {
                if (sbx_buffer_reserve(&bytes, sizeof(tail)) < 0)
                        return -EFBIG;
                n = pread(fd, bytes.data + bytes.size, sizeof(tail), at);
                if (n <= 0)
                        return -EBADMSG;
                newline = memchr(bytes.data + bytes.size, '\n', (size_t)n);
                bytes.size += (size_t)n;
        }
        if (newline == NULL || sbx_journal_line_decode((struct sbx_bytes){bytes.data, (size_t)(newline - bytes.data)},
                                                       1, ret_first, NULL) < 0)
                return -EBADMSG;
        if (fstat(fd, &st) < 0)
                return -errno;
        n = pread(fd, tail, sizeof(tail), st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0);
        if (n <= 1 || tail[n - 1] != '\n')
                return 0;
        last = memrchr(tail, '\n', (size_t)n - 1);
        if (last != NULL)
                (void)sbx_journal_line_decode((struct sbx_bytes){last + 1, (size_t)(tail + n - 1 - (last + 1))}, 0,
                                              ret_last, NULL);
        return 0;
}

int sbx_journal_list(const char *directory, int (*each)(void *data, const struct sbx_journal_summary *summary),
                     void *data, struct sbx_error *err) {
        _cleanup_(entries_free) struct entries entries = {.dir_fd = -1};
        int r = directory != NULL ? scan(directory, &entries, err) : 0;

        for (size_t i = 0; i < entries.count && r == 0; i++) {
                struct sbx_journal_summary summary = {.run_id = entries.list[i].id,
                                                      .changed_at_s = entries.list[i].changed_at_s};
                _cleanup_json_ json_t *first = NULL, *last = NULL;
                char name[SBX_JOURNAL_NAME_SIZE];
                _cleanup_close_ int fd = -1;

                (void)sbx_journal_file_name(summary.run_id, name);
                fd = openat(entries.dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
                if (fd < 0 || read_ends(fd, &first, &last) < 0)
                        continue; /* it is being made, is damaged, or was just removed */
                summary.request = json_object_get(first, "request");
                summary.last_key = json_string_value(json_object_get(last, "key"));
                summary.last = json_object_get(last, "record");
                summary.locked = is_locked(fd);
                r = each(data, &summary);
        }
        return r;
}

/* ---- the end of old ones ---- */

/* Under its lock, so that nobody resumes it meanwhile. */
static bool remove_one(int dir_fd, const char *id) {
        char name[SBX_JOURNAL_NAME_SIZE];
        _cleanup_close_ int fd = -1;

        if (!sbx_journal_file_name(id, name))
                return false;
        fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(dir_fd, name, 0) == 0;
}

void sbx_journal_prune(const char *directory, const struct sbx_logger *logger) {
        _cleanup_(entries_free) struct entries entries = {.dir_fd = -1};
        struct sbx_error problem = {0};
        struct timespec now;
        unsigned removed = 0;

        if (scan(directory, &entries, &problem) < 0) {
                sbx_log(logger, SBX_LOG_WARNING, "old journals stay: %s", problem.message);
                return;
        }
        clock_gettime(CLOCK_REALTIME, &now);
        for (size_t i = entries.count; i-- > 0;) {
                bool old = entries.list[i].changed_at_s < now.tv_sec - SBX_JOURNAL_KEEP_DAYS * SECONDS_PER_DAY;

                if (!old && entries.count - removed <= SBX_JOURNAL_KEEP_FILES)
                        break;
                removed += remove_one(entries.dir_fd, entries.list[i].id);
        }
        if (removed > 0)
                sbx_log(logger, SBX_LOG_INFO, "%u old journals of runs were removed from %s", removed, directory);
}
