/* SPDX-License-Identifier: Apache-2.0 */
/* Puts responses and notifications together from parts; what is large is handed on in place. */
#include "reply.h"

#include <pthread.h>
#include <stdlib.h>

#include "identity.h"
#include "scan.h"

#define BATCH_BYTES_MAX (256u << 20)
#define PROGRESS_MESSAGE_MAX 1024u

struct mcp_channel *mcp_channel_ref(struct mcp_channel *channel) {
        if (channel->ref != NULL)
                channel->ref(channel->data);
        return channel;
}

void mcp_channel_unref(struct mcp_channel *channel) {
        if (channel != NULL && channel->unref != NULL)
                channel->unref(channel->data);
}

static void send_parts(struct mcp_channel *channel, enum mcp_outgoing_kind kind, enum mcp_revision revision, int error,
                       const struct sbx_bytes *parts, size_t count) {
        const struct mcp_outgoing message = {kind, revision, error, parts, count};

        channel->send(channel->data, &message);
}

/* ---- batches ------------------------------------------------------------------------------------------- */

struct mcp_batch {
        struct mcp_channel *channel; /* with a reference */
        pthread_mutex_t lock;        /* protects what follows */
        unsigned refs;
        struct mcp_text answers; /* "[answer,answer", closed when it is sent */
};

int mcp_batch_new(struct mcp_channel *channel, struct mcp_batch **ret_batch) {
        struct mcp_batch *batch = malloc(sizeof(*batch));

        if (batch == NULL)
                return -ENOMEM;
        *batch = (struct mcp_batch){
                .channel = mcp_channel_ref(channel), .refs = 1, .answers = MCP_TEXT(BATCH_BYTES_MAX)};
        pthread_mutex_init(&batch->lock, NULL);
        *ret_batch = batch;
        return 0;
}

struct mcp_batch *mcp_batch_ref(struct mcp_batch *batch) {
        pthread_mutex_lock(&batch->lock);
        batch->refs++;
        pthread_mutex_unlock(&batch->lock);
        return batch;
}

void mcp_batch_unref(struct mcp_batch *batch) {
        unsigned refs;

        if (batch == NULL)
                return;
        pthread_mutex_lock(&batch->lock);
        refs = --batch->refs;
        pthread_mutex_unlock(&batch->lock);
        if (refs > 0)
                return;
        if (batch->answers.size > 0) { /* a batch of notifications has no answer, not an empty one */
                const struct sbx_bytes parts[] = {mcp_text_bytes(&batch->answers), MCP_LITERAL("]")};

                send_parts(batch->channel, MCP_OUT_RESPONSE, MCP_2025_03_26, 0, parts, 2);
        }
        mcp_channel_unref(batch->channel);
        pthread_mutex_destroy(&batch->lock);
        mcp_text_free(&batch->answers);
        free(batch);
}

/* All parts or none, so that an answer too many leaves the batch whole. */
static int collect(struct mcp_batch *batch, const struct sbx_bytes *parts, size_t count) {
        size_t size = 1;
        int r;

        for (size_t i = 0; i < count; i++)
                size += parts[i].size;
        pthread_mutex_lock(&batch->lock);
        r = mcp_text_reserve(&batch->answers, size);
        if (r == 0) {
                mcp_text_append(&batch->answers, batch->answers.size == 0 ? "[" : ",", 1);
                for (size_t i = 0; i < count; i++)
                        mcp_text_append(&batch->answers, parts[i].data, parts[i].size);
        } else {
                batch->answers.error = 0; /* a smaller one may fit: the error that takes this one's place */
        }
        pthread_mutex_unlock(&batch->lock);
        return r;
}

static int deliver(const struct mcp_target *target, int error, const struct sbx_bytes *parts, size_t count) {
        if (target->batch != NULL)
                return collect(target->batch, parts, count);
        send_parts(target->channel, MCP_OUT_RESPONSE, target->revision, error, parts, count);
        return 0;
}

/* ---- results ------------------------------------------------------------------------------------------- */

static struct sbx_bytes id_bytes(const struct mcp_id *id) {
        return id != NULL && id->size > 0 ? (struct sbx_bytes){id->json, id->size} : MCP_LITERAL("null");
}

/* A modern result: the host's, in two pieces, and what it lacks before and between them. */
struct envelope {
        char front[512]; /* "{" and members, each with a comma behind it unless nothing follows */
        struct sbx_bytes first, insert, rest;
};

SBX_PRINTF(2, 3)
static void add_front(struct envelope *envelope, const char *format, ...) {
        size_t size = strlen(envelope->front);
        va_list args;

        va_start(args, format);
        (void)vsnprintf(envelope->front + size, sizeof(envelope->front) - size, format, args);
        va_end(args);
}

/* The server's name goes into _meta, which the result may have: then it is put in there, and the result is cut in two.
 */
static void add_server(struct envelope *envelope, struct sbx_bytes meta) {
        const char *inside = meta.data;
        size_t i = 1;

        if (meta.data == NULL) {
                add_front(envelope, "\"_meta\":{%s},", MCP_SERVER_MEMBER);
                return;
        }
        if (meta.size < 2 || *inside != '{' ||
            memmem(meta.data, meta.size, MCP_SERVER_KEY, sizeof(MCP_SERVER_KEY) - 1) != NULL)
                return;
        while (i < meta.size && inside[i] == ' ')
                i++;
        envelope->rest.data = inside + 1;
        envelope->rest.size = envelope->first.size - (size_t)(inside + 1 - (const char *)envelope->first.data);
        envelope->first.size -= envelope->rest.size;
        envelope->insert = inside[i] == '}' ? MCP_LITERAL(MCP_SERVER_MEMBER) : MCP_LITERAL(MCP_SERVER_MEMBER ",");
}

static struct envelope wrap(const struct mcp_target *target, struct sbx_bytes result,
                            const struct mcp_caching *caching) {
        struct mcp_scan_member members[] = {{"\"resultType\"", {NULL, 0}}, {"\"_meta\"", {NULL, 0}}};
        struct envelope envelope = {.front = "", .first = result};
        const char *bytes = result.data;
        size_t size, i = 1;

        if (!mcp_is_modern(target->revision) || result.size < 2)
                return envelope;
        envelope = (struct envelope){.front = "{", .first = {bytes + 1, result.size - 1}};
        if (caching == NULL || !caching->is_plain)
                (void)mcp_scan_members(result, members, 2);
        if (members[0].value.data == NULL)
                add_front(&envelope, "\"resultType\":\"complete\",");
        if (caching != NULL)
                add_front(&envelope, "\"ttlMs\":%u,\"cacheScope\":\"%s\",", caching->ttl_ms,
                          caching->is_public ? "public" : "private");
        add_server(&envelope, members[1].value);
        while (i < result.size && bytes[i] == ' ')
                i++;
        size = strlen(envelope.front);
        if (i < result.size && bytes[i] == '}' && envelope.front[size - 1] == ',')
                envelope.front[size - 1] = '\0';
        return envelope;
}

void mcp_reply_cacheable(const struct mcp_target *target, const struct mcp_id *id, struct sbx_bytes result,
                         const struct mcp_caching *caching) {
        const struct envelope envelope = wrap(target, result, caching);
        const struct sbx_bytes parts[] = {MCP_LITERAL("{\"jsonrpc\":\"2.0\",\"id\":"),
                                          id_bytes(id),
                                          MCP_LITERAL(",\"result\":"),
                                          {envelope.front, strlen(envelope.front)},
                                          envelope.first,
                                          envelope.insert,
                                          envelope.rest,
                                          MCP_LITERAL("}")};

        if (deliver(target, 0, parts, sizeof(parts) / sizeof(parts[0])) < 0)
                mcp_reply_error(target, id, MCP_INTERNAL_ERROR, "the answers of this batch are too large together",
                                "Send fewer calls in one batch.");
}

void mcp_reply_result(const struct mcp_target *target, const struct mcp_id *id, struct sbx_bytes result) {
        mcp_reply_cacheable(target, id, result, NULL);
}

/* ---- errors -------------------------------------------------------------------------------------------- */

static void encode_error(struct mcp_text *text, int code, const char *message, const char *hint,
                         struct sbx_bytes data) {
        char joined[SBX_ERROR_MESSAGE_MAX + SBX_ERROR_HINT_MAX + 4];

        snprintf(joined, sizeof(joined), "%s%s%s", message, hint != NULL && hint[0] != '\0' ? ". " : "",
                 hint != NULL ? hint : "");
        mcp_text_append_literal(text, "{\"code\":");
        mcp_text_append_int(text, code);
        mcp_text_append_literal(text, ",\"message\":");
        mcp_text_append_string(text, joined, strlen(joined));
        if (data.size > 0) {
                mcp_text_append_literal(text, ",\"data\":");
                mcp_text_append(text, data.data, data.size);
        }
        mcp_text_append_literal(text, "}");
}

void mcp_reply_error_data(const struct mcp_target *target, const struct mcp_id *id, int code, const char *message,
                          const char *hint, struct sbx_bytes data) {
        _cleanup_text_ struct mcp_text error = MCP_TEXT(16 * (SBX_ERROR_MESSAGE_MAX + SBX_ERROR_HINT_MAX) + data.size);
        struct sbx_bytes parts[] = {MCP_LITERAL("{\"jsonrpc\":\"2.0\",\"id\":"),
                                    id_bytes(id),
                                    MCP_LITERAL(",\"error\":"),
                                    {NULL, 0},
                                    MCP_LITERAL("}")};

        encode_error(&error, code, message, hint, data);
        if (error.error != 0)
                code = MCP_INTERNAL_ERROR;
        parts[3] = error.error == 0 ? mcp_text_bytes(&error)
                                    : MCP_LITERAL("{\"code\":-32603,\"message\":\"out of memory\"}");
        (void)deliver(target, code, parts, 5); /* in a batch without memory there is nothing left to say it with */
}

void mcp_reply_error(const struct mcp_target *target, const struct mcp_id *id, int code, const char *message,
                     const char *hint) {
        mcp_reply_error_data(target, id, code, message, hint, (struct sbx_bytes){NULL, 0});
}

/* ---- notifications ------------------------------------------------------------------------------------- */

void mcp_send_progress(const struct mcp_target *target, const struct mcp_id *token, double progress, double total,
                       const char *message) {
        _cleanup_text_ struct mcp_text text = MCP_TEXT(8 * (PROGRESS_MESSAGE_MAX + MCP_ID_BYTES_MAX));
        struct sbx_bytes part;

        mcp_text_append_literal(&text, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
                                       "\"progressToken\":");
        mcp_text_append(&text, token->json, token->size);
        mcp_text_append_literal(&text, ",\"progress\":");
        mcp_text_append_number(&text, progress);
        if (total > 0 && total <= 1e300) {
                mcp_text_append_literal(&text, ",\"total\":");
                mcp_text_append_number(&text, total);
        }
        if (message != NULL && target->revision != MCP_2024_11_05) {
                mcp_text_append_literal(&text, ",\"message\":");
                mcp_text_append_string(&text, message, strnlen(message, PROGRESS_MESSAGE_MAX));
        }
        mcp_text_append_literal(&text, "}}");
        part = mcp_text_bytes(&text);
        if (text.error == 0)
                send_parts(target->channel, MCP_OUT_PROGRESS, target->revision, 0, &part, 1);
}

void mcp_send_notification(struct mcp_channel *channel, enum mcp_revision revision, const char *method,
                           struct sbx_bytes params) {
        const struct sbx_bytes parts[] = {MCP_LITERAL("{\"jsonrpc\":\"2.0\",\"method\":\""),
                                          {method, strlen(method)},
                                          MCP_LITERAL("\",\"params\":"),
                                          params,
                                          MCP_LITERAL("}")};

        send_parts(channel, MCP_OUT_NOTIFICATION, revision, 0, parts, 5);
}
