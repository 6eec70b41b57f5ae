/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the probe share. */
#pragma once

#include "local.h"

struct probe {
        const struct local_options *options;
        const struct sbx_probe_events *events;
        const struct sbx_call *call;
        int first_failure; /* negative errno */
};

/* `remedy` may be NULL when nothing is wrong. */
void probe_tell(struct probe *probe, enum sbx_probe_status status, const char *subject, const char *remedy,
                const char *detail_format, ...) SBX_PRINTF(5, 6);
/* The same for a failure with `code` (negative errno). */
void probe_fail(struct probe *probe, int code, const char *subject, const char *remedy, const char *detail_format, ...)
        SBX_PRINTF(5, 6);

/* ---- probe_steps.c: things that change the process that tries them, so a child does */

#define PROBE_TEXT_MAX 256
/* One step: 0, or a negative errno with what failed in `text`; what it found out, too, goes to `text`. */
struct probe_step {
        const char *subject;
        int (*run)(const struct local_options *options, char text[PROBE_TEXT_MAX]);
        bool fork_before; /* what follows happens in a child of the one that came so far (a new pid namespace) */
};
/* Runs steps one after another in a child, the first failure being the last; calls `done` for each that ran.
 * `remedy_of` (may be NULL) tells what to type. Bounded by the call's deadline, at most ten seconds. */
void probe_run_steps(struct probe *probe, const struct probe_step *steps, size_t count,
                     const char *(*remedy_of)(int code, char *buffer, size_t size));

/* ---- probe_namespaces.c */

void probe_namespaces(struct probe *probe);
void probe_filters(struct probe *probe); /* seccomp and Landlock */

/* ---- probe_remedy.c */

/* Why namespaces or mounts are refused on this machine, and what to type; NULL when the cause isn't known. */
const char *probe_namespace_remedy(int code, char *buffer, size_t size);
