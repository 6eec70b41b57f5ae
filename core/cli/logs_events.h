/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of a trajectory as a tree: which was made by which. */
#pragma once

#include <stdint.h>

#include "cli/logs.h"

#define SBX_LOGS_NONE SIZE_MAX
#define SBX_LOGS_DEPTH_MAX 64u /* deeper ones stand at the top, as do those that are said to be below themselves */

struct sbx_logs_event {
        const json_t *object; /* borrowed of the lines */
        size_t parent, first_child, last_child, next;
};
struct sbx_logs_events {
        struct sbx_logs_event *items; /* in the order of the file */
        size_t count;
};
/* `lines` outlives the events. 0 or -ENOMEM. */
int sbx_logs_events_make(const json_t *lines, struct sbx_logs_events *ret_events);
void sbx_logs_events_free(struct sbx_logs_events *events);
#define _cleanup_logs_events_ __attribute__((cleanup(sbx_logs_events_free)))

/* The first line, if it is of metadata; the last line with totals. NULL: none. */
const json_t *sbx_logs_header(const json_t *lines);
const json_t *sbx_logs_totals(const json_t *lines);
