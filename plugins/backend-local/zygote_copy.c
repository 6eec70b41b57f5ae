/* SPDX-License-Identifier: Apache-2.0 */
/* A guest's process copies itself, copy on write, when the server asks for it.
 *
 * Copies live in the guest's namespaces, and these last as long as their process 1. So with the first copy the guest
 * moves to a child of process 1, which from then on does nothing but bury the dead: copies and the guest come and go
 * below it, side by side. Nothing here needs a right that a guest's code has not.
 *
 * One thread, and none of the interpreter's fork hooks runs: for the process nothing has changed but its number, and
 * hooks of a session's code must not run now. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "memory_maps.h"
#include "syscalls.h"
#include "util.h"
#include "zygote_internal.h"

#define EXPORT __attribute__((visibility("default")))
EXPORT int sbx_zygote_copies(const struct zygote *zygote);
EXPORT int sbx_zygote_copy(struct zygote *zygote, int deaths_fd);
EXPORT void sbx_zygote_thaw(struct zygote *zygote);

/* What sbx_zygote_copy returned in which process. */
enum { ROLE_ORIGINAL = 0, ROLE_COPY = 1, ROLE_MOVED = 2 };

/* ---- process 1, bare ---- */

/* Does [`start`, `end`) hold what this thread still needs: its stack, and what the C library keeps for it? */
static bool is_needed(uintptr_t start, uintptr_t end) {
        const uintptr_t kept[] = {(uintptr_t)__builtin_frame_address(0), (uintptr_t)&errno};

        for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
                if (kept[i] >= start && kept[i] < end)
                        return true;
        return false;
}

/* Memory of this process's own, which no file stands behind but an image. */
static bool is_private_memory(const struct mapping *mapping) {
        return !mapping->shared && mapping->protection == (PROT_READ | PROT_WRITE) &&
               (mapping->kind == MAPPING_ANONYMOUS || mapping->kind == MAPPING_STACK || mapping->kind == MAPPING_IMAGE);
}

struct memory_range {
        uintptr_t start, end;
};
#define RANGES_MAX 4096 /* what is beyond stays until the end: memory, nothing else */

static size_t find_memory(struct memory_range *ranges) {
        char *maps = mmap(NULL, MEMORY_MAPS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ssize_t size = maps == MAP_FAILED ? -ENOMEM : memory_maps_read(maps, MEMORY_MAPS_MAX);
        struct mapping mapping;
        size_t count = 0;

        for (const char *at = maps;
             size > 0 && count < RANGES_MAX && (at = memory_maps_next(at, maps + size, &mapping)) != NULL;)
                if (is_private_memory(&mapping) && !is_needed(mapping.start, mapping.end))
                        ranges[count++] = (struct memory_range){mapping.start, mapping.end};
        if (maps != MAP_FAILED)
                munmap(maps, MEMORY_MAPS_MAX);
        return count;
}

/* Gives back the memory of the session that it had, and buries the dead until none can come any more. How each ended
 * goes to the server. The heap is gone: from the loop on, only system calls. */
static _Noreturn void bury_the_dead(int deaths_fd) {
        struct memory_range ranges[RANGES_MAX];
        struct zygote_death death;
        sigset_t all;
        size_t count;
        int status;

        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL); /* handlers are the interpreter's */
        if (dup2(deaths_fd, 0) < 0)
                _exit(1);
        sys_close_range(1, ~0u);
        count = find_memory(ranges);
        sys_close_range(1, ~0u);
        for (size_t i = 0; i < count; i++)
                madvise((void *)ranges[i].start, ranges[i].end - ranges[i].start, MADV_DONTNEED);
        for (;;) {
                death.pid = waitpid(-1, &status, 0);
                if (death.pid < 0 && errno == EINTR)
                        continue;
                if (death.pid < 0) /* nobody is left who could start another */
                        _exit(0);
                death.code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
                /* One that does not fit is lost: its process counts as ended in an unknown way. */
                while (write(0, &death, sizeof(death)) < 0 && errno == EINTR)
                        ;
        }
}

/* ---- copying ---- */

static pid_t clone_self(const struct zygote *zygote, unsigned long flags) {
        flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
#if defined(__x86_64__)
        return (pid_t)syscall(SYS_clone, flags, NULL, NULL, zygote->tid_address, 0UL);
#elif defined(__s390x__)
        return (pid_t)syscall(SYS_clone, NULL, flags, NULL, zygote->tid_address, 0UL);
#else
        return (pid_t)syscall(SYS_clone, flags, NULL, NULL, 0UL, zygote->tid_address);
#endif
}

/* In a new process: its own group, which signals to that of another member don't reach. */
static int settle(const struct zygote *zygote, int role) {
        if (zygote->robust_list != NULL)
                syscall(SYS_set_robust_list, zygote->robust_list, zygote->robust_list_size);
        setsid();
        if (role == ROLE_COPY)
                prctl(PR_SET_NAME, ZYGOTE_FROZEN_NAME, 0, 0, 0);
        return role;
}

/* Can a guest have copies? They need a pid namespace that ends with them. */
int sbx_zygote_copies(const struct zygote *zygote) {
        return zygote->config.isolation == JAIL_NAMESPACES;
}

/* Copies this process. `deaths_fd`: where process 1 tells who died, if this is the first copy. In the copy ROLE_COPY;
 * in the guest ROLE_ORIGINAL, or ROLE_MOVED when it is a child of what it was. A negative errno: nothing was copied. */
int sbx_zygote_copy(struct zygote *zygote, int deaths_fd) {
        bool first = getpid() == 1;
        pid_t copy, moved;

        copy = clone_self(zygote, first ? 0 : CLONE_PARENT);
        if (copy == 0)
                return settle(zygote, ROLE_COPY);
        if (copy < 0)
                return -errno;
        if (!first)
                return ROLE_ORIGINAL;
        moved = clone_self(zygote, 0);
        if (moved == 0)
                return settle(zygote, ROLE_MOVED);
        if (moved < 0) {
                int code = -errno;

                kill(copy, SIGKILL);
                waitpid(copy, NULL, 0);
                return code;
        }
        bury_the_dead(deaths_fd);
}

/* A copy takes the guest's place. */
void sbx_zygote_thaw(struct zygote *zygote) {
        prctl(PR_SET_NAME, zygote->name, 0, 0, 0);
}
