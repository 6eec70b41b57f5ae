/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the files of the project, depth first. */
#include "walk.h"

#include <dirent.h>
#include <fcntl.h>

#include "tree.h"
#include "utf8.h"

struct walker {
        struct rules *rules;
        const struct walk_limits *limits;
        const struct walk_events *events;
        struct walk_result *result;
        dev_t device;
        size_t depth, path_size;
        char path[TREE_PATH_MAX];
};

static void close_directory(DIR **directory) {
        if (*directory != NULL)
                closedir(*directory);
}

/* What a walk can't go on after; other failures are about one entry, which is then as if it were not there. */
static bool is_fatal(int r) {
        return r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -EIO;
}

static int walk_directory(struct walker *walker, int fd);

static int walk_entry(struct walker *walker, int fd, const char *name) {
        _cleanup_close_ int below = -1;
        struct stat st;
        bool directory;
        int r;

        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return is_fatal(-errno) ? -errno : 0;
        directory = S_ISDIR(st.st_mode);
        if (!directory && !S_ISREG(st.st_mode))
                return 0;
        if (rules_excluded(walker->rules, walker->path, directory)) {
                walker->result->excluded++;
                return 0;
        }
        if (!directory)
                return walker->events->file(walker->events->data, fd, name, walker->path, &st);
        if (walker->depth == TREE_DEPTH_MAX - 1) {
                walker->result->cut = true;
                return 0;
        }
        if (st.st_dev != walker->device) /* /proc, a share that hangs: not the project */
                return 0;
        r = tree_open_directory(fd, name, &below, &st);
        if (r < 0 || st.st_dev != walker->device) {
                walker->result->unreadable += r < 0;
                return is_fatal(r) ? r : 0;
        }
        return walk_directory(walker, steal_fd(&below));
}

static int walk_name(struct walker *walker, int fd, const char *name) {
        size_t size = strlen(name), before = walker->path_size;
        int r = walker->events->stop(walker->events->data);

        if (r < 0)
                return r;
        if (++walker->result->entries > walker->limits->entries_max) {
                walker->result->cut = true;
                return 0;
        }
        if (before + size + 2 > sizeof(walker->path) || !utf8_is_text(name, size, false)) {
                walker->result->odd_names++; /* JSON could not name it */
                return 0;
        }
        if (before > 0)
                walker->path[walker->path_size++] = '/';
        memcpy(walker->path + walker->path_size, name, size + 1);
        walker->path_size += size;
        walker->depth++;
        r = walk_entry(walker, fd, name);
        walker->depth--;
        walker->path_size = before;
        walker->path[before] = '\0';
        return r;
}

/* Takes `fd`. */
static int walk_directory(struct walker *walker, int fd) {
        _cleanup_(close_directory) DIR *directory = fdopendir(fd);
        int r;

        if (directory == NULL) {
                r = -errno;
                close(fd);
                return r;
        }
        r = rules_enter(walker->rules, fd, walker->path);
        if (r == -EFBIG) { /* what it would leave out is not known, so all of the directory is */
                walker->result->cut = true;
                return 0;
        }
        if (r < 0)
                return r;
        while (r == 0 && walker->result->entries <= walker->limits->entries_max) {
                const struct dirent *entry;

                errno = 0;
                entry = readdir(directory);
                if (entry == NULL) {
                        r = is_fatal(-errno) ? -errno : 0;
                        break;
                }
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        r = walk_name(walker, fd, entry->d_name);
        }
        rules_leave(walker->rules);
        return r;
}

int walk(int project_fd, struct rules *rules, const struct walk_limits *limits, const struct walk_events *events,
         struct walk_result *ret_result) {
        struct walker walker = {.rules = rules, .limits = limits, .events = events, .result = ret_result};
        struct stat st;
        int fd, r = tree_open_directory(project_fd, ".", &fd, &st);

        if (r < 0)
                return r;
        walker.device = st.st_dev;
        *ret_result = (struct walk_result){0};
        return walk_directory(&walker, fd);
}
