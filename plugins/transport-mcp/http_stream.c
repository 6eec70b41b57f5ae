/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of events that a legacy client can come back to: each event has an id of its session and stream, and is kept
 * for a while. A message belongs to one stream, and a stream to one response at a time. Everything here happens under
 * the session's lock. */
#include <inttypes.h>
#include <stdlib.h>

#include "http_private.h"

/* What all sessions together may keep before each is held to a sixteenth of its own share. */
#define REPLAY_TOTAL_MAX (UINT64_C(256) << 20)

static void event_id(const struct http_stream *stream, uint64_t sequence, char id[HTTP_EVENT_ID_SIZE]) {
        snprintf(id, HTTP_EVENT_ID_SIZE, "%s-%" PRIu64 "-%" PRIu64, stream->session->tag, stream->number, sequence);
}

/* ---- what is kept ---- */

static void drop_oldest(struct http_session *session) {
        struct http_event *event = session->oldest;
        size_t size = sizeof(*event) + event->size;

        session->oldest = event->next;
        if (session->oldest == NULL)
                session->newest = &session->oldest;
        event->stream->dropped = event->sequence;
        event->stream->kept--;
        session->replay_bytes -= size;
        __atomic_fetch_sub(&session->http->replay_total, size, __ATOMIC_RELAXED);
        free(event);
}

/* Streams that are over, and of which nothing is left. */
static void forget_streams(struct http_session *session) {
        struct http_stream **at = &session->streams;

        while (*at != NULL) {
                struct http_stream *stream = *at;

                if (stream->ended && stream->kept == 0 && stream->exchange == NULL && !stream->held) {
                        *at = stream->next;
                        free(stream);
                } else {
                        at = &stream->next;
                }
        }
}

static size_t replay_limit(const struct http_session *session) {
        size_t own = session->http->settings->replay_bytes;

        return __atomic_load_n(&session->http->replay_total, __ATOMIC_RELAXED) > REPLAY_TOTAL_MAX ? own / 16 : own;
}

static void keep(struct http_stream *stream, struct http_event *event) {
        struct http_session *session = stream->session;
        size_t size = sizeof(*event) + event->size;

        *session->newest = event;
        session->newest = &event->next;
        stream->kept++;
        session->replay_bytes += size;
        __atomic_fetch_add(&session->http->replay_total, size, __ATOMIC_RELAXED);
        /* The newest one stays, however large: it may be the answer that somebody comes back for. */
        while (session->replay_bytes > replay_limit(session) && session->oldest->next != NULL)
                drop_oldest(session);
}

void http_streams_expire(struct http_session *session, uint64_t before_ns) {
        while (session->oldest != NULL && session->oldest->time_ns < before_ns)
                drop_oldest(session);
        forget_streams(session);
}

void http_streams_free(struct http_session *session) {
        while (session->oldest != NULL)
                drop_oldest(session);
        while (session->streams != NULL) {
                struct http_stream *stream = session->streams;

                session->streams = stream->next;
                free(stream);
        }
        session->standalone = NULL;
}

/* ---- life ---- */

struct http_stream *http_stream_new(struct http_session *session, struct http_exchange *exchange) {
        struct http_stream *stream = malloc(sizeof(*stream));

        if (stream == NULL)
                return NULL;
        forget_streams(session);
        http_exchange_ref(exchange);
        *stream = (struct http_stream){
                .next = session->streams,
                .session = session,
                .number = session->streams_begun++,
                .held = exchange->manner.is_post,
                .exchange = exchange,
        };
        session->streams = stream;
        return stream;
}

void http_stream_detach(struct http_stream *stream) {
        struct http_exchange *exchange = stream->exchange;

        if (exchange == NULL)
                return;
        stream->exchange = NULL;
        if (exchange->phase == HTTP_STREAMING)
                hs_end(exchange->hs);
        exchange->phase = HTTP_ENDED;
        http_exchange_unref(exchange);
}

void http_stream_end(struct http_stream *stream) {
        stream->ended = true;
        http_stream_detach(stream);
}

/* ---- sending ---- */

static void write_part(struct http_stream *stream, struct sbx_bytes part, bool needed) {
        struct http_exchange *exchange = stream->exchange;

        if (exchange == NULL)
                return;
        exchange->written_ns = http_now_ns(exchange->http);
        /* Too far behind: the client may come back for what it has missed. */
        if (hs_write(exchange->hs, &part, 1) == -ENOBUFS && needed)
                http_stream_detach(stream);
}

void http_stream_prime(struct http_stream *stream, uint32_t retry_ms) {
        char text[HTTP_EVENT_ID_SIZE + 64], id[HTTP_EVENT_ID_SIZE];
        int size;

        event_id(stream, stream->sequence, id);
        size = snprintf(text, sizeof(text), "id: %s\nretry: %" PRIu32 "\ndata: \n\n", id, retry_ms);
        write_part(stream, (struct sbx_bytes){text, (size_t)size}, true);
}

/* NULL: out of memory. */
static struct http_event *event_new(struct http_stream *stream, const struct mcp_outgoing *message, bool kept) {
        char before[HTTP_EVENT_ID_SIZE + 64], id[HTTP_EVENT_ID_SIZE], *to;
        size_t size, begin;
        struct http_event *event;

        event_id(stream, stream->sequence + 1, id);
        begin = http_sse_begin(before, sizeof(before), kept ? id : NULL);
        size = begin + HTTP_SSE_END.size;
        for (size_t i = 0; i < message->count; i++)
                size += message->parts[i].size;
        event = malloc(sizeof(*event) + size);
        if (event == NULL)
                return NULL;
        *event = (struct http_event){
                .stream = stream,
                .sequence = stream->sequence + 1,
                .time_ns = http_now_ns(stream->session->http),
                .size = size,
        };
        to = event->bytes;
        memcpy(to, before, begin);
        to += begin;
        for (size_t i = 0; i < message->count; i++) {
                if (message->parts[i].size > 0)
                        memcpy(to, message->parts[i].data, message->parts[i].size);
                to += message->parts[i].size;
        }
        memcpy(to, HTTP_SSE_END.data, HTTP_SSE_END.size);
        return event;
}

/* Progress is old when somebody comes back for it, so it has no id and is not kept. */
void http_stream_send(struct http_stream *stream, const struct mcp_outgoing *message) {
        bool kept = message->kind != MCP_OUT_PROGRESS;
        struct http_event *event;

        if (stream->ended || (!kept && stream->exchange == NULL))
                return;
        event = event_new(stream, message, kept);
        if (event == NULL) {
                stream->dropped = ++stream->sequence; /* who comes back is told that something is missing */
                http_stream_detach(stream);
        } else {
                write_part(stream, (struct sbx_bytes){event->bytes, event->size}, kept);
                if (kept) {
                        stream->sequence = event->sequence;
                        keep(stream, event);
                } else {
                        free(event);
                }
        }
        if (message->kind == MCP_OUT_RESPONSE)
                http_stream_end(stream);
}

/* ---- coming back ---- */

/* As event_id writes it, and no other way. */
static bool read_number(const char **at, char end, uint64_t *ret) {
        uint64_t value = 0;
        size_t digits = 0;

        if ((*at)[0] == '0' && (*at)[1] != end)
                return false;
        for (; **at >= '0' && **at <= '9' && digits < 19; (*at)++, digits++)
                value = value * 10 + (uint64_t)(**at - '0');
        if (digits == 0 || **at != end)
                return false;
        if (end != '\0')
                (*at)++;
        *ret = value;
        return true;
}

struct http_stream *http_stream_find(struct http_session *session, const char *id, uint64_t *ret_sequence,
                                     const char **ret_why) {
        size_t tag = strlen(session->tag);
        struct http_stream *stream;
        uint64_t number, sequence;
        const char *at = id + tag + 1;

        *ret_why = "Last-Event-ID is not of this session";
        if (strncmp(id, session->tag, tag) != 0 || id[tag] != '-' || !read_number(&at, '-', &number) ||
            !read_number(&at, '\0', &sequence))
                return NULL;
        for (stream = session->streams; stream != NULL && stream->number != number;)
                stream = stream->next;
        *ret_why = "the stream of this Last-Event-ID is over, and nothing of it is kept any more";
        if (stream == NULL)
                return NULL;
        if (sequence > stream->sequence) {
                *ret_why = "Last-Event-ID is not of this session";
                return NULL;
        }
        if (stream->ended && sequence == stream->sequence)
                return NULL;
        if (sequence < stream->dropped && stream != session->standalone) {
                *ret_why = "some of what came after this Last-Event-ID is no longer kept";
                return NULL;
        }
        *ret_sequence = sequence;
        return stream;
}

void http_stream_resume(struct http_stream *stream, uint64_t sequence, struct http_exchange *exchange) {
        http_stream_detach(stream);
        http_exchange_ref(exchange);
        stream->exchange = exchange;
        for (const struct http_event *event = stream->session->oldest; event != NULL && stream->exchange != NULL;
             event = event->next)
                if (event->stream == stream && event->sequence > sequence)
                        write_part(stream, (struct sbx_bytes){event->bytes, event->size}, true);
        if (stream->ended)
                http_stream_detach(stream);
}
