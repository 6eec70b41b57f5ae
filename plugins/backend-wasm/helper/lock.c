/* SPDX-License-Identifier: Apache-2.0 */
/* Jails a process that runs guest code for `sbx-wasm bake` and `sbx-wasm run`: packages that are baked into an image
 * are anybody's code, just like a session's. */
#include <stdio.h>

#include "jail.h"
#include "lock.h"
#include "util.h"

#define NOBODY 65534
#define CPU_SECONDS 600

int helper_lock(char *message, size_t size) {
        static const struct helper_config config = {.struct_size = sizeof(config),
                                                    .drop = 1,
                                                    .uid = NOBODY,
                                                    .gid = NOBODY,
                                                    .memory_max = (uint64_t)1 << 30,
                                                    .files_max = (uint64_t)1 << 30,
                                                    .snapshot_max = (uint64_t)2 << 30, /* the image is written */
                                                    .cpu_seconds = CPU_SECONDS};
        struct jail jail = {.config = &config};
        struct sbx_error err = {0};
        int r = geteuid() == 0 ? jail_ids_drop_root(&jail, &err) : 0;

        if (r == 0)
                r = jail_lock_zygote(&jail, &err);
        if (r < 0) {
                snprintf(message, size, "%s", err.message);
                return r;
        }
        r = jail_limits_session(&config);
        if (r == 0)
                r = jail_seccomp_apply(JAIL_FILTER_SESSION);
        if (r < 0)
                snprintf(message, size, "the jail can't be closed: %s", strerror(-r));
        return r;
}
