/* SPDX-License-Identifier: Apache-2.0 */
/* proc_pid_status(5), user_namespaces(7). */
#include "report_seen.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "util.h"

#define TEXT_MAX 16384

static bool read_proc(long pid, const char *name, char text[TEXT_MAX]) {
        char path[64];
        _cleanup_close_ int fd = -1;
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/%ld/%s", pid, name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd >= 0 ? read(fd, text, TEXT_MAX - 1) : -1;
        if (n <= 0)
                return false;
        text[n] = '\0';
        return true;
}

/* What stands behind "Name:" at the start of a line. */
static const char *field(const char *text, const char *name) {
        size_t length = strlen(name);

        for (const char *at = text; at != NULL && *at != '\0';) {
                if (strncmp(at, name, length) == 0 && at[length] == ':') {
                        at += length + 1;
                        return at + strspn(at, " \t");
                }
                at = strchr(at, '\n');
                if (at != NULL)
                        at++;
        }
        return NULL;
}

static bool is_zero(const char *hex) {
        size_t length = hex != NULL ? strcspn(hex, "\n") : 0;

        return length > 0 && strspn(hex, "0") == length;
}

static void read_status(const char *text, struct seen *seen) {
        static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
        const char *uid = field(text, "Uid"), *privs = field(text, "NoNewPrivs"), *seccomp = field(text, "Seccomp");
        unsigned value;

        if (uid == NULL || privs == NULL || seccomp == NULL || sscanf(uid, "%u", &value) != 1)
                return;
        seen->uid = value;
        seen->no_new_privs = *privs == '1';
        seen->seccomp = *seccomp >= '0' && *seccomp <= '2' ? *seccomp - '0' : 0;
        seen->no_capabilities = true;
        for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
                seen->no_capabilities = seen->no_capabilities && is_zero(field(text, sets[i]));
        seen->status = true;
}

void seen_read(const char *id, long pid, struct seen *ret_seen) {
        char text[TEXT_MAX], own[TEXT_MAX];
        struct seen seen = {0};

        *ret_seen = seen;
        if (pid <= 0 || !read_proc(pid, "cgroup", text) || strstr(text, id) == NULL)
                return;
        if (read_proc(pid, "uid_map", text) && read_proc(getpid(), "uid_map", own)) {
                seen.ids = true;
                seen.own_user_namespace = strcmp(text, own) != 0;
        }
        if (read_proc(pid, "status", text))
                read_status(text, &seen);
        /* Still the same process? */
        if (read_proc(pid, "cgroup", text) && strstr(text, id) != NULL)
                *ret_seen = seen;
}
