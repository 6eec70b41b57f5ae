/* SPDX-License-Identifier: Apache-2.0 */
/* Why this machine refuses namespaces, from what it says about itself, and what to type. */
#include <fcntl.h>
#include <stdio.h>

#include "probe_internal.h"
#include "util.h"

/* The first character of a file; 0 when there is no such file. The switches looked at hold 0 or a positive number. */
static char first_character(const char *path) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        char c = '\0';

        if (fd < 0 || read(fd, &c, 1) != 1)
                return '\0';
        return c;
}

static bool in_container(void) {
        return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 ||
               access("/run/systemd/container", F_OK) == 0 || access("/var/run/secrets/kubernetes.io", F_OK) == 0;
}

const char *probe_namespace_remedy(int code, char *buffer, size_t size) {
        const char *text = NULL;

        if (first_character("/proc/sys/user/max_user_namespaces") == '0')
                text = "User namespaces are turned off. As root: sysctl -w user.max_user_namespaces=15000 (and put the line "
                       "user.max_user_namespaces=15000 into /etc/sysctl.d/50-snipara-sandbox.conf)";
        else if (code == -ENOSPC)
                text = "The kernel's limit of namespaces is reached. As root, raise user.max_*_namespaces: sysctl -a -r "
                       "'user.max_.*_namespaces' shows them";
        else if (geteuid() != 0 && first_character("/proc/sys/kernel/unprivileged_userns_clone") == '0')
                text = "User namespaces are for root only. As root: sysctl -w kernel.unprivileged_userns_clone=1 (and put "
                       "the line into /etc/sysctl.d/50-snipara-sandbox.conf)";
        else if (geteuid() != 0 && first_character("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == '1')
                text = "AppArmor holds back user namespaces (Ubuntu 23.10 and later). As root: install -m 0644 "
                       LOCAL_APPARMOR_PROFILE " /etc/apparmor.d/ && apparmor_parser -r /etc/apparmor.d/snipara-sandbox. "
                       "Or for the whole machine: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
        else if (in_container())
                text = "This container may not make namespaces. Start it with: docker run --security-opt seccomp=unconfined "
                       "--security-opt apparmor=unconfined --security-opt systempaths=unconfined ... (podman run "
                       "--security-opt seccomp=unconfined --security-opt unmask=ALL ...); as root inside, add --cap-add "
                       "SYS_ADMIN. Or choose isolation = \"landlock\" for this backend (--set local.isolation=landlock)";
        else if (access("/proc/self/ns/user", F_OK) < 0)
                text = "This kernel has no user namespaces: boot one that is built with CONFIG_USER_NS=y";
        else if (code == -EPERM || code == -EACCES)
                text = "A security module or a filter on this process refuses it: look at the kernel's log (journalctl -k) "
                       "and at how this shell was started";
        if (text == NULL)
                return NULL;
        snprintf(buffer, size, "%s", text);
        return buffer;
}
