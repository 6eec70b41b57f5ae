/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a family: told from all others by their pid namespace, which none of them can leave. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include "family.h"
#include "syscalls.h"
#include "util.h"

#define ROUNDS_MAX 4000
#define PAUSE_NS 500000

static bool is_of_family(const struct family *family, pid_t pid) {
        char path[64];
        struct stat st;

        snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
        return stat(path, &st) == 0 && st.st_dev == family->namespace.st_dev && st.st_ino == family->namespace.st_ino;
}

int family_open_process(const struct family *family, pid_t pid) {
        _cleanup_close_ int pidfd = pid > 0 ? sys_pidfd_open(pid) : -1;

        /* A number that was used anew between the two belongs to a process that the descriptor does not. */
        if (pidfd < 0 || !is_of_family(family, pid) || sys_pidfd_send_signal(pidfd, 0) < 0)
                return -1;
        return steal_fd(&pidfd);
}

static bool is_kept(const struct family *family, pid_t pid) {
        if (family_pid_of(family->first_pidfd) == pid)
                return true;
        for (const struct local_guest *at = family->members; at != NULL; at = at->next)
                if (!at->killed && family_pid_of(family_pidfd(at)) == pid)
                        return true;
        return false;
}

/* Kills what it finds. True: there was none. */
static bool kill_round(const struct family *family, DIR *proc) {
        bool found = false;
        struct dirent *entry;

        rewinddir(proc);
        while ((entry = readdir(proc)) != NULL) {
                pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
                _cleanup_close_ int pidfd = -1;

                if (pid <= 0 || !is_of_family(family, pid) || is_kept(family, pid))
                        continue;
                pidfd = family_open_process(family, pid);
                if (pidfd < 0)
                        continue;
                found = true;
                sys_pidfd_send_signal(pidfd, SIGKILL);
        }
        return !found;
}

bool family_kill_strays(struct family *family) {
        static const struct timespec pause = {0, PAUSE_NS};
        DIR *proc = opendir("/proc");
        bool none = false;

        for (int i = 0; proc != NULL && !none && i < ROUNDS_MAX; i++) {
                none = kill_round(family, proc);
                if (!none)
                        nanosleep(&pause, NULL);
        }
        if (proc != NULL)
                closedir(proc);
        return none;
}
