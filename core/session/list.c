/* SPDX-License-Identifier: Apache-2.0 */
/* The list of a principal's sessions, from what was published: it never waits for an execution. */
#include "session/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_SESSION_ORIGIN

static json_int_t seconds_since(uint64_t then_ns, uint64_t now_ns) {
        return now_ns > then_ns ? (json_int_t)((now_ns - then_ns) / SBX_NS_PER_S) : 0;
}

static json_t *describe_locked(const struct sbx_session *session, uint64_t now_ns) {
        bool busy = sbx_session_busy_locked(session);
        json_t *names = session->names != NULL ? json_deep_copy(session->names) : json_array();

        return json_pack("{s:s, s:s, s:s, s:s?, s:s, s:I, s:I, s:o, s:b, s:I}", "id", session->id, "environment",
                         session->backend != NULL ? session->backend->instance->name : session->owner->environment,
                         "language", session->runtime.text, "isolation", session->isolation, "created_at",
                         session->created_at, "idle_seconds",
                         busy ? (json_int_t)0 : seconds_since(session->last_used_ns, now_ns), "age_seconds",
                         seconds_since(session->created_ns, now_ns), "context_keys", names, "busy", (int)busy,
                         "executions", (json_int_t)session->executions);
}

/* The default session exists for everybody, as in snipara-sandbox; its interpreter starts at its first use. */
static json_t *describe_unstarted(const struct sbx_sessions *sessions) {
        char now[SBX_TIMESTAMP_SIZE];

        sbx_clock_timestamp(now);
        return json_pack("{s:s, s:s, s:s, s:n, s:s, s:i, s:i, s:[], s:b, s:i}", "id", SBX_SESSION_DEFAULT,
                         "environment", sessions->environment, "language", SBX_RUNTIME_DEFAULT, "isolation",
                         "created_at", now, "idle_seconds", 0, "age_seconds", 0, "context_keys", "busy", 0,
                         "executions", 0);
}

static const char *id_of(const json_t *entry) {
        return json_string_value(json_object_get(entry, "id"));
}

static int compare_entries(const void *left, const void *right) {
        const char *a = id_of(*(json_t *const *)left), *b = id_of(*(json_t *const *)right);
        int a_default = strcmp(a, SBX_SESSION_DEFAULT) == 0, b_default = strcmp(b, SBX_SESSION_DEFAULT) == 0;

        return a_default != b_default ? b_default - a_default : strcmp(a, b);
}

/* Entries that could not be made for lack of memory are NULL in the array. */
static size_t collect_locked(struct sbx_sessions *sessions, const char *principal, json_t **entries) {
        uint64_t now_ns = sbx_clock_ns();
        size_t count = 0;

        for (size_t i = 0; i < SBX_SESSION_BUCKETS; i++)
                for (const struct sbx_session *at = sessions->buckets[i]; at != NULL; at = at->next)
                        if (strcmp(at->principal, principal) == 0)
                                entries[count++] = describe_locked(at, now_ns);
        if (sbx_table_find_locked(sessions, principal, SBX_SESSION_DEFAULT) == NULL)
                entries[count++] = describe_unstarted(sessions);
        return count;
}

int sbx_sessions_list(struct sbx_sessions *sessions, const char *principal, json_t **ret_list, struct sbx_error *err) {
        _cleanup_json_ json_t *list = json_array();
        _cleanup_free_ json_t **entries = NULL;
        size_t count = 0;
        bool complete = list != NULL;

        pthread_mutex_lock(&sessions->lock);
        entries = calloc((size_t)sessions->live + 1, sizeof(*entries));
        if (entries != NULL)
                count = collect_locked(sessions, principal != NULL ? principal : "", entries);
        pthread_mutex_unlock(&sessions->lock);
        for (size_t i = 0; i < count; i++)
                complete = complete && entries[i] != NULL;
        if (complete && entries != NULL)
                qsort(entries, count, sizeof(*entries), compare_entries);
        for (size_t i = 0; i < count; i++)
                if (json_array_append_new(list, entries[i]) < 0)
                        complete = false;
        if (!complete || entries == NULL)
                return SBX_NOMEM(err, ORIGIN);
        *ret_list = steal_pointer(list);
        return 0;
}
