/* SPDX-License-Identifier: Apache-2.0 */
/* Names of cgroups, which tell whose they are, and the removal of those whose server is gone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup_internal.h"

#define NAME_PREFIX "sbx-"

/* Field 22 of /proc/PID/stat: when the process started, in clock ticks since boot. What stands between the
 * parentheses of field 2 may be anything. */
static int start_time(pid_t pid, uint64_t *ret) {
        char path[40], *text = NULL, *p;
        size_t size;
        int r;

        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        r = cgroup_read_text(AT_FDCWD, path, 4096, &text, &size);
        if (r < 0)
                return r;
        p = strrchr(text, ')');
        for (int field = 2; p != NULL && field < 22; field++) {
                p = strchr(p, ' ');
                if (p != NULL)
                        p++;
        }
        r = p != NULL && cgroup_parse_u64(p, ret, NULL) ? 0 : -EINVAL;
        free(text);
        return r;
}

static int pid_namespace(uint64_t *ret) {
        struct stat st;

        if (stat("/proc/self/ns/pid", &st) < 0)
                return -errno;
        *ret = st.st_ino;
        return 0;
}

/* A pid means something in its pid namespace alone: servers of two containers may share a cgroup. */
int cgroup_make_owner(struct sbx_cgroup_manager *m) {
        uint64_t namespace_id = 0, start = 0;
        int r = pid_namespace(&namespace_id);

        if (r == 0)
                r = start_time(getpid(), &start);
        if (r == 0)
                snprintf(m->owner, sizeof(m->owner), NAME_PREFIX "%" PRIu64 ".%d.%" PRIu64, namespace_id, getpid(), start);
        return r;
}

/* Whether `name` is one of ours whose server is gone. What can't be told is not. */
static bool is_left_over(const char *name, uint64_t own_namespace) {
        uint64_t namespace_id, pid, start, running = 0;
        const char *p = name + strlen(NAME_PREFIX);
        int r;

        if (strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) != 0 || !cgroup_parse_u64(p, &namespace_id, &p) ||
            *p++ != '.' || !cgroup_parse_u64(p, &pid, &p) || *p++ != '.' || !cgroup_parse_u64(p, &start, &p) ||
            *p != '-' || namespace_id != own_namespace || pid == 0 || pid > INT32_MAX)
                return false;
        r = start_time((pid_t)pid, &running);
        return r == -ENOENT || r == -ESRCH || (r == 0 && running != start);
}

static void reap_tree(const struct cgroup_tree *tree, uint64_t own_namespace) {
        int fd = openat(tree->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
        struct dirent *entry;

        if (dir == NULL) {
                if (fd >= 0)
                        close(fd);
                return;
        }
        while ((entry = readdir(dir)) != NULL)
                if (is_left_over(entry->d_name, own_namespace))
                        unlinkat(tree->fd, entry->d_name, AT_REMOVEDIR); /* fails on those that aren't empty */
        closedir(dir);
}

void cgroup_reap(const struct sbx_cgroup_manager *m) {
        uint64_t own_namespace = 0;

        if (pid_namespace(&own_namespace) < 0)
                return;
        for (int i = 0; i < m->tree_count; i++)
                reap_tree(&m->trees[i], own_namespace);
}
