/* SPDX-License-Identifier: Apache-2.0 */
/* Resource limits of a guest: a second wall behind the cgroup, and the first where there is none. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "jail.h"
#include "util.h"

#define FILES_MAX 1024
#define LOCKED_MAX (8u << 20)
#define STACK_MAX (64u << 20)
#define STACK_SOFT (8u << 20)
#define SIGNALS_MAX 1024

static int limit(int resource, const char *name, rlim_t soft, rlim_t hard, struct sbx_error *err) {
        struct rlimit current, wanted = {soft, hard};

        if (getrlimit((__rlimit_resource_t)resource, &current) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "layer \"rlimits\": %s: %s", name,
                                     strerror(errno));
        /* A limit that is lower already stays: nobody may raise a hard one. */
        if (current.rlim_max < wanted.rlim_max)
                wanted.rlim_max = current.rlim_max;
        if (wanted.rlim_cur > wanted.rlim_max)
                wanted.rlim_cur = wanted.rlim_max;
        if (setrlimit((__rlimit_resource_t)resource, &wanted) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "layer \"rlimits\": %s: %s", name,
                                     strerror(errno));
        return 0;
}

/* Processes and threads of this uid. What can't be seen isn't counted. */
static uint64_t count_tasks(void) {
        DIR *proc = opendir("/proc");
        struct dirent *entry;
        uint64_t count = 0;

        while (proc != NULL && (entry = readdir(proc)) != NULL) {
                char path[sizeof(entry->d_name) + 8];
                struct stat st;

                if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
                        continue;
                snprintf(path, sizeof(path), "%s/task", entry->d_name);
                if (fstatat(dirfd(proc), path, &st, 0) == 0 && st.st_uid == getuid() && st.st_nlink > 2)
                        count += st.st_nlink - 2;
        }
        if (proc != NULL)
                closedir(proc);
        return count;
}

/* The kernel counts processes and threads for each uid of a user namespace: in a namespace of its own, the guest's
 * alone. Else all that the uid runs: then the guest may add so many to those of now. */
static int limit_processes(const struct jail_config *config, uint32_t pids_max, struct sbx_error *err) {
        uint64_t most = pids_max;

        if (pids_max == 0 || (config->isolation != JAIL_NAMESPACES && config->pids_wall == 0))
                return 0;
        if (config->isolation != JAIL_NAMESPACES)
                most += count_tasks();
        return limit(RLIMIT_NPROC, "nproc", most, most, err);
}

static rlim_t largest_file(const struct jail_config *config) {
        uint64_t bytes = config->workspace_bytes > config->tmp_bytes ? config->workspace_bytes : config->tmp_bytes;

        return (rlim_t)bytes;
}

int jail_limits_apply(const struct jail_config *config, uint64_t memory_bytes, uint32_t pids_max,
                      struct sbx_error *err) {
        /* One byte of core: the kernel then writes no file, and starts no helper of core_pattern either, which it
         * would with zero. */
        int r = limit(RLIMIT_CORE, "core", 1, 1, err);

        if (r == 0)
                r = limit(RLIMIT_NOFILE, "nofile", FILES_MAX, FILES_MAX, err);
        if (r == 0)
                r = limit(RLIMIT_FSIZE, "fsize", largest_file(config), largest_file(config), err);
        if (r == 0)
                r = limit(RLIMIT_MEMLOCK, "memlock", LOCKED_MAX, LOCKED_MAX, err);
        if (r == 0)
                r = limit(RLIMIT_STACK, "stack", STACK_SOFT, STACK_MAX, err);
        if (r == 0)
                r = limit(RLIMIT_MSGQUEUE, "msgqueue", 0, 0, err);
        if (r == 0)
                r = limit(RLIMIT_SIGPENDING, "sigpending", SIGNALS_MAX, SIGNALS_MAX, err);
        if (r == 0)
                r = limit(RLIMIT_RTPRIO, "rtprio", 0, 0, err);
        if (r == 0)
                r = limit(RLIMIT_NICE, "nice", 0, 0, err);
        if (r == 0)
                r = limit_processes(config, pids_max, err);
        if (r == 0 && config->memory_wall != 0 && memory_bytes > 0) {
                r = limit(RLIMIT_DATA, "data", memory_bytes, memory_bytes, err);
                if (r == 0)
                        r = limit(RLIMIT_AS, "as", memory_bytes + JAIL_TEXT_ALLOWANCE,
                                  memory_bytes + JAIL_TEXT_ALLOWANCE, err);
        }
        return r;
}
