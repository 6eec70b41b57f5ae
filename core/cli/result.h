/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what came of an execution: live output, value, error; as text for people or as JSON for scripts. */
#pragma once

#include <jansson.h>
#include <snipara-sandbox/runtime.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/terminal.h"

/* Output as it comes: raw into files and pipes, filtered onto a terminal. */
struct sbx_cli_live {
        struct sbx_cli *cli;
        const struct sbx_cli_signals *signals; /* raised (SIGPIPE) when nobody reads standard output any more */
        struct sbx_cli_filter filters[2];
        char last[2];    /* the last byte written to each stream; 0: none */
        bool escapes[2]; /* it sent escape sequences, a colour perhaps */
        int problem;     /* of writing standard output */
        struct sbx_cli_progress *progress; /* cleared before output; NULL: none */
};

/* The events for sbx_execution; `live` outlives the execution. */
struct sbx_output_events sbx_cli_live_events(struct sbx_cli_live *live);

static inline void sbx_cleanup_result(struct sbx_result **result) {
        sbx_result_free(*result);
}
#define _cleanup_result_ __attribute__((cleanup(sbx_cleanup_result)))

enum sbx_cli_detail { SBX_CLI_QUIET, SBX_CLI_NORMAL };

/* Value on standard output; traceback, reason and notices on standard error. */
void sbx_cli_result_show(struct sbx_cli_live *live, const struct sbx_result *result, enum sbx_cli_detail detail);
/* The exit code that stands for how the execution ended. */
int sbx_cli_result_exit(const struct sbx_result *result);
/* The object that `exec --json` prints. NULL: out of memory. */
json_t *sbx_cli_result_json(const struct sbx_result *result, const char *environment);

/* The isolation report as a table on `stream`. 0; -EINVAL: it is not of the documented shape; -errno. */
int sbx_cli_report_show(const struct sbx_cli *cli, const struct sbx_cli_stream *stream, struct sbx_bytes report);
