/* SPDX-License-Identifier: Apache-2.0 */
/* Artifacts: what executions made that is too much for their result, kept with the session for clients to read. */
#include "session/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_SESSION_ORIGIN

static void artifact_unref(struct sbx_artifact *artifact) {
        if (__atomic_sub_fetch(&artifact->references, 1, __ATOMIC_ACQ_REL) > 0)
                return;
        free(artifact->mime_type);
        free(artifact);
}
SBX_DEFINE_CLEANUP(struct sbx_artifact *, artifact_unref, cleanup_artifact)
#define _cleanup_artifact_ __attribute__((cleanup(cleanup_artifact)))

static int no_session(const char *id, struct sbx_error *err) {
        return sbx_error_set(err, -ENOENT, ORIGIN, "list_sessions shows those that exist.", "session '%.*s' not found",
                             SBX_SESSION_ID_MAX, id);
}

/* ---- keeping ---- */

static struct sbx_artifact *pop_oldest_locked(struct sbx_session *session) {
        struct sbx_artifacts *artifacts = &session->artifacts;
        struct sbx_artifact *oldest = artifacts->items[0];

        artifacts->count--;
        memmove(&artifacts->items[0], &artifacts->items[1], artifacts->count * sizeof(artifacts->items[0]));
        artifacts->bytes -= oldest->size;
        session->owner->artifact_bytes -= oldest->size;
        return oldest;
}

static bool fits_locked(const struct sbx_session *session, size_t size) {
        return session->artifacts.count < SBX_ARTIFACTS_MAX &&
               session->artifacts.bytes + size <= SBX_ARTIFACT_BYTES_MAX &&
               session->owner->artifact_bytes + size <= SBX_ARTIFACT_BYTES_OF_ALL;
}

/* Makes room among the session's own, never among another's. `dropped` gets what went, to be freed without the lock. */
static int insert_locked(struct sbx_session *session, const char *prefix, const char *suffix,
                         struct sbx_artifact *artifact, struct sbx_artifacts *dropped) {
        struct sbx_artifacts *artifacts = &session->artifacts;

        while (!fits_locked(session, artifact->size) && artifacts->count > 0)
                dropped->items[dropped->count++] = pop_oldest_locked(session);
        if (!fits_locked(session, artifact->size))
                return -ENOSPC;
        snprintf(artifact->name, sizeof(artifact->name), "%s-%llu%s", prefix,
                 (unsigned long long)++artifacts->last_number, suffix);
        artifacts->items[artifacts->count++] = artifact;
        artifacts->bytes += artifact->size;
        session->owner->artifact_bytes += artifact->size;
        return 0;
}

static bool is_plain(const char *text, size_t max) {
        static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
        size_t length = strlen(text);

        return length <= max && strspn(text, allowed) == length;
}

static int artifact_new(const char *mime_type, struct sbx_bytes content, struct sbx_artifact **ret_artifact,
                        struct sbx_error *err) {
        _cleanup_artifact_ struct sbx_artifact *artifact = NULL;

        if (content.size > SBX_ARTIFACT_BYTES_MAX)
                return sbx_error_set(err, -EFBIG, ORIGIN, NULL, "%zu bytes; at most %zu can be kept", content.size,
                                     SBX_ARTIFACT_BYTES_MAX);
        artifact = malloc(sizeof(*artifact) + content.size);
        if (artifact == NULL)
                return SBX_NOMEM(err, ORIGIN);
        *artifact = (struct sbx_artifact){.references = 1, .size = content.size, .mime_type = strdup(mime_type)};
        if (artifact->mime_type == NULL)
                return SBX_NOMEM(err, ORIGIN);
        if (content.size > 0)
                memcpy(artifact->bytes, content.data, content.size);
        *ret_artifact = steal_pointer(artifact);
        return 0;
}

int sbx_sessions_artifact_add(struct sbx_sessions *sessions, const char *principal, const char *id, const char *prefix,
                              const char *suffix, const char *mime_type, struct sbx_bytes content,
                              char ret_name[SBX_ARTIFACT_NAME_SIZE], struct sbx_error *err) {
        _cleanup_artifact_ struct sbx_artifact *artifact = NULL;
        struct sbx_artifacts dropped = {0};
        struct sbx_session *session;
        int r;

        principal = principal != NULL ? principal : "";
        id = id != NULL ? id : SBX_SESSION_DEFAULT;
        if (!is_plain(prefix, 16) || !is_plain(suffix, 16))
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "'%.20s' and '%.20s' make no name of an artifact",
                                     prefix, suffix);
        r = artifact_new(mime_type, content, &artifact, err);
        if (r < 0)
                return r;
        pthread_mutex_lock(&sessions->lock);
        session = id[0] != '\0' ? sbx_table_find_locked(sessions, principal, id) : NULL;
        r = session != NULL ? insert_locked(session, prefix, suffix, artifact, &dropped) : -ENOENT;
        if (r == 0) {
                memcpy(ret_name, artifact->name, SBX_ARTIFACT_NAME_SIZE);
                artifact = NULL; /* the session's from now on */
        }
        pthread_mutex_unlock(&sessions->lock);
        for (unsigned i = 0; i < dropped.count; i++)
                artifact_unref(dropped.items[i]);
        if (r == -ENOENT)
                return no_session(id, err);
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, "Destroy sessions that are no longer needed.",
                                     "the artifacts of all sessions together have their maximum of %zu bytes",
                                     SBX_ARTIFACT_BYTES_OF_ALL);
        sbx_session_tell(sessions, principal, id);
        return 0;
}

void sbx_artifacts_clear(struct sbx_session *session) {
        struct sbx_sessions *sessions = session->owner;
        struct sbx_artifacts dropped;

        if (session->artifacts.count == 0) /* nobody else knows the session any more */
                return;
        pthread_mutex_lock(&sessions->lock);
        dropped = session->artifacts;
        session->artifacts = (struct sbx_artifacts){0};
        sessions->artifact_bytes -= dropped.bytes;
        pthread_mutex_unlock(&sessions->lock);
        for (unsigned i = 0; i < dropped.count; i++)
                artifact_unref(dropped.items[i]);
}

/* ---- reading ---- */

static int list_locked(const struct sbx_session *session, json_t *list) {
        for (unsigned i = 0; i < session->artifacts.count; i++) {
                const struct sbx_artifact *artifact = session->artifacts.items[i];

                if (json_array_append_new(list, json_pack("{s:s, s:s, s:I}", "name", artifact->name, "mime_type",
                                                          artifact->mime_type, "size", (json_int_t)artifact->size)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int sbx_sessions_artifact_list(struct sbx_sessions *sessions, const char *principal, const char *id, json_t **ret_list,
                               struct sbx_error *err) {
        _cleanup_json_ json_t *list = json_array();
        struct sbx_session *session;
        int r;

        id = id != NULL ? id : SBX_SESSION_DEFAULT;
        if (list == NULL)
                return SBX_NOMEM(err, ORIGIN);
        pthread_mutex_lock(&sessions->lock);
        sessions->looked = true;
        session = sbx_table_find_locked(sessions, principal != NULL ? principal : "", id);
        if (session != NULL)
                session->unlisted = false;
        r = session != NULL ? list_locked(session, list) : -ENOENT;
        pthread_mutex_unlock(&sessions->lock);
        if (r < 0)
                return r == -ENOENT ? no_session(id, err) : SBX_NOMEM(err, ORIGIN);
        *ret_list = steal_pointer(list);
        return 0;
}

/* With a reference, so that it can be copied without the lock. */
static struct sbx_artifact *find_locked(struct sbx_session *session, const char *name) {
        for (unsigned i = 0; i < session->artifacts.count; i++)
                if (strcmp(session->artifacts.items[i]->name, name) == 0) {
                        __atomic_add_fetch(&session->artifacts.items[i]->references, 1, __ATOMIC_RELAXED);
                        return session->artifacts.items[i];
                }
        return NULL;
}

int sbx_sessions_artifact_read(struct sbx_sessions *sessions, const char *principal, const char *id, const char *name,
                               struct sbx_buffer *out, char **ret_mime_type, struct sbx_error *err) {
        _cleanup_artifact_ struct sbx_artifact *artifact = NULL;
        _cleanup_free_ char *mime_type = NULL;
        struct sbx_session *session;
        int r;

        id = id != NULL ? id : SBX_SESSION_DEFAULT;
        pthread_mutex_lock(&sessions->lock);
        session = sbx_table_find_locked(sessions, principal != NULL ? principal : "", id);
        if (session != NULL)
                artifact = find_locked(session, name);
        pthread_mutex_unlock(&sessions->lock);
        if (session == NULL)
                return no_session(id, err);
        if (artifact == NULL)
                return sbx_error_set(err, -ENOENT, ORIGIN,
                                     "A session keeps its latest artifacts only; run the code again.",
                                     "session '%s' has no artifact '%.*s'", id, (int)SBX_ARTIFACT_NAME_SIZE, name);
        mime_type = strdup(artifact->mime_type);
        if (mime_type == NULL)
                return SBX_NOMEM(err, ORIGIN);
        r = sbx_buffer_append(out, artifact->bytes, artifact->size);
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, NULL, "artifact '%s' has %zu bytes: %s", artifact->name,
                                     artifact->size, SBX_ERRNO_TEXT(r));
        *ret_mime_type = steal_pointer(mime_type);
        return 0;
}
