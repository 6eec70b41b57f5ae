/* SPDX-License-Identifier: Apache-2.0 */
/* What stores do to bytes before they are kept: name them by their contents, compress, encrypt, and check all of that
 * when they come back. A library for store plugins, not a plugin. Everything is done in memory; any thread may call
 * anything.
 *
 * A store has an identity: a short JSON text that it keeps beside its contents (a file, a row of a table), with a
 * random salt from which the keys are derived, and the means to see whether a key file is the right one. A blob is cut
 * into chunks of SEALING_CHUNK_MAX bytes (the last one is shorter); each is hashed, and sealed on its own. The blob's
 * id is the hash of its size and of its chunks' hashes. All hashes are BLAKE2b with a key of the store: whoever chooses
 * contents can't tell, and not make, two that have one id. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/types.h>

#define SEALING_CHUNK_MAX ((size_t)1 << 20)
#define SEALING_HASH_SIZE 32u
#define SEALING_KEY_SIZE 32u
#define SEALING_IDENTITY_MAX 1024u /* bytes of the text with its NUL */
#define SEALING_OVERHEAD 48u       /* bytes that sealing adds at most */

struct sealing {
        uint8_t hash_key[SEALING_KEY_SIZE], seal_key[SEALING_KEY_SIZE];
        bool encrypted;
};

/* Makes the identity of a new store. `key_file` NULL: not encrypted. -EACCES, -ENOENT, -EINVAL: the key file, why and
 * what to do. `origin`: whose errors these are ("store-dir"), also below. */
int sealing_create(const char *key_file, const char *origin, char ret_identity[SEALING_IDENTITY_MAX],
                   struct sealing *ret_sealing, struct sbx_error *err);
/* Keys of a store that is there. -EBADMSG: no such identity; -EPROTONOSUPPORT: of a newer version; -ENOKEY: encrypted,
 * and there is no key file; -EKEYREJECTED: another key, or a key for a store that is not encrypted. `place`: where the
 * identity stands, for messages. */
int sealing_open(struct sbx_bytes identity, const char *key_file, const char *place, const char *origin,
                 struct sealing *ret_sealing, struct sbx_error *err);
void sealing_clear(struct sealing *sealing); /* wipes the keys */

/* Keyed hash of two pieces one after another, `what` apart from those of other purposes (at most 15 bytes). */
void sealing_hash(const struct sealing *sealing, const char *what, struct sbx_bytes first, struct sbx_bytes second,
                  uint8_t ret_hash[SEALING_HASH_SIZE]);
size_t sealing_chunk_count(uint64_t size); /* at least 1: an empty blob has one empty chunk */
void sealing_chunk_hash(const struct sealing *sealing, struct sbx_bytes chunk, uint8_t ret_hash[SEALING_HASH_SIZE]);
void sealing_blob_id(const struct sealing *sealing, uint64_t size, const uint8_t *chunk_hashes, size_t chunk_count,
                     uint8_t ret_id[SEALING_HASH_SIZE]);

/* Seals at most SEALING_CHUNK_MAX bytes (`level`: of zstd, 0: never compress; what does not shrink is kept as it is)
 * into `ret_sealed`, which has room for raw.size + SEALING_OVERHEAD bytes. `context` is what the chunk is bound to: it
 * opens with the same one only (a blob's id and the chunk's number; the name of a directory). -ENOMEM. */
int sealing_seal(const struct sealing *sealing, int level, struct sbx_bytes context, struct sbx_bytes raw,
                 uint8_t *ret_sealed, size_t *ret_size);
/* What was sealed, of exactly `raw_size` bytes, which `ret_raw` has room for. -EBADMSG: damaged, or not what belongs
 * here. Where nothing is encrypted this is not known before the hash was compared, which is the caller's to do. */
int sealing_unseal(const struct sealing *sealing, struct sbx_bytes context, struct sbx_bytes sealed, size_t raw_size,
                   uint8_t *ret_raw);
