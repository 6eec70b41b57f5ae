/* SPDX-License-Identifier: Apache-2.0 */
/* What stands now: how many sessions, of how many principals, and what the pools hold. */
#include "session/state.h"

void sbx_sessions_measure(struct sbx_sessions *sessions, struct sbx_metrics *metrics) {
        sessions->metrics = metrics;
}

void sbx_sessions_figures(struct sbx_sessions *sessions, struct sbx_session_figures *ret_figures) {
        struct sbx_session_figures figures = {0};

        pthread_mutex_lock(&sessions->lock);
        figures.sessions = sessions->live;
        figures.artifact_bytes = sessions->artifact_bytes;
        for (const struct sbx_principal *at = sessions->principals; at != NULL; at = at->next)
                figures.principals += at->sessions > 0;
        for (size_t i = 0; i < SBX_SESSION_BUCKETS; i++)
                for (const struct sbx_session *at = sessions->buckets[i]; at != NULL; at = at->next)
                        figures.busy += sbx_session_busy_locked(at);
        for (struct sbx_backend_pool *at = sessions->backends; at != NULL; at = at->next) {
                unsigned ready = 0, size = 0;

                sbx_pool_figures(at->pool, &ready, &size);
                figures.pool_ready += ready;
                figures.pool_size += size;
        }
        pthread_mutex_unlock(&sessions->lock);
        *ret_figures = figures;
}
