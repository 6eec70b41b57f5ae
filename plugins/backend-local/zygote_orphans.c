/* SPDX-License-Identifier: Apache-2.0 */
/* Ends what dead guests left behind, where no pid namespace does it: the zygote is their subreaper, so that all of it
 * becomes the zygote's children. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "util.h"
#include "zygote_internal.h"

#define ROUNDS_MAX 2000 /* of one millisecond: what keeps forking for two seconds under SIGKILL is not stopped here */

static bool is_living_guest(const struct zygote *zygote, pid_t pid) {
        for (size_t i = 0; i < zygote->guest_count; i++)
                if (zygote->guests[i].pid == pid && !zygote->guests[i].reaped)
                        return true;
        return false;
}

/* The fourth field of /proc/PID/stat, after the name, which may hold anything but ends at the last ')'. */
static pid_t parent_of(int proc_fd, const char *pid) {
        char path[64], text[512], *end;
        _cleanup_close_ int fd = -1;
        int parent = -1;
        ssize_t n;

        snprintf(path, sizeof(path), "%s/stat", pid);
        fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return -1;
        text[n] = '\0';
        end = strrchr(text, ')');
        return end != NULL && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : -1;
}

static pid_t parse_pid(const char *name) {
        pid_t pid = 0;

        for (; *name >= '0' && *name <= '9' && pid < 100000000; name++)
                pid = pid * 10 + (*name - '0');
        return *name == '\0' ? pid : 0;
}

static bool kill_round(const struct zygote *zygote) {
        DIR *proc = opendir("/proc");
        struct dirent *entry;
        bool found = false;

        if (proc == NULL)
                return false;
        while ((entry = readdir(proc)) != NULL) {
                pid_t pid = parse_pid(entry->d_name);

                if (pid <= 1 || is_living_guest(zygote, pid) || parent_of(dirfd(proc), entry->d_name) != getpid())
                        continue;
                found = true;
                kill(pid, SIGKILL);
                /* Reaps only the stranger: guests' own statuses stay to be asked for. */
                waitpid(pid, NULL, WNOHANG);
        }
        closedir(proc);
        return found;
}

void zygote_kill_orphans(const struct zygote *zygote) {
        static const struct timespec pause = {0, 1000000};

        for (int round = 0; round < ROUNDS_MAX && kill_round(zygote); round++)
                nanosleep(&pause, NULL);
}
