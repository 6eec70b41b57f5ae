/* SPDX-License-Identifier: Apache-2.0 */
/* The zygote's children: sessions, and what sessions made. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "util.h"
#include "zygote.h"

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
                if (children->list[i].pid == pid && children->list[i].dead == 0)
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
                child->dead = 1;
                child->code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
                child->cpu_ns = used_ns(&usage);
        }
}

void children_release(struct children *children, uint64_t id) {
        struct child *child = children_find(children, id);

        if (child == NULL)
                return;
        if (child->dead == 0) {
                kill(child->pid, SIGKILL);
                kill(-child->pid, SIGKILL);
        }
        *child = children->list[--children->count];
}

int children_permit(struct children *children, uint64_t id) {
        const struct child *child = children_find(children, id);

        if (child == NULL || child->dead != 0)
                return -ESRCH;
        return jail_limits_processes(child->pid, true);
}

/* A session's word: believed only of what is in its own group, and was not told of before. */
static bool is_copy_of(const struct children *children, const struct child *parent, pid_t pid) {
        return pid > 1 && pid != parent->pid && getpgid(pid) == parent->pid && find_living(children, pid) == NULL;
}

int children_adopt(struct children *children, uint64_t parent_id, uint64_t id, pid_t pid) {
        const struct child *parent = children_find(children, parent_id);

        if (parent == NULL || parent->dead != 0)
                return -EPERM;
        if (jail_limits_processes(parent->pid, false) < 0 || !is_copy_of(children, parent, pid))
                return -EPERM;
        if (children_find(children, id) != NULL)
                return -EEXIST;
        if (jail_limits_processes(pid, false) < 0 || setpgid(pid, pid) < 0)
                return -EPERM;
        return children_add(children, id, pid) != NULL ? 0 : -EAGAIN;
}
