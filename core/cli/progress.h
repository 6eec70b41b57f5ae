/* SPDX-License-Identifier: Apache-2.0 */
/* What a call that takes long says while it goes on (sbx_call.progress): on a terminal one line that the next one
 * replaces, with --verbose and no terminal a line for each message, else nothing. On standard error. Any thread. */
#pragma once

#include <pthread.h>

#include <snipara-sandbox/types.h>

#include "cli/cli.h"

struct sbx_cli_progress {
        const struct sbx_cli *cli;
        pthread_mutex_t lock; /* protects what follows */
        bool line;            /* one stands on the terminal */
        uint64_t shown_ns;    /* when */
        char last[256];
};

void sbx_cli_progress_init(struct sbx_cli_progress *progress, const struct sbx_cli *cli);
void sbx_cli_progress_of(struct sbx_cli_progress *progress, struct sbx_call *call); /* shows what the call says */
void sbx_cli_progress_clear(struct sbx_cli_progress *progress); /* before anything else is written */
