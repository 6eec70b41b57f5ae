/* SPDX-License-Identifier: Apache-2.0 */
/* Shows a run to people: the model's text as it streams, what its tools do, and what came of it. */
#pragma once

#include <jansson.h>
#include <snipara-sandbox/runtime.h>

#include "cli/cli.h"
#include "cli/signals.h"
#include "cli/terminal.h"

struct sbx_cli_watch {
        struct sbx_cli *cli;
        const struct sbx_cli_signals *signals; /* raised (SIGPIPE) when nobody reads standard output any more */
        bool raw;                              /* --events: JSON lines on standard error instead of progress */
        bool streams;                          /* text goes to standard output as it comes */
        struct sbx_cli_filter filter;
        struct sbx_buffer text; /* of the model since the last tool call: what has been streamed of the answer */
        bool status;            /* a line that will be overwritten stands on the terminal */
        bool open_line;         /* streamed text ended without a newline */
        char run_id[64];        /* "": not known yet */
        char model[128];
};

void sbx_cli_watch_init(struct sbx_cli_watch *watch, struct sbx_cli *cli, const struct sbx_cli_signals *signals,
                        bool json, bool raw);
void sbx_cli_watch_free(struct sbx_cli_watch *watch);
/* The events for sbx_run_options; `watch` outlives the run. */
struct sbx_run_events sbx_cli_watch_events(struct sbx_cli_watch *watch);
/* After the run: the answer on standard output, unless it was streamed, and the summary on standard error. */
void sbx_cli_watch_result(struct sbx_cli_watch *watch, const json_t *result);
