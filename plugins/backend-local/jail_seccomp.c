/* SPDX-License-Identifier: Apache-2.0 */
/* Installs the system call filter that the server compiled. */
#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail.h"
#include "util.h"

int jail_seccomp_apply(const struct jail_config *config, struct sbx_error *err) {
        struct sock_fprog program = {(unsigned short)config->filter_count, (struct sock_filter *)config->filter};

        if (config->filter == NULL || config->filter_count == 0 || config->filter_count > BPF_MAXINSNS)
                return sbx_error_set(err, -EINVAL, LOCAL_ORIGIN, NULL, "layer \"seccomp\": no filter");
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
                return sbx_error_set(err, errno == ENOSYS || errno == EINVAL ? -ENOTSUP : -errno, LOCAL_ORIGIN,
                                     "a kernel built with CONFIG_SECCOMP_FILTER is needed",
                                     "layer \"seccomp\": can't install the filter: %s", strerror(errno));
        return 0;
}
