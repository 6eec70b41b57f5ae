/* SPDX-License-Identifier: Apache-2.0 */
/* The end of sessions: of one, of all of a principal's; with what is stored of them, or without. */
#include "session/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_SESSION_ORIGIN
#define STORE_TIMEOUT_MS UINT64_C(30000) /* what a store may take to remove a session */

static struct sbx_call store_call(void) {
        return (struct sbx_call){.struct_size = sizeof(struct sbx_call),
                                 .cancel_fd = -1,
                                 .deadline_ns = sbx_clock_deadline_ms(STORE_TIMEOUT_MS)};
}

/* ---- those that have not let go of everything yet ---- */

void sbx_ending_add_locked(struct sbx_session *session) {
        session->next = session->owner->ending;
        session->owner->ending = session;
}

void sbx_ending_remove_locked(struct sbx_session *session) {
        for (struct sbx_session **at = &session->owner->ending; *at != NULL; at = &(*at)->next)
                if (*at == session) {
                        *at = session->next;
                        break;
                }
        sbx_turn_refuse_locked(session); /* those that wait for it to be gone */
}

/* An older one of the same name. */
static struct sbx_session *find_older_locked(const struct sbx_session *session) {
        for (struct sbx_session *at = session->owner->ending; at != NULL; at = at->next)
                if (at->number < session->number && strcmp(at->id, session->id) == 0 &&
                    strcmp(at->principal, session->principal) == 0)
                        return at;
        return NULL;
}

int sbx_session_wait_gone(const struct sbx_session *session, const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_session *older;
        int r = 0;

        SBX_LOCKED(&session->owner->lock);
        while (r == 0 && (older = find_older_locked(session)) != NULL)
                r = sbx_turn_wait_end_locked(older, call, err);
        return r;
}

/* ---- what is stored of one that has ended ---- */

static int remove_stored(struct sbx_session *session, struct sbx_error *err) {
        struct sbx_call call = store_call();

        if (!session->durable)
                return 0;
        if (session->vault != NULL)
                return sbx_vault_destroy(steal_pointer(session->vault), &call, err);
        return sbx_vaults_destroy(session->owner->vaults, session->principal, session->id, &call, err);
}

void sbx_session_discard(struct sbx_session *session) {
        struct sbx_error problem = {0};
        int r = session->destroyed ? remove_stored(session, &problem) : 0;

        if (r < 0 && r != -ENOENT)
                sbx_log(session->owner->logger, SBX_LOG_WARNING, "session '%s' was destroyed, and is still stored: %s",
                        session->id, problem.message);
        sbx_session_free(session);
}

/* ---- one ---- */

static int refuse_unknown(const char *id, struct sbx_error *err) {
        return sbx_error_set(err, -ENOENT, ORIGIN, "list_sessions shows those that exist.", "session '%.*s' not found",
                             SBX_SESSION_ID_MAX, id);
}

/* One that does not run here: its name is taken as long as that lasts, so that nobody begins it anew meanwhile. */
static int destroy_stored(struct sbx_sessions *sessions, const char *principal, const char *id, struct sbx_error *err) {
        _cleanup_turn_ struct sbx_session *session = NULL;
        struct sbx_call call = store_call();
        struct sbx_error problem = {0};
        int r = sbx_session_take_stored(sessions, principal, id, &call, &session, err);

        if (r == 0)
                r = sbx_session_wait_gone(session, &call, err);
        if (r < 0)
                return r;
        r = remove_stored(session, &problem);
        if (r == -ENOENT || (r < 0 && sbx_vaults_problem(sessions->vaults) != NULL)) /* nothing is stored */
                return refuse_unknown(id, err);
        if (r < 0 && err != NULL && err->code == 0)
                *err = problem;
        if (r < 0)
                return r;
        SBX_LOCKED(&sessions->lock);
        if (!session->ended)
                sbx_session_end_locked(session);
        return 0;
}

int sbx_sessions_destroy(struct sbx_sessions *sessions, const char *principal, const char *id, struct sbx_error *err) {
        struct sbx_session *session, *unneeded = NULL;
        struct sbx_call call = store_call();
        bool known;
        int r;

        principal = principal != NULL ? principal : "";
        id = id != NULL ? id : SBX_SESSION_DEFAULT;
        pthread_mutex_lock(&sessions->lock);
        session = sbx_table_find_locked(sessions, principal, id);
        known = session != NULL;
        sbx_expired_remove_locked(sessions, principal, id, NULL);
        if (known) {
                session->destroyed = true;
                if (sbx_session_end_locked(session))
                        unneeded = session;
                else if (session->keeping) /* soon done: what it stored goes with the session, before this returns */
                        (void)sbx_turn_wait_end_locked(session, &call, NULL);
        }
        pthread_mutex_unlock(&sessions->lock);
        if (unneeded != NULL)
                sbx_session_discard(unneeded);
        if (!known) {
                r = id[0] != '\0' ? destroy_stored(sessions, principal, id, err) : refuse_unknown(id, err);
                if (r < 0 && (r != -ENOENT || strcmp(id, SBX_SESSION_DEFAULT) != 0))
                        return r;
                if (r < 0 && err != NULL)
                        *err = (struct sbx_error){0};
        }
        sbx_session_tell(sessions, principal, id);
        return 0;
}

/* ---- all of a principal's ---- */

/* Ends one of those that run here; false: there is none left. */
static bool end_one(struct sbx_sessions *sessions, const char *principal, bool destroyed) {
        struct sbx_session *found = NULL, *unneeded = NULL;

        pthread_mutex_lock(&sessions->lock);
        for (size_t i = 0; found == NULL && i < SBX_SESSION_BUCKETS; i++)
                for (found = sessions->buckets[i]; found != NULL && strcmp(found->principal, principal) != 0;)
                        found = found->next;
        if (found != NULL) {
                found->destroyed = destroyed;
                if (sbx_session_end_locked(found))
                        unneeded = found;
        }
        pthread_mutex_unlock(&sessions->lock);
        if (unneeded != NULL) {
                sbx_session_tell(sessions, principal, unneeded->id); /* those that execute are told of as they end */
                sbx_session_discard(unneeded);
        }
        return found != NULL;
}

static void end_all(struct sbx_sessions *sessions, const char *principal, bool destroyed) {
        pthread_mutex_lock(&sessions->lock);
        sbx_expired_forget_locked(sessions, principal);
        pthread_mutex_unlock(&sessions->lock);
        while (end_one(sessions, principal, destroyed))
                continue;
}

void sbx_sessions_suspend_all(struct sbx_sessions *sessions, const char *principal) {
        end_all(sessions, principal != NULL ? principal : "", false);
}

void sbx_sessions_destroy_all(struct sbx_sessions *sessions, const char *principal) {
        _cleanup_json_ json_t *stored = NULL;
        struct sbx_call call = store_call();
        struct sbx_error problem = {0};
        json_t *entry;
        size_t i;
        int r;

        principal = principal != NULL ? principal : "";
        end_all(sessions, principal, true);
        r = sbx_vaults_durable(sessions->vaults, principal, "any") ||
                            sbx_vaults_durable(sessions->vaults, principal, SBX_SESSION_DEFAULT)
                    ? sbx_vaults_list(sessions->vaults, principal, &call, &stored, &problem)
                    : 0;
        json_array_foreach (stored, i, entry) {
                const char *id = json_string_value(json_object_get(entry, "id"));

                if (id != NULL && r == 0)
                        r = destroy_stored(sessions, principal, id, &problem);
                if (r == -ENOENT)
                        r = 0;
        }
        if (r < 0)
                sbx_log(sessions->logger, SBX_LOG_WARNING, "not all stored sessions could be removed: %s",
                        problem.message);
}
