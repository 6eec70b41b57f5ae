/* SPDX-License-Identifier: Apache-2.0 */
/* The zygote's children: sessions, and what sessions made. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "util.h"
#include "zygote.h"

#define LOCKED_ROUNDS 10000 /* of a tenth of a millisecond: on a machine that is very busy */

int children_new(struct children *children, size_t max) {
        size_t size = max * sizeof(struct child);
        struct child *list =
                mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (list == MAP_FAILED)
                return -ENOMEM;
        /* Of the others no session knows anything. */
        if (madvise(list, size, MADV_DONTFORK) < 0)
                return -errno;
        *children = (struct children){.list = list, .max = max};
        return 0;
}

struct child *children_find(const struct children *children, uint64_t id) {
        for (size_t i = 0; i < children->count; i++)
                if (children->list[i].id == id)
                        return &children->list[i];
        return NULL;
}

static struct child *find_living(const struct children *children, pid_t pid) {
        for (size_t i = 0; i < children->count; i++)
                if (children->list[i].pid == pid && !children->list[i].dead)
                        return &children->list[i];
        return NULL;
}

struct child *children_add(struct children *children, uint64_t id, pid_t pid) {
        struct child *child;

        if (children->count == children->max || children_find(children, id) != NULL)
                return NULL;
        child = &children->list[children->count++];
        *child = (struct child){.id = id, .pid = pid, .code = INT32_MIN};
        return child;
}

static uint64_t used_ns(const struct rusage *usage) {
        return ((uint64_t)usage->ru_utime.tv_sec + (uint64_t)usage->ru_stime.tv_sec) * UINT64_C(1000000000) +
               ((uint64_t)usage->ru_utime.tv_usec + (uint64_t)usage->ru_stime.tv_usec) * 1000;
}

void children_reap(struct children *children) {
        struct rusage usage;
        int status;
        pid_t pid;

        while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
                struct child *child = find_living(children, pid);

                if (child == NULL) /* a copy that nobody adopted */
                        continue;
                /* Only the zygote makes groups: this one is the dead session's, or gone. */
                kill(-pid, SIGKILL);
                child->dead = true;
                child->code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
                child->cpu_ns = used_ns(&usage);
        }
}

void children_release(struct children *children, uint64_t id) {
        struct child *child = children_find(children, id);

        if (child == NULL)
                return;
        if (!child->dead) {
                kill(child->pid, SIGKILL);
                kill(-child->pid, SIGKILL);
        }
        *child = children->list[--children->count];
}

/* A session takes the right away from itself before it does anything else: it must have. */
static int await_locked(const struct child *child) {
        static const struct timespec pause = {0, 100000};

        for (int i = 0; i < LOCKED_ROUNDS; i++) {
                int r = jail_limits_allowed(child->pid);

                if (r <= 0)
                        return r;
                clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        }
        return -ETIMEDOUT;
}

int children_permit(struct children *children, uint64_t id) {
        struct child *child = children_find(children, id);
        int r;

        if (child == NULL || child->dead)
                return -ESRCH;
        if (child->permitted)
                return 0;
        r = await_locked(child);
        if (r == 0)
                r = jail_limits_allow(child->pid, true);
        child->permitted = r == 0;
        return r;
}

/* A session's word: believed only of what is in its own group, and was not told of before. */
static bool is_copy_of(const struct children *children, const struct child *parent, pid_t pid) {
        return pid > 1 && pid != parent->pid && getpgid(pid) == parent->pid && find_living(children, pid) == NULL;
}

int children_adopt(struct children *children, uint64_t parent_id, uint64_t id, pid_t pid) {
        struct child *parent = children_find(children, parent_id);

        if (parent == NULL || parent->dead)
                return -EPERM;
        parent->permitted = false;
        if (jail_limits_allow(parent->pid, false) < 0 || !is_copy_of(children, parent, pid))
                return -EPERM;
        if (children_find(children, id) != NULL)
                return -EEXIST;
        if (jail_limits_allow(pid, false) < 0 || setpgid(pid, pid) < 0)
                return -EPERM;
        return children_add(children, id, pid) != NULL ? 0 : -EAGAIN;
}
