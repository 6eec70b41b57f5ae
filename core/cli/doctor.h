/* SPDX-License-Identifier: Apache-2.0 */
/* The list that `doctor` builds: what was checked, what came of it, what to type. */
#pragma once

#include <jansson.h>
#include <snipara-sandbox/plugin.h>

#include "cli/runtime.h"

struct sbx_cli_checks {
        json_t *list; /* of {"area", "subject", "status", "detail", "remedy"} */
        int failed;
        int problem; /* -ENOMEM: the list is not whole */
};

/* `remedy` may be NULL or "". Lines of it stand below each other. */
void sbx_cli_check(struct sbx_cli_checks *checks, const char *area, enum sbx_probe_status status, const char *subject,
                   const char *remedy, const char *detail_format, ...) SBX_PRINTF(6, 7);

/* Facts of the kernel and the machine that decide what a jail can have. They explain what the plugins' probes find. */
void sbx_cli_check_host(struct sbx_cli_checks *checks);

/* Whether named sessions are kept, where, and how much that is. */
void sbx_cli_check_sessions(struct sbx_cli_checks *checks, const struct sbx_cli_parts *parts,
                            const struct sbx_call *call);
