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

/* Where no cgroup knows: every process there is. */
static int all_pids(pid_t **ret_pids, size_t *ret_count) {
        DIR *proc = opendir("/proc");
        pid_t *pids = NULL, *larger;
        const struct dirent *entry;
        size_t count = 0, capacity = 0;

        while (proc != NULL && (entry = readdir(proc)) != NULL) {
                pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

                if (pid <= 0)
                        continue;
                if (count == capacity) {
                        capacity = capacity * 2 + 256;
                        larger = reallocarray(pids, capacity, sizeof(*pids));
                        if (larger == NULL)
                                break; /* the next round finds the rest */
                        pids = larger;
                }
                pids[count++] = pid;
        }
        if (proc != NULL)
                closedir(proc);
        *ret_pids = pids;
        *ret_count = count;
        return pids != NULL ? 0 : -ENOMEM;
}

/* Process 1, and those that are members. */
static size_t find_kept(const struct family *family, pid_t **ret_pids) {
        size_t count = 1;
        pid_t *pids;

        for (const struct local_guest *at = family->members; at != NULL; at = at->next)
                count++;
        pids = calloc(count, sizeof(*pids));
        *ret_pids = pids;
        if (pids == NULL)
                return 0;
        count = 0;
        pids[count++] = family_pid_of(family->first_pidfd);
        for (const struct local_guest *at = family->members; at != NULL; at = at->next)
                if (!at->killed)
                        pids[count++] = family_pid_of(family_pidfd(at));
        return count;
}

static bool is_among(const pid_t *pids, size_t count, pid_t pid) {
        for (size_t i = 0; i < count; i++)
                if (pids[i] == pid)
                        return true;
        return false;
}

/* Kills what it finds. True: there was none. */
static bool kill_round(const struct family *family, const pid_t *kept, size_t kept_count) {
        _cleanup_free_ pid_t *pids = NULL;
        size_t count = 0;
        bool found = false;

        if (cgroup_pids(family->cgroup, &pids, &count) < 0 && all_pids(&pids, &count) < 0)
                return false;
        for (size_t i = 0; i < count; i++) {
                _cleanup_close_ int pidfd = -1;

                if (is_among(kept, kept_count, pids[i]) || !is_of_family(family, pids[i]))
                        continue;
                pidfd = family_open_process(family, pids[i]);
                if (pidfd < 0)
                        continue;
                found = true;
                sys_pidfd_send_signal(pidfd, SIGKILL);
        }
        return !found;
}

bool family_kill_strays(struct family *family) {
        static const struct timespec pause = {0, PAUSE_NS};
        _cleanup_free_ pid_t *kept = NULL;
        size_t kept_count = find_kept(family, &kept);
        bool none = false;

        for (int i = 0; kept != NULL && !none && i < ROUNDS_MAX; i++) {
                none = kill_round(family, kept, kept_count);
                if (!none)
                        nanosleep(&pause, NULL);
        }
        return none;
}
