/* SPDX-License-Identifier: Apache-2.0 */
/* Installs the system call filters that filters.c made at build time. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "jail.h"
#include "util.h"

#include "jail_filters.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct sock_fprog program(enum jail_filter filter) {
        switch (filter) {
        case JAIL_FILTER_KEEPER:
                return (struct sock_fprog){COUNT(keeper_filter), (struct sock_filter *)keeper_filter};
        case JAIL_FILTER_ZYGOTE:
                return (struct sock_fprog){COUNT(zygote_filter), (struct sock_filter *)zygote_filter};
        case JAIL_FILTER_SESSION:
                return (struct sock_fprog){COUNT(session_filter), (struct sock_filter *)session_filter};
        }
        abort();
}

size_t jail_seccomp_size(enum jail_filter filter) {
        return program(filter).len;
}

int jail_seccomp_apply(enum jail_filter filter) {
        struct sock_fprog chosen = program(filter);

        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &chosen) < 0 ? -errno : 0;
}
