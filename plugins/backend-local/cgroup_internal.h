/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the cgroup code share: the manager, one cgroup, the two versions' operations, control files. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "cgroup.h"

#define CGROUP_ORIGIN "backend-local"

/* What a hierarchy can do for a guest. */
#define CGROUP_MEMORY (1u << 0)
#define CGROUP_PIDS (1u << 1)
#define CGROUP_CPU (1u << 2)
#define CGROUP_ACCOUNT (1u << 3) /* counts CPU time */
#define CGROUP_LIMITS (CGROUP_MEMORY | CGROUP_PIDS | CGROUP_CPU)

#define CGROUP_NAME_MAX 96

/* A hierarchy (v2: the only one; v1: one for each set of controllers), open at the directory where guests go. */
struct cgroup_tree {
        int fd;
        unsigned controllers; /* CGROUP_* bits that it serves */
        char *path;           /* of `fd`, for messages */
};

struct sbx_cgroup {
        struct sbx_cgroup_manager *manager;
        struct sbx_cgroup *next;    /* in one of the manager's lists */
        char name[CGROUP_NAME_MAX]; /* of its directory in every tree */
        struct cgroup_limits limits; /* what the control files hold now; 0: unlimited */
        uint64_t cpu_ns_before, oom_kills_before; /* the counters at cgroup_create: the kernel never resets them */
        bool used;     /* counters are not at zero */
        unsigned rejections; /* how often it was found unclean */
        bool admitted; /* its cgroup.procs belongs to the manager's admitted_uid */
        int peak_fd; /* v2, Linux 6.12: memory.peak, whose reset holds for this descriptor alone; else -1 */
};

struct cgroup_ops {
        const char *kind;
        enum cgroup_entry_kind entry_kind;
        const char *entry_file; /* of the cgroup's directory; NULL: the directory itself */
        const char *kill_file;  /* writing "1" kills all; NULL: there is none */
        /* With the first cgroup made: takes controllers without the needed files from `m->controllers`. */
        void (*inspect)(struct sbx_cgroup_manager *m, struct sbx_cgroup *c);
        /* Resets or notes the counters of a clean cgroup. -EBUSY: not clean (any more). */
        int (*reset)(struct sbx_cgroup *c);
        /* Sets each limit that differs from `c->limits`, 0 being unlimited. `*ret_file` names what failed. */
        int (*limit)(struct sbx_cgroup *c, const struct cgroup_limits *limits, const char **ret_file);
        void (*usage)(struct sbx_cgroup *c, struct sbx_guest_usage *usage);
        /* How often the memory limit has killed, ever. -ENODATA: the kernel doesn't tell. */
        int (*oom_kills)(struct sbx_cgroup *c, uint64_t *ret);
        /* Makes the kernel forget cached pages that are charged to it. */
        void (*reclaim)(struct sbx_cgroup *c);
        /* Goes back to the cgroup that this process came from, and undoes what was set up. May be NULL. */
        void (*leave)(struct sbx_cgroup_manager *m);
};

struct sbx_cgroup_manager {
        const struct cgroup_ops *ops; /* NULL: kind "none" */
        struct cgroup_tree trees[CGROUP_ENTRY_MAX];
        int tree_count;
        unsigned controllers; /* of all trees together */
        bool swap_limited;    /* the memory limit holds for swap too, or there can be no swap */
        bool reusable;        /* counters of a used cgroup can start anew */
        char owner[CGROUP_NAME_MAX / 2]; /* "sbx-PIDNS.PID.START": how this process's names begin */
        char reason[256];                /* why a controller can't be used */
        char remedy[SBX_ERROR_HINT_MAX];

        bool admitted; /* see cgroup_manager_admit */
        uid_t admitted_uid, procs_uid;
        bool moved;       /* v2: this process went to a leaf of the cgroup that it was in */
        unsigned enabled; /* v2: controllers that it enabled for children */

        pthread_mutex_t lock; /* protects what follows, and `limits` of cgroups in use */
        uint64_t next_number;
        struct sbx_cgroup *cached; /* clean ones, oldest first */
        struct sbx_cgroup **cached_tail;
        unsigned cached_count;
        struct sbx_cgroup *doomed; /* to be removed, but the kernel was not ready */
};

/* ---- cgroup_file.c: control files */

/* The whole file as a string with a NUL, to be freed. -EFBIG beyond `maximum`. */
int cgroup_read_text(int dir_fd, const char *path, size_t maximum, char **ret, size_t *ret_size);
/* One write of a control file. */
int cgroup_write_text(int dir_fd, const char *path, const char *text);
int cgroup_write_u64(int dir_fd, const char *path, uint64_t value);
/* A file that holds one number. -EINVAL: it holds something else ("max"). */
int cgroup_read_u64(int dir_fd, const char *path, uint64_t *ret);
/* The number after `key` and a space, at the start of a line ("oom_kill 3"). -ENODATA: no such line. */
int cgroup_read_key(int dir_fd, const char *path, const char *key, uint64_t *ret);
/* "<name>/<file>": control files are opened relative to the tree, so that a cgroup costs no descriptor. */
struct cgroup_path {
        char text[CGROUP_NAME_MAX + 64];
};
struct cgroup_path cgroup_path(const struct sbx_cgroup *c, const char *file);
bool cgroup_exists(const struct sbx_cgroup *c, const struct cgroup_tree *tree, const char *file);
/* The tree that serves `controller`, NULL if none does. */
const struct cgroup_tree *cgroup_tree_of(const struct sbx_cgroup_manager *m, unsigned controller);
bool cgroup_parse_u64(const char *text, uint64_t *ret, const char **ret_end);
/* Whether a list of words divided by `divider` (and ended by a newline) holds `word`. */
bool cgroup_has_word(const char *list, char divider, const char *word);

/* ---- cgroup_mount.c: where this process's cgroup is */

/* The directory of this process's own cgroup in the hierarchy of `controller` (v1) or of version 2 (NULL), looked up
 * in /proc/self/cgroup and /proc/self/mountinfo. -ENOENT: there is none, or it is mounted nowhere. */
int cgroup_own_directory(const char *controller, char **ret_path);

/* ---- cgroup_name.c, cgroup_kill.c */

int cgroup_make_owner(struct sbx_cgroup_manager *m); /* fills `owner` */
/* Removes the empty cgroups of servers that are gone; touches no other. */
void cgroup_reap(const struct sbx_cgroup_manager *m);
/* No process is in it; those that are dead and not yet waited for don't count. */
bool cgroup_is_empty(const struct sbx_cgroup *c);

/* ---- cgroup_v1.c, cgroup_v2.c: fill trees, controllers, ops; -ENOTSUP with `reason` and `remedy` set. `base` is NULL
 * for v1. */
int cgroup_v1_find(struct sbx_cgroup_manager *m);
int cgroup_v2_find(struct sbx_cgroup_manager *m, const char *base);
/* Takes over `fd`. */
int cgroup_add_tree(struct sbx_cgroup_manager *m, int fd, const char *path, unsigned controllers);

/* ---- cgroup_scope.c */

/* Asks systemd (the user's, or for root the system's) for a delegated scope named `unit` with this process in it, and
 * waits until it is there. -ENOTSUP: no systemd runs; -EPROTO: it refused. */
int cgroup_enter_scope(const char *unit);
