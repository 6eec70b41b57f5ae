/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups, version 1 and 2: https://docs.kernel.org/admin-guide/cgroup-v2.html */
#include "usage_files.h"

#include <fcntl.h>
#include <limits.h>

#include "util.h"

#define PROC_TEXT_MAX ((size_t)4 << 20)
#define VALUE_MAX 4096

/* A file of /proc, whose size is known only when it was read. */
static char *read_text(const char *path) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        _cleanup_free_ char *text = NULL;
        size_t size = 0, capacity = 0;

        while (fd >= 0) {
                ssize_t n;

                if (capacity - size < 2) {
                        char *more = capacity < PROC_TEXT_MAX ? realloc(text, capacity + 65536) : NULL;

                        if (more == NULL)
                                return NULL;
                        text = more;
                        capacity += 65536;
                }
                n = read(fd, text + size, capacity - size - 1);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return NULL;
                if (n == 0)
                        break;
                size += (size_t)n;
        }
        if (text != NULL)
                text[size] = '\0';
        return steal_pointer(text);
}

static bool has_word(const char *list, const char *word) {
        size_t length = strlen(word);

        for (const char *at = list; (at = strstr(at, word)) != NULL; at += length)
                if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
                        return true;
        return false;
}

/* The path of a controller (NULL: version 2) in /proc/PID/cgroup, cut behind the part that holds the id. */
static bool find_path(char *lines, const char *controller, const char *id, char path[PATH_MAX]) {
        _cleanup_free_ char *copy = strdup(lines);
        char *rest = copy, *line;

        while ((line = strsep(&rest, "\n")) != NULL) {
                char *number = strsep(&line, ":"), *controllers = strsep(&line, ":"), *found, *end;

                if (line == NULL)
                        continue;
                if (controller == NULL ? strcmp(number, "0") != 0 : !has_word(controllers, controller))
                        continue;
                found = strstr(line, id);
                if (found == NULL || strlen(line) >= PATH_MAX || strstr(line, "/../") != NULL)
                        return false;
                end = strchr(found, '/');
                if (end != NULL)
                        *end = '\0';
                snprintf(path, PATH_MAX, "%s", line);
                return true;
        }
        return false;
}

/* Where the hierarchy is mounted, with its root as the mount shows it. */
static bool find_mount(const char *mounts, const char *controller, char root[PATH_MAX], char point[PATH_MAX]) {
        _cleanup_free_ char *copy = strdup(mounts);
        char *rest = copy, *line;

        while ((line = strsep(&rest, "\n")) != NULL) {
                char *tail = strstr(line, " - "), *fields[5], *type, *source;
                size_t i;

                if (tail == NULL)
                        continue;
                *tail = '\0';
                tail += 3;
                for (i = 0; i < 5; i++)
                        fields[i] = strsep(&line, " ");
                type = strsep(&tail, " ");
                source = strsep(&tail, " ");
                if (fields[4] == NULL || source == NULL || tail == NULL)
                        continue;
                if (controller == NULL ? strcmp(type, "cgroup2") != 0
                                       : strcmp(type, "cgroup") != 0 || !has_word(tail, controller))
                        continue;
                if (strlen(fields[3]) >= PATH_MAX || strlen(fields[4]) >= PATH_MAX)
                        return false;
                snprintf(root, PATH_MAX, "%s", fields[3]);
                snprintf(point, PATH_MAX, "%s", fields[4]);
                return true;
        }
        return false;
}

/* Opens the container's directory in a hierarchy. */
static int open_group(char *groups, const char *mounts, const char *controller, const char *id) {
        _cleanup_free_ char *full = NULL;
        char path[PATH_MAX], root[PATH_MAX], point[PATH_MAX];
        const char *below = path;
        size_t length;

        if (!find_path(groups, controller, id, path) || !find_mount(mounts, controller, root, point))
                return -1;
        length = strcmp(root, "/") == 0 ? 0 : strlen(root);
        if (strncmp(path, root, length) == 0 && path[length] == '/')
                below = path + length;
        if (asprintf(&full, "%s%s", point, below) < 0) {
                full = NULL;
                return -1;
        }
        return open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void open_files(struct usage_files *files, int directory, const char *const names[USAGE_FILES]) {
        for (int i = 0; directory >= 0 && i < USAGE_FILES; i++)
                if (names[i] != NULL && files->fds[i] < 0)
                        files->fds[i] = openat(directory, names[i], O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

int usage_files_open(const char *id, long pid, struct usage_files *ret_files) {
        static const struct {
                const char *controller;
                const char *names[USAGE_FILES];
        } old[] = {
                {"memory",
                 {[USAGE_MEMORY] = "memory.usage_in_bytes",
                  [USAGE_PEAK] = "memory.max_usage_in_bytes",
                  [USAGE_OOM] = "memory.oom_control"}},
                {"cpuacct", {[USAGE_CPU] = "cpuacct.usage"}},
                {"pids", {[USAGE_PIDS] = "pids.current"}},
        };
        static const char *const unified[USAGE_FILES] = {[USAGE_CPU] = "cpu.stat",
                                                         [USAGE_MEMORY] = "memory.current",
                                                         [USAGE_PEAK] = "memory.peak",
                                                         [USAGE_OOM] = "memory.events",
                                                         [USAGE_PIDS] = "pids.current"};
        struct usage_files files = {.fds = {-1, -1, -1, -1, -1}};
        _cleanup_free_ char *groups = NULL, *mounts = read_text("/proc/self/mountinfo");
        char path[64];

        snprintf(path, sizeof(path), "/proc/%ld/cgroup", pid);
        groups = read_text(path);
        if (groups == NULL || mounts == NULL)
                return -ENOENT;
        for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++) {
                _cleanup_close_ int group = open_group(groups, mounts, old[i].controller, id);

                open_files(&files, group, old[i].names);
        }
        if (files.fds[USAGE_MEMORY] < 0) {
                _cleanup_close_ int group = open_group(groups, mounts, NULL, id);

                usage_files_close(&files);
                open_files(&files, group, unified);
                files.unified = true;
        }
        if (files.fds[USAGE_CPU] < 0 || files.fds[USAGE_MEMORY] < 0) {
                usage_files_close(&files);
                return -ENOENT;
        }
        *ret_files = files;
        return 0;
}

void usage_files_close(struct usage_files *files) {
        for (int i = 0; i < USAGE_FILES; i++)
                close_fd(&files->fds[i]);
}

/* ---- reading */

static int read_value(int fd, char text[VALUE_MAX]) {
        ssize_t n = fd >= 0 ? pread(fd, text, VALUE_MAX - 1, 0) : -1;

        if (n < 0)
                return fd < 0 ? -ENOENT : -errno;
        text[n] = '\0';
        return 0;
}

/* The number after `key` and a blank at the start of a line; without a key, the first one. */
static bool number_of(const char *text, const char *key, uint64_t *ret) {
        const char *at = text;
        uint64_t value = 0;

        if (key != NULL) {
                size_t length = strlen(key);

                while (strncmp(at, key, length) != 0 || at[length] != ' ') {
                        at = strchr(at, '\n');
                        if (at == NULL)
                                return false;
                        at++;
                }
                at += length + 1;
        }
        if (*at < '0' || *at > '9')
                return false;
        for (; *at >= '0' && *at <= '9'; at++) {
                if (value > (UINT64_MAX - 9) / 10)
                        return false;
                value = value * 10 + (uint64_t)(*at - '0');
        }
        *ret = value;
        return true;
}

static uint64_t value_of(const struct usage_files *files, int which, const char *key) {
        char text[VALUE_MAX];
        uint64_t value = 0;

        if (read_value(files->fds[which], text) < 0 || !number_of(text, key, &value))
                return 0;
        return value;
}

int usage_files_read(const struct usage_files *files, struct sbx_guest_usage *usage) {
        char text[VALUE_MAX];
        uint64_t cpu;
        int r = read_value(files->fds[USAGE_CPU], text);

        if (r < 0)
                return r;
        if (!number_of(text, files->unified ? "usage_usec" : NULL, &cpu))
                return -EIO;
        usage->cpu_ns = files->unified ? cpu * 1000 : cpu;
        usage->memory_bytes = value_of(files, USAGE_MEMORY, NULL);
        usage->memory_peak_bytes = value_of(files, USAGE_PEAK, NULL);
        usage->pids = (uint32_t)value_of(files, USAGE_PIDS, NULL);
        usage->oom_killed = value_of(files, USAGE_OOM, "oom_kill") > 0;
        return 0;
}
