/* SPDX-License-Identifier: Apache-2.0 */
/* Stored sessions that nobody has used for as long as the setting session_retention says are removed: by a thread of
 * those who serve, shortly after they have begun and a few times a day. */
#include "session/state.h"

#include "base/error.h"
#include "base/json.h"

#define FIRST_LOOK_NS (300 * SBX_NS_PER_S) /* a server that has just begun has other things to do */
#define LOOK_EVERY_NS (21600 * SBX_NS_PER_S)
#define LOOK_AT_MOST_EVERY_NS SBX_NS_PER_S
#define COLLECT_TIMEOUT_MS UINT64_C(3600000)

static void collect(struct sbx_sessions *sessions) {
        struct sbx_call call = {.struct_size = sizeof(call),
                                .cancel_fd = sessions->warm_stop_fd,
                                .deadline_ns = sbx_clock_deadline_ms(COLLECT_TIMEOUT_MS)};
        _cleanup_json_ json_t *told = NULL;
        struct sbx_error problem = {0};
        size_t count;
        int r = sbx_vaults_collect(sessions->vaults, NULL, sessions->retention_ns / SBX_NS_PER_MS, &call, &told,
                                   &problem);

        count = json_array_size(json_object_get(told, "removed"));
        if (r < 0 && r != -ECANCELED && sbx_vaults_problem(sessions->vaults) == NULL)
                sbx_log(sessions->logger, SBX_LOG_WARNING, "stored sessions can't be looked through: %s",
                        problem.message);
        else if (count > 0)
                sbx_log(sessions->logger, SBX_LOG_INFO,
                        "%zu stored sessions were removed, which nobody has used for %.0f "
                        "hours",
                        count, (double)sessions->retention_ns / (3600.0 * (double)SBX_NS_PER_S));
}

static void *retention_run(void *data) {
        struct sbx_sessions *sessions = data;
        uint64_t first = sessions->retention_ns < FIRST_LOOK_NS ? sessions->retention_ns : FIRST_LOOK_NS;
        uint64_t every = sessions->retention_ns < LOOK_EVERY_NS ? sessions->retention_ns : LOOK_EVERY_NS;
        uint64_t look_at_ns = sbx_clock_ns() + first;

        if (every < LOOK_AT_MOST_EVERY_NS)
                every = LOOK_AT_MOST_EVERY_NS;
        pthread_mutex_lock(&sessions->lock);
        while (!sessions->retention_stop) {
                if (sbx_clock_ns() < look_at_ns) {
                        sbx_cond_wait(&sessions->retention_wake, &sessions->lock, look_at_ns);
                        continue;
                }
                pthread_mutex_unlock(&sessions->lock);
                collect(sessions);
                look_at_ns = sbx_clock_ns() + every;
                pthread_mutex_lock(&sessions->lock);
        }
        pthread_mutex_unlock(&sessions->lock);
        return NULL;
}

void sbx_retention_start_locked(struct sbx_sessions *sessions) {
        int r;

        if (sessions->retention_ns == 0 || sessions->retention_runs || sessions->retention_stop ||
            !sbx_vaults_durable(sessions->vaults, "", "any"))
                return;
        r = sbx_thread_start(&sessions->retention, "sbx-retention", retention_run, sessions);
        if (r < 0)
                sbx_log(sessions->logger, SBX_LOG_WARNING, "old stored sessions stay, no thread can be had: %s",
                        SBX_ERRNO_TEXT(r));
        else
                sessions->retention_runs = true;
}

void sbx_retention_stop(struct sbx_sessions *sessions) {
        bool runs;

        pthread_mutex_lock(&sessions->lock);
        runs = sessions->retention_runs;
        sessions->retention_runs = false;
        sessions->retention_stop = true;
        pthread_cond_signal(&sessions->retention_wake);
        pthread_mutex_unlock(&sessions->lock);
        if (runs)
                pthread_join(sessions->retention, NULL);
}
