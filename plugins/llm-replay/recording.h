/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded run: its model calls, in the order in which they were asked for. Read only, once it is loaded. */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include <snipara-sandbox/types.h>

#define REPLAY_NONE SIZE_MAX

/* One model call. */
struct replay_entry {
        json_t *prompt;  /* string: the text of the request's last message */
        json_t *content; /* string or null: what the model said */
        json_t *calls;   /* array of {"id", "type": "function", "function": {"name", "arguments": text}} */
        json_t *usage;   /* the API's object, with cost_usd */
        char *finish_reason, *model, *call_id, *key; /* model, call_id and key may be NULL */
        char *error;                                 /* it failed, and this is why; NULL: it did not */
        bool lost;                                   /* it was too large to be recorded */
        bool superseded;  /* it failed, and was made again with success when the run was resumed: nobody gets it */
        uint64_t line;    /* of the file */
        size_t successor; /* the next turn of the same conversation; REPLAY_NONE: there is none */
};

struct replay_recording {
        char *path;
        struct replay_entry *entries;
        size_t count;
        size_t *by_prompt;    /* indexes of entries, sorted by prompt, then by order */
        bool first_is_unique; /* no other call has the prompt of the first one */
};

/* `path` is copied. -EBADMSG: not a trajectory, or one without model calls; and what reading returns. */
int replay_recording_load(const char *path, uint64_t max_bytes, struct replay_recording **ret_recording,
                          struct sbx_error *err);
void replay_recording_free(struct replay_recording *recording); /* NULL is fine */

/* The entries with this prompt: by_prompt[*ret_begin] up to, not including, by_prompt[*ret_end]. */
void replay_recording_find(const struct replay_recording *recording, const json_t *prompt, size_t *ret_begin,
                           size_t *ret_end);

/* ---- inside ---- */

/* entry.c: whether the event is a model call: 1, and the entry is filled in; 0: another event. -ENOMEM. */
int replay_entry_decode(const json_t *event, struct replay_entry *ret_entry);
void replay_entry_clear(struct replay_entry *entry);

/* order.c: an event's place in the tree of calls. */
struct replay_node {
        char *id, *parent; /* parent NULL: none */
        size_t entry;      /* REPLAY_NONE: it is no model call */
};
/* Sorts the entries from the order in which they were written (a call after those that it led to) to that in which they
 * were asked for, and finds their successors. `nodes` are in the order of the file. -ENOMEM. */
int replay_order(struct replay_recording *recording, const struct replay_node *nodes, size_t node_count);
