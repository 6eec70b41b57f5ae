/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the zygote library share. */
#pragma once

#include <stdbool.h>

#include "jail.h"
#include "protocol.h"

struct zygote_guest {
        uint64_t id;
        pid_t pid;
        bool reaped;
        int code;      /* once reaped: 0..255, or -signal */
        char *scratch; /* its directory; NULL: none */
};

struct zygote {
        struct jail_config config;
        /* Network, ipc and uts namespaces for the next guest are made ahead, because making them takes longer than all
         * else: the zygote enters new ones, the guest is cloned in them, the zygote moves on to the next. */
        bool fresh;                           /* nobody but the zygote was ever in the ones that it is in */
        struct jail_namespaces current, used; /* used: the last guest's network, ipc and uts; the zygote's others */
        char *preload;                        /* names joined by ',' */
        bool announced;                       /* the server knows that requests are read */
        bool settled;                         /* the modules of `preload` are imported, or never will be */
        bool spawned;                         /* there was a guest */
        struct sbx_error broken;              /* code not 0: why there can be no more guests */

        struct zygote_guest *guests;
        size_t guest_count, guest_capacity;

        int *tid_address;  /* where the C library keeps this thread's id */
        void *robust_list; /* of futexes, which a raw clone would forget */
        size_t robust_list_size;
        void (*before_fork)(void); /* PyOS_BeforeFork, ... */
        void (*after_fork_parent)(void);
        void (*after_fork_child)(void);

        /* In a guest. */
        uint32_t runtime; /* enum local_runtime */
        uint64_t memory_bytes;
        char scratch[ZYGOTE_SCRATCH_MAX]; /* without a mount namespace */
        char name[16];                    /* of its process, as the kernel shows it */
};

/* What a guest has open. */
#define GUEST_CONTROL_FD 3
#define GUEST_REPORT_FD 4
#define GUEST_COPIES_FD 5
#define GUEST_IMAGE_FD 6

/* ---- zygote_clone.c */

struct zygote_spawn {
        const struct zygote_request *request;
        int fds[ZYGOTE_FDS_MAX]; /* control, stdout, stderr, report, copies, cgroup entry */
        int fd_count;
        int image_fd; /* -1: none */
};
/* In the zygote: 1, `*ret_pid` and `*ret_pidfd`, or a negative errno. In the guest: 0, after locking down; on a
 * failure there it reports and exits. */
int zygote_clone(struct zygote *zygote, const struct zygote_spawn *spawn, pid_t *ret_pid, int *ret_pidfd,
                 struct sbx_error *err);

/* New network, ipc and uts namespaces for the next guest, unless the present ones are fresh. -ENOTSUP. */
int zygote_freshen(struct zygote *zygote, struct sbx_error *err);

/* ---- zygote_orphans.c */

/* Kills and reaps every child of this process that is no living guest, and their children in turn. */
void zygote_kill_orphans(const struct zygote *zygote);
