/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroups of guests, whatever the version: the manager, and the making, reuse and removal of cgroups. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup_internal.h"

#define CACHE_MAX 32
#define CACHE_TRIES 4 /* how many cached ones are looked at before a new one is made */
#define REJECTIONS_MAX 16

/* ---- trees ---------------------------------------------------------------------------------------------- */

int cgroup_add_tree(struct sbx_cgroup_manager *m, int fd, const char *path, unsigned controllers) {
        struct cgroup_tree *tree = &m->trees[m->tree_count];
        char *copy = strdup(path);

        if (copy == NULL || m->tree_count == CGROUP_ENTRY_MAX) {
                free(copy);
                close(fd);
                return copy == NULL ? -ENOMEM : -E2BIG;
        }
        *tree = (struct cgroup_tree){.fd = fd, .controllers = controllers, .path = copy};
        m->tree_count++;
        m->controllers |= controllers;
        return 0;
}

static void drop_tree(struct sbx_cgroup_manager *m, int index) {
        m->controllers &= ~m->trees[index].controllers;
        close(m->trees[index].fd);
        free(m->trees[index].path);
        m->tree_count--;
        memmove(&m->trees[index], &m->trees[index + 1],
                sizeof(m->trees[0]) * (size_t)(m->tree_count - index));
}

/* ---- one cgroup: its directories ------------------------------------------------------------------------ */

static void free_cgroup(struct sbx_cgroup *c) {
        if (c->peak_fd >= 0)
                close(c->peak_fd);
        free(c);
}

/* 0, or the first error; -EBUSY means that the kernel isn't through with the dead yet. */
static int remove_directories(struct sbx_cgroup *c) {
        int r = 0;

        for (int i = 0; i < c->manager->tree_count; i++)
                if (unlinkat(c->manager->trees[i].fd, c->name, AT_REMOVEDIR) < 0 && errno != ENOENT && r == 0)
                        r = -errno;
        return r;
}

/* Removes it now, or when the manager next makes or removes one. */
static void discard(struct sbx_cgroup *c) {
        struct sbx_cgroup_manager *m = c->manager;

        if (remove_directories(c) == 0) {
                free_cgroup(c);
                return;
        }
        pthread_mutex_lock(&m->lock);
        c->next = m->doomed;
        m->doomed = c;
        pthread_mutex_unlock(&m->lock);
}

static void discard_doomed(struct sbx_cgroup_manager *m) {
        struct sbx_cgroup *list, *next;

        pthread_mutex_lock(&m->lock);
        list = m->doomed;
        m->doomed = NULL;
        pthread_mutex_unlock(&m->lock);
        for (; list != NULL; list = next) {
                next = list->next;
                discard(list);
        }
}

/* mkdir in every tree; -EEXIST when another instance of this process took the name. */
static int make_directories(struct sbx_cgroup *c, int *ret_failed) {
        const struct sbx_cgroup_manager *m = c->manager;

        for (int i = 0; i < m->tree_count; i++)
                if (mkdirat(m->trees[i].fd, c->name, 0755) < 0) {
                        int code = -errno;

                        *ret_failed = i;
                        while (i-- > 0)
                                unlinkat(m->trees[i].fd, c->name, AT_REMOVEDIR);
                        return code;
                }
        return 0;
}

static int make_cgroup(struct sbx_cgroup_manager *m, struct sbx_cgroup **ret, int *ret_failed) {
        struct sbx_cgroup *c = calloc(1, sizeof(*c));
        int r;

        if (c == NULL)
                return -ENOMEM;
        c->manager = m;
        c->peak_fd = -1;
        do {
                uint64_t number;

                pthread_mutex_lock(&m->lock);
                number = m->next_number++;
                pthread_mutex_unlock(&m->lock);
                snprintf(c->name, sizeof(c->name), "%s-%" PRIu64, m->owner, number);
                r = make_directories(c, ret_failed);
        } while (r == -EEXIST);
        if (r < 0) {
                free(c);
                return r;
        }
        *ret = c;
        return 0;
}

/* ---- the manager ---------------------------------------------------------------------------------------- */

static void push_cached(struct sbx_cgroup_manager *m, struct sbx_cgroup *c) {
        c->next = NULL;
        *m->cached_tail = c;
        m->cached_tail = &c->next;
        m->cached_count++;
}

static struct sbx_cgroup *pop_cached(struct sbx_cgroup_manager *m) {
        struct sbx_cgroup *c = m->cached;

        if (c == NULL)
                return NULL;
        m->cached = c->next;
        if (m->cached == NULL)
                m->cached_tail = &m->cached;
        m->cached_count--;
        c->next = NULL;
        return c;
}

static void explain_no_rights(struct sbx_cgroup_manager *m, int index, int code) {
        snprintf(m->reason, sizeof(m->reason), "can't make a cgroup in %s: %s", m->trees[index].path, strerror(-code));
}

/* Makes the first cgroup: the proof that this process may. A v1 tree that refuses is left out. */
static int try_out(struct sbx_cgroup_manager *m) {
        struct sbx_cgroup *first = NULL;
        int r, failed = -1;

        while ((r = make_cgroup(m, &first, &failed)) < 0 && r != -ENOMEM && failed >= 0 && m->tree_count > 0) {
                explain_no_rights(m, failed, r);
                drop_tree(m, failed);
                failed = -1;
                if ((m->controllers & CGROUP_LIMITS) == 0)
                        return -ENOTSUP;
        }
        if (r < 0)
                return r;
        m->ops->inspect(m, first);
        push_cached(m, first);
        return (m->controllers & CGROUP_LIMITS) != 0 ? 0 : -ENOTSUP;
}

/* Version 1 if it holds any of the controllers (a controller is in one version at a time), else version 2. */
static int find(struct sbx_cgroup_manager *m, const char *base) {
        int r = base == NULL ? cgroup_v1_find(m) : -ENOTSUP;

        if (r == -ENOTSUP)
                r = cgroup_v2_find(m, base);
        if (r == 0) {
                cgroup_reap(m);
                r = try_out(m);
        }
        return r;
}

static void empty_lists(struct sbx_cgroup_manager *m) {
        struct sbx_cgroup *c;

        while ((c = pop_cached(m)) != NULL)
                discard(c);
        for (int i = 0; i < 200 && m->doomed != NULL; i++) {
                discard_doomed(m);
                if (m->doomed != NULL)
                        usleep(5000);
        }
        while ((c = m->doomed) != NULL) { /* a later server will */
                m->doomed = c->next;
                free_cgroup(c);
        }
}

/* Kind "none": nothing is held any more, but reason and remedy. */
static void shut(struct sbx_cgroup_manager *m) {
        if (m->ops != NULL) {
                empty_lists(m);
                if (m->admitted)
                        fchownat(m->trees[0].fd, "cgroup.procs", m->procs_uid, (gid_t)-1, 0);
                if (m->ops->leave != NULL && m->tree_count > 0)
                        m->ops->leave(m);
        }
        while (m->tree_count > 0)
                drop_tree(m, m->tree_count - 1);
        m->ops = NULL;
}

static bool all_there(const struct sbx_cgroup_manager *m) {
        return (m->controllers & CGROUP_LIMITS) == CGROUP_LIMITS;
}

static int set_up(struct sbx_cgroup_manager *m, const char *mode, const char *base, struct sbx_error *err) {
        bool required = strcmp(mode, "required") == 0;
        char hint[SBX_ERROR_HINT_MAX + 128];
        int r;

        if (!required && strcmp(mode, "auto") != 0 && strcmp(mode, "off") != 0)
                return sbx_error_set(err, -EINVAL, CGROUP_ORIGIN, "Use required, auto or off.",
                                     "\"%s\" is no way to use cgroups", mode);
        if (strcmp(mode, "off") == 0) {
                snprintf(m->reason, sizeof(m->reason), "switched off in the configuration");
                return 0;
        }
        r = cgroup_make_owner(m);
        if (r == 0)
                r = find(m, base);
        if (r < 0)
                shut(m);
        if (r == -ENOMEM)
                return sbx_error_set(err, r, CGROUP_ORIGIN, NULL, "out of memory");
        if (r < 0 && m->reason[0] == '\0')
                snprintf(m->reason, sizeof(m->reason), "%s", strerror(-r));
        if (r < 0 && base != NULL)
                return sbx_error_set(err, -EINVAL, CGROUP_ORIGIN, m->remedy, "can't put guests into cgroup %s: %s", base,
                                     m->reason);
        if (required && !all_there(m)) {
                snprintf(hint, sizeof(hint), "%s. Or be content with limits of each process: cgroup = \"auto\" for this "
                         "backend (--set local.cgroup=auto)", m->remedy);
                return sbx_error_set(err, -ENOTSUP, CGROUP_ORIGIN, hint,
                                     "cgroups can't limit the memory, processes and CPU of a guest here: %s", m->reason);
        }
        return 0;
}

int cgroup_manager_new(const char *mode, const char *base, struct sbx_cgroup_manager **ret, struct sbx_error *err) {
        struct sbx_cgroup_manager *m = calloc(1, sizeof(*m));
        int r;

        if (m == NULL)
                return sbx_error_set(err, -ENOMEM, CGROUP_ORIGIN, NULL, "out of memory");
        m->cached_tail = &m->cached;
        pthread_mutex_init(&m->lock, NULL);
        r = set_up(m, mode, base, err);
        if (r < 0) {
                cgroup_manager_free(m);
                return r;
        }
        *ret = m;
        return 0;
}

void cgroup_manager_free(struct sbx_cgroup_manager *m) {
        if (m == NULL)
                return;
        shut(m);
        pthread_mutex_destroy(&m->lock);
        free(m);
}

const char *cgroup_manager_kind(const struct sbx_cgroup_manager *m) {
        return m->ops != NULL ? m->ops->kind : "none";
}

int cgroup_manager_admit(struct sbx_cgroup_manager *m, uid_t uid, struct sbx_error *err) {
        struct stat st;

        if (m->ops == NULL || m->ops->entry_kind != CGROUP_ENTRY_CLONE)
                return 0;
        /* The kernel asks whether the one who clones may write to cgroup.procs of both and of their parent. */
        if (fstatat(m->trees[0].fd, "cgroup.procs", &st, 0) < 0 || fchownat(m->trees[0].fd, "cgroup.procs", uid, (gid_t)-1, 0) < 0)
                return sbx_error_set(err, -errno, CGROUP_ORIGIN, NULL, "can't give cgroup.procs of %s to user %u: %s",
                                     m->trees[0].path, uid, strerror(errno));
        if (!m->admitted)
                m->procs_uid = st.st_uid;
        m->admitted = true;
        m->admitted_uid = uid;
        return 0;
}

/* ---- one cgroup: its life ------------------------------------------------------------------------------- */

static int set_limits(struct sbx_cgroup *c, const struct cgroup_limits *limits, struct sbx_error *err) {
        const char *file = "?";
        int r = c->manager->ops->limit(c, limits, &file);

        if (r < 0)
                return sbx_error_set(err, r, CGROUP_ORIGIN,
                                     r == -EBUSY ? "The guest uses more than that already; try a larger limit." : NULL,
                                     "can't set %s of a guest's cgroup: %s", file, strerror(-r));
        return 0;
}

/* A clean one from the cache; NULL when there is none. The kernel takes its time with the dead and with what they had
 * mounted, so one that isn't clean yet goes to the end of the queue; one that stays so holds somebody's page cache, and
 * is thrown away. */
static struct sbx_cgroup *take_cached(struct sbx_cgroup_manager *m) {
        for (int i = 0; i < CACHE_TRIES; i++) {
                struct sbx_cgroup *c;
                int r;

                pthread_mutex_lock(&m->lock);
                c = pop_cached(m);
                pthread_mutex_unlock(&m->lock);
                if (c == NULL)
                        return NULL;
                r = c->used ? m->ops->reset(c) : 0;
                if (r == 0)
                        return c;
                if (r == -EBUSY && ++c->rejections <= REJECTIONS_MAX) {
                        pthread_mutex_lock(&m->lock);
                        push_cached(m, c);
                        pthread_mutex_unlock(&m->lock);
                } else {
                        if (r == -EBUSY)
                                m->ops->reclaim(c);
                        discard(c);
                }
        }
        return NULL;
}

static int create_error(struct sbx_cgroup_manager *m, const char *label, int r, struct sbx_error *err) {
        if (r == -ENOSPC || r == -EAGAIN)
                return sbx_error_set(err, -EAGAIN, CGROUP_ORIGIN, "End some sessions, or lower max_sessions.",
                                     "the kernel allows no more cgroups (guest %s)", label);
        return sbx_error_set(err, r, CGROUP_ORIGIN, NULL, "can't make a cgroup for guest %s in %s: %s", label,
                             m->tree_count > 0 ? m->trees[0].path : "?", strerror(-r));
}

static int take_new(struct sbx_cgroup_manager *m, const char *label, struct sbx_cgroup **ret, struct sbx_error *err) {
        struct sbx_cgroup *c = NULL;
        int failed, r = make_cgroup(m, &c, &failed);

        if (r < 0)
                return create_error(m, label, r, err);
        *ret = c;
        return 0;
}

/* A cgroup of kind "none": nothing but a handle. */
static int make_empty(struct sbx_cgroup_manager *m, struct sbx_cgroup **ret, struct sbx_error *err) {
        struct sbx_cgroup *c = calloc(1, sizeof(*c));

        if (c == NULL)
                return sbx_error_set(err, -ENOMEM, CGROUP_ORIGIN, NULL, "out of memory");
        c->manager = m;
        c->peak_fd = -1;
        *ret = c;
        return 0;
}

static int admit_to(struct sbx_cgroup *c, struct sbx_error *err) {
        const struct sbx_cgroup_manager *m = c->manager;

        if (!m->admitted || c->admitted)
                return 0;
        if (fchownat(m->trees[0].fd, cgroup_path(c, "cgroup.procs").text, m->admitted_uid, (gid_t)-1, 0) < 0)
                return sbx_error_set(err, -errno, CGROUP_ORIGIN, NULL, "can't give a guest's cgroup.procs to user %u: %s",
                                     m->admitted_uid, strerror(errno));
        c->admitted = true;
        return 0;
}

int cgroup_create(struct sbx_cgroup_manager *m, const char *label, const struct cgroup_limits *limits,
                  struct sbx_cgroup **ret, struct sbx_error *err) {
        struct sbx_cgroup *c;
        int r = 0;

        if (m->ops == NULL)
                return make_empty(m, ret, err);
        discard_doomed(m);
        c = take_cached(m);
        if (c == NULL && (r = take_new(m, label, &c, err)) < 0)
                return r;
        r = set_limits(c, limits, err);
        if (r == 0)
                r = admit_to(c, err);
        if (r < 0) {
                discard(c);
                return r;
        }
        c->used = true;
        c->rejections = 0;
        *ret = c;
        return 0;
}

int cgroup_attach(struct sbx_cgroup *c, pid_t pid, struct sbx_error *err) {
        const struct sbx_cgroup_manager *m = c->manager;

        for (int i = 0; i < m->tree_count; i++) {
                int r = cgroup_write_u64(m->trees[i].fd, cgroup_path(c, "cgroup.procs").text, (uint64_t)pid);

                if (r < 0)
                        return sbx_error_set(err, r, CGROUP_ORIGIN, NULL, "can't move process %d into its cgroup in %s: %s",
                                             pid, m->trees[i].path, strerror(-r));
        }
        return 0;
}

int cgroup_entry_open(struct sbx_cgroup *c, struct cgroup_entry *ret, struct sbx_error *err) {
        const struct sbx_cgroup_manager *m = c->manager;
        struct cgroup_entry entry = {.kind = m->ops != NULL ? m->ops->entry_kind : CGROUP_ENTRY_NONE};

        for (int i = 0; i < m->tree_count; i++) {
                const char *file = m->ops->entry_file;
                int fd = file != NULL ? openat(m->trees[i].fd, cgroup_path(c, file).text, O_WRONLY | O_CLOEXEC)
                                      : openat(m->trees[i].fd, c->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

                if (fd < 0) {
                        int code = -errno;

                        cgroup_entry_close(&entry);
                        return sbx_error_set(err, code, CGROUP_ORIGIN, NULL, "can't open a guest's cgroup in %s: %s",
                                             m->trees[i].path, strerror(-code));
                }
                entry.fds[entry.count++] = fd;
        }
        *ret = entry;
        return 0;
}

void cgroup_entry_close(struct cgroup_entry *entry) {
        while (entry->count > 0)
                close(entry->fds[--entry->count]);
        entry->kind = CGROUP_ENTRY_NONE;
}

int cgroup_limit(struct sbx_cgroup *c, const struct cgroup_limits *limits, struct sbx_error *err) {
        struct cgroup_limits merged;
        int r;

        if (c->manager->ops == NULL)
                return 0;
        pthread_mutex_lock(&c->manager->lock);
        merged = c->limits;
        if (limits->memory_bytes != 0)
                merged.memory_bytes = limits->memory_bytes;
        if (limits->pids_max != 0)
                merged.pids_max = limits->pids_max;
        if (limits->cpu_percent != 0)
                merged.cpu_percent = limits->cpu_percent;
        r = set_limits(c, &merged, err);
        pthread_mutex_unlock(&c->manager->lock);
        return r;
}

int cgroup_usage(struct sbx_cgroup *c, struct sbx_guest_usage *usage) {
        if (c->manager->ops != NULL)
                c->manager->ops->usage(c, usage);
        return 0;
}

void cgroup_forgive(struct sbx_cgroup *c) {
        uint64_t kills;

        if (c->manager->ops != NULL && (c->manager->controllers & CGROUP_MEMORY) != 0 &&
            c->manager->ops->oom_kills(c, &kills) == 0)
                c->oom_kills_before = kills;
}

void cgroup_release(struct sbx_cgroup *c) {
        struct sbx_cgroup_manager *m;
        bool kept = false;

        if (c == NULL)
                return;
        m = c->manager;
        if (m->ops == NULL) {
                free_cgroup(c);
                return;
        }
        cgroup_kill(c);
        if (m->reusable && cgroup_is_empty(c)) {
                pthread_mutex_lock(&m->lock);
                kept = m->cached_count < CACHE_MAX;
                if (kept)
                        push_cached(m, c);
                pthread_mutex_unlock(&m->lock);
        }
        if (!kept)
                discard(c);
}

/* ---- report --------------------------------------------------------------------------------------------- */

struct layer_sink {
        const struct sbx_cgroup_manager *m;
        void (*layer)(void *data, const char *name, const char *state, const char *detail);
        void *data;
};

SBX_PRINTF(5, 6)
static void describe_one(const struct layer_sink *sink, unsigned controller, const char *name, bool limited,
                         const char *format, ...) {
        char detail[320] = "";
        va_list args;

        if ((sink->m->controllers & controller) == 0 || sink->m->ops == NULL) {
                sink->layer(sink->data, name, "unavailable", sink->m->reason);
                return;
        }
        if (!limited) {
                sink->layer(sink->data, name, "unlimited", "no limit is configured");
                return;
        }
        va_start(args, format);
        vsnprintf(detail, sizeof(detail), format, args);
        va_end(args);
        sink->layer(sink->data, name, "applied", detail);
}

void cgroup_describe(const struct sbx_cgroup_manager *m,
                     void (*layer)(void *data, const char *name, const char *state, const char *detail), void *data,
                     const struct cgroup_limits *limits) {
        struct layer_sink sink = {.m = m, .layer = layer, .data = data};
        const char *kind = cgroup_manager_kind(m);

        describe_one(&sink, CGROUP_MEMORY, "memory", limits->memory_bytes != 0, "%" PRIu64 " MiB, %s (cgroup %s)",
                     limits->memory_bytes >> 20, m->swap_limited ? "no swap" : "swap not counted", kind);
        describe_one(&sink, CGROUP_PIDS, "pids", limits->pids_max != 0, "%" PRIu32 " processes and threads (cgroup %s)",
                     limits->pids_max, kind);
        describe_one(&sink, CGROUP_CPU, "cpu", limits->cpu_percent != 0, "%" PRIu32 " %% of one CPU (cgroup %s)",
                     limits->cpu_percent, kind);
}
