/* SPDX-License-Identifier: Apache-2.0 */
/* User and group ids, user namespaces and capabilities of the jail. */
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "jail.h"
#include "util.h"

#define CAP_WORDS 2

static int set_capabilities(uint64_t effective, uint64_t permitted, uint64_t inheritable) {
        struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
        struct __user_cap_data_struct data[CAP_WORDS];

        for (int i = 0; i < CAP_WORDS; i++)
                data[i] = (struct __user_cap_data_struct){(uint32_t)(effective >> (32 * i)),
                                                          (uint32_t)(permitted >> (32 * i)),
                                                          (uint32_t)(inheritable >> (32 * i))};
        return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int get_capabilities(struct __user_cap_data_struct ret[CAP_WORDS]) {
        struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};

        return syscall(SYS_capget, &header, ret) < 0 ? -errno : 0;
}

#define BIT(capability) (UINT64_C(1) << (capability))

int jail_ids_drop_root(uid_t uid, gid_t gid, struct sbx_error *err) {
        /* SYS_ADMIN: namespaces and mounts. DAC_*: to bind what the id itself may not reach, an interpreter below
         * /root among it. SETUID, SETGID: to write the map of an id-mapped mount. */
        static const uint64_t wanted = BIT(CAP_SYS_ADMIN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) |
                                       BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_SETPCAP);
        struct __user_cap_data_struct have[CAP_WORDS];
        uint64_t keep;
        int r = get_capabilities(have);

        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "capget: %s", strerror(-r));
        keep = (((uint64_t)have[1].permitted << 32) | have[0].permitted) & wanted;
        if (setgroups(0, NULL) < 0 || prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setresgid(gid, gid, gid) < 0 ||
            setresuid(uid, uid, uid) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN,
                                     "the option \"user\" must name an id that exists in this user namespace, and the "
                                     "server needs CAP_SETUID and CAP_SETGID",
                                     "layer \"ids\": can't become uid %u: %s", (unsigned)uid, strerror(errno));
        r = set_capabilities(keep, keep, 0);
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "layer \"ids\": capset: %s", strerror(-r));
        return 0;
}

bool jail_ids_may_administer(void) {
        struct __user_cap_data_struct have[CAP_WORDS];

        return get_capabilities(have) == 0 && (have[0].effective & BIT(CAP_SYS_ADMIN)) != 0;
}

static int write_file(const char *path, const char *text) {
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

        return fd < 0 ? -errno : write_whole(fd, text, strlen(text));
}

int jail_ids_map(uid_t outer_uid, gid_t outer_gid, struct sbx_error *err) {
        char line[64];
        int r;

        /* What may not be dumped may not write its own map either: its files in /proc belong to root. */
        if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "PR_SET_DUMPABLE: %s", strerror(errno));
        r = write_file("/proc/self/setgroups", "deny");
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "/proc/self/setgroups: %s", strerror(-r));
        snprintf(line, sizeof(line), "%u %u 1\n", JAIL_INSIDE_ID, (unsigned)outer_gid);
        r = write_file("/proc/self/gid_map", line);
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "/proc/self/gid_map: %s", strerror(-r));
        snprintf(line, sizeof(line), "%u %u 1\n", JAIL_INSIDE_ID, (unsigned)outer_uid);
        r = write_file("/proc/self/uid_map", line);
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN,
                                     "on Ubuntu 23.10 or later AppArmor may hold back user namespaces: install the "
                                     "profile that comes with this program, or run `snipara-sandbox doctor`",
                                     "layer \"user namespace\": /proc/self/uid_map: %s", strerror(-r));
        return 0;
}

int jail_ids_enter_user_namespace(uid_t uid, gid_t gid, struct sbx_error *err) {
        if (unshare(CLONE_NEWUSER) < 0)
                return sbx_error_set(err, -ENOTSUP, LOCAL_ORIGIN,
                                     errno == ENOSPC ? "raise the sysctl user.max_user_namespaces"
                                                     : "unprivileged user namespaces are off here (sysctl "
                                                       "kernel.unprivileged_userns_clone, AppArmor, or a container "
                                                       "without the right): run `snipara-sandbox doctor`",
                                     "layer \"user namespace\": %s", strerror(errno));
        return jail_ids_map(uid, gid, err);
}

int jail_ids_keep_for_zygote(struct sbx_error *err) {
        uint64_t keep = BIT(CAP_SYS_ADMIN);
        int r;

        /* Ambient, so that it survives execve of the interpreter. Cloning into a new user namespace needs no
         * capability, except where AppArmor allows that to holders of CAP_SYS_ADMIN alone. */
        r = set_capabilities(keep | BIT(CAP_SETPCAP), keep | BIT(CAP_SETPCAP), keep);
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "layer \"capabilities\": capset: %s", strerror(-r));
        for (int capability = 0; capability <= 63; capability++)
                if (capability != CAP_SYS_ADMIN && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0 && errno != EINVAL)
                        return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL,
                                             "layer \"capabilities\": PR_CAPBSET_DROP: %s", strerror(errno));
        r = set_capabilities(keep, keep, keep);
        if (r < 0 || prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0) < 0)
                return sbx_error_set(err, r < 0 ? r : -errno, LOCAL_ORIGIN, NULL,
                                     "layer \"capabilities\": ambient set: %s", strerror(r < 0 ? -r : errno));
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "layer \"no_new_privs\": %s", strerror(errno));
        return 0;
}

int jail_ids_drop_capabilities(struct sbx_error *err) {
        static const unsigned long locked = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                                            SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                            SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
        int r;

        /* Without CAP_SETPCAP there is nothing to drop from: then the sets must be empty already, which the caller
         * reads back. */
        if (prctl(PR_SET_SECUREBITS, locked, 0, 0, 0) < 0 && errno != EPERM)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "layer \"capabilities\": securebits: %s",
                                     strerror(errno));
        for (int capability = 0; capability <= 63; capability++)
                if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0 && errno == EINVAL)
                        break;
        r = set_capabilities(0, 0, 0);
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "layer \"capabilities\": capset: %s", strerror(-r));
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "layer \"capabilities\": ambient set: %s",
                                     strerror(errno));
        return 0;
}

bool jail_ids_powerless(void) {
        struct __user_cap_data_struct have[CAP_WORDS];

        if (get_capabilities(have) < 0)
                return false;
        for (int i = 0; i < CAP_WORDS; i++)
                if (have[i].effective != 0 || have[i].permitted != 0 || have[i].inheritable != 0)
                        return false;
        return true;
}
