/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the directory of this process's own cgroup: /proc/self/cgroup says which, /proc/self/mountinfo where. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "cgroup_internal.h"

#define PROC_TEXT_MAX (4u << 20) /* a host with many containers has some ten thousand mounts of 100 bytes */

/* Ends the line at `line` with a NUL and returns the start of the next one, NULL after the last. */
static char *cut_line(char *line) {
        char *end = strchr(line, '\n');

        if (end == NULL)
                return NULL;
        *end = '\0';
        return end + 1;
}

/* This process's path in the hierarchy: a line "id:controller,controller:path"; version 2 is "0::path". */
static int own_path(const char *controller, char **ret) {
        char *text = NULL, *next;
        size_t size;
        int r = cgroup_read_text(AT_FDCWD, "/proc/self/cgroup", PROC_TEXT_MAX, &text, &size);

        if (r < 0)
                return r;
        r = -ENOENT;
        for (char *line = text; line != NULL && r == -ENOENT; line = next) {
                char *controllers, *path;

                next = cut_line(line);
                controllers = strchr(line, ':');
                path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
                if (path == NULL)
                        continue;
                *controllers++ = '\0';
                *path++ = '\0';
                if (controller == NULL ? strcmp(line, "0") != 0 : !cgroup_has_word(controllers, ',', controller))
                        continue;
                *ret = strdup(path);
                r = *ret != NULL ? 0 : -ENOMEM;
        }
        free(text);
        return r;
}

/* mountinfo writes blank, tab, newline and backslash as \ooo. */
static void unescape(char *text) {
        char *out = text;

        for (const char *p = text; *p != '\0'; out++) {
                if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] >= '0' && p[2] <= '7' && p[3] >= '0' &&
                    p[3] <= '7') {
                        *out = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0'));
                        p += 4;
                } else {
                        *out = *p++;
                }
        }
        *out = '\0';
}

struct mount_line {
        char *root, *point, *type, *super_options;
};

/* proc_pid_mountinfo(5): id parent major:minor root point options optional... - type source super_options */
static bool parse_mount(char *line, struct mount_line *ret) {
        char *save = NULL, *fields[5] = {NULL}, *rest = strstr(line, " - ");

        if (rest == NULL)
                return false;
        *rest = '\0';
        for (int i = 0; i < 5; i++)
                if ((fields[i] = strtok_r(i == 0 ? line : NULL, " ", &save)) == NULL)
                        return false;
        ret->root = fields[3];
        ret->point = fields[4];
        ret->type = strtok_r(rest + 3, " ", &save);
        if (ret->type == NULL || strtok_r(NULL, " ", &save) == NULL)
                return false;
        ret->super_options = strtok_r(NULL, " ", &save);
        unescape(ret->root);
        unescape(ret->point);
        return ret->super_options != NULL;
}

/* The part of `path` below `root`: NULL if it isn't below. "/" is above everything. */
static const char *below(const char *path, const char *root) {
        size_t size = strlen(root);

        if (strcmp(root, "/") == 0)
                return path;
        if (strncmp(path, root, size) != 0 || (path[size] != '/' && path[size] != '\0'))
                return NULL;
        return path + size;
}

static bool holds_this_process(const char *directory) {
        int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
        char *text = NULL, self[16];
        bool found = false;
        size_t size;

        if (fd < 0)
                return false;
        snprintf(self, sizeof(self), "%d", getpid());
        if (cgroup_read_text(fd, "cgroup.procs", PROC_TEXT_MAX, &text, &size) == 0)
                for (char *line = text, *next; line != NULL && !found; line = next) {
                        next = cut_line(line);
                        found = strcmp(line, self) == 0;
                }
        free(text);
        close(fd);
        return found;
}

/* The directory of `path` in a mount. A container's mount may begin at the container's own cgroup while
 * /proc/self/cgroup tells a path in another cgroup namespace ("/../.."): then the mount's root is taken, if this
 * process is there. */
static char *join(const struct mount_line *mount, const char *path) {
        const char *rest = strstr(path, "/..") == NULL ? below(path, mount->root) : NULL;
        char *joined = NULL;

        if (asprintf(&joined, "%s%s", mount->point, rest != NULL && strcmp(rest, "/") != 0 ? rest : "") < 0)
                return NULL;
        if (rest != NULL ? faccessat(AT_FDCWD, joined, X_OK, AT_EACCESS) == 0 : holds_this_process(joined))
                return joined;
        free(joined);
        return NULL;
}

int cgroup_own_directory(const char *controller, char **ret_path) {
        char *path = NULL, *text = NULL, *found = NULL, *next;
        size_t size;
        int r = own_path(controller, &path);

        if (r == 0)
                r = cgroup_read_text(AT_FDCWD, "/proc/self/mountinfo", PROC_TEXT_MAX, &text, &size);
        for (char *line = text; r == 0 && line != NULL; line = next) {
                struct mount_line mount;
                char *joined;

                next = cut_line(line);
                if (!parse_mount(line, &mount) ||
                    strcmp(mount.type, controller == NULL ? "cgroup2" : "cgroup") != 0 ||
                    (controller != NULL && !cgroup_has_word(mount.super_options, ',', controller)) ||
                    (joined = join(&mount, path)) == NULL)
                        continue;
                /* Mounted more than once: the one that can be written to. */
                if (found == NULL || faccessat(AT_FDCWD, found, W_OK, AT_EACCESS) != 0) {
                        free(found);
                        found = joined;
                } else {
                        free(joined);
                }
        }
        free(path);
        free(text);
        if (r == 0 && found == NULL)
                r = -ENOENT;
        if (r == 0)
                *ret_path = found;
        return r;
}
