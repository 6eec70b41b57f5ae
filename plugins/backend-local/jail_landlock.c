/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock: what of the file tree a guest may use, whatever the mounts say; no TCP; no abstract socket and no signal
 * beyond its own domain, where the kernel knows how.
 * ABI versions: Documentation/userspace-api/landlock.rst of Linux. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "jail.h"
#include "syscalls.h"
#include "util.h"

#define CREATE_RULESET_VERSION 1u
#define RULE_PATH_BENEATH 1

/* Rights by the ABI that brought them (uapi/linux/landlock.h). */
#define FS_EXECUTE (UINT64_C(1) << 0)
#define FS_WRITE_FILE (UINT64_C(1) << 1)
#define FS_READ_FILE (UINT64_C(1) << 2)
#define FS_READ_DIR (UINT64_C(1) << 3)
#define FS_REMOVE_DIR (UINT64_C(1) << 4)
#define FS_REMOVE_FILE (UINT64_C(1) << 5)
#define FS_MAKE_CHAR (UINT64_C(1) << 6)
#define FS_MAKE_DIR (UINT64_C(1) << 7)
#define FS_MAKE_REG (UINT64_C(1) << 8)
#define FS_MAKE_SOCK (UINT64_C(1) << 9)
#define FS_MAKE_FIFO (UINT64_C(1) << 10)
#define FS_MAKE_BLOCK (UINT64_C(1) << 11)
#define FS_MAKE_SYM (UINT64_C(1) << 12)
#define FS_REFER (UINT64_C(1) << 13)     /* 2 */
#define FS_TRUNCATE (UINT64_C(1) << 14)  /* 3 */
#define FS_IOCTL_DEV (UINT64_C(1) << 15) /* 5 */
#define FS_ABI_1 ((UINT64_C(1) << 13) - 1)
#define NET_TCP (UINT64_C(3))   /* 4: bind, connect */
#define SCOPE_ALL (UINT64_C(3)) /* 6: abstract sockets, signals */

#define READ (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
#define WRITE                                                                                                          \
        (READ | FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG | FS_MAKE_SOCK |            \
         FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER | FS_TRUNCATE)
#define FILE_RIGHTS (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

struct ruleset_attr {
        uint64_t handled_fs, handled_net, scoped;
};
struct path_beneath_attr {
        uint64_t allowed;
        int32_t parent_fd;
} __attribute__((packed));

int jail_landlock_abi(void) {
        long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);

        return abi < 0 ? 0 : (int)abi;
}

static uint64_t handled_fs(int abi) {
        uint64_t rights = FS_ABI_1;

        if (abi >= 2)
                rights |= FS_REFER;
        if (abi >= 3)
                rights |= FS_TRUNCATE;
        if (abi >= 5)
                rights |= FS_IOCTL_DEV;
        return rights;
}

/* What is not there needs no rule. */
static int allow(int ruleset, int abi, const char *path, uint64_t rights, bool is_file, struct sbx_error *err) {
        struct path_beneath_attr attr = {.allowed = rights & handled_fs(abi)};
        _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);

        if (fd < 0 && (errno == ENOENT || errno == EACCES))
                return 0;
        if (is_file)
                attr.allowed &= FILE_RIGHTS;
        attr.parent_fd = fd;
        if (fd < 0 || syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &attr, 0) < 0) {
                /* A file among directories: once more, with the rights that files know. */
                if (fd >= 0 && errno == EINVAL && !is_file)
                        return allow(ruleset, abi, path, rights, true, err);
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "layer \"landlock\": rule for %s: %s", path,
                                     strerror(errno));
        }
        return 0;
}

static int allow_list(int ruleset, int abi, const char *const *paths, uint64_t rights, struct sbx_error *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && paths != NULL && paths[i] != NULL; i++)
                r = allow(ruleset, abi, paths[i], rights, false, err);
        return r;
}

static int add_rules(int ruleset, int abi, const struct jail_config *config, const char *scratch,
                     struct sbx_error *err) {
        static const char *const programs[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", NULL};
        static const char *const etc_jailed[] = {"/etc", "/proc", JAIL_GUESTS, NULL};
        /* On the host's own tree: what the C library and the interpreter read, and no more. */
        static const char *const etc_open[] = {"/etc/ld.so.cache",
                                               "/etc/localtime",
                                               "/etc/alternatives",
                                               "/etc/fonts",
                                               "/etc/matplotlibrc",
                                               "/proc/self",
                                               NULL};
        static const char *const private[] = {"/tmp", "/dev/shm", NULL};
        static const char *const devices[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                              "/dev/random", "/dev/urandom", NULL};
        bool jailed = config->isolation == JAIL_NAMESPACES;
        int r = allow_list(ruleset, abi, programs, READ, err);

        if (r == 0)
                r = allow_list(ruleset, abi, config->read_only, READ, err);
        if (r == 0)
                r = allow_list(ruleset, abi, devices, FS_READ_FILE | FS_WRITE_FILE, err);
        if (r == 0)
                r = allow_list(ruleset, abi, jailed ? etc_jailed : etc_open, FS_READ_FILE | FS_READ_DIR, err);
        if (r == 0 && jailed)
                r = allow(ruleset, abi, "/", FS_READ_DIR, false, err);
        if (r == 0 && jailed)
                r = allow_list(ruleset, abi, private, WRITE, err);
        if (r == 0 && jailed)
                r = allow(ruleset, abi, "/workspace", config->workspace == JAIL_WORKSPACE_RO ? READ : WRITE, false,
                          err);
        if (r == 0 && !jailed) {
                r = allow(ruleset, abi, config->guests, FS_READ_FILE | FS_READ_DIR, false, err);
                if (r == 0)
                        r = allow(ruleset, abi, scratch, WRITE, false, err);
                if (r == 0 && config->workspace != JAIL_WORKSPACE_NONE)
                        r = allow(ruleset, abi, config->workspace_path,
                                  config->workspace == JAIL_WORKSPACE_RO ? READ : WRITE, false, err);
        }
        return r;
}

int jail_landlock_apply(const struct jail_config *config, const char *scratch, int *ret_abi, struct sbx_error *err) {
        int abi = jail_landlock_abi(), r;
        struct ruleset_attr attr = {.handled_fs = handled_fs(abi)};
        size_t size = sizeof(attr.handled_fs);
        _cleanup_close_ int ruleset = -1;

        if (abi < 1)
                return sbx_error_set(err, -ENOTSUP, LOCAL_ORIGIN,
                                     "Linux 5.13 or later, built with Landlock and with \"landlock\" in the kernel "
                                     "parameter lsm=",
                                     "layer \"landlock\": this kernel has none");
        if (abi >= 4) {
                attr.handled_net = NET_TCP;
                size = offsetof(struct ruleset_attr, scoped);
        }
        if (abi >= 6) {
                attr.scoped = SCOPE_ALL;
                size = sizeof(attr);
        }
        ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
        if (ruleset < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "layer \"landlock\": %s", strerror(errno));
        r = add_rules(ruleset, abi, config, scratch, err);
        if (r < 0)
                return r;
        if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "layer \"landlock\": %s", strerror(errno));
        *ret_abi = abi;
        return 0;
}
