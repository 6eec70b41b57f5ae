/* SPDX-License-Identifier: Apache-2.0 */
/* System calls and constants that are younger than the C libraries and kernel headers this builds with: thin wrappers
 * that return -1 and set errno. Numbers and values: Linux uapi headers; they are the same on every architecture. */
#pragma once

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef SYS_open_tree
#define SYS_open_tree 428
#endif
#ifndef SYS_move_mount
#define SYS_move_mount 429
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

#define SBX_OPEN_TREE_CLONE 1u
#define SBX_MOVE_MOUNT_F_EMPTY_PATH 0x4u
#define SBX_MOUNT_ATTR_RDONLY 0x1u
#define SBX_MOUNT_ATTR_NOSUID 0x2u
#define SBX_MOUNT_ATTR_NODEV 0x4u
#define SBX_MOUNT_ATTR_NOEXEC 0x8u
#define SBX_MOUNT_ATTR_IDMAP 0x100000u
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

struct sbx_mount_attr {
        uint64_t attr_set, attr_clr, propagation, userns_fd;
};

static inline int sys_open_tree(int dir_fd, const char *path, unsigned flags) {
        return (int)syscall(SYS_open_tree, dir_fd, path, flags);
}
static inline int sys_move_mount(int from_fd, int to_dir_fd, const char *to_path) {
        return (int)syscall(SYS_move_mount, from_fd, "", to_dir_fd, to_path, SBX_MOVE_MOUNT_F_EMPTY_PATH);
}
static inline int sys_mount_setattr(int fd, const char *path, unsigned flags, const struct sbx_mount_attr *attr) {
        return (int)syscall(SYS_mount_setattr, fd, path, flags, attr, sizeof(*attr));
}
static inline int sys_pivot_root(const char *new_root, const char *put_old) {
        return (int)syscall(SYS_pivot_root, new_root, put_old);
}
static inline int sys_pidfd_open(pid_t pid) {
        return (int)syscall(SYS_pidfd_open, pid, 0);
}
static inline int sys_pidfd_send_signal(int pidfd, int signal_number) {
        return (int)syscall(SYS_pidfd_send_signal, pidfd, signal_number, NULL, 0);
}
static inline int sys_close_range(unsigned first, unsigned last) {
        return (int)syscall(SYS_close_range, first, last, 0);
}

/* clone3(2), the members of Linux 5.7. */
struct sbx_clone_args {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size,
                cgroup;
} __attribute__((aligned(8)));
#define SBX_CLONE_INTO_CGROUP UINT64_C(0x200000000)
