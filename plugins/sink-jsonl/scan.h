/* SPDX-License-Identifier: Apache-2.0 */
/* What a file holds already, for a run that goes on: its calls, the hash of its last line, where its last whole line
 * ends. */
#pragma once

#include <stdbool.h>

#include "chain.h"
#include "util.h"

#define JSONL_CALLS_MAX ((size_t)1 << 20) /* ids that are remembered of one file */

struct jsonl_state {
        json_t *calls;              /* an object: call ids, as keys */
        uint64_t size, line_count;  /* of the whole lines */
        uint64_t event_count;       /* lines with a call_id */
        char prev[JSONL_HASH_SIZE]; /* of the last whole line; JSONL_CHAIN_START: there is none */
        bool started, ended;        /* has run_started; the last line is run_ended */
};

int jsonl_state_init(struct jsonl_state *ret_state, struct sbx_error *err);
void jsonl_state_clear(struct jsonl_state *state);
/* Reads the file from its beginning. A line that is not JSON, or longer than this plugin writes them, counts for the
 * chain alone. `path` is for errors. */
int jsonl_state_read(struct jsonl_state *state, int fd, const char *path, struct sbx_error *err);
/* The call is known now; 0 also when it was, or when there is no room for more. */
int jsonl_state_add_call(struct jsonl_state *state, const char *call_id, struct sbx_error *err);
