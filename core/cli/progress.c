/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of a call, for people who look. */
#include "cli/progress.h"

#include "base/clock.h"
#include "base/thread.h"
#include "cli/output.h"

#define INTERVAL_NS (50 * SBX_NS_PER_MS) /* a terminal over a slow line has other things to show as well */

void sbx_cli_progress_init(struct sbx_cli_progress *progress, const struct sbx_cli *cli) {
        *progress = (struct sbx_cli_progress){.cli = cli};
        pthread_mutex_init(&progress->lock, NULL);
}

static void clear_line(struct sbx_cli_progress *progress) {
        if (progress->line)
                (void)sbx_cli_write(&progress->cli->err, (struct sbx_bytes){"\r\033[K", 4});
        progress->line = false;
}

static void show(void *data, const char *message) {
        struct sbx_cli_progress *progress = data;
        const struct sbx_cli_stream *stream = &progress->cli->err;
        uint64_t now_ns = sbx_clock_ns();
        SBX_LOCKED(&progress->lock);

        if (strncmp(message, progress->last, sizeof(progress->last) - 1) == 0 ||
            (stream->terminal && progress->line && now_ns - progress->shown_ns < INTERVAL_NS))
                return;
        snprintf(progress->last, sizeof(progress->last), "%s", message);
        if (!stream->terminal) {
                if (progress->cli->verbose)
                        (void)sbx_cli_print(stream, "%s\n", message);
                return;
        }
        clear_line(progress);
        (void)sbx_cli_print_styled(stream, SBX_CLI_DIM, "  … %.120s", message);
        progress->line = true;
        progress->shown_ns = now_ns;
}

void sbx_cli_progress_of(struct sbx_cli_progress *progress, struct sbx_call *call) {
        call->progress = show;
        call->progress_data = progress;
}

void sbx_cli_progress_clear(struct sbx_cli_progress *progress) {
        SBX_LOCKED(&progress->lock);
        clear_line(progress);
}
