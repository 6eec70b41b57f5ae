/* SPDX-License-Identifier: Apache-2.0 */
/* A session's manifest: what it is, the tree of its states, and the blobs of each. One thread at a time. */
#pragma once

#include "session/parts.h"
#include "session/vault.h"

#define SBX_MANIFEST_FORMAT 1
#define SBX_MANIFEST_BYTES_MAX ((size_t)16 << 20)
#define SBX_MANIFEST_BLOBS_MAX 65536u
#define SBX_MANIFEST_PARTS_MAX 262144u /* of all checkpoints */

/* The parts of one checkpoint. */
struct sbx_manifest_entry {
        char id[SBX_CHECKPOINT_ID_SIZE];
        struct sbx_parts *parts;
};

struct sbx_manifest {
        bool identified;
        struct sbx_vault_identity identity;
        int64_t used_ms; /* since 1970; when it was last written */
        struct sbx_tree tree;
        struct sbx_manifest_entry *entries; /* of those that have parts, in the order of the tree */
        size_t count;
};

void sbx_manifest_clear(struct sbx_manifest *manifest);
#define _cleanup_manifest_ __attribute__((cleanup(sbx_manifest_clear)))
/* Shares the blobs and what is said of states, and nothing else. */
int sbx_manifest_copy(const struct sbx_manifest *manifest, struct sbx_manifest *ret_copy, struct sbx_error *err);

/* NULL: it has none. */
struct sbx_parts *sbx_manifest_parts(const struct sbx_manifest *manifest, const char *id);
/* Takes over `parts`, those of the newest checkpoint. */
int sbx_manifest_add_parts(struct sbx_manifest *manifest, const char *id, struct sbx_parts *parts,
                           struct sbx_error *err);
/* The checkpoint and its parts. */
void sbx_manifest_remove(struct sbx_manifest *manifest, struct sbx_checkpoint *checkpoint);
/* Marks every blob with `mark`. */
void sbx_manifest_mark(const struct sbx_manifest *manifest, unsigned mark);

/* In a store a manifest is followed by "\n", 64 digits (SHA-256 of what stands before), and "\n": some stores check
 * nothing. unseal: `*ret_text` is within `bytes`; -EBADMSG. */
int sbx_manifest_seal(struct sbx_buffer *text, struct sbx_error *err);
int sbx_manifest_unseal(struct sbx_bytes bytes, struct sbx_bytes *ret_text, struct sbx_error *err);

/* JSON text, for a session of this name. `reserve`: how many ids the next server leaves out (those of checkpoints that
 * were never stored). -EFBIG: it is more than a manifest may be; -ENOSPC: more blobs or parts. */
int sbx_manifest_encode(const struct sbx_manifest *manifest, const char *principal, const char *session,
                        unsigned reserve, struct sbx_buffer *out, struct sbx_error *err);
/* Whose it says that it is; strings are the caller's. Nothing of it is believed: -EBADMSG says what is wrong;
 * -EPROTONOSUPPORT: of a newer version. */
struct sbx_manifest_owner {
        char *principal, *session;
};
void sbx_manifest_owner_clear(struct sbx_manifest_owner *owner);
int sbx_manifest_decode(struct sbx_bytes text, struct sbx_manifest *ret_manifest, struct sbx_manifest_owner *ret_owner,
                        struct sbx_error *err);
