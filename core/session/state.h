/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of core/session: what a session and their table consist of, and which lock or turn protects what. */
#pragma once

#include "base/metrics.h"
#include "base/thread.h"
#include "guest/guest.h"
#include "guest/pool.h"
#include "session/runtimes.h"
#include "session/session.h"
#include "session/vault.h"

#define SBX_SESSION_ORIGIN "session"
#define SBX_SESSION_BUCKETS 512u     /* sessions number at most a few thousand */
#define SBX_SESSION_EXPIRED_MAX 256u /* ids that are remembered after they expired */
#define SBX_PRINCIPAL_MAX 256u       /* bytes */

/* Who waits for a session's turn. Lives on the waiting thread's stack. */
struct sbx_waiter {
        struct sbx_waiter *next;
        int fd;       /* eventfd, written when `granted` or `refused` is set */
        bool granted; /* the turn is this waiter's */
        bool refused; /* the session has ended */
};

/* Bytes that are kept for clients to read. Never changes; freed with its last reference. */
struct sbx_artifact {
        unsigned references; /* atomic */
        char name[SBX_ARTIFACT_NAME_SIZE];
        char *mime_type;
        size_t size;
        char bytes[];
};

struct sbx_artifacts {
        struct sbx_artifact *items[SBX_ARTIFACTS_MAX]; /* oldest first */
        unsigned count;
        size_t bytes;         /* of all */
        uint64_t last_number; /* that a name had */
};

/* A copy of a session's guest, which stands still; it belongs to a checkpoint of the session's tree. */
struct sbx_copy {
        struct sbx_guest_process *guest;
        char checkpoint[SBX_CHECKPOINT_ID_SIZE];
};

/* A session. Who has the turn uses the guest; everybody else sees what was published. */
struct sbx_session {
        /* Never change. */
        struct sbx_sessions *owner;
        char *principal, *id;           /* id "": a fresh session, for one call, outside the table */
        bool durable;                   /* it goes into the store, where that can be had */
        uint64_t number;                /* unlike any other session's of this table */
        uint64_t created_ns, wished_ns; /* wished_ns: when the call came that it was made for */
        int stop_fd;                    /* eventfd, readable once the session has ended; -1 for a fresh one */

        /* Set once, before its first guest, by whoever has the turn and with owner->lock: a stored session is what it
         * was. So who has the turn, or the lock, may read them. */
        struct sbx_backend_pool *backend; /* NULL: not known yet */
        struct sbx_runtime_name runtime;
        char created_at[SBX_TIMESTAMP_SIZE];

        /* Protected by owner->lock. */
        struct sbx_session *next; /* in its bucket; once it has ended, among those that end */
        unsigned references;      /* who has the turn or waits for it */
        bool busy;                /* somebody has the turn */
        bool keeping;             /* ... and it is the keeper, who is quick */
        bool ended;               /* out of the table: whoever lets go last frees it */
        bool destroyed;           /* ... and with it what is stored of it */
        struct sbx_waiter *first_waiter, *last_waiter;
        uint64_t last_used_ns, executions;
        char *isolation; /* of its guest; NULL: none runs */
        json_t *names;   /* of its variables; shared with the guest, read-only; NULL: none known */
        bool unsaved;    /* it has changed since its guest was copied, and is to be copied anew */
        uint64_t unsaved_since_ns;
        bool unlisted; /* nobody looked at its resources since they were told to have changed */
        struct sbx_artifacts artifacts;

        /* Belong to whoever has the turn. */
        struct sbx_guest_process *guest;
        bool untried;            /* the guest has done nothing for the session so far */
        struct sbx_vault *vault; /* NULL: not opened so far, or given up; always of a fresh one */
        struct sbx_copy *copies; /* oldest first */
        size_t copy_count;
        bool uncopyable;                      /* its backend can't copy such a guest: that is not tried again */
        char current[SBX_CHECKPOINT_ID_SIZE]; /* the checkpoint whose state the guest has; "": it has changed since */
        bool unstored;                        /* a state that is to be stored by the keeper: nobody waits for it */
        char *fall;   /* why its guest is gone, and has not been replaced yet; NULL: it never had one here */
        char *notice; /* what the next result has to say; NULL: nothing */
        const char *notice_kind;
        uint64_t kept_ns, kept_bytes; /* what the last automatic checkpoint took; 0: there was none */
        char *unkept;                /* why the last automatic checkpoint was not made; NULL: it was */
        uint64_t memory_limit_bytes; /* the guest's hard limit */
        uint64_t memory_peak_bytes;  /* as last measured; 0: unknown */
        bool had_guest;              /* its first one has been measured */
        int watch_fd;                /* epoll of stop_fd and a call's cancel_fd; -1: not needed so far */
        bool glance;                 /* this turn is no use of the session: its idle time goes on */
};

/* A backend instance in use, with its ready guests. Lives as long as the table. */
struct sbx_backend_pool {
        struct sbx_backend_pool *next;
        const struct sbx_instance *instance;
        struct sbx_runtime_name runtime; /* of the pool's guests; sessions of others use it too, and start theirs */
        struct sbx_pool *pool;
        uint64_t memory_max_bytes; /* no guest gets more, whatever its profile; UINT64_MAX: not known */
};

/* An id that expired, so that the next call with it learns that its variables are gone. */
struct sbx_expired {
        char *principal, *id;
        bool stored; /* an older state of it is stored */
};

/* A principal that has sessions, and how many, fresh and ending ones too. */
struct sbx_principal {
        struct sbx_principal *next;
        unsigned sessions;
        char name[];
};

struct sbx_sessions {
        /* Never change. */
        struct sbx_registry *registry;
        const struct sbx_config *config;
        const struct sbx_logger *logger;
        const char *environment;
        uint64_t ttl_ns, cpu_limit_ns, grace_ns, default_timeout_ms, docker_timeout_ms;
        size_t output_max_bytes, display_max_bytes;
        unsigned sessions_max, principal_max; /* of all, and of one principal */
        struct sbx_metrics *metrics;          /* NULL: nobody measures */
        struct sbx_session_observer observer;
        struct sbx_vaults *vaults; /* has locks of its own; never used with this one held */

        pthread_mutex_t lock; /* protects all that follows, and what struct sbx_session says */
        struct sbx_session *buckets[SBX_SESSION_BUCKETS];
        struct sbx_session *ending; /* out of the table, with something that is not closed yet */
        unsigned live;              /* sessions that exist, fresh and ending ones too */
        uint64_t last_number;
        size_t artifact_bytes;            /* of all sessions */
        bool looked;                      /* somebody has looked at a session's resources */
        struct sbx_principal *principals; /* those that have sessions */
        struct sbx_backend_pool *backends;
        struct sbx_expired expired[SBX_SESSION_EXPIRED_MAX];
        unsigned expired_next;

        /* The reaper: ends what has been idle for too long, and frees guests that others have done with. */
        pthread_cond_t reaper_wake;
        pthread_t reaper;
        bool reaper_runs, reaper_stop;
        struct sbx_guest_process *graves[8];
        unsigned grave_count;

        /* The keeper: copies the guests of sessions, and stores states that nobody waits for. */
        pthread_cond_t keeper_wake;
        pthread_t keeper;
        bool keeper_runs, keeper_stop;
        unsigned unsaved; /* sessions that it has to do with */

        /* Removes stored sessions that nobody has used for long. */
        uint64_t retention_ns; /* never changes; 0: they stay */
        pthread_cond_t retention_wake;
        pthread_t retention;
        bool retention_runs, retention_stop;

        /* The warm-up: brings the configured environment up before anybody asks for it. */
        pthread_t warmer;
        bool warmer_runs, warm_stop;   /* warmer_runs: its thread is to be joined */
        bool warm_ended;               /* ... and has nothing left to do */
        int warm_stop_fd;              /* never changes: an eventfd, its cancel descriptor */
        struct sbx_error warm_failure; /* why it failed; code 0: it did not */
};

/* ---- table.c: takes the lock itself unless the name ends with _locked ---- */

/* Which session is wanted. */
struct sbx_session_wish {
        const char *principal;             /* NULL: "" */
        const char *id;                    /* NULL: "default"; "": a fresh one */
        const char *environment, *runtime; /* NULL: the session's own; for a new one as configured, and Python */
};
/* The session, with the caller holding a reference and its turn; a new one has neither backend nor vault yet. -EINVAL
 * (id, runtime, or a session of another environment or runtime), -EBUSY (too many), -ESTALE (it expired; the next call
 * starts a clean one), and those of sbx_turn_wait. */
int sbx_session_take(struct sbx_sessions *sessions, const struct sbx_session_wish *wish, const struct sbx_call *call,
                     struct sbx_session **ret_session, struct sbx_error *err);
/* The same for one that is there, or may be stored: -ENOENT for what is neither. */
int sbx_session_take_stored(struct sbx_sessions *sessions, const char *principal, const char *id,
                            const struct sbx_call *call, struct sbx_session **ret_session, struct sbx_error *err);
/* A session that nobody has, with its turn, as a branch of `origin`, whose turn the caller has. -EEXIST, -EBUSY. */
int sbx_session_take_branch(const struct sbx_session *origin, const char *id, struct sbx_session **ret_session,
                            struct sbx_error *err);
/* The same for a session whose interpreter runs; it makes none and starts none. -ENOENT: there is no such one; -EAGAIN:
 * `idle`, and somebody has its turn. */
int sbx_session_take_running(struct sbx_sessions *sessions, const char *principal, const char *id, bool idle,
                             const struct sbx_call *call, struct sbx_session **ret_session, struct sbx_error *err);
/* Gives the turn to the next waiter, and frees the session if nobody needs it any more. */
void sbx_session_release(struct sbx_session *session);
#define _cleanup_turn_ __attribute__((cleanup(sbx_session_release_cleanup)))
static inline void sbx_session_release_cleanup(struct sbx_session **session) {
        if (*session != NULL)
                sbx_session_release(*session);
}
/* Whether somebody uses it, or waits to; the keeper does not count. */
static inline bool sbx_session_busy_locked(const struct sbx_session *session) {
        return session->references > (session->keeping ? 1u : 0u);
}
struct sbx_session *sbx_table_find_locked(struct sbx_sessions *sessions, const char *principal, const char *id);
/* Takes it out of the table, refuses its waiters and stops what it runs. True: nobody holds it, the caller frees it. */
bool sbx_session_end_locked(struct sbx_session *session);
void sbx_session_free(struct sbx_session *session); /* its guest too, and closes its vault; without the lock */
/* Whether it stays one of `environment` and `runtime` (NULL: any). -EINVAL. */
int sbx_session_check_wish(const struct sbx_session *session, const char *environment, const char *runtime,
                           struct sbx_error *err);

/* Remembers, or forgets (true: it was there), an id that expired. */
void sbx_expired_add_locked(struct sbx_sessions *sessions, const char *principal, const char *id, bool stored);
bool sbx_expired_remove_locked(struct sbx_sessions *sessions, const char *principal, const char *id, bool *ret_stored);
void sbx_expired_forget_locked(struct sbx_sessions *sessions, const char *principal); /* all of the principal's */

/* ---- ending.c ---- */

void sbx_ending_add_locked(struct sbx_session *session);    /* it has ended, and is in no bucket any more */
void sbx_ending_remove_locked(struct sbx_session *session); /* all is closed; those that wait for that go on */
/* Waits until no older session of its name is ending any more: what that had in the store may be opened then. */
int sbx_session_wait_gone(const struct sbx_session *session, const struct sbx_call *call, struct sbx_error *err);
/* Frees one that has ended; what is stored of it goes with it if it was destroyed. */
void sbx_session_discard(struct sbx_session *session);

/* ---- principals.c ---- */

/* Counts a session of the principal in, or out. -EBUSY: it has as many as it may. */
int sbx_principal_enter_locked(struct sbx_sessions *sessions, const char *name, struct sbx_error *err);
void sbx_principal_leave_locked(struct sbx_sessions *sessions, const char *name);
void sbx_principals_free(struct sbx_sessions *sessions);

/* ---- sessions.c ---- */

/* Which sessions an operation takes. */
enum sbx_operation_on {
        SBX_ON_ANY = 0, /* made and started if need be */
        SBX_ON_RUNNING, /* only if its interpreter runs, see sbx_session_take_running */
        SBX_ON_IDLE,    /* ... and has nothing to do; this does not count as a use of the session */
        SBX_ON_STORED,  /* only if it is there, or stored; no guest is started: `run` may see to one (sbx_session_ready)
                         */
};

/* One operation in a session. */
struct sbx_operation {
        const char *principal, *id, *environment, *runtime;
        enum sbx_operation_on on;
        uint64_t memory_bytes; /* hard limit of the guest; 0: what it has */
        uint64_t limit_ms;     /* of the whole, 0: none but the call's */
        bool changes;          /* the session's state: it is kept afterwards */
        const char *what;      /* "its variables were read": for the notice when the guest dies of it */
        /* -ESRCH: the guest was dead before, nothing was done. */
        int (*run)(struct sbx_session *session, void *data, const struct sbx_call *call, struct sbx_error *err);
        void *data;
        /* What became of keeping it (the member `checkpoint` of a result), to be freed; NULL: nobody wants to know. */
        char **ret_kept;
};
/* Takes the session's turn, sees to a living guest, runs it, keeps what it changed, and lets go. */
int sbx_session_operate(struct sbx_sessions *sessions, const struct sbx_operation *operation,
                        const struct sbx_call *call, struct sbx_error *err);

/* ---- news.c ---- */

/* Tells the observer that what the session's resources give may have changed, without the lock. `id` "" (a fresh
 * session, which has none) is a no-op. */
void sbx_session_tell(struct sbx_sessions *sessions, const char *principal, const char *id);

/* ---- artifacts.c ---- */

void sbx_artifacts_clear(struct sbx_session *session); /* takes the lock itself */

/* ---- turn.c: first come, first served ---- */

/* Called and returns with the lock held; lets go of it while it waits. 0: the turn is the caller's. -ECANCELED (by the
 * call, or the session has ended), -ETIMEDOUT. */
int sbx_turn_wait_locked(struct sbx_session *session, const struct sbx_call *call, struct sbx_error *err);
void sbx_turn_pass_locked(struct sbx_session *session); /* of one that has ended: nobody gets it */
void sbx_turn_refuse_locked(struct sbx_session *session);
/* The same for one that has ended: 0 once it is gone. */
int sbx_turn_wait_end_locked(struct sbx_session *session, const struct sbx_call *call, struct sbx_error *err);

/* ---- session.c: for whoever has the turn ---- */

/* A call that also ends when the session does; it lasts at most `limit_ms` (0: as long as `call`). End it. */
int sbx_session_call_begin(struct sbx_session *session, const struct sbx_call *call, uint64_t limit_ms,
                           struct sbx_call *ret_call, struct sbx_error *err);
void sbx_session_call_end(struct sbx_session *session, const struct sbx_call *call);
/* Sees to it that the guest lives and has `memory_bytes`, as well as that can be done without killing it. 0: what it
 * has, or the default profile's when it is started. */
int sbx_session_ready(struct sbx_session *session, uint64_t memory_bytes, const struct sbx_call *call,
                      struct sbx_error *err);
/* After the guest has run something: publishes what changed. When it died, the session goes on with its copy, where the
 * newest checkpoint has one, or has no guest until it is ready the next time; `reason` goes into the next notice. */
void sbx_session_settle(struct sbx_session *session, const char *reason);
/* Gives the guest, where there is one, to the reaper. */
void sbx_session_bury(struct sbx_session *session);
/* Another guest takes the place of the one that there is, which goes to the reaper. */
void sbx_session_replace(struct sbx_session *session, struct sbx_guest_process *guest);
/* A fresh guest for it, which is not the session's yet. */
int sbx_session_start_guest(struct sbx_session *session, uint64_t memory_bytes, const struct sbx_call *call,
                            struct sbx_guest_process **ret_guest, struct sbx_error *err);
/* A new guest of the session, with this hard limit. */
void sbx_session_adopt(struct sbx_session *session, struct sbx_guest_process *guest, uint64_t memory_bytes);
/* What a guest of this session is started as. `spec` borrows from the session and from `label`. */
#define SBX_SESSION_LABEL_SIZE 72
void sbx_session_describe(const struct sbx_session *session, uint64_t memory_bytes, char label[SBX_SESSION_LABEL_SIZE],
                          struct sbx_guest_spec *ret_spec);

/* ---- notices.c: what the next result has to say ---- */

struct sbx_notice {
        const struct sbx_checkpoint *from; /* what it goes on with; NULL: from its beginning */
        enum sbx_mechanism mechanism;      /* how that came back */
        const char *reason;                /* why its guest went; NULL: it had none here */
        const json_t *missing;             /* [{"name", "type", "reason"}]; NULL: nothing */
        const char *failures;              /* checkpoints that could not be used, and why; NULL: none */
};
/* Takes the place of an older one: the state that it told of is the past. No memory: nothing is said. */
void sbx_notice_set(struct sbx_session *session, const struct sbx_notice *notice);
void sbx_notice_clear(struct sbx_session *session);

/* ---- resume.c: what a session goes on with; for whoever has the turn ---- */

/* Sees to it that the session has a vault and a backend. With `create` one that nobody knows is made, else -ENOENT. One
 * that another server has taken meanwhile is given up, and opened again. -EBUSY and others: vault.h. */
int sbx_session_begin(struct sbx_session *session, bool create, const char *environment, const char *runtime,
                      const struct sbx_call *call, struct sbx_error *err);
/* Opens its vault if that is not open. */
int sbx_session_open(struct sbx_session *session, bool create, const struct sbx_call *call, struct sbx_error *err);
/* Forgets all that it has here: another server has the session. */
void sbx_session_give_up(struct sbx_session *session);
void sbx_session_identify(struct sbx_session *session); /* tells the vault what the session is, for its next commit */
/* A guest for a session that has none: with the newest checkpoint that can be used, from its beginning where there is
 * none. The next notice tells. */
int sbx_session_revive(struct sbx_session *session, uint64_t memory_bytes, const struct sbx_call *call,
                       struct sbx_error *err);
/* The hard limit of a new guest that is wanted with `memory_bytes` (0: as much as is usual): no less than what is in it
 * had. */
uint64_t sbx_session_memory(const struct sbx_session *session, uint64_t memory_bytes);
/* Whether there is something that it can go on with. */
bool sbx_session_revivable(const struct sbx_session *session);
/* A guest of `session` with the state of a checkpoint of `vault` (the session's own, or that of which it is a branch).
 * `*ret_missing`: what did not come back. */
int sbx_session_restore(struct sbx_session *session, struct sbx_vault *vault, const struct sbx_checkpoint *checkpoint,
                        uint64_t memory_bytes, const struct sbx_call *call, struct sbx_guest_process **ret_guest,
                        json_t **ret_missing, struct sbx_error *err);
/* The checkpoint ("": the beginning) is what the session's state is. */
void sbx_session_stand(struct sbx_session *session, const char *checkpoint);
struct sbx_checkpoint *sbx_session_head(const struct sbx_session *session); /* NULL: none */
struct sbx_checkpoint *
sbx_session_stored_head(const struct sbx_session *session); /* the newest of its line in the vault */

/* ---- branches.c ---- */

/* What is meant by a checkpoint's id, its label, or NULL: the newest. -ENOENT names those that there are. */
int sbx_session_find_checkpoint(const struct sbx_session *session, const char *name,
                                const struct sbx_checkpoint **ret_checkpoint, struct sbx_error *err);

/* ---- autosave.c: for whoever has the turn ---- */

/* Keeps the session's state as an automatic checkpoint, if that is wanted, within its budget. `ret_told` (may be NULL):
 * the member `checkpoint` of a result, to be freed; NULL: none is made of this session. */
void sbx_session_autosave(struct sbx_session *session, char **ret_told);
/* What sbx_session_autosave has put off, because it is large and takes long (`unstored`), and what nobody waits for. */
void sbx_session_store(struct sbx_session *session);
/* How large a state may be, in bytes, and how long it may take, as the session's backend is configured. */
struct sbx_state_budget sbx_session_budget(const struct sbx_session *session);
/* Keeps a state as a checkpoint of the session, whose state it is. -ESTALE: the session has been given up. */
int sbx_session_keep(struct sbx_session *session, const struct sbx_checkpoint *given, struct sbx_session_state *state,
                     bool soon, const struct sbx_call *call, const struct sbx_checkpoint **ret_checkpoint,
                     struct sbx_error *err);
bool sbx_session_saves(const struct sbx_session *session); /* by itself */

/* ---- copies.c: copies of guests that stand still; for whoever has the turn ---- */

bool sbx_copies_possible(const struct sbx_session *session);
enum sbx_mechanism sbx_copies_mechanism(const struct sbx_session *session); /* by which such a copy comes back */
/* Copies the guest, for the checkpoint `id` ("": for a new one, as `given` says). One more than there may be pushes the
 * oldest out whose checkpoint can do without. -ENOTSUP, -EBUSY (it can't be copied as it is now), -ENOSPC (none can
 * go). */
int sbx_copies_make(struct sbx_session *session, const struct sbx_checkpoint *given, const char *id,
                    const struct sbx_call *call, struct sbx_error *err);
struct sbx_guest_process *sbx_copies_find(struct sbx_session *session, const char *id); /* NULL: none that lives */
/* A guest from the copy of a checkpoint, to take the place of the session's, which must be ended before this one is asked
 * for anything. The copy stays if that can be, unless `consume`. -ENOENT. */
int sbx_copies_use(struct sbx_session *session, const char *id, bool consume, const struct sbx_call *call,
                   struct sbx_guest_process **ret_guest, struct sbx_error *err);
/* Drops dead ones, and those whose checkpoint is gone; and checkpoints that had nothing but a copy which is gone. */
void sbx_copies_prune(struct sbx_session *session);
void sbx_copies_clear(struct sbx_session *session);

/* ---- keeper.c: for whoever has the turn, unless the name ends with _locked ---- */

void sbx_keeper_mark(struct sbx_session *session); /* there is something to do once the session is quiet */
void sbx_keeper_forget_locked(struct sbx_session *session);
void sbx_keeper_stop(struct sbx_sessions *sessions); /* waits for its thread; idempotent */

/* ---- pools.c ---- */

/* The pool for sessions of `runtime` (a name; NULL: Python): of its own if `pool_languages` has it, else Python's. */
int sbx_backend_find(struct sbx_sessions *sessions, const char *environment, const char *runtime,
                     const struct sbx_call *call, struct sbx_backend_pool **ret_backend, struct sbx_error *err);
/* Begins to fill the instance's pools, one for each of `pool_languages`. */
void sbx_backend_warm(struct sbx_sessions *sessions, const struct sbx_instance *instance);
/* The pool of the configured environment; NULL: it was not started so far. */
struct sbx_backend_pool *sbx_backend_configured_locked(const struct sbx_sessions *sessions);
void sbx_backends_free(struct sbx_sessions *sessions);

/* ---- warm.c ---- */

/* Calls the warm-up off and waits for its thread: as long as the backend takes to notice. Idempotent. */
void sbx_warm_stop(struct sbx_sessions *sessions);

/* ---- retention.c ---- */

void sbx_retention_start_locked(struct sbx_sessions *sessions); /* a no-op when it runs, or nothing is stored */
void sbx_retention_stop(struct sbx_sessions *sessions);         /* after sbx_warm_stop, which cancels what it does */

/* ---- reaper.c ---- */

void sbx_reaper_start_locked(struct sbx_sessions *sessions); /* a no-op when it runs */
void sbx_reaper_stop(struct sbx_sessions *sessions);
/* Frees the guest on the reaper's thread; on the caller's when the reaper has a lot to do. */
void sbx_reaper_bury(struct sbx_sessions *sessions, struct sbx_guest_process *guest);
