/* SPDX-License-Identifier: Apache-2.0 */
/* Resource limits: the wall behind what the engine counts itself. */
#include <sys/resource.h>

#include "jail.h"
#include "util.h"

#define FILES_MAX 64 /* descriptors of the host; guests' own are the engine's */
#define STACK_MAX (8u << 20)
#define GUEST_STACK (UINT64_C(66) << 20)
#define WORKING_ROOM (UINT64_C(192) << 20) /* for compressing a state, and what the C library wastes */
#define RESERVATION (UINT64_C(10) << 30)   /* address space that is not memory */
#define OTHER_FILES (64u << 10)            /* of states; the zygote's report */
#define SPARE_PROCESSES 8

static int limit(int resource, const char *name, rlim_t soft, rlim_t hard, struct sbx_error *err) {
        struct rlimit current, wanted = {soft, hard};

        if (getrlimit((__rlimit_resource_t)resource, &current) < 0)
                return sbx_error_set(err, -errno, HELPER_ORIGIN, NULL, "layer \"rlimits\": %s: %s", name,
                                     strerror(errno));
        /* A limit that is lower already stays: nobody may raise a hard one. */
        if (current.rlim_max < wanted.rlim_max)
                wanted.rlim_max = current.rlim_max;
        if (wanted.rlim_cur > wanted.rlim_max)
                wanted.rlim_cur = wanted.rlim_max;
        if (setrlimit((__rlimit_resource_t)resource, &wanted) < 0)
                return sbx_error_set(err, -errno, HELPER_ORIGIN, NULL, "layer \"rlimits\": %s: %s", name,
                                     strerror(errno));
        return 0;
}

/* What a process that has left its sandbox can write to at most. Files are counted twice: while a state is restored
 * there is the old and the new. */
static uint64_t data_max(const struct jail *jail) {
        const struct helper_config *config = jail->config;

        return jail->image_bytes + config->memory_max + 2 * config->files_max + 2 * config->snapshot_max + GUEST_STACK +
               WORKING_ROOM;
}

/* In a user namespace the kernel counts the processes in there; else all of this uid, where the system's own limit must
 * do. */
static int limit_processes(const struct jail *jail, struct sbx_error *err) {
        rlim_t most = (rlim_t)jail->config->sessions_max + SPARE_PROCESSES;

        return jail->user_namespace ? limit(RLIMIT_NPROC, "nproc", most, most, err) : 0;
}

int jail_limits_apply(const struct jail *jail, struct sbx_error *err) {
        uint64_t data = data_max(jail), file = jail->config->snapshot_max + OTHER_FILES;
        /* One byte of core: the kernel then writes no file, and starts no helper of core_pattern either, which it
         * would with zero. */
        int r = limit(RLIMIT_CORE, "core", 1, 1, err);

        if (r == 0)
                r = limit(RLIMIT_NOFILE, "nofile", FILES_MAX, FILES_MAX, err);
        if (r == 0)
                r = limit(RLIMIT_FSIZE, "fsize", file, file, err);
        if (r == 0)
                r = limit(RLIMIT_MEMLOCK, "memlock", 0, 0, err);
        if (r == 0)
                r = limit(RLIMIT_STACK, "stack", STACK_MAX, STACK_MAX, err);
        if (r == 0)
                r = limit(RLIMIT_MSGQUEUE, "msgqueue", 0, 0, err);
        if (r == 0)
                r = limit(RLIMIT_RTPRIO, "rtprio", 0, 0, err);
        if (r == 0)
                r = limit(RLIMIT_NICE, "nice", 0, 0, err);
        if (r == 0)
                r = limit(RLIMIT_DATA, "data", data, data, err);
        if (r == 0)
                r = limit(RLIMIT_AS, "as", data + RESERVATION, data + RESERVATION, err);
        return r == 0 ? limit_processes(jail, err) : r;
}

int jail_limits_session(const struct helper_config *config) {
        if (config->cpu_seconds > 0) {
                /* A second later than the signal that can be told from others: SIGXCPU, then SIGKILL. */
                int r = limit(RLIMIT_CPU, "cpu", config->cpu_seconds, (rlim_t)config->cpu_seconds + 1, NULL);

                if (r < 0)
                        return r;
        }
        return jail_limits_allow(0, false);
}

int jail_limits_allow(pid_t pid, bool allowed) {
        struct rlimit limits;

        if (prlimit(pid, RLIMIT_NPROC, NULL, &limits) < 0)
                return -errno;
        limits.rlim_cur = allowed ? limits.rlim_max : 0;
        return prlimit(pid, RLIMIT_NPROC, &limits, NULL) < 0 ? -errno : 0;
}

int jail_limits_allowed(pid_t pid) {
        struct rlimit limits;

        if (prlimit(pid, RLIMIT_NPROC, NULL, &limits) < 0)
                return -errno;
        return limits.rlim_cur > 0;
}
