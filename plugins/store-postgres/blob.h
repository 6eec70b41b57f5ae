/* SPDX-License-Identifier: Apache-2.0 */
/* How a blob stands in the tables: small ones in the row of their name, sealed; others as an object, in chunks. */
#pragma once

#include "connection.h"

#define INLINE_BYTES_MAX 8192u

/* Covers a name and what it stands for: the content of a small blob, else its object's id (which covers the size). */
void blob_sum(const struct sealing *sealing, const char *name, bool is_object, struct sbx_bytes what,
              uint8_t ret_sum[SEALING_HASH_SIZE]);
/* `*ret_piece` is the caller's, to free. */
int blob_seal_inline(const struct connection *connection, const char *name, struct sbx_bytes content,
                     uint8_t **ret_piece, size_t *ret_size);
/* What stands in a row of names. `content` has room for `size` bytes, at most INLINE_BYTES_MAX. -EBADMSG. */
int blob_open_inline(const struct connection *connection, const char *name, struct sbx_bytes piece,
                     struct sbx_bytes sum, uint8_t *content, size_t size);
bool blob_sum_matches(const struct sealing *sealing, const char *name, bool is_object, struct sbx_bytes what,
                      struct sbx_bytes sum);

void object_id(const struct sealing *sealing, struct sbx_bytes content, uint8_t *chunk_hashes,
               uint8_t ret_id[SEALING_HASH_SIZE]); /* `chunk_hashes`: room for sealing_chunk_count of them */
/* Within a transaction: makes the object unless it is there and whole. */
int object_upload(struct connection *connection, const struct sbx_call *call, const uint8_t id[SEALING_HASH_SIZE],
                  struct sbx_bytes content, struct sbx_error *err);
/* Reads an object and checks it, into `content` (room for `size` bytes; NULL: only checks). -EBADMSG; -ENOMEM. */
int object_read(struct connection *connection, const struct sbx_call *call, const uint8_t id[SEALING_HASH_SIZE],
                uint64_t size, uint8_t *content, struct sbx_error *err);
/* Remembers whether it is damaged: the next upload of its content mends it. */
int object_mark(struct connection *connection, const struct sbx_call *call, const uint8_t id[SEALING_HASH_SIZE],
                bool damaged, struct sbx_error *err);
