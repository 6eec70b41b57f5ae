/* SPDX-License-Identifier: Apache-2.0 */
/* The jail's layers in their order. Each is read back or tried before anything is said of it. */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

#include "jail.h"
#include "util.h"

static int broken(const char *layer, const char *how, struct sbx_error *err) {
        return sbx_error_set(err, -ENOTSUP, HELPER_ORIGIN, "run `snipara-sandbox doctor`",
                             "layer \"%s\" does not hold: %s", layer, how);
}

/* A file that is there on every host, and could be read by its mode. */
static int try_files(const struct jail *jail, struct sbx_error *err) {
        _cleanup_close_ int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                            passwd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);

        if (jail->landlock_abi > 0 && root >= 0)
                return broken("landlock", "a directory could be read", err);
        if ((jail->landlock_abi > 0 || jail->namespaces) && passwd >= 0)
                return broken("root", "a file of the host could be read", err);
        return 0;
}

int jail_lock_zygote(struct jail *jail, struct sbx_error *err) {
        int r = jail_limits_apply(jail, err);

        jail->zygote = getpid();
        /* Nobody of the same uid looks into its memory. */
        if (r == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                r = sbx_error_set(err, -errno, HELPER_ORIGIN, NULL, "PR_SET_DUMPABLE: %s", strerror(errno));
        if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                r = sbx_error_set(err, -errno, HELPER_ORIGIN, NULL, "layer \"no_new_privs\": %s", strerror(errno));
        if (r == 0)
                r = jail_landlock_apply(&jail->landlock_abi, err);
        if (r == 0)
                r = jail_ids_drop_capabilities(err);
        if (r == 0 && !jail_ids_powerless())
                r = broken("capabilities", "some are left", err);
        if (r == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
                r = broken("no_new_privs", "it is not set", err);
        if (r == 0)
                r = try_files(jail, err);
        if (r < 0)
                return r;
        r = jail_seccomp_apply(JAIL_FILTER_ZYGOTE);
        return r < 0 ? sbx_error_set(err, -ENOTSUP, HELPER_ORIGIN, "a kernel with CONFIG_SECCOMP_FILTER is needed",
                                     "layer \"seccomp\": can't install the filter: %s", strerror(-r))
                     : 0;
}

int jail_die_with_zygote(const struct jail *jail) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
                return -errno;
        return getppid() == jail->zygote ? 0 : -ESRCH; /* it died before */
}

int jail_lock_session(const struct jail *jail) {
        int r = jail_die_with_zygote(jail);

        /* What it could leave behind is found by its group. */
        if (r == 0 && setpgid(0, 0) < 0)
                r = -errno;
        if (r == 0)
                r = jail_limits_session(jail->config);
        return r < 0 ? r : jail_seccomp_apply(JAIL_FILTER_SESSION);
}
