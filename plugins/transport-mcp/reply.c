/* SPDX-License-Identifier: Apache-2.0 */
/* Puts responses and notifications together from parts; what is large is handed on in place. */
#include "reply.h"

#include <pthread.h>
#include <stdlib.h>

#define BATCH_BYTES_MAX (256u << 20)
#define PROGRESS_MESSAGE_MAX 1024u

struct mcp_batch {
        const struct mcp_channel *channel;
        pthread_mutex_t lock; /* protects what follows */
        unsigned refs;
        struct mcp_text answers; /* "[answer,answer", closed when it is sent */
};

int mcp_batch_new(const struct mcp_channel *channel, struct mcp_batch **ret_batch) {
        struct mcp_batch *batch = malloc(sizeof(*batch));

        if (batch == NULL)
                return -ENOMEM;
        *batch = (struct mcp_batch){.channel = channel, .refs = 1, .answers = MCP_TEXT(BATCH_BYTES_MAX)};
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
                struct sbx_bytes parts[] = {mcp_text_bytes(&batch->answers), MCP_LITERAL("]")};

                batch->channel->send(batch->channel->data, parts, 2, false);
        }
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

static int deliver(const struct mcp_target *target, const struct sbx_bytes *parts, size_t count) {
        if (target->batch != NULL)
                return collect(target->batch, parts, count);
        target->channel->send(target->channel->data, parts, count, false);
        return 0;
}

static struct sbx_bytes id_bytes(const struct mcp_id *id) {
        return id != NULL && id->size > 0 ? (struct sbx_bytes){id->json, id->size} : MCP_LITERAL("null");
}

void mcp_reply_result(const struct mcp_target *target, const struct mcp_id *id, struct sbx_bytes result) {
        struct sbx_bytes parts[] = {MCP_LITERAL("{\"jsonrpc\":\"2.0\",\"id\":"), id_bytes(id),
                                    MCP_LITERAL(",\"result\":"), result, MCP_LITERAL("}")};

        if (deliver(target, parts, 5) < 0)
                mcp_reply_error(target, id, MCP_INTERNAL_ERROR, "the answers of this batch are too large together",
                                "Send fewer calls in one batch.");
}

void mcp_reply_error(const struct mcp_target *target, const struct mcp_id *id, int code, const char *message,
                     const char *hint) {
        _cleanup_text_ struct mcp_text error = MCP_TEXT(16 * (SBX_ERROR_MESSAGE_MAX + SBX_ERROR_HINT_MAX));
        char joined[SBX_ERROR_MESSAGE_MAX + SBX_ERROR_HINT_MAX + 4];
        struct sbx_bytes parts[] = {MCP_LITERAL("{\"jsonrpc\":\"2.0\",\"id\":"),
                                    id_bytes(id),
                                    MCP_LITERAL(",\"error\":"),
                                    {NULL, 0},
                                    MCP_LITERAL("}")};

        snprintf(joined, sizeof(joined), "%s%s%s", message, hint != NULL && hint[0] != '\0' ? ". " : "",
                 hint != NULL ? hint : "");
        mcp_text_append_literal(&error, "{\"code\":");
        mcp_text_append_int(&error, code);
        mcp_text_append_literal(&error, ",\"message\":");
        mcp_text_append_string(&error, joined, strlen(joined));
        mcp_text_append_literal(&error, "}");
        parts[3] = error.error == 0 ? mcp_text_bytes(&error)
                                    : MCP_LITERAL("{\"code\":-32603,\"message\":\"out of memory\"}");
        (void)deliver(target, parts, 5); /* in a batch without memory there is nothing left to say it with */
}

void mcp_send_progress(const struct mcp_channel *channel, const struct mcp_id *token, double progress, double total,
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
        if (message != NULL) {
                mcp_text_append_literal(&text, ",\"message\":");
                mcp_text_append_string(&text, message, strnlen(message, PROGRESS_MESSAGE_MAX));
        }
        mcp_text_append_literal(&text, "}}");
        part = mcp_text_bytes(&text);
        if (text.error == 0)
                channel->send(channel->data, &part, 1, true);
}
