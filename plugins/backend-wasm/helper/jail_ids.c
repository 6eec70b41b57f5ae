/* SPDX-License-Identifier: Apache-2.0 */
/* User and group ids and capabilities of the jail. */
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "jail.h"
#include "util.h"

#define CAP_WORDS 2
#define INSIDE_ID 65534u
#define BIT(capability) (UINT64_C(1) << (capability))

static int set_capabilities(uint64_t effective, uint64_t permitted) {
        struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
        struct __user_cap_data_struct data[CAP_WORDS];

        for (int i = 0; i < CAP_WORDS; i++)
                data[i] = (struct __user_cap_data_struct){(uint32_t)(effective >> (32 * i)),
                                                          (uint32_t)(permitted >> (32 * i)), 0};
        return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int get_capabilities(struct __user_cap_data_struct ret[CAP_WORDS]) {
        struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};

        return syscall(SYS_capget, &header, ret) < 0 ? -errno : 0;
}

static bool may(uint64_t wanted) {
        struct __user_cap_data_struct have[CAP_WORDS];

        return get_capabilities(have) == 0 && (have[0].effective & wanted) == wanted;
}

bool jail_ids_may_administer(void) {
        return may(BIT(CAP_SYS_ADMIN));
}

static int change_ids(const struct helper_config *config, struct sbx_error *err) {
        /* For namespaces where only an administrator gets them. */
        static const uint64_t wanted = BIT(CAP_SYS_ADMIN) | BIT(CAP_SETPCAP);
        struct __user_cap_data_struct have[CAP_WORDS];
        uint64_t keep;
        int r = get_capabilities(have);

        if (r < 0)
                return sbx_error_set(err, r, HELPER_ORIGIN, NULL, "capget: %s", strerror(-r));
        keep = (((uint64_t)have[1].permitted << 32) | have[0].permitted) & wanted;
        if (setgroups(0, NULL) < 0 || prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ||
            setresgid(config->gid, config->gid, config->gid) < 0 ||
            setresuid(config->uid, config->uid, config->uid) < 0)
                return sbx_error_set(err, -errno, HELPER_ORIGIN,
                                     "the option \"user\" must name an id that exists in this user namespace",
                                     "layer \"ids\": can't become uid %u: %s", config->uid, strerror(errno));
        r = set_capabilities(keep, keep);
        return r < 0 ? sbx_error_set(err, r, HELPER_ORIGIN, NULL, "layer \"ids\": capset: %s", strerror(-r)) : 0;
}

int jail_ids_drop_root(struct jail *jail, struct sbx_error *err) {
        const struct helper_config *config = jail->config;
        int r;

        if (config->drop == 0)
                return 0;
        if (may(BIT(CAP_SETUID) | BIT(CAP_SETGID))) {
                r = change_ids(config, err);
                jail->ids = r == 0;
                return r;
        }
        /* Root of a container that took its rights away. */
        if (config->namespaces == 2)
                return sbx_error_set(err, -ENOTSUP, HELPER_ORIGIN,
                                     "run the server as another user, or give it CAP_SETUID and CAP_SETGID, or set "
                                     "namespaces = \"auto\"",
                                     "layer \"ids\": root without CAP_SETUID and CAP_SETGID can't become another user");
        return 0;
}

static int write_file(const char *path, const char *text) {
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

        return fd < 0 ? -errno : write_whole(fd, text, strlen(text));
}

int jail_ids_map(uid_t outer_uid, gid_t outer_gid) {
        char line[64];
        int r = write_file("/proc/self/setgroups", "deny");

        if (r < 0)
                return r;
        snprintf(line, sizeof(line), "%u %u 1\n", INSIDE_ID, (unsigned)outer_gid);
        r = write_file("/proc/self/gid_map", line);
        if (r < 0)
                return r;
        snprintf(line, sizeof(line), "%u %u 1\n", INSIDE_ID, (unsigned)outer_uid);
        return write_file("/proc/self/uid_map", line);
}

int jail_ids_drop_capabilities(struct sbx_error *err) {
        static const unsigned long locked = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                                            SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                            SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
        int r;

        /* Without CAP_SETPCAP there is nothing to drop from: then the sets must be empty already, which is read back.
         */
        if (prctl(PR_SET_SECUREBITS, locked, 0, 0, 0) < 0 && errno != EPERM)
                return sbx_error_set(err, -errno, HELPER_ORIGIN, NULL, "layer \"capabilities\": securebits: %s",
                                     strerror(errno));
        for (int capability = 0; capability <= 63; capability++)
                if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0 && errno == EINVAL)
                        break;
        r = set_capabilities(0, 0);
        if (r < 0)
                return sbx_error_set(err, r, HELPER_ORIGIN, NULL, "layer \"capabilities\": capset: %s", strerror(-r));
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return sbx_error_set(err, -errno, HELPER_ORIGIN, NULL, "layer \"capabilities\": ambient set: %s",
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
