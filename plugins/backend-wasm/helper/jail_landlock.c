/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock: no file at all, whatever the mounts say; no TCP, no abstract socket and no signal beyond its own domain,
 * where the kernel knows how. ABI versions: Documentation/userspace-api/landlock.rst of Linux. */
#include <stddef.h>
#include <sys/syscall.h>

#include "jail.h"
#include "util.h"

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_restrict_self 446
#endif

#define CREATE_RULESET_VERSION 1u

/* Rights by the ABI that brought them (uapi/linux/landlock.h). */
#define FS_ABI_1 ((UINT64_C(1) << 13) - 1)
#define FS_REFER (UINT64_C(1) << 13)     /* 2 */
#define FS_TRUNCATE (UINT64_C(1) << 14)  /* 3 */
#define FS_IOCTL_DEV (UINT64_C(1) << 15) /* 5 */
#define NET_TCP (UINT64_C(3))            /* 4: bind, connect */
#define SCOPE_ALL (UINT64_C(3))          /* 6: abstract sockets, signals */

struct ruleset_attr {
        uint64_t handled_fs, handled_net, scoped;
};

static struct ruleset_attr everything(int abi, size_t *ret_size) {
        struct ruleset_attr attr = {.handled_fs = FS_ABI_1};

        *ret_size = sizeof(attr.handled_fs);
        if (abi >= 2)
                attr.handled_fs |= FS_REFER;
        if (abi >= 3)
                attr.handled_fs |= FS_TRUNCATE;
        if (abi >= 5)
                attr.handled_fs |= FS_IOCTL_DEV;
        if (abi >= 4) {
                attr.handled_net = NET_TCP;
                *ret_size = offsetof(struct ruleset_attr, scoped);
        }
        if (abi >= 6) {
                attr.scoped = SCOPE_ALL;
                *ret_size = sizeof(attr);
        }
        return attr;
}

int jail_landlock_apply(int *ret_abi, struct sbx_error *err) {
        long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
        _cleanup_close_ int ruleset = -1;
        struct ruleset_attr attr;
        size_t size;

        *ret_abi = 0;
        if (abi < 1)
                return 0;
        attr = everything((int)abi, &size);
        ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
        /* No rule: what is handled is denied. */
        if (ruleset < 0 || syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
                return sbx_error_set(err, -errno, HELPER_ORIGIN, NULL, "layer \"landlock\": %s", strerror(errno));
        *ret_abi = (int)abi;
        return 0;
}
