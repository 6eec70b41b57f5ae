/* SPDX-License-Identifier: Apache-2.0 */
/* What a guest uses: processor time by the kernel's word, memory and files by what it says of itself. */
#include <fcntl.h>
#include <signal.h>

#include "engine/host.h"
#include "guest.h"
#include "util.h"

/* The clock of the guest's process, once; called with the lock held. */
static bool find_clock(struct guest *guest) {
        char path[64], text[512], *line;
        _cleanup_close_ int fd = -1;
        ssize_t n;
        int pid = 0;

        if (guest->clock != GUEST_CLOCK_UNKNOWN)
                return guest->clock == GUEST_CLOCK_FOUND;
        guest->clock = GUEST_CLOCK_NONE;
        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", guest->pidfd);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = '\0';
        line = strstr(text, "Pid:");
        if (line != NULL && sscanf(line, "Pid: %d", &pid) == 1 && pid > 0 &&
            clock_getcpuclockid(pid, &guest->clock_id) == 0)
                guest->clock = GUEST_CLOCK_FOUND;
        return guest->clock == GUEST_CLOCK_FOUND;
}

/* Whether it lives; called with the lock held. A process's number is another one's once it was given anew: what its
 * clock says counts only if the guest lives afterwards. */
static bool read_cpu(struct guest *guest) {
        struct timespec used;
        bool known = find_clock(guest) && clock_gettime(guest->clock_id, &used) == 0;

        if (guest_is_dead(guest))
                return false;
        if (known)
                guest->cpu_ns = (uint64_t)used.tv_sec * UINT64_C(1000000000) + (uint64_t)used.tv_nsec;
        return true;
}

void guest_read_cpu(struct guest *guest) {
        pthread_mutex_lock(&guest->lock);
        (void)read_cpu(guest);
        pthread_mutex_unlock(&guest->lock);
}

/* A trap ends the process with an exit code; to whom it may concern it is what a processor would have made of it. */
static int exit_code_of(const struct guest *guest, int code) {
        uint32_t trap = atomic_load(&guest->status->trap);

        if (trap == WASM_TRAP_NONE || trap >= WASM_TRAP_EXIT || code != HELPER_EXIT_TRAP + (int)trap)
                return code;
        if (trap == WASM_TRAP_UNREACHABLE)
                return -SIGABRT;
        return trap == WASM_TRAP_INTEGER || trap == WASM_TRAP_CONVERSION ? -SIGFPE : -SIGSEGV;
}

/* Memory that was refused does not kill: code gets a MemoryError. It has killed an interpreter that gave up over it. */
static bool died_of_memory(const struct guest *guest, int exit_code) {
        uint32_t trap = atomic_load(&guest->status->trap);

        return exit_code != 0 && exit_code != INT32_MIN && atomic_load(&guest->status->memory_refused) > 0 &&
               (trap == WASM_TRAP_UNREACHABLE || trap == WASM_TRAP_EXIT || trap == WASM_TRAP_BOUNDS);
}

int guest_usage(void *instance, void *handle, struct sbx_guest_usage *ret_usage, struct sbx_error *err) {
        struct sbx_guest_usage usage = {.exit_code = INT32_MIN};
        uint32_t size = ret_usage->struct_size < sizeof(usage) ? ret_usage->struct_size : (uint32_t)sizeof(usage);
        struct guest *guest = handle;
        const struct wasm_options *options = &guest->backend->options;
        uint64_t memory = at_most(atomic_load(&guest->status->memory), options->memory_max_bytes);
        bool dead;

        pthread_mutex_lock(&guest->lock);
        dead = !read_cpu(guest);
        if (dead && guest->exit_code == INT32_MIN)
                guest->exit_code = helper_exit_code(guest->helper, guest->id, &guest->cpu_ns);
        usage.cpu_ns = guest->cpu_ns;
        usage.exit_code = exit_code_of(guest, guest->exit_code);
        pthread_mutex_unlock(&guest->lock);
        usage.memory_peak_bytes = memory + at_most(atomic_load(&guest->status->files_peak), options->files_bytes);
        if (dead)
                usage.oom_killed = died_of_memory(guest, usage.exit_code);
        else {
                usage.memory_bytes = memory + at_most(atomic_load(&guest->status->files), options->files_bytes);
                usage.pids = 1;
        }
        usage.struct_size = ret_usage->struct_size;
        memcpy(ret_usage, &usage, size);
        return 0;
}
