/* SPDX-License-Identifier: Apache-2.0 */
/* What each guest has of its own in the file tree: /tmp, /dev/shm, /workspace and /proc. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "jail.h"
#include "syscalls.h"
#include "util.h"

#define KEPT_MAX 32
#define BYTES_PER_INODE 8192 /* of a tmpfs: so many files as its size allows for small ones */
#define INODES_MIN 1024

/* Parts of the read-only set (an interpreter in /tmp, say) that a private mount is about to hide. */
struct kept {
        int fd;
        const char *path;
        const char *link; /* content, for a link */
};

static bool is_below(const char *path, const char *directory) {
        size_t length = strlen(directory);

        return strncmp(path, directory, length) == 0 && path[length] == '/';
}

static void close_kept(struct kept *kept, size_t count) {
        for (size_t i = 0; i < count; i++)
                close_fd(&kept[i].fd);
}

static int keep(const struct jail_config *config, const char *directory, struct kept kept[KEPT_MAX], size_t *count) {
        for (size_t i = 0; config->read_only != NULL && config->read_only[i] != NULL; i++) {
                if (!is_below(config->read_only[i], directory))
                        continue;
                if (*count >= KEPT_MAX)
                        return -E2BIG;
                kept[*count] = (struct kept){.path = config->read_only[i]};
                kept[*count].fd =
                        sys_open_tree(AT_FDCWD, config->read_only[i], SBX_OPEN_TREE_CLONE | AT_RECURSIVE | O_CLOEXEC);
                if (kept[(*count)++].fd < 0)
                        return -errno;
        }
        for (size_t i = 0; config->links != NULL && config->links[i] != NULL; i += 2) {
                if (!is_below(config->links[i], directory))
                        continue;
                if (*count >= KEPT_MAX)
                        return -E2BIG;
                kept[(*count)++] = (struct kept){-1, config->links[i], config->links[i + 1]};
        }
        return 0;
}

static int make_parents(const char *path) {
        char parent[4096];

        if (strlen(path) >= sizeof(parent))
                return -ENAMETOOLONG;
        for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
                memcpy(parent, path, (size_t)(slash - path));
                parent[slash - path] = '\0';
                if (mkdir(parent, 0755) < 0 && errno != EEXIST && errno != EROFS)
                        return -errno;
        }
        return 0;
}

static int put_back(const struct kept *kept) {
        struct stat st;
        int r = make_parents(kept->path);

        if (r < 0)
                return r;
        if (kept->link != NULL)
                return symlink(kept->link, kept->path) < 0 && errno != EEXIST ? -errno : 0;
        if (fstat(kept->fd, &st) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                r = mkdir(kept->path, 0755) < 0 && errno != EEXIST ? -errno : 0;
        else {
                _cleanup_close_ int file = open(kept->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

                r = file < 0 ? -errno : 0;
        }
        if (r == 0 && sys_move_mount(kept->fd, AT_FDCWD, kept->path) < 0)
                r = -errno;
        return r;
}

static int mount_tmpfs(const struct jail_config *config, const char *path, unsigned mode, uint64_t bytes,
                       struct sbx_error *err) {
        uint64_t inodes = bytes / BYTES_PER_INODE < INODES_MIN ? INODES_MIN : bytes / BYTES_PER_INODE;
        struct kept kept[KEPT_MAX];
        size_t count = 0;
        char options[128];
        int r = keep(config, path, kept, &count);

        snprintf(options, sizeof(options), "mode=%o,size=%" PRIu64 ",nr_inodes=%" PRIu64, mode, bytes, inodes);
        if (r == 0 && mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
                r = -errno;
        for (size_t i = 0; r == 0 && i < count; i++)
                r = put_back(&kept[i]);
        close_kept(kept, count);
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "layer \"mounts\": %s: %s", path, strerror(-r));
        return 0;
}

int jail_mounts_private(const struct jail_config *config, struct sbx_error *err) {
        int r;

        /* subset=pid: processes, and nothing of the kernel (no /proc/sys, kcore, keys, sysrq-trigger, ...). */
        if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "subset=pid") < 0)
                return sbx_error_set(err, errno == EPERM ? -ENOTSUP : -errno, LOCAL_ORIGIN,
                                     "run `snipara-sandbox doctor`", "layer \"proc\": %s", strerror(errno));
        r = mount_tmpfs(config, "/tmp", 01777, config->tmp_bytes, err);
        if (r == 0)
                r = mount_tmpfs(config, "/dev/shm", 01777, config->tmp_bytes, err);
        if (r == 0 && config->workspace == JAIL_WORKSPACE_NONE)
                r = mount_tmpfs(config, "/workspace", 0700, config->workspace_bytes, err);
        return r == 0 ? jail_mounts_enter(config, "/workspace", err) : r;
}

int jail_mounts_enter(const struct jail_config *config, const char *path, struct sbx_error *err) {
        bool read_only = config->workspace == JAIL_WORKSPACE_RO;

        if (chdir(path) < 0 || access(".", X_OK | R_OK | (read_only ? 0 : W_OK)) < 0)
                return sbx_error_set(
                        err, -errno, LOCAL_ORIGIN,
                        "give workspace_path to the uid that guests have outside (chown), or serve as root with "
                        "all capabilities, which can map its owner",
                        "layer \"workspace\": uid %" PRIu64 " may not %s it: %s", config->id,
                        read_only ? "read" : "write to", strerror(errno));
        return 0;
}
