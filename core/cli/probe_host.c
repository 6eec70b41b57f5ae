/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of the kernel and the machine, for `doctor`. What follows from them, the plugins' probes find by doing. */
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/number.h"
#include "cli/doctor.h"

#define AREA "machine"
#define CGROUP_ROOT "/sys/fs/cgroup"

/* The number in a file of /proc; `absent` when there is no such file. */
static int64_t read_number(const char *path, int64_t absent) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(64);
        int64_t number;

        if (sbx_file_read(AT_FDCWD, path, 64, &text, NULL) < 0 || text.size == 0)
                return absent;
        if (text.data[text.size - 1] == '\n')
                text.data[text.size - 1] = '\0';
        return sbx_number_int(text.data, &number) < 0 ? absent : number;
}

static void check_kernel(struct sbx_cli_checks *checks) {
        struct utsname name;

        if (uname(&name) == 0)
                sbx_cli_check(checks, AREA, SBX_PROBE_OK, "kernel", NULL, "%s %s, %s", name.sysname, name.release,
                              name.machine);
        sbx_cli_check(checks, AREA, SBX_PROBE_OK, "user", NULL, geteuid() == 0 ? "root (%u)" : "an ordinary user (%u)",
                      (unsigned)geteuid());
}

static void check_container(struct sbx_cli_checks *checks) {
        static const struct {
                const char *path, *name;
        } marks[] = {
                {"/.dockerenv", "Docker"},
                {"/run/.containerenv", "Podman"},
                {"/run/systemd/container", "systemd-nspawn or another manager"},
                {"/var/run/secrets/kubernetes.io", "Kubernetes"},
        };

        for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
                if (access(marks[i].path, F_OK) == 0) {
                        sbx_cli_check(checks, AREA, SBX_PROBE_WARNING, "container", NULL,
                                      "inside one (%s): its rights decide what the jail can have", marks[i].name);
                        return;
                }
}

static void check_namespaces(struct sbx_cli_checks *checks) {
        int64_t maximum = read_number("/proc/sys/user/max_user_namespaces", -1);

        if (access("/proc/self/ns/user", F_OK) < 0)
                sbx_cli_check(checks, AREA, SBX_PROBE_WARNING, "user namespaces", NULL, "the kernel has none");
        else if (maximum == 0)
                sbx_cli_check(checks, AREA, SBX_PROBE_WARNING, "user namespaces", NULL,
                              "turned off: user.max_user_namespaces is 0");
        else if (read_number("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
                sbx_cli_check(checks, AREA, SBX_PROBE_WARNING, "user namespaces", NULL,
                              "for root only: kernel.unprivileged_userns_clone is 0");
        else if (read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1)
                sbx_cli_check(checks, AREA, SBX_PROBE_WARNING, "user namespaces", NULL,
                              "restricted by AppArmor: kernel.apparmor_restrict_unprivileged_userns is 1");
        else
                sbx_cli_check(checks, AREA, SBX_PROBE_OK, "user namespaces", NULL, "not restricted");
}

static void check_cgroup(struct sbx_cli_checks *checks) {
        struct statfs fs;

        if (statfs(CGROUP_ROOT, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
                sbx_cli_check(checks, AREA, SBX_PROBE_OK, "cgroups", NULL, "v2");
        else if (access(CGROUP_ROOT "/memory", F_OK) == 0)
                sbx_cli_check(checks, AREA, SBX_PROBE_OK, "cgroups", NULL, "v1%s",
                              access(CGROUP_ROOT "/unified", F_OK) == 0 ? ", with v2 beside it" : "");
        else
                sbx_cli_check(checks, AREA, SBX_PROBE_WARNING, "cgroups", NULL, "none mounted at " CGROUP_ROOT);
}

static void check_filters(struct sbx_cli_checks *checks) {
        long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

        if (abi > 0)
                sbx_cli_check(checks, AREA, SBX_PROBE_OK, "Landlock", NULL, "ABI %ld", abi);
        else
                sbx_cli_check(checks, AREA, SBX_PROBE_WARNING, "Landlock", NULL, "%s",
                              errno == EOPNOTSUPP ? "built into the kernel, but not enabled (lsm=landlock,... at boot)"
                                                  : "not in this kernel (5.13 and later have it)");
        if (access("/proc/sys/kernel/seccomp/actions_avail", F_OK) == 0)
                sbx_cli_check(checks, AREA, SBX_PROBE_OK, "seccomp", NULL, "filters");
        else
                sbx_cli_check(checks, AREA, SBX_PROBE_WARNING, "seccomp", NULL, "the kernel shows no filter actions");
}

/* Just whether there is one: the interpreter that a backend uses, and its version, is for the backend to tell. */
static void check_python(struct sbx_cli_checks *checks) {
        const char *path = getenv("PATH");

        while (path != NULL && path[0] != '\0') {
                size_t size = strcspn(path, ":");
                _cleanup_free_ char *candidate = NULL;

                if (asprintf(&candidate, "%.*s/python3", (int)size, path) < 0) {
                        candidate = NULL;
                        break;
                }
                if (size > 0 && access(candidate, X_OK) == 0) {
                        sbx_cli_check(checks, AREA, SBX_PROBE_OK, "python3", NULL, "%s", candidate);
                        return;
                }
                path += size + (path[size] == ':');
        }
        sbx_cli_check(checks, AREA, SBX_PROBE_WARNING, "python3", NULL, "none on PATH");
}

void sbx_cli_check_host(struct sbx_cli_checks *checks) {
        check_kernel(checks);
        check_container(checks);
        check_namespaces(checks);
        check_cgroup(checks);
        check_filters(checks);
        check_python(checks);
}
