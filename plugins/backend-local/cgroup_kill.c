/* SPDX-License-Identifier: Apache-2.0 */
/* Kills every process of a cgroup: at once where the kernel can (v2, Linux 5.14), else round by round. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cgroup_internal.h"

#define PROCS_TEXT_MAX (1u << 20)
#define PAUSE_NS 500000
#define KILL_ROUNDS 4000 /* two seconds */

/* Whether `pid` stands on a line of `text`. */
static bool lists_pid(const char *text, uint64_t pid) {
        while (text != NULL) {
                uint64_t value;

                text += *text == '\n';
                if (cgroup_parse_u64(text, &value, NULL) && value == pid)
                        return true;
                text = strchr(text, '\n');
        }
        return false;
}

/* Kills one process through a descriptor that was open before it was seen (again) in the cgroup: a pid that was used
 * anew in between is not hit. */
static void kill_listed(int tree_fd, const char *procs, uint64_t pid) {
        int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
        char *again = NULL;
        size_t size;

        if (pidfd < 0)
                return;
        if (cgroup_read_text(tree_fd, procs, PROCS_TEXT_MAX, &again, &size) == 0 && lists_pid(again, pid))
                syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
        free(again);
        close(pidfd);
}

/* Sends SIGKILL to all in one tree. True: it was empty. */
static bool kill_round(const struct cgroup_tree *tree, const struct sbx_cgroup *c) {
        struct cgroup_path procs = cgroup_path(c, "cgroup.procs");
        char *text = NULL;
        bool empty = true;
        size_t size;

        if (cgroup_read_text(tree->fd, procs.text, PROCS_TEXT_MAX, &text, &size) < 0)
                return true; /* gone */
        for (const char *p = text; p != NULL; p = strchr(p, '\n')) {
                uint64_t pid;

                p += *p == '\n';
                if (!cgroup_parse_u64(p, &pid, NULL))
                        break;
                empty = false;
                if (pid != 0) /* 0: of a pid namespace that isn't below ours */
                        kill_listed(tree->fd, procs.text, pid);
        }
        free(text);
        return empty;
}

int cgroup_pids(const struct sbx_cgroup *c, pid_t **ret_pids, size_t *ret_count) {
        const struct sbx_cgroup_manager *m = c->manager;
        pid_t *pids = NULL;
        char *text = NULL;
        size_t size = 0, count = 0;
        int r = m->ops == NULL ? -ENOTSUP
                               : cgroup_read_text(m->trees[0].fd, cgroup_path(c, "cgroup.procs").text, PROCS_TEXT_MAX,
                                                  &text, &size);

        if (r < 0)
                return r;
        pids = calloc(size / 2 + 1, sizeof(*pids)); /* a line has a digit and an end */
        for (const char *p = text; pids != NULL && p != NULL; p = strchr(p, '\n')) {
                uint64_t pid;

                p += *p == '\n';
                if (!cgroup_parse_u64(p, &pid, NULL))
                        break;
                pids[count++] = (pid_t)pid;
        }
        free(text);
        if (pids == NULL)
                return -ENOMEM;
        *ret_pids = pids;
        *ret_count = count;
        return 0;
}

bool cgroup_is_empty(const struct sbx_cgroup *c) {
        for (int i = 0; i < c->manager->tree_count; i++) {
                char *text = NULL;
                size_t size = 0;
                int r = cgroup_read_text(c->manager->trees[i].fd, cgroup_path(c, "cgroup.procs").text, PROCS_TEXT_MAX,
                                         &text, &size);

                free(text);
                if (r == -EFBIG || (r == 0 && size > 0))
                        return false;
        }
        return true;
}

/* Nothing can multiply while it is being killed. */
static void forbid_forks(struct sbx_cgroup *c) {
        struct sbx_cgroup_manager *m = c->manager;
        const struct cgroup_tree *pids = cgroup_tree_of(m, CGROUP_PIDS);

        if (pids == NULL || (m->controllers & CGROUP_PIDS) == 0)
                return;
        pthread_mutex_lock(&m->lock);
        if (cgroup_write_text(pids->fd, cgroup_path(c, "pids.max").text, "0") == 0)
                c->limits.pids_max = UINT32_MAX; /* what no one asks for: the next limit is written whatever it is */
        pthread_mutex_unlock(&m->lock);
}

void cgroup_kill(struct sbx_cgroup *c) {
        const struct sbx_cgroup_manager *m = c->manager;
        struct timespec pause = {.tv_nsec = PAUSE_NS};
        bool at_once;

        if (m->ops == NULL || cgroup_is_empty(c))
                return;
        at_once = m->ops->kill_file != NULL &&
                  cgroup_write_text(m->trees[0].fd, cgroup_path(c, m->ops->kill_file).text, "1") == 0;
        if (!at_once)
                forbid_forks(c);
        for (int i = 0; i < KILL_ROUNDS; i++) {
                bool empty = true;

                for (int t = 0; t < m->tree_count && !at_once; t++)
                        empty &= kill_round(&m->trees[t], c);
                if (at_once ? cgroup_is_empty(c) : empty)
                        return;
                nanosleep(&pause, NULL);
        }
}
