/* SPDX-License-Identifier: Apache-2.0 */
/* What limits a guest has, and who keeps them: its cgroup, or the resource limits of its processes. */
#include <sys/resource.h>

#include "jail.h"
#include "local.h"
#include "util.h"

static void note_layer(void *data, const char *name, const char *state, const char *detail) {
        struct local *local = data;
        bool applied = strcmp(state, "applied") == 0;

        if (strcmp(name, "memory") == 0)
                local->memory_counted = applied;
        if (strcmp(name, "pids") == 0)
                local->pids_counted = applied;
}

void limits_find(struct local *local) {
        struct cgroup_limits limits = {local->options.memory_bytes, local->options.pids_max,
                                       local->options.cpu_percent};

        local->memory_counted = local->pids_counted = false;
        cgroup_describe(local->cgroups, note_layer, local, &limits);
}

static uint64_t at_most(uint64_t value, uint64_t maximum) {
        return value < maximum ? value : maximum;
}

struct cgroup_limits limits_for_spec(const struct local *local, const struct sbx_limits *asked) {
        const struct local_options *options = &local->options;
        struct cgroup_limits limits = {options->memory_bytes, options->pids_max, options->cpu_percent};

        if (asked->memory_bytes > 0)
                limits.memory_bytes = at_most(asked->memory_bytes, options->memory_max_bytes);
        if (asked->pids_max > 0)
                limits.pids_max = asked->pids_max;
        if (asked->cpu_percent > 0)
                limits.cpu_percent = asked->cpu_percent;
        return limits;
}

/* Of the guest's first process and what it will start. A hard limit can't be raised again. */
static int lower_memory(pid_t pid, uint64_t bytes) {
        struct rlimit data = {bytes, bytes}, space = {bytes + JAIL_TEXT_ALLOWANCE, bytes + JAIL_TEXT_ALLOWANCE};

        if (pid <= 0)
                return -ESRCH;
        if (prlimit(pid, RLIMIT_DATA, &data, NULL) < 0 || prlimit(pid, RLIMIT_AS, &space, NULL) < 0)
                return errno == EPERM ? -ENOTSUP : -errno;
        return 0;
}

int limits_change(const struct local *local, pid_t pid, struct cgroup_limits *limits, const struct sbx_limits *asked) {
        uint64_t memory = at_most(asked->memory_bytes, local->options.memory_max_bytes);
        int r = 0;

        if (!local->memory_counted && memory > limits->memory_bytes)
                return -ENOTSUP;
        if (!local->memory_counted && memory > 0 && memory < limits->memory_bytes)
                r = lower_memory(pid, memory);
        if (r < 0)
                return r;
        if (memory > 0)
                limits->memory_bytes = memory;
        if (asked->pids_max > 0)
                limits->pids_max = asked->pids_max;
        if (asked->cpu_percent > 0)
                limits->cpu_percent = asked->cpu_percent;
        return 0;
}
