/* SPDX-License-Identifier: Apache-2.0 */
/* An event as a line of snipara-sandbox 2.2.7's trajectory files: the members that its readers need are there, whatever
 * the event has beyond them stays, byte for byte. */
#pragma once

#include <stdbool.h>

#include "util.h"

enum jsonl_kind {
        JSONL_CALL = 0,    /* has a call_id: a model call, an execution, a tool call */
        JSONL_STARTED = 1, /* run_started */
        JSONL_ENDED = 2,   /* run_ended */
        JSONL_OTHER = 3,   /* whatever else: like the two before a line of metadata, which 2.2.7 passes over */
};

struct jsonl_record {
        enum jsonl_kind kind;
        const char *trajectory_id, *call_id; /* of `object`; call_id NULL: none */
        const char *timestamp;               /* NULL: none */
        json_t *object;
        struct sbx_bytes body; /* the object's text between its braces */
        char *text;            /* holds `body`; NULL: the event that was read does, and outlives the record */
};
#define JSONL_RECORD                                                                                                   \
        { 0 }

/* -EINVAL: no event, or one that would be confused with what this plugin adds; -ENOMEM. */
int jsonl_record_read(struct sbx_bytes json, struct jsonl_record *ret_record, struct sbx_error *err);
void jsonl_record_clear(struct jsonl_record *record);
#define _cleanup_record_ _cleanup_(jsonl_record_clear)

/* A record of the plugin's own: {"trajectory_id", "event", "timestamp"}, and "count" if that is not 0. The timestamp is
 * that of `cause`. */
int jsonl_record_note(const struct jsonl_record *cause, const char *event, uint64_t count,
                      struct jsonl_record *ret_record, struct sbx_error *err);

/* Where a line stands in its file. */
struct jsonl_place {
        uint64_t line;        /* from 1 */
        uint64_t event_count; /* the calls before it */
        const char *prev;     /* the hash of the line before */
};
/* The line, with its newline. Free with free(). */
int jsonl_record_line(const struct jsonl_record *record, const struct jsonl_place *place, char **ret_line,
                      size_t *ret_size, struct sbx_error *err);

bool jsonl_id_valid(const char *id); /* 1 to 64 of [A-Za-z0-9-] */
