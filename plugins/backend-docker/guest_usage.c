/* SPDX-License-Identifier: Apache-2.0 */
/* What a guest used, and how it ended. */
#include "exec.h"
#include "guest.h"
#include "util.h"

#define DEATH_WAIT_MS 3000 /* for the engine to notice that a container ended */
#define DEATH_LOOK_MS 10

static struct sbx_call call_within(uint64_t ms) {
        return (struct sbx_call){.struct_size = sizeof(struct sbx_call),
                                 .cancel_fd = -1,
                                 .deadline_ns = monotonic_ns() + ms * UINT64_C(1000000)};
}

/* One look at how it ended. 1: known; 0: the engine has not noticed yet; negative: it can't be asked. */
static int look_at_end(struct docker_guest *guest, const struct sbx_call *call, int *ret_code, bool *ret_oom,
                       struct sbx_error *err) {
        struct container_state state = {0};
        int r;

        if (!guest_has_container(guest)) {
                *ret_oom = false;
                r = exec_look(guest->docker->engine, guest->exec, call, ret_code, err);
                return r == -ENOENT ? 1 : r < 0 ? r : *ret_code != INT32_MIN;
        }
        r = container_inspect(guest->docker, guest->container, call, &state, NULL, err);
        if (r < 0)
                return r;
        *ret_code = state.exit_code;
        *ret_oom = state.oom_killed;
        return !state.exists || !state.running;
}

/* Its stream has ended while code ran: did the code end, or is the engine gone? */
static void find_end(struct docker_guest *guest) {
        const struct sbx_call call = call_within(DEATH_WAIT_MS);
        struct sbx_error err = {0};
        int code = INT32_MIN, r;
        bool oom = false;

        do {
                r = look_at_end(guest, &call, &code, &oom, &err);
                if (r == 0)
                        usleep(DEATH_LOOK_MS * 1000);
        } while (r == 0 && monotonic_ns() < call.deadline_ns);
        if (r < 0)
                docker_log(guest->docker, SBX_LOG_WARNING,
                           "the engine went away while code ran in container %.12s, and its result with it: %s",
                           guest->container, err.message);
        else if (r == 0)
                docker_log(guest->docker, SBX_LOG_WARNING,
                           "the engine's stream to container %.12s broke while code ran", guest->container);
        pthread_mutex_lock(&guest->lock);
        guest->final = true;
        guest->last.exit_code = r > 0 ? code : INT32_MIN;
        if (oom)
                guest->last.oom_killed = 1;
        /* Its control group is gone, but how far it came is known. */
        if (oom && guest->last.memory_peak_bytes < guest->limits.memory_bytes)
                guest->last.memory_peak_bytes = guest->limits.memory_bytes;
        pthread_mutex_unlock(&guest->lock);
}

/* What can't be read any more stays what it was. */
static void keep(struct docker_guest *guest, const struct sbx_guest_usage *usage) {
        DOCKER_LOCKED(&guest->lock);
        struct sbx_guest_usage last = guest->last;

        guest->last = *usage;
        guest->last.struct_size = sizeof(guest->last);
        guest->last.exit_code = last.exit_code;
        if (last.cpu_ns > usage->cpu_ns)
                guest->last.cpu_ns = last.cpu_ns;
        if (last.memory_peak_bytes > usage->memory_peak_bytes)
                guest->last.memory_peak_bytes = last.memory_peak_bytes;
        if (last.oom_killed != 0)
                guest->last.oom_killed = 1;
}

int docker_guest_usage(void *instance, void *handle, struct sbx_guest_usage *ret_usage, struct sbx_error *err) {
        struct docker_guest *guest = handle;
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage)};
        uint32_t size = ret_usage->struct_size;
        bool final;

        pthread_mutex_lock(&guest->lock);
        final = guest->final;
        pthread_mutex_unlock(&guest->lock);
        if (!final && usage_read(guest->usage, &usage, NULL) == 0)
                keep(guest, &usage);
        if (!final && relay_line_dead(guest->line))
                find_end(guest);
        pthread_mutex_lock(&guest->lock);
        usage = guest->last;
        pthread_mutex_unlock(&guest->lock);
        memcpy((char *)ret_usage + sizeof(size), (char *)&usage + sizeof(size),
               (size < sizeof(usage) ? size : sizeof(usage)) - sizeof(size));
        return 0;
}
