/* SPDX-License-Identifier: Apache-2.0 */
/* News of what a session's resources give. A list is told to have changed once after somebody looked at it: who never
 * did has nothing that could be old, and who did not look again knows already that it is, so a busy session is no flood
 * of news. */
#include "session/state.h"

#include "base/cleanup.h"
#include "session/uri.h"

void sbx_sessions_observe(struct sbx_sessions *sessions, const struct sbx_session_observer *observer) {
        sessions->observer = *observer;
}

void sbx_session_tell(struct sbx_sessions *sessions, const char *principal, const char *id) {
        _cleanup_buffer_ struct sbx_buffer prefix = SBX_BUFFER(SBX_SESSION_URI_MAX);
        struct sbx_session *session;
        bool list_changed;

        principal = principal != NULL ? principal : "";
        id = id != NULL ? id : SBX_SESSION_DEFAULT;
        if (sessions->observer.changed == NULL || id[0] == '\0')
                return;
        pthread_mutex_lock(&sessions->lock);
        session = sbx_table_find_locked(sessions, principal, id);
        list_changed = sessions->looked && (session == NULL || !session->unlisted);
        if (list_changed && session != NULL)
                session->unlisted = true;
        pthread_mutex_unlock(&sessions->lock);
        if (sbx_session_uri(id, SBX_AREA_FILES, NULL, &prefix) == 0) /* else no memory: who watches misses this one */
                sessions->observer.changed(sessions->observer.data, principal, prefix.data, list_changed);
}
