/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator asks of a server: is it alive, can it work, what has it done; and where its tokens come from. */
#include "http_private.h"

#define METRICS_MAX (4u << 20)

void http_health(void *data, struct hs_exchange *hs) {
        (void)data;
        http_answer(hs, 200, "text/plain; charset=utf-8", MCP_LITERAL("ok\n"));
}

/* Says only whether, not why: everybody may ask. The log has the reason, once for each time that it gets lost. */
void http_ready(void *data, struct hs_exchange *hs) {
        struct mcp_http *http = data;
        struct sbx_error err = {0};
        int r = http->host->ready(http->host->self, &err);
        bool broken = r < 0 && r != -EAGAIN,
             was_broken = __atomic_exchange_n(&http->not_ready, broken, __ATOMIC_RELAXED);

        if (r == 0)
                http_answer(hs, 200, "text/plain; charset=utf-8", MCP_LITERAL("ready\n"));
        else if (r == -EAGAIN)
                http_answer(hs, 503, "text/plain; charset=utf-8", MCP_LITERAL("starting\n"));
        else
                http_answer(hs, 503, "text/plain; charset=utf-8", MCP_LITERAL("not ready: the log has the reason\n"));
        if (broken && !was_broken)
                http->host->log(http->host->self, SBX_LOG_WARNING, err.message);
}

void http_metrics(void *data, struct hs_exchange *hs) {
        struct mcp_http *http = data;
        const struct sbx_host *host = http->host;
        _cleanup_text_ struct mcp_text text = MCP_TEXT(METRICS_MAX);
        struct sbx_output *output = NULL;
        struct sbx_error err = {0};

        if (host->output_new(host->self, METRICS_MAX / 2, &output) == 0 &&
            host->metrics(host->self, output, &err) == 0) {
                struct sbx_bytes core = host->output_bytes(host->self, output);

                mcp_text_append(&text, core.data, core.size);
                (void)http_figures_tell(http, &text);
        } else {
                text.error = -EIO;
        }
        host->output_free(host->self, output);
        if (text.error == 0)
                http_answer(hs, 200, "text/plain; version=0.0.4; charset=utf-8", mcp_text_bytes(&text));
        else
                http_answer(hs, 500, "text/plain; charset=utf-8", MCP_LITERAL("the figures can't be told\n"));
}

void http_metadata(void *data, struct hs_exchange *hs) {
        const struct mcp_http *http = data;

        http_answer(hs, 200, "application/json", (struct sbx_bytes){http->metadata, strlen(http->metadata)});
}
