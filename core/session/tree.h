/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a session's states: checkpoints, whose parent each is, and where the session stands. Data alone: what a
 * checkpoint holds lies in a vault, or in a frozen copy. One thread at a time: whoever has the session's turn. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/error.h"

#define SBX_CHECKPOINT_ID_SIZE 24u    /* "c" and a number that counts up in the session, and NUL */
#define SBX_CHECKPOINT_LABEL_MAX 200u /* bytes of UTF-8, no control characters */
#define SBX_TREE_CHECKPOINTS_MAX 4096u
#define SBX_CHECKPOINT_PARTS_MAX 4096u
#define SBX_CHECKPOINT_BYTES_MAX (INT64_C(1) << 30)
#define SBX_CHECKPOINT_NUMBER_MAX (INT64_C(1) << 53) /* which ids are made of */
#define SBX_CREATED_MS_MAX INT64_C(253402300799999)  /* the year 9999 */
/* Of what is said about a state (states.h). */
#define SBX_ABOUT_MEMBERS_MAX 32u
#define SBX_ABOUT_LEVELS_MAX 6u
#define SBX_ABOUT_NAMES_MAX 200u
#define SBX_ABOUT_TEXT_MAX 1024u /* bytes of a name, a type, a reason */

/* How a state was taken, and comes back. */
enum sbx_mechanism {
        SBX_MECHANISM_BYTE_EXACT = 1, /* memory and files, byte for byte, by the backend (guest_save) */
        SBX_MECHANISM_FROZEN = 2,     /* a copy of the guest's process, which lasts as long as the server */
        SBX_MECHANISM_PORTABLE = 3,   /* values, definitions and files, by the guest's worker */
};
const char *sbx_mechanism_name(enum sbx_mechanism mechanism); /* "byte-exact", "frozen process", "portable" */
/* 0: no such name. */
enum sbx_mechanism sbx_mechanism_find(const char *name);

struct sbx_checkpoint {
        char id[SBX_CHECKPOINT_ID_SIZE];
        char parent[SBX_CHECKPOINT_ID_SIZE]; /* "": the session's beginning */
        char *label;                         /* NULL: none */
        bool automatic;                      /* made after an execution; the oldest of these go first */
        enum sbx_mechanism mechanism;
        int64_t created_ms;  /* since 1970 */
        uint64_t executions; /* that the session had had */
        uint64_t bytes;      /* of its parts */
        unsigned part_count; /* in the vault; 0: it is a frozen copy alone */
        json_t *about;       /* what it holds: states.h */
};

struct sbx_tree {
        struct sbx_checkpoint **items; /* oldest first */
        size_t count;
        uint64_t last_number;
        char head[SBX_CHECKPOINT_ID_SIZE]; /* from which the session's state descends; "": from its beginning */
};

void sbx_checkpoint_free(struct sbx_checkpoint *checkpoint);
static inline void sbx_cleanup_checkpoint(struct sbx_checkpoint **checkpoint) {
        sbx_checkpoint_free(*checkpoint);
}
#define _cleanup_checkpoint_ __attribute__((cleanup(sbx_cleanup_checkpoint)))
/* -EINVAL says what a label may be. One that looks like an id is none. */
int sbx_checkpoint_check_label(const char *label, struct sbx_error *err);
/* Whether it is "c" and a number. */
bool sbx_checkpoint_id_number(const char *id, uint64_t *ret_number);
/* Whether it has the types and bounds that states.h tells of; `path` is for the error. -EINVAL. */
int sbx_checkpoint_check_about(const json_t *about, const char *path, struct sbx_error *err);
void sbx_tree_clear(struct sbx_tree *tree);
/* One that shares `about` alone with the other. */
int sbx_tree_copy(const struct sbx_tree *tree, struct sbx_tree *ret_copy, struct sbx_error *err);
/* NULL: there is none. `id` may also be a label, which the newest with it has. */
struct sbx_checkpoint *sbx_tree_find(const struct sbx_tree *tree, const char *id);
/* A new one below the head, which it becomes, with what `given` has: `label` is copied, `about` shared; `id` and
 * `parent` are not looked at, `created_ms` 0 is now. -EINVAL: the label; -ENOSPC: there are too many; -ENOMEM. */
int sbx_tree_add(struct sbx_tree *tree, const struct sbx_checkpoint *given, struct sbx_checkpoint **ret_checkpoint,
                 struct sbx_error *err);
/* Takes over one whose id and parent are given, behind those that are there; for who reads a tree. */
int sbx_tree_append(struct sbx_tree *tree, struct sbx_checkpoint *checkpoint, struct sbx_error *err);
/* Its children become its parent's; so does the head. */
void sbx_tree_remove(struct sbx_tree *tree, struct sbx_checkpoint *checkpoint);
/* What would have to go for at most `max` with parts to be left: the oldest automatic one of them that is not the head;
 * NULL: none. Those without parts are not counted, nor chosen: whoever keeps the copies sees to them. */
struct sbx_checkpoint *sbx_tree_surplus(const struct sbx_tree *tree, size_t max);

/* A moment since 1970, of what is kept: RFC 3339, as sbx_clock_timestamp(). */
void sbx_timestamp_of(int64_t ms, char ret_text[SBX_TIMESTAMP_SIZE]);
/* As clients see one: {"id", "parent" (null), "label" (null), "automatic", "created_at", "executions", "bytes",
 * "mechanism", "head": bool, "holds": about}, which shares nothing with the tree. NULL: no memory. */
json_t *sbx_checkpoint_json(const struct sbx_tree *tree, const struct sbx_checkpoint *checkpoint);
/* As a vault keeps it: those that have parts; what stands below another one is put below its nearest ancestor that has.
 * It shares `about` with the tree. NULL: no memory. Reading takes nothing for granted: -EINVAL says what is wrong;
 * counts are bounded, ids unique and in order, parents exist or are "", and what is said of a state has the types and
 * bounds of states.h. */
json_t *sbx_tree_encode(const struct sbx_tree *tree);
int sbx_tree_decode(const json_t *json, struct sbx_tree *ret_tree, struct sbx_error *err);
