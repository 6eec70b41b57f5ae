/* SPDX-License-Identifier: Apache-2.0 */
/* The blobs that checkpoints are made of, as a session's manifest knows them. Equal parts of several checkpoints are
 * one blob. One thread at a time: whoever has the session's turn. */
#pragma once

#include <stdbool.h>

#include "base/sha256.h"
#include "session/states.h"

/* "c7.12.0": the checkpoint that brought it, the lease's token, and its number. The token makes it unique among all
 * servers that ever had the session; so no name is ever written twice with different bytes. */
#define SBX_BLOB_NAME_SIZE 64

struct sbx_blob {
        unsigned references; /* of parts */
        unsigned mark;       /* for passes over all of them; no meaning between two calls */
        char name[SBX_BLOB_NAME_SIZE];
        uint64_t bytes;
        unsigned char digest[SBX_SHA256_SIZE];
};

/* The blobs of one checkpoint, in order. Shared by the copies of a manifest, and never changed. */
struct sbx_parts {
        unsigned references;
        size_t count;
        struct sbx_blob *items[];
};

/* With one reference, which is the caller's; NULL: no memory. */
struct sbx_blob *sbx_blob_new(const char *name, uint64_t bytes, const unsigned char digest[SBX_SHA256_SIZE]);
void sbx_blob_unref(struct sbx_blob *blob);
/* Whether it is a checkpoint's id, two numbers, and dots between them: nothing that leads out of a directory. */
bool sbx_blob_name_valid(const char *name);

/* All of its items are NULL. */
struct sbx_parts *sbx_parts_new(size_t count);
struct sbx_parts *sbx_parts_ref(struct sbx_parts *parts);
void sbx_parts_unref(struct sbx_parts *parts);
uint64_t sbx_parts_bytes(const struct sbx_parts *parts);

/* What names a part's content: SHA-256 of the SHA-256 of each MiB of it, so that several processors can share a large
 * one. `ret_digests` has room for each. Threads of its own, which have ended when it returns. */
#define SBX_PART_PIECE_BYTES ((size_t)1 << 20)
int sbx_parts_digest(const struct sbx_buffer *parts, size_t count, unsigned char (*ret_digests)[SBX_SHA256_SIZE],
                     struct sbx_error *err);
