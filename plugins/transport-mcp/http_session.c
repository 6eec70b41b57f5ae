/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of legacy clients: begun by initialize, bound to who began them, ended by DELETE, by time, or to make room.
 */
#include <stdlib.h>

#include "http_private.h"

/* ---- the channel for what answers nothing: the stream of the session's GET ---- */

static void channel_send(void *data, const struct mcp_outgoing *message) {
        struct http_session *session = data;

        pthread_mutex_lock(&session->lock);
        if (session->standalone != NULL) /* before the client has asked for it there is nothing to come back to */
                http_stream_send(session->standalone, message);
        pthread_mutex_unlock(&session->lock);
}

static void channel_ref(void *data) {
        http_session_ref(data);
}

static void channel_unref(void *data) {
        http_session_unref(data);
}

/* ---- the table ---- */

static unsigned hex_digit(char c) {
        return c >= '0' && c <= '9' ? (unsigned)(c - '0') : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 0;
}

static struct http_session **bucket_of(struct mcp_http *http, const char *id) {
        return &http->sessions[hex_digit(id[0]) << 4 | hex_digit(id[1])];
}

/* In the same time whatever differs. */
static bool id_equal(const char *id, const char *other) {
        unsigned char difference = 0;

        for (size_t i = 0; i < MCP_RANDOM_ID_SIZE - 1; i++)
                difference |= (unsigned char)(id[i] ^ other[i]);
        return difference == 0;
}

/* Under http->lock. False: it was not there any more. */
static bool table_remove(struct mcp_http *http, struct http_session *session) {
        struct http_session **at = bucket_of(http, session->id);

        while (*at != NULL && *at != session)
                at = &(*at)->next;
        if (*at == NULL)
                return false;
        *at = session->next;
        session->next = NULL;
        http->sessions_open--;
        return true;
}

struct http_session *http_session_find(struct mcp_http *http, const char *id, const char *principal) {
        struct http_session *session;

        if (strlen(id) != MCP_RANDOM_ID_SIZE - 1)
                return NULL;
        pthread_mutex_lock(&http->lock);
        session = *bucket_of(http, id);
        while (session != NULL && !id_equal(session->id, id))
                session = session->next;
        if (session != NULL && strcmp(session->principal, principal) != 0)
                session = NULL; /* another's is answered as one that does not exist */
        if (session != NULL)
                http_session_ref(session);
        pthread_mutex_unlock(&http->lock);
        return session;
}

/* ---- life ---- */

void http_session_ref(struct http_session *session) {
        __atomic_fetch_add(&session->refs, 1, __ATOMIC_RELAXED);
}

void http_session_unref(struct http_session *session) {
        struct mcp_http *http = session->http;

        if (__atomic_fetch_sub(&session->refs, 1, __ATOMIC_ACQ_REL) != 1)
                return;
        pthread_mutex_lock(&http->lock);
        session->next = http->dead_sessions;
        http->dead_sessions = session;
        pthread_cond_broadcast(&http->changed);
        pthread_mutex_unlock(&http->lock);
}

static void session_free(struct http_session *session) {
        http_streams_free(session);
        mcp_connection_free(session->connection);
        pthread_mutex_destroy(&session->lock);
        free(session->principal);
        free(session);
}

void http_session_free(struct http_session *session) {
        struct mcp_http *http = session->http;

        mcp_connection_wait(session->connection);
        session_free(session);
        pthread_mutex_lock(&http->lock);
        http->sessions_alive--;
        pthread_cond_broadcast(&http->changed);
        pthread_mutex_unlock(&http->lock);
}

/* What nobody holds through the table any more. */
static void session_end(struct http_session *session) {
        pthread_mutex_lock(&session->lock);
        session->closed = true;
        pthread_mutex_unlock(&session->lock);
        mcp_connection_set_channel(session->connection, NULL);
        mcp_connection_cancel(session->connection);
        pthread_mutex_lock(&session->lock);
        for (struct http_stream *stream = session->streams; stream != NULL; stream = stream->next)
                http_stream_end(stream);
        pthread_mutex_unlock(&session->lock);
        http_session_unref(session);
}

void http_session_close(struct http_session *session) {
        struct mcp_http *http = session->http;
        bool was_there;

        pthread_mutex_lock(&http->lock);
        was_there = table_remove(http, session);
        pthread_mutex_unlock(&http->lock);
        if (was_there)
                session_end(session);
}

/* Closes what `chosen` says, one after another, so that the table is never locked for long. */
static void close_chosen(struct mcp_http *http, bool (*chosen)(struct http_session *session, uint64_t now_ns),
                         uint64_t now_ns) {
        for (size_t i = 0; i < HTTP_SESSION_BUCKETS;) {
                struct http_session *found;

                pthread_mutex_lock(&http->lock);
                found = http->sessions[i];
                while (found != NULL && !chosen(found, now_ns))
                        found = found->next;
                if (found != NULL)
                        (void)table_remove(http, found);
                pthread_mutex_unlock(&http->lock);
                if (found != NULL)
                        session_end(found);
                else
                        i++;
        }
}

static bool any(struct http_session *session, uint64_t now_ns) {
        return true;
}

void http_sessions_close_all(struct mcp_http *http) {
        close_chosen(http, any, 0);
}

/* ---- room ---- */

/* A session that nobody uses now: when the last one did. UINT64_MAX: it is in use. Under http->lock, which is a leaf,
 * so these are atomic. */
static uint64_t idle_since(const struct http_session *session) {
        return __atomic_load_n(&session->exchanges, __ATOMIC_ACQUIRE) > 0
                       ? UINT64_MAX
                       : __atomic_load_n(&session->used_ns, __ATOMIC_RELAXED);
}

/* The principal's own sessions, and the one of them that has been idle for longest. Under http->lock. */
static size_t count_sessions(struct mcp_http *http, const char *principal, struct http_session **ret_oldest) {
        uint64_t oldest_ns = UINT64_MAX;
        size_t count = 0;

        *ret_oldest = NULL;
        for (size_t i = 0; i < HTTP_SESSION_BUCKETS; i++)
                for (struct http_session *session = http->sessions[i]; session != NULL; session = session->next) {
                        if (strcmp(session->principal, principal) != 0)
                                continue;
                        count++;
                        if (idle_since(session) < oldest_ns) {
                                oldest_ns = idle_since(session);
                                *ret_oldest = session;
                        }
                }
        return count;
}

/* Where there are no principals, there is nobody to be protected from the only one. Under http->lock. 0: there is room,
 * and `ret_oldest` (NULL: none) must go for it. */
static int make_room(struct mcp_http *http, const char *principal, struct http_session **ret_oldest) {
        const struct mcp_http_settings *settings = http->settings;
        struct http_session *oldest;
        size_t own;

        *ret_oldest = NULL;
        if (http->sessions_open < settings->sessions_max && http->sessions_open < settings->sessions_per_principal)
                return 0;
        own = count_sessions(http, principal, &oldest);
        if (http->sessions_open < settings->sessions_max &&
            (principal[0] == '\0' || own < settings->sessions_per_principal))
                return 0;
        if (oldest == NULL)
                return -EBUSY;
        (void)table_remove(http, oldest);
        *ret_oldest = oldest;
        return 0;
}

/* ---- beginning ---- */

static int session_alloc(struct mcp_http *http, const char *principal, struct http_session **ret_session,
                         struct sbx_error *err) {
        struct http_session *session = malloc(sizeof(*session));
        char random[MCP_RANDOM_ID_SIZE];
        int r;

        if (session == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for a session");
        *session = (struct http_session){
                .channel = {session, channel_send, NULL, channel_ref, channel_unref},
                .http = http,
                .principal = strdup(principal),
                .refs = 2, /* the table's and the caller's */
                .used_ns = http_now_ns(http),
                .newest = &session->oldest,
        };
        pthread_mutex_init(&session->lock, NULL);
        mcp_random_id(session->id);
        mcp_random_id(random);
        memcpy(session->tag, random, sizeof(session->tag) - 1);
        r = session->principal == NULL
                    ? sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for a session")
                    : mcp_connection_new(http->server, MCP_CONNECTION_SESSION, principal, &session->connection, err);
        if (r < 0) {
                session_free(session);
                return r;
        }
        *ret_session = session;
        return 0;
}

/* 0 or -EBUSY, -ECANCELED. */
static int enlist(struct mcp_http *http, struct http_session *session, struct http_session **ret_oldest) {
        struct http_session **bucket = bucket_of(http, session->id);
        int r;

        *ret_oldest = NULL;
        pthread_mutex_lock(&http->lock);
        r = http->stopping ? -ECANCELED : make_room(http, session->principal, ret_oldest);
        if (r == 0) {
                session->next = *bucket;
                *bucket = session;
                http->sessions_open++;
                http->sessions_alive++;
        }
        pthread_mutex_unlock(&http->lock);
        return r;
}

int http_session_new(struct mcp_http *http, const char *principal, struct http_session **ret_session,
                     struct sbx_error *err) {
        struct http_session *session = NULL, *oldest;
        int r = session_alloc(http, principal, &session, err);

        if (r < 0)
                return r;
        r = enlist(http, session, &oldest);
        if (oldest != NULL)
                session_end(oldest);
        if (r < 0) {
                http_count(&http->figures.sessions_refused);
                session_free(session);
                return sbx_error_set(err, r, "transport-mcp", "Try again later, or end a session with DELETE",
                                     r == -EBUSY ? "too many sessions are in use" : "the server ends");
        }
        mcp_connection_set_channel(session->connection, &session->channel);
        http_count(&http->figures.sessions_started);
        *ret_session = session;
        return 0;
}

void http_session_exchange_ended(struct http_session *session) {
        __atomic_store_n(&session->used_ns, http_now_ns(session->http), __ATOMIC_RELAXED);
        __atomic_fetch_sub(&session->exchanges, 1, __ATOMIC_RELEASE);
}

/* ---- time ---- */

static bool expired(struct http_session *session, uint64_t now_ns) {
        uint64_t idle_ns = idle_since(session);

        return idle_ns < now_ns && now_ns - idle_ns > session->http->settings->session_ttl_ms * UINT64_C(1000000);
}

static bool counted_expired(struct http_session *session, uint64_t now_ns) {
        if (!expired(session, now_ns))
                return false;
        http_count(&session->http->figures.sessions_expired);
        return true;
}

/* The sessions of one bucket, with references, at most `max`. */
static size_t take_bucket(struct mcp_http *http, size_t bucket, struct http_session **sessions, size_t max) {
        size_t count = 0;

        pthread_mutex_lock(&http->lock);
        for (struct http_session *session = http->sessions[bucket]; session != NULL && count < max;
             session = session->next) {
                http_session_ref(session);
                sessions[count++] = session;
        }
        pthread_mutex_unlock(&http->lock);
        return count;
}

void http_sessions_tick(struct mcp_http *http, uint64_t now_ns) {
        const uint64_t kept_ns = http->settings->replay_ms * UINT64_C(1000000);
        struct http_session *sessions[64];

        close_chosen(http, counted_expired, now_ns);
        for (size_t bucket = 0; bucket < HTTP_SESSION_BUCKETS; bucket++) {
                size_t count = take_bucket(http, bucket, sessions, sizeof(sessions) / sizeof(sessions[0]));

                for (size_t i = 0; i < count; i++) {
                        pthread_mutex_lock(&sessions[i]->lock);
                        http_streams_expire(sessions[i], now_ns > kept_ns ? now_ns - kept_ns : 0);
                        pthread_mutex_unlock(&sessions[i]->lock);
                        http_session_unref(sessions[i]);
                }
        }
}
