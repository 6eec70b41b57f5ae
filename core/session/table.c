/* SPDX-License-Identifier: Apache-2.0 */
/* The table of sessions, keyed by principal and id: finding, creating, ending, and the cap on how many there are. */
#include "session/state.h"

#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/utf8.h"

#define ORIGIN SBX_SESSION_ORIGIN

/* FNV-1a. Whoever picks ids to collide makes its own table slow, up to max_sessions comparisons a call. */
static uint64_t hash_text(uint64_t hash, const char *text) {
        for (; *text != '\0'; text++)
                hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
        return (hash ^ 0xff) * UINT64_C(1099511628211);
}

static struct sbx_session **bucket_of(struct sbx_sessions *sessions, const char *principal, const char *id) {
        uint64_t hash = hash_text(hash_text(UINT64_C(14695981039346656037), principal), id);

        return &sessions->buckets[(hash ^ (hash >> 32)) % SBX_SESSION_BUCKETS];
}

struct sbx_session *sbx_table_find_locked(struct sbx_sessions *sessions, const char *principal, const char *id) {
        for (struct sbx_session *at = *bucket_of(sessions, principal, id); at != NULL; at = at->next)
                if (strcmp(at->id, id) == 0 && strcmp(at->principal, principal) == 0)
                        return at;
        return NULL;
}

static void table_insert(struct sbx_sessions *sessions, struct sbx_session *session) {
        struct sbx_session **bucket = bucket_of(sessions, session->principal, session->id);

        session->next = *bucket;
        *bucket = session;
}

static void table_remove(struct sbx_sessions *sessions, struct sbx_session *session) {
        sbx_keeper_forget_locked(session); /* it looks in the table alone */
        for (struct sbx_session **at = bucket_of(sessions, session->principal, session->id); *at != NULL;
             at = &(*at)->next)
                if (*at == session) {
                        *at = session->next;
                        return;
                }
}

/* ---- ids that expired ---- */

void sbx_expired_add_locked(struct sbx_sessions *sessions, const char *principal, const char *id, bool stored) {
        _cleanup_free_ char *who = strdup(principal), *what = strdup(id);
        struct sbx_expired *slot = &sessions->expired[sessions->expired_next];

        if (who == NULL || what == NULL)
                return; /* then the next call starts a clean session without being told why */
        free(slot->principal);
        free(slot->id);
        *slot = (struct sbx_expired){steal_pointer(who), steal_pointer(what), stored};
        sessions->expired_next = (sessions->expired_next + 1) % SBX_SESSION_EXPIRED_MAX;
}

static bool forget_slot(struct sbx_expired *slot) {
        free(slot->principal);
        free(slot->id);
        *slot = (struct sbx_expired){0};
        return true;
}

bool sbx_expired_remove_locked(struct sbx_sessions *sessions, const char *principal, const char *id, bool *ret_stored) {
        for (size_t i = 0; i < SBX_SESSION_EXPIRED_MAX; i++) {
                struct sbx_expired *slot = &sessions->expired[i];

                if (slot->id == NULL || strcmp(slot->id, id) != 0 || strcmp(slot->principal, principal) != 0)
                        continue;
                if (ret_stored != NULL)
                        *ret_stored = slot->stored;
                return forget_slot(slot);
        }
        return false;
}

void sbx_expired_forget_locked(struct sbx_sessions *sessions, const char *principal) {
        for (size_t i = 0; i < SBX_SESSION_EXPIRED_MAX; i++)
                if (sessions->expired[i].id != NULL && strcmp(sessions->expired[i].principal, principal) == 0)
                        forget_slot(&sessions->expired[i]);
}

/* ---- one session ---- */

static void session_close(struct sbx_session *session) {
        if (!session->destroyed)
                sbx_session_store(session);
        sbx_guest_free(steal_pointer(session->guest));
        sbx_copies_clear(session);
        sbx_vault_close(steal_pointer(session->vault));
        sbx_artifacts_clear(session);
}

/* One that nobody knows, and that is closed or never had anything. */
static void session_destroy(struct sbx_session *session) {
        json_decref(session->names);
        if (session->stop_fd >= 0)
                close(session->stop_fd);
        if (session->watch_fd >= 0)
                close(session->watch_fd);
        free(session->isolation);
        free(session->notice);
        free(session->fall);
        free(session->unkept);
        free(session->principal);
        free(session->id);
        free(session);
}
SBX_DEFINE_CLEANUP(struct sbx_session *, session_destroy, cleanup_session)

void sbx_session_free(struct sbx_session *session) {
        struct sbx_sessions *sessions = session->owner;

        session_close(session); /* its guest is gone before another may take its place */
        pthread_mutex_lock(&sessions->lock);
        sbx_ending_remove_locked(session);
        sessions->live--;
        sbx_principal_leave_locked(sessions, session->principal);
        pthread_mutex_unlock(&sessions->lock);
        session_destroy(session);
        SBX_COUNT(sessions->metrics, sessions_ended, 1);
}

/* A session that nobody knows yet, with its turn taken by the caller. */
static int session_new(struct sbx_sessions *sessions, const struct sbx_session_wish *wish,
                       struct sbx_session **ret_session, struct sbx_error *err) {
        __attribute__((cleanup(cleanup_session))) struct sbx_session *session = calloc(1, sizeof(*session));
        int r;

        if (session == NULL)
                return SBX_NOMEM(err, ORIGIN);
        session->owner = sessions;
        session->stop_fd = session->watch_fd = -1;
        session->references = 1;
        session->busy = true;
        session->created_ns = session->last_used_ns = sbx_clock_ns();
        sbx_clock_timestamp(session->created_at);
        session->principal = strdup(wish->principal);
        session->id = strdup(wish->id);
        if (session->principal == NULL || session->id == NULL)
                return SBX_NOMEM(err, ORIGIN);
        session->durable = sbx_vaults_durable(sessions->vaults, wish->principal, wish->id);
        r = sbx_runtime_name_parse(wish->runtime, &session->runtime, err);
        if (r < 0)
                return r;
        if (wish->id[0] == '\0') {
                session->ended = true; /* it is gone when this call is */
        } else {
                session->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
                if (session->stop_fd < 0)
                        return sbx_error_set(err, -errno, ORIGIN, "Raise the limit of open files (ulimit -n).",
                                             "can't make session '%s': %s", wish->id, SBX_ERRNO_TEXT(errno));
        }
        *ret_session = steal_pointer(session);
        return 0;
}

/* Counts it in, unless there are too many. */
static int session_admit_locked(struct sbx_sessions *sessions, struct sbx_session *session, struct sbx_error *err) {
        int r;

        if (sessions->live >= sessions->sessions_max)
                return sbx_error_set(err, -EBUSY, ORIGIN,
                                     "Destroy a session that is no longer needed (destroy_session), "
                                     "wait until an idle one expires, or raise the setting max_sessions.",
                                     "%u sessions are active, which is the maximum", sessions->live);
        r = sbx_principal_enter_locked(sessions, session->principal, err);
        if (r < 0)
                return r;
        sessions->live++;
        session->number = ++sessions->last_number;
        sbx_reaper_start_locked(sessions);
        return 0;
}

/* ---- checks ---- */

int sbx_session_check_id(const char *id, struct sbx_error *err) {
        static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:@-";
        size_t length = strlen(id);

        if (length > SBX_SESSION_ID_MAX)
                return sbx_error_set(err, -EINVAL, ORIGIN, "Use a shorter session_id.",
                                     "session_id: %zu bytes, at most %d are allowed", length, SBX_SESSION_ID_MAX);
        if (strspn(id, allowed) != length)
                return sbx_error_set(err, -EINVAL, ORIGIN, "Use letters, digits and _ . : @ - only.",
                                     "session_id: character %zu is not allowed", strspn(id, allowed) + 1);
        return 0;
}

static int check_principal(const char *principal, struct sbx_error *err) {
        size_t length = strlen(principal);

        if (length > SBX_PRINCIPAL_MAX || !sbx_utf8_valid((struct sbx_bytes){principal, length}))
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "principal: must be UTF-8 of at most %u bytes",
                                     SBX_PRINCIPAL_MAX);
        return 0;
}

static int check_environment(const struct sbx_session *session, const char *environment, struct sbx_error *err) {
        const char *own = session->backend->instance->name;

        if (environment == NULL || strcmp(environment, own) == 0)
                return 0;
        return sbx_error_set(err, -EINVAL, ORIGIN,
                             "Leave the environment out, use another session_id, or destroy the "
                             "session first.",
                             "session '%s' runs in environment '%s' and can't move to '%.64s'", session->id, own,
                             environment);
}

int sbx_session_check_wish(const struct sbx_session *session, const char *environment, const char *runtime,
                           struct sbx_error *err) {
        struct sbx_runtime_name name;
        int r = session->backend != NULL ? check_environment(session, environment, err) : 0;

        if (r < 0 || runtime == NULL)
                return r;
        r = sbx_runtime_name_parse(runtime, &name, err);
        if (r < 0 || session->backend == NULL || strcmp(name.text, session->runtime.text) == 0)
                return r;
        return sbx_error_set(err, -EINVAL, ORIGIN, "Use another session_id for it, or destroy the session first.",
                             "session '%s' is one of %s and can't execute %s", session->id, session->runtime.text,
                             name.text);
}

/* ---- taking and releasing ---- */

static int check_expired_locked(struct sbx_sessions *sessions, const char *principal, const char *id,
                                struct sbx_error *err) {
        double minutes = (double)sessions->ttl_ns / (60.0 * (double)SBX_NS_PER_S);
        bool stored = false;

        if (!sbx_expired_remove_locked(sessions, principal, id, &stored))
                return 0;
        if (stored)
                return sbx_error_set(
                        err, -ESTALE, ORIGIN,
                        "Call again to go on from its newest checkpoint (list_checkpoints tells what that is).",
                        "session '%s' expired after %.0f minutes without use, and what it did since its newest "
                        "checkpoint could not be kept; nothing was run",
                        id, minutes);
        return sbx_error_set(err, -ESTALE, ORIGIN,
                             "Call again to start a clean session of that name; define again what "
                             "it needs.",
                             "session '%s' expired after %.0f minutes without use and its variables are gone; nothing "
                             "was run",
                             id, minutes);
}

/* Waits for the turn of a session of the table. */
static int join_locked(struct sbx_session *session, const char *environment, const char *runtime,
                       const struct sbx_call *call, struct sbx_error *err) {
        int r = sbx_session_check_wish(session, environment, runtime, err);

        if (r < 0)
                return r;
        session->references++;
        r = sbx_turn_wait_locked(session, call, err);
        if (r < 0)
                session->references--;
        return r;
}

/* 1: there is none; who is about to use it (`used`) learns first that it has expired. A session that ended while this
 * call waited for it is left to its last holder. */
static int take_existing(struct sbx_sessions *sessions, const struct sbx_session_wish *wish, bool used,
                         const struct sbx_call *call, struct sbx_session **ret_session, struct sbx_error *err) {
        struct sbx_session *session, *unneeded = NULL;
        int r;

        pthread_mutex_lock(&sessions->lock);
        session = sbx_table_find_locked(sessions, wish->principal, wish->id);
        if (session != NULL) {
                r = join_locked(session, wish->environment, wish->runtime, call, err);
                if (r < 0 && session->ended && session->references == 0)
                        unneeded = session;
        } else {
                r = used ? check_expired_locked(sessions, wish->principal, wish->id, err) : 0;
                if (r == 0)
                        r = 1;
        }
        pthread_mutex_unlock(&sessions->lock);
        if (unneeded != NULL)
                sbx_session_discard(unneeded);
        if (r == 0)
                *ret_session = session;
        return r;
}

/* 1: somebody else made it meanwhile. */
static int take_new(struct sbx_sessions *sessions, const struct sbx_session_wish *wish,
                    struct sbx_session **ret_session, struct sbx_error *err) {
        __attribute__((cleanup(cleanup_session))) struct sbx_session *session = NULL;
        int r = session_new(sessions, wish, &session, err);

        if (r < 0)
                return r;
        session->wished_ns = sbx_clock_ns();
        pthread_mutex_lock(&sessions->lock);
        if (wish->id[0] != '\0' && sbx_table_find_locked(sessions, wish->principal, wish->id) != NULL)
                r = 1;
        else
                r = session_admit_locked(sessions, session, err);
        if (r == 0 && wish->id[0] != '\0')
                table_insert(sessions, session);
        pthread_mutex_unlock(&sessions->lock);
        if (r < 0)
                SBX_COUNT(sessions->metrics, sessions_refused, 1);
        if (r != 0)
                return r;
        SBX_COUNT(sessions->metrics, sessions_started, 1);
        *ret_session = steal_pointer(session);
        return 0;
}

static int complete_wish(struct sbx_session_wish *wish, struct sbx_error *err) {
        int r;

        if (wish->principal == NULL)
                wish->principal = "";
        if (wish->id == NULL)
                wish->id = SBX_SESSION_DEFAULT;
        r = sbx_session_check_id(wish->id, err);
        return r < 0 ? r : check_principal(wish->principal, err);
}

int sbx_session_take(struct sbx_sessions *sessions, const struct sbx_session_wish *given, const struct sbx_call *call,
                     struct sbx_session **ret_session, struct sbx_error *err) {
        struct sbx_session_wish wish = *given;
        int r = complete_wish(&wish, err);

        if (r < 0)
                return r;
        do {
                r = wish.id[0] != '\0' ? take_existing(sessions, &wish, true, call, ret_session, err) : 1;
                if (r == 1)
                        r = take_new(sessions, &wish, ret_session, err);
        } while (r == 1);
        return r;
}

int sbx_session_take_stored(struct sbx_sessions *sessions, const char *principal, const char *id,
                            const struct sbx_call *call, struct sbx_session **ret_session, struct sbx_error *err) {
        struct sbx_session_wish wish = {.principal = principal, .id = id};
        int r = complete_wish(&wish, err);

        if (r < 0)
                return r;
        do {
                r = take_existing(sessions, &wish, false, call, ret_session, err);
                if (r == 1 && !sbx_vaults_durable(sessions->vaults, wish.principal, wish.id))
                        return sbx_error_set(err, -ENOENT, ORIGIN, "list_sessions shows those that exist.",
                                             "session '%s' not found", wish.id);
                if (r == 1)
                        r = take_new(sessions, &wish, ret_session, err);
        } while (r == 1);
        return r;
}

static int refuse_taken(const char *id, struct sbx_error *err) {
        return sbx_error_set(err, -EEXIST, ORIGIN, "Use another session_id for the new one, or leave it out.",
                             "there is a session '%s' already", id);
}

int sbx_session_take_branch(const struct sbx_session *origin, const char *id, struct sbx_session **ret_session,
                            struct sbx_error *err) {
        struct sbx_session_wish wish = {.principal = origin->principal, .id = id, .runtime = origin->runtime.text};
        struct sbx_session *session = NULL;
        int r = sbx_session_check_id(id, err);

        if (r == 0 && id[0] == '\0')
                r = sbx_error_set(err, -EINVAL, ORIGIN, "Leave it out to have one made up.",
                                  "the id of the new session is empty");
        if (r == 0)
                r = take_new(origin->owner, &wish, &session, err);
        if (r != 0)
                return r == 1 ? refuse_taken(id, err) : r;
        *ret_session = session;
        return 0;
}

static int no_such_session(const char *id, struct sbx_error *err) {
        return sbx_error_set(err, -ENOENT, ORIGIN, "list_sessions shows those that exist.",
                             "session '%.*s' does not exist, or its interpreter does not run", SBX_SESSION_ID_MAX, id);
}

int sbx_session_take_running(struct sbx_sessions *sessions, const char *principal, const char *id, bool idle,
                             const struct sbx_call *call, struct sbx_session **ret_session, struct sbx_error *err) {
        struct sbx_session *session, *unneeded = NULL;
        int r;

        pthread_mutex_lock(&sessions->lock);
        session = sbx_table_find_locked(sessions, principal != NULL ? principal : "",
                                        id != NULL ? id : SBX_SESSION_DEFAULT);
        if (session == NULL || session->isolation == NULL)
                r = no_such_session(id != NULL ? id : SBX_SESSION_DEFAULT, err);
        else if (idle && sbx_session_busy_locked(session))
                r = sbx_error_set(err, -EAGAIN, ORIGIN, NULL, "session '%s' is busy", session->id);
        else
                r = join_locked(session, NULL, NULL, call, err);
        if (r == 0)
                session->glance = idle;
        else if (session != NULL && session->ended && session->references == 0)
                unneeded = session;
        pthread_mutex_unlock(&sessions->lock);
        if (unneeded != NULL)
                sbx_session_discard(unneeded);
        if (r == 0)
                *ret_session = session;
        return r;
}

bool sbx_session_end_locked(struct sbx_session *session) {
        table_remove(session->owner, session);
        sbx_ending_add_locked(session);
        session->ended = true;
        sbx_turn_refuse_locked(session);
        if (session->references == 0)
                return true;
        (void)!eventfd_write(session->stop_fd, 1);
        return false;
}

/* One that has neither a guest nor news of one has nothing to keep: a start that failed leaves no session behind. */
static bool is_empty(const struct sbx_session *session) {
        return session->guest == NULL && session->notice == NULL && session->fall == NULL;
}

void sbx_session_release(struct sbx_session *session) {
        struct sbx_sessions *sessions = session->owner;
        bool unneeded;

        pthread_mutex_lock(&sessions->lock);
        session->references--;
        if (!session->glance)
                session->last_used_ns = sbx_clock_ns();
        session->glance = session->keeping = false;
        if (!session->ended && session->references == 0 && is_empty(session)) {
                table_remove(sessions, session);
                sbx_ending_add_locked(session);
                session->ended = true;
        }
        sbx_turn_pass_locked(session);
        if (session->unsaved && session->references == 0)
                pthread_cond_signal(&sessions->keeper_wake);
        unneeded = session->ended && session->references == 0;
        pthread_mutex_unlock(&sessions->lock);
        if (!unneeded)
                return;
        sbx_session_bury(session);
        sbx_session_discard(session);
}
