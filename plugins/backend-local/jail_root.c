/* SPDX-License-Identifier: Apache-2.0 */
/* The root of the jail: a tmpfs with read-only binds of programs and libraries, a small /etc and /dev, and nothing
 * else of the host; made once for each zygote and shared, unchangeable, by its guests. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "jail.h"
#include "syscalls.h"
#include "util.h"

#define BIND_MAX 96
#define COPY_MAX (8u << 20)

/* A mount to be: cloned from the host's tree at first, then put in place. */
struct bind {
        int fd;
        const char *target;
        bool is_directory;
};

struct tree {
        struct bind binds[BIND_MAX];
        size_t count;
        int root_fd;
};

enum bind_flags { BIND_OPTIONAL = 1, BIND_DEVICE = 2, BIND_WRITABLE = 4 };

static int add_bind(struct tree *tree, const char *source, const char *target, unsigned flags, int userns_fd,
                    struct sbx_error *err) {
        struct sbx_mount_attr attr = {.attr_set = SBX_MOUNT_ATTR_NOSUID};
        _cleanup_close_ int fd = -1;
        struct stat st;

        if (tree->count >= BIND_MAX)
                return sbx_error_set(err, -E2BIG, LOCAL_ORIGIN, "name fewer read_only_paths",
                                     "layer \"root\": more than %d binds", BIND_MAX);
        fd = sys_open_tree(AT_FDCWD, source, SBX_OPEN_TREE_CLONE | AT_RECURSIVE | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT && (flags & BIND_OPTIONAL) != 0)
                return 0;
        if (fd < 0 || fstat(fd, &st) < 0)
                return sbx_error_set(err, errno == ENOSYS ? -ENOTSUP : -errno, LOCAL_ORIGIN,
                                     errno == ENOSYS ? "Linux 5.13 or later is needed" : NULL,
                                     "layer \"root\": can't bind %s: %s", source, strerror(errno));
        if ((flags & BIND_WRITABLE) == 0)
                attr.attr_set |= SBX_MOUNT_ATTR_RDONLY;
        attr.attr_set |= (flags & BIND_DEVICE) != 0 ? SBX_MOUNT_ATTR_NOEXEC : SBX_MOUNT_ATTR_NODEV;
        if (userns_fd >= 0) {
                attr.attr_set |= SBX_MOUNT_ATTR_IDMAP;
                attr.userns_fd = (uint64_t)userns_fd;
        }
        if (sys_mount_setattr(fd, "", AT_EMPTY_PATH | (userns_fd >= 0 ? 0 : AT_RECURSIVE), &attr) < 0)
                return sbx_error_set(err, errno == ENOSYS ? -ENOTSUP : -errno, LOCAL_ORIGIN,
                                     errno == ENOSYS  ? "Linux 5.13 or later is needed"
                                     : userns_fd >= 0 ? "its file system can't map ids: give the directory to the uid "
                                                        "that the option \"user\" names (chown)"
                                                      : NULL,
                                     "layer \"root\": can't protect the bind of %s: %s", source, strerror(errno));
        tree->binds[tree->count++] = (struct bind){steal_fd(&fd), target, S_ISDIR(st.st_mode)};
        return 0;
}

/* Makes the directories that lead to `path` (and `path` itself, if `whole`), and returns the last one, open. Links are
 * never followed: what is there was made here. */
static int make_directories(int root_fd, const char *path, bool whole, const char **ret_last) {
        int fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);

        while (fd >= 0) {
                char name[256];
                size_t length;
                int next;

                path += strspn(path, "/");
                length = strcspn(path, "/");
                if (length == 0 || (!whole && path[length] == '\0'))
                        break;
                if (length >= sizeof(name)) {
                        close(fd);
                        return -ENAMETOOLONG;
                }
                memcpy(name, path, length);
                name[length] = '\0';
                if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST) {
                        int code = -errno;

                        close(fd);
                        return code;
                }
                next = openat(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                close_fd(&fd);
                fd = next;
                path += length;
        }
        if (ret_last != NULL)
                *ret_last = path;
        return fd < 0 ? -errno : fd;
}

static int make_file(int root_fd, const char *path, const void *data, size_t size) {
        const char *name = NULL;
        _cleanup_close_ int dir = make_directories(root_fd, path, false, &name);
        _cleanup_close_ int fd = -1;

        if (dir < 0)
                return dir;
        fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0)
                return -errno;
        return size == 0 ? 0 : write_whole(fd, data, size);
}

static int make_link(int root_fd, const char *path, const char *content) {
        const char *name = NULL;
        _cleanup_close_ int dir = make_directories(root_fd, path, false, &name);

        if (dir < 0)
                return dir;
        return symlinkat(content, dir, name) < 0 && errno != EEXIST ? -errno : 0;
}

/* The content of a regular file of the host, as a file of our own: one mount less for every guest. */
static int copy_file(int root_fd, const char *source, const char *path, bool optional) {
        _cleanup_close_ int from = open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        _cleanup_free_ char *data = NULL;
        struct stat st;
        size_t size = 0;

        if (from < 0)
                return optional && (errno == ENOENT || errno == EACCES) ? 0 : -errno;
        if (fstat(from, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || st.st_size > (off_t)COPY_MAX)
                return optional ? 0 : -EINVAL;
        data = malloc((size_t)st.st_size + 1);
        if (data == NULL)
                return -ENOMEM;
        while (size < (size_t)st.st_size) {
                ssize_t n = read(from, data + size, (size_t)st.st_size - size);

                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n == 0)
                        break;
                size += n > 0 ? (size_t)n : 0;
        }
        return make_file(root_fd, path, data, size);
}

/* /bin, /lib and so on: links into /usr on most systems, directories on others. */
static int add_top_level(struct tree *tree, struct sbx_error *err) {
        static const char *const names[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                struct stat st;
                int r;

                if (lstat(names[i], &st) < 0 || !S_ISDIR(st.st_mode))
                        continue;
                r = add_bind(tree, names[i], names[i], 0, -1, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int copy_top_level_links(int root_fd) {
        static const char *const names[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                char content[256];
                ssize_t n = readlink(names[i], content, sizeof(content) - 1);
                int r;

                if (n < 0)
                        continue;
                content[n] = '\0';
                r = make_link(root_fd, names[i], content);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_workspace(struct tree *tree, const struct jail_config *config, int userns_fd, struct sbx_error *err) {
        unsigned flags = config->workspace == JAIL_WORKSPACE_RW ? BIND_WRITABLE : 0;
        struct stat st;

        if (config->workspace == JAIL_WORKSPACE_NONE)
                return 0;
        if (stat(config->workspace_path, &st) < 0 || !S_ISDIR(st.st_mode))
                return sbx_error_set(err, -ENOENT, LOCAL_ORIGIN, "set workspace_path to an existing directory",
                                     "workspace_path %s is no directory", config->workspace_path);
        return add_bind(tree, config->workspace_path, "/workspace", flags, userns_fd, err);
}

static int collect(struct tree *tree, const struct jail_config *config, int userns_fd, struct sbx_error *err) {
        static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
        int r = add_bind(tree, "/usr", "/usr", 0, -1, err);

        if (r == 0)
                r = add_top_level(tree, err);
        if (r == 0)
                r = add_bind(tree, "/etc/alternatives", "/etc/alternatives", BIND_OPTIONAL, -1, err);
        if (r == 0) /* plots ask fontconfig */
                r = add_bind(tree, "/etc/fonts", "/etc/fonts", BIND_OPTIONAL, -1, err);
        for (size_t i = 0; r == 0 && i < sizeof(devices) / sizeof(devices[0]); i++)
                r = add_bind(tree, devices[i], devices[i], BIND_DEVICE, -1, err);
        for (size_t i = 0; r == 0 && config->read_only != NULL && config->read_only[i] != NULL; i++)
                r = add_bind(tree, config->read_only[i], config->read_only[i], 0, -1, err);
        if (r == 0)
                r = add_bind(tree, config->guests, JAIL_GUESTS, 0, -1, err);
        if (r == 0)
                r = add_workspace(tree, config, userns_fd, err);
        return r;
}

static int place_binds(struct tree *tree, struct sbx_error *err) {
        for (size_t i = 0; i < tree->count; i++) {
                struct bind *bind = &tree->binds[i];
                const char *name = NULL;
                _cleanup_close_ int dir = make_directories(tree->root_fd, bind->target, bind->is_directory, &name);
                int r = dir < 0 ? dir : 0;

                if (r == 0 && !bind->is_directory) {
                        _cleanup_close_ int file = openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);

                        r = file < 0 ? -errno : 0;
                }
                if (r == 0 && sys_move_mount(bind->fd, tree->root_fd, bind->target + 1) < 0)
                        r = -errno;
                if (r < 0)
                        return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "layer \"root\": can't put %s in place: %s",
                                             bind->target, strerror(-r));
                close_fd(&bind->fd);
        }
        return 0;
}

/* Texts of /etc: names of the one user there is, and no source of names but files. */
static int make_etc(int root_fd) {
        static const struct {
                const char *path, *text;
        } files[] = {
                {"etc/passwd", "root:x:0:0:root:/:/usr/sbin/nologin\nsandbox:x:65534:65534:sandbox:/tmp:/bin/sh\n"},
                {"etc/group", "root:x:0:\nsandbox:x:65534:\n"},
                {"etc/hosts", "127.0.0.1 localhost\n127.0.1.1 " JAIL_HOSTNAME "\n::1 localhost\n"},
                {"etc/hostname", JAIL_HOSTNAME "\n"},
                {"etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\n"},
                {"etc/resolv.conf", ""},
                {"etc/shells", "/bin/sh\n"},
                {JAIL_WITNESS, "seen\n"},
        };
        static const char *const copies[] = {"/etc/ld.so.cache", "/etc/localtime", "/etc/matplotlibrc"};
        int r = 0;

        for (size_t i = 0; r == 0 && i < sizeof(files) / sizeof(files[0]); i++)
                r = make_file(root_fd, files[i].path, files[i].text, strlen(files[i].text));
        for (size_t i = 0; r == 0 && i < sizeof(copies) / sizeof(copies[0]); i++)
                r = copy_file(root_fd, copies[i], copies[i], true);
        if (r == 0)
                r = make_link(root_fd, "etc/os-release", "../usr/lib/os-release");
        return r == 0 ? make_link(root_fd, "etc/mtab", "../proc/self/mounts") : r;
}

static int make_skeleton(int root_fd) {
        static const char *const directories[] = {"proc", "tmp", "workspace", "dev/shm"};
        static const struct {
                const char *path, *content;
        } links[] = {
                {"dev/fd", "/proc/self/fd"},
                {"dev/stdin", "/proc/self/fd/0"},
                {"dev/stdout", "/proc/self/fd/1"},
                {"dev/stderr", "/proc/self/fd/2"},
        };
        int r = 0;

        for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
                _cleanup_close_ int fd = make_directories(root_fd, directories[i], true, NULL);

                if (fd < 0)
                        return fd;
        }
        for (size_t i = 0; r == 0 && i < sizeof(links) / sizeof(links[0]); i++)
                r = make_link(root_fd, links[i].path, links[i].content);
        return r;
}

static int fill(const struct tree *tree, const struct jail_config *config, struct sbx_error *err) {
        const char *what = "the directories";
        int r = make_skeleton(tree->root_fd);

        if (r == 0) {
                what = "/etc";
                r = make_etc(tree->root_fd);
        }
        if (r == 0) {
                what = "links";
                r = copy_top_level_links(tree->root_fd);
        }
        for (size_t i = 0; r == 0 && config->links != NULL && config->links[i] != NULL; i += 2) {
                what = config->links[i];
                r = make_link(tree->root_fd, config->links[i], config->links[i + 1]);
        }
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "layer \"root\": can't make %s in it: %s", what,
                                     strerror(-r));
        return 0;
}

static int copy_helpers(const struct tree *tree, int helpers_fd, struct sbx_error *err) {
        static const char *const names[][2] = {{LOCAL_ZYGOTE_LIBRARY, JAIL_LIBRARY},
                                               {LOCAL_ZYGOTE_SCRIPT, JAIL_SCRIPT}};

        for (size_t i = 0; i < 2; i++) {
                char source[64];
                int r;

                /* By descriptor: the directory may be hidden by now. */
                snprintf(source, sizeof(source), "/proc/self/fd/%d/%s", helpers_fd, names[i][0]);
                r = copy_file(tree->root_fd, source, names[i][1], false);
                if (r < 0)
                        return sbx_error_set(err, r, LOCAL_ORIGIN, "reinstall the program",
                                             "can't read its helper %s: %s", names[i][0], strerror(-r));
        }
        return 0;
}

/* Everything of the host goes away; what was built becomes the root. */
static int become_root(int root_fd, struct sbx_error *err) {
        struct sbx_mount_attr attr = {.attr_set = SBX_MOUNT_ATTR_RDONLY | SBX_MOUNT_ATTR_NOSUID};

        if (fchdir(root_fd) < 0 || sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "layer \"root\": pivot_root: %s",
                                     strerror(errno));
        if (sys_mount_setattr(AT_FDCWD, "/", 0, &attr) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "layer \"root\": can't make it read-only: %s",
                                     strerror(errno));
        return 0;
}

static int mount_staging(int *ret_fd, struct sbx_error *err) {
        static const char *const places[] = {"/tmp", "/mnt", "/var", "/opt"};

        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "layer \"mount namespace\": %s", strerror(errno));
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
                if (mount("sbx-root", places[i], "tmpfs", MS_NOSUID, "mode=0755,size=64m,nr_inodes=4096") < 0)
                        continue;
                *ret_fd = open(places[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
                return *ret_fd < 0 ? -errno : 0;
        }
        return sbx_error_set(err, -errno, LOCAL_ORIGIN,
                             "AppArmor or a container's rules may forbid mounts: run `snipara-sandbox doctor`",
                             "layer \"root\": can't mount a tmpfs: %s", strerror(errno));
}

int jail_root_build(const struct jail_config *config, int userns_fd, struct sbx_error *err) {
        _cleanup_close_ int helpers = open(config->helpers, O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int root = -1;
        struct tree tree = {.root_fd = -1};
        int r;

        if (helpers < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, "reinstall the program", "%s: %s", config->helpers,
                                     strerror(errno));
        umask(022);
        /* Sources first: the staging place may hide some. */
        r = collect(&tree, config, userns_fd, err);
        if (r == 0)
                r = mount_staging(&root, err);
        tree.root_fd = root;
        if (r == 0)
                r = fill(&tree, config, err);
        if (r == 0)
                r = copy_helpers(&tree, helpers, err);
        if (r == 0)
                r = place_binds(&tree, err);
        if (r < 0)
                return r;
        /* While the host's own /proc is still there: the kernel shows a new one only to who can see a whole one. */
        if (fchdir(root) < 0 || mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
                return sbx_error_set(err, errno == EPERM ? -ENOTSUP : -errno, LOCAL_ORIGIN,
                                     "in a container, its /proc must not be masked (docker: --security-opt "
                                     "systempaths=unconfined); run `snipara-sandbox doctor`",
                                     "layer \"proc\": can't mount a /proc of its own: %s", strerror(errno));
        return become_root(root, err);
}

static int write_map(pid_t pid, const char *file, unsigned inside, unsigned outside) {
        char path[64], line[64];
        _cleanup_close_ int fd = -1;

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
        snprintf(line, sizeof(line), "%u %u 1\n", inside, outside);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        return fd < 0 ? -errno : write_whole(fd, line, strlen(line));
}

/* A process in a new user namespace, that stays until `*ret_hold_fd` is closed. */
static pid_t start_holder(int *ret_hold_fd) {
        struct sbx_clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
        int fds[2];
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* else its files in /proc are closed to us */
        pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
        prctl(PR_SET_DUMPABLE, pid == 0, 0, 0, 0);
        if (pid == 0) {
                char byte;

                close(fds[1]);
                _exit(read(fds[0], &byte, 1) < 0);
        }
        if (pid < 0) {
                pid = -errno;
                close(fds[1]);
        } else
                *ret_hold_fd = fds[1];
        close(fds[0]);
        return pid;
}

int jail_root_idmap(const struct jail_config *config, int *ret_userns_fd, struct sbx_error *err) {
        _cleanup_close_ int hold = -1;
        struct stat st;
        char path[64];
        pid_t pid;
        int r, fd = -1;

        if (config->workspace == JAIL_WORKSPACE_NONE || stat(config->workspace_path, &st) < 0 ||
            (st.st_uid == config->id && st.st_gid == config->gid))
                return 0;
        pid = start_holder(&hold);
        r = pid < 0 ? pid : 0;
        if (r == 0)
                r = write_map(pid, "uid_map", st.st_uid, (unsigned)config->id);
        if (r == 0)
                r = write_map(pid, "gid_map", st.st_gid, (unsigned)config->gid);
        snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
        if (r == 0 && (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
                r = -errno;
        close_fd(&hold);
        while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN,
                                     "give the directory to the uid that the option \"user\" names (chown)",
                                     "layer \"workspace\": can't map the ids of its owner: %s", strerror(-r));
        *ret_userns_fd = fd;
        return 0;
}
