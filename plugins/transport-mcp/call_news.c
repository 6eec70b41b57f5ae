/* SPDX-License-Identifier: Apache-2.0 */
/* What a client hears of a call before its answer: progress and log lines, both bounded per second. */
#include "call_private.h"

/* At most 10 progress notifications a second for a call, after the first 20. */
#define PROGRESS_INTERVAL_NS (100u * 1000000u)
#define PROGRESS_BURST 20u
/* At most 50 log lines a second, after the first 200. */
#define LOG_INTERVAL_NS (20u * 1000000u)
#define LOG_BURST 200u
#define LOG_BYTES_MAX (1u << 20)
#define LOGGER_BYTES_MAX 256u

/* Whether one more may go out now, at a rate of one for each interval. */
static bool is_due(const struct mcp_call *call, uint64_t *due_ns, uint64_t interval_ns, unsigned burst) {
        uint64_t now = mcp_call_host(call)->clock_ns(mcp_call_host(call)->self);

        if (*due_ns < now)
                *due_ns = now;
        if (*due_ns - now >= burst * interval_ns)
                return false;
        *due_ns += interval_ns;
        return true;
}

/* ---- progress ------------------------------------------------------------------------------------------ */

static void send_progress(struct mcp_call *call, struct mcp_exchange *exchange, double progress, double total,
                          const char *message) {
        /* MCP: the value grows with every notification. The comparison also refuses NaN. */
        if (exchange->token.size == 0 || !(progress >= 0 && progress <= 1e300) ||
            (exchange->progress_sent && progress <= exchange->progress))
                return;
        if (!is_due(call, &exchange->progress_due_ns, PROGRESS_INTERVAL_NS, PROGRESS_BURST))
                return;
        exchange->progress = progress;
        exchange->progress_sent = true;
        mcp_send_progress(&exchange->target, &exchange->token, progress, total, message);
}

void mcp_call_progress(void *data, double progress, double total, const char *message) {
        struct mcp_call *call = data;
        struct mcp_exchange *exchange = mcp_call_exchange(call);

        if (exchange != NULL && mcp_exchange_is_open(exchange))
                send_progress(call, exchange, progress, total, message);
        mcp_exchange_unref(exchange);
        if (call->record != NULL && message != NULL) /* set by this thread */
                mcp_task_message(call->record, message);
}

/* ---- log lines ----------------------------------------------------------------------------------------- */

static int wanted_level(struct mcp_exchange *exchange) {
        struct mcp_connection *connection = exchange->connection;
        int level;

        if (mcp_is_modern(exchange->target.revision))
                return exchange->log_level;
        pthread_mutex_lock(&connection->lock);
        level = connection->log_level;
        pthread_mutex_unlock(&connection->lock);
        return level;
}

static void send_line(const struct mcp_exchange *exchange, const char *level, const char *logger,
                      struct sbx_bytes value) {
        _cleanup_text_ struct mcp_text params = MCP_TEXT(LOG_BYTES_MAX + 8 * LOGGER_BYTES_MAX);

        mcp_text_append_literal(&params, "{\"level\":");
        mcp_text_append_string(&params, level, strlen(level));
        if (logger != NULL) {
                mcp_text_append_literal(&params, ",\"logger\":");
                mcp_text_append_string(&params, logger, strnlen(logger, LOGGER_BYTES_MAX));
        }
        mcp_text_append_literal(&params, ",\"data\":");
        mcp_text_append(&params, value.data, value.size);
        mcp_text_append_literal(&params, "}");
        if (params.error == 0)
                mcp_send_notification(exchange->target.channel, exchange->target.revision, "notifications/message",
                                      mcp_text_bytes(&params));
}

static void tell_lost_lines(struct mcp_exchange *exchange) {
        char text[128];
        int size;

        if (exchange->log_lines_lost == 0)
                return;
        size = snprintf(text, sizeof(text), "\"%zu log lines were left out: too many at once, or too large\"",
                        exchange->log_lines_lost);
        exchange->log_lines_lost = 0;
        send_line(exchange, "warning", NULL, (struct sbx_bytes){text, (size_t)size});
}

/* Any JSON value, in one line. */
static int encode_value(struct sbx_bytes value, struct mcp_text *ret) {
        json_t *json = json_loadb(value.data, value.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        int r;

        if (json == NULL)
                return -EINVAL;
        r = mcp_text_append_json(ret, json);
        json_decref(json);
        return r;
}

static void send_log(struct mcp_call *call, struct mcp_exchange *exchange, const char *level, const char *logger,
                     struct sbx_bytes value) {
        _cleanup_text_ struct mcp_text line = MCP_TEXT(LOG_BYTES_MAX);
        int severity = mcp_log_level(level), wanted = wanted_level(exchange);

        if (severity < 0 || wanted < 0 || severity < wanted)
                return;
        if (!is_due(call, &exchange->log_due_ns, LOG_INTERVAL_NS, LOG_BURST) || value.size > LOG_BYTES_MAX ||
            encode_value(value, &line) < 0) {
                exchange->log_lines_lost++;
                return;
        }
        tell_lost_lines(exchange);
        send_line(exchange, level, logger, mcp_text_bytes(&line));
}

void mcp_call_log(void *data, const char *level, const char *logger, struct sbx_bytes value) {
        struct mcp_call *call = data;
        struct mcp_exchange *exchange = mcp_call_exchange(call);

        if (exchange != NULL && mcp_exchange_is_open(exchange))
                send_log(call, exchange, level, logger, value);
        mcp_exchange_unref(exchange);
}

/* ---- the stream ---------------------------------------------------------------------------------------- */

void mcp_call_close_stream(void *data, uint32_t retry_ms) {
        struct mcp_call *call = data;
        struct mcp_exchange *exchange = mcp_call_exchange(call);

        if (exchange != NULL && exchange->target.channel->close_stream != NULL)
                exchange->target.channel->close_stream(exchange->target.channel->data, retry_ms);
        mcp_exchange_unref(exchange);
}
