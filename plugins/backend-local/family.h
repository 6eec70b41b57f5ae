/* SPDX-License-Identifier: Apache-2.0 */
/* Guests that are copies of one another live in one set of namespaces and one cgroup: a family. Most have one member.
 *
 * At most one member runs (foreign code, at the core's requests), the others wait. The family's limits are those of the
 * one that runs, and for each that waits what it may hold of memory that the one that runs has changed since.
 * It ends with its first process; once there was a copy, that one does nothing but bury the dead (zygote_copy.c). */
#pragma once

#include <stdatomic.h>
#include <sys/stat.h>

#include "local.h"

struct family;
struct process_image;

#define FIRST_PROCESS (-1) /* of the family */
#define NO_PROCESS (-2)    /* not yet */

struct local_guest {
        struct family *family;
        int exit_poll; /* an epoll of the process that the guest is; the core has a duplicate. -1: there are no copies
                        */
        int control;   /* a duplicate of what the core has; -1 likewise */
        int copies;    /* to the worker: requests for copies, and their answers; -1 likewise */
        struct process_image *image; /* the last that it wrote; of whoever has the guest to itself */
        atomic_int pidfd;            /* the process that it is, FIRST_PROCESS, NO_PROCESS */

        /* Under the family's lock. */
        struct local_guest *next;
        struct cgroup_limits limits;
        uint64_t kept_bytes; /* while it waits: memory that it may hold for itself */
        pid_t inner_pid;     /* of its process, as the guest says */
        bool waits, killed;
        bool asked;    /* somebody waits for its answer on `copies` */
        int exit_code; /* INT32_MIN: unknown */
};

struct family {
        struct local *local;
        struct zygote_process *zygote;
        struct sbx_cgroup *cgroup;
        struct process_image *origin;     /* what its first process began as; NULL: as nothing */
        struct process_image *images;     /* of its members (process_image.h) */
        uint64_t id;                      /* the zygote's number for it */
        int first_pidfd;                  /* its first process */
        char *report;                     /* of isolation */
        char scratch[ZYGOTE_SCRATCH_MAX]; /* "" with a file tree of its own */

        pthread_mutex_t lock; /* protects what follows */
        struct local_guest *members;
        int deaths;            /* the pipe that the first process tells deaths on; -1: it is a guest itself */
        struct stat namespace; /* of its processes; read with the first copy */
        int oom_score;         /* what the first process has */
        bool cleared;          /* killed, and everything that it left too (no pid namespace) */
};

/* Its first member. NULL: -ENOMEM. */
struct local_guest *family_new(struct local *local);
/* Another member, which waits and is no process yet. NULL: -ENOMEM. */
struct local_guest *family_add(struct family *family);
/* Frees a guest that is dead, and with the last one the family. */
void family_leave(struct local_guest *guest);

/* The process that the guest is now; borrowed. */
int family_pidfd(const struct local_guest *guest);
bool family_is_dead(const struct local_guest *guest);
/* The number of a process, as this process sees it; 0 when it is gone. */
pid_t family_pid_of(int pidfd);

/* Kills the guest, and all that it started; what waits beside it lives on. */
void family_kill(struct local_guest *guest);
/* How the dead guest ended; INT32_MIN: unknown. */
int family_exit_code(struct local_guest *guest);

/* ---- with the lock held */

/* Takes note of those that were told to run since. */
void family_hear_locked(struct family *family);
/* A member that runs foreign code and lives, but for `other`; NULL: there is none. */
struct local_guest *family_runner_locked(const struct family *family, const struct local_guest *other);
/* Sets the limits that its members have now. */
int family_limit_locked(struct family *family, struct sbx_error *err);
/* The kernel ends the one that runs before those that wait. */
void family_rank_locked(const struct local_guest *guest);

/* ---- family_processes.c: by the namespace that processes are in */

/* Opens a process of the family that a guest named. -1: there is none of that number, or it is somebody else's. */
int family_open_process(const struct family *family, pid_t pid);
/* Kills all but the members and the first process. False: there are some after two seconds. */
bool family_kill_strays(struct family *family);

/* ---- guest_fork.c */

int local_guest_fork(void *instance, void *handle, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                     struct sbx_guest *ret_guest, struct sbx_error *err);

/* ---- streams.c: both ends of the streams between server and guest */

enum { STREAM_CONTROL, STREAM_STDOUT, STREAM_STDERR, STREAM_REPORT, STREAM_COPIES, STREAM_COUNT };
struct streams {
        int ours[STREAM_COUNT], theirs[STREAM_COUNT];
};
#define NO_STREAMS                                                                                                     \
        {                                                                                                              \
                {-1, -1, -1, -1, -1}, {                                                                                \
                        -1, -1, -1, -1, -1                                                                             \
                }                                                                                                      \
        }
/* A copy has no report. */
int streams_open(struct streams *streams, bool for_copy, struct sbx_error *err);
void streams_close(struct streams *streams);
/* Makes the guest ready to be copied, and fills in what the core gets. */
int streams_hand_over(struct streams *streams, struct local_guest *guest, bool copies, struct sbx_guest *ret_guest,
                      struct sbx_error *err);
