/* SPDX-License-Identifier: Apache-2.0 */
/* A session as a file, to be taken to another store:
 *
 *      "snipara-sandbox session 1\n"           what it is, and the version of this format
 *      8 bytes, the lowest first               size of the manifest
 *      manifest                                as in a store (manifest_json.c), with the principal ""
 *      bytes of each blob                      in the order of the manifest's "blobs"
 *      32 bytes                                SHA-256 of all that stands before
 *
 * Who reads one believes nothing of it. Its blobs are stored one after another under this session's lease, and the
 * manifest once the last byte was the right one: until then there is no session. */
#include "session/vault_internal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"

#define ORIGIN SBX_VAULT_ORIGIN
#define MAGIC "snipara-sandbox session 1\n"
#define MAGIC_NAME "snipara-sandbox session "
#define MAGIC_SIZE (sizeof(MAGIC) - 1)
#define STEP_BYTES ((size_t)1 << 20)  /* read at once: a size that is a lie costs no more memory than that */
#define BATCH_BYTES ((size_t)8 << 20) /* stored at once */
#define BATCH_BLOBS 256u

/* One end of a file, with the hash of what went through. */
struct stream {
        int fd;
        const struct sbx_call *call;
        struct sbx_sha256 hash;
};

/* ---- writing ---- */

static int write_bytes(struct stream *stream, struct sbx_bytes bytes, struct sbx_error *err) {
        int r = sbx_fd_write_all(stream->fd, bytes, stream->call);

        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, r == -ENOSPC ? "Free space, or write it elsewhere." : NULL,
                                     "the file can't be written: %s", SBX_ERRNO_TEXT(r));
        sbx_sha256_add(&stream->hash, bytes);
        return 0;
}

static int write_head(struct stream *stream, struct sbx_bytes manifest, struct sbx_error *err) {
        unsigned char size[8];
        int r = write_bytes(stream, (struct sbx_bytes){MAGIC, MAGIC_SIZE}, err);

        for (size_t i = 0; i < sizeof(size); i++)
                size[i] = (unsigned char)((uint64_t)manifest.size >> (8 * i));
        if (r == 0)
                r = write_bytes(stream, (struct sbx_bytes){size, sizeof(size)}, err);
        return r < 0 ? r : write_bytes(stream, manifest, err);
}

static int write_tail(struct stream *stream, struct sbx_error *err) {
        unsigned char digest[SBX_SHA256_SIZE];

        sbx_sha256_end(&stream->hash, digest);
        return write_bytes(stream, (struct sbx_bytes){digest, sizeof(digest)}, err);
}

/* Each blob when it is met for the first time: that is their order in the manifest. */
static int write_blobs(struct sbx_vault *vault, const struct sbx_manifest *manifest, struct stream *stream,
                       struct sbx_error *err) {
        sbx_manifest_mark(manifest, 0);
        for (size_t i = 0; i < manifest->count; i++)
                for (size_t j = 0; j < manifest->entries[i].parts->count; j++) {
                        struct sbx_blob *blob = manifest->entries[i].parts->items[j];
                        _cleanup_buffer_ struct sbx_buffer bytes = SBX_BUFFER(SBX_STATE_BYTES_MAX);
                        int r;

                        if (blob->mark++ > 0)
                                continue;
                        r = sbx_vault_read_blob(vault, blob, stream->call, &bytes, err);
                        if (r == 0)
                                r = write_bytes(stream, sbx_buffer_bytes(&bytes), err);
                        if (r < 0)
                                return r;
                }
        return 0;
}

/* What has parts; of one checkpoint alone, where it is asked for. */
static int choose(const struct sbx_vault *vault, const char *id, struct sbx_manifest *chosen, struct sbx_error *err) {
        const struct sbx_checkpoint *wanted = id != NULL ? sbx_tree_find(&vault->manifest.tree, id) : NULL;
        int r;

        if (id != NULL && (wanted == NULL || wanted->part_count == 0))
                return sbx_error_set(err, -ENOENT, ORIGIN, "List the session's checkpoints.",
                                     wanted == NULL ? "session '%s' has no checkpoint '%s'"
                                                    : "nothing is stored of session '%s' for checkpoint '%s'",
                                     vault->id, id);
        r = sbx_manifest_copy(&vault->manifest, chosen, err);
        if (r < 0)
                return r;
        for (size_t i = chosen->tree.count; i-- > 0;) {
                struct sbx_checkpoint *at = chosen->tree.items[i];

                if (at->part_count == 0 || (wanted != NULL && strcmp(at->id, wanted->id) != 0))
                        sbx_manifest_remove(chosen, at);
        }
        if (wanted != NULL)
                memcpy(chosen->tree.head, chosen->tree.items[0]->id, sizeof(chosen->tree.head));
        return chosen->count > 0 ? 0
                                 : sbx_error_set(err, -ENOENT, ORIGIN, "Make a checkpoint first.",
                                                 "session '%s' has no checkpoint that could be exported", vault->id);
}

int sbx_vault_export(struct sbx_vault *vault, const char *checkpoint, int fd, const struct sbx_call *call,
                     struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(SBX_MANIFEST_BYTES_MAX);
        _cleanup_manifest_ struct sbx_manifest chosen = {0};
        struct stream stream = {.fd = fd, .call = call};
        int r = choose(vault, checkpoint, &chosen, err);

        sbx_sha256_begin(&stream.hash);
        if (r == 0)
                r = sbx_manifest_encode(&chosen, "", vault->id, 0, &text, err);
        if (r == 0)
                r = write_head(&stream, sbx_buffer_bytes(&text), err);
        if (r == 0)
                r = write_blobs(vault, &chosen, &stream, err);
        return r < 0 ? r : write_tail(&stream, err);
}

/* ---- reading ---- */

static int refuse(struct sbx_error *err, const char *why) {
        return sbx_error_set(err, -EBADMSG, ORIGIN, "Export the session again.", "the file is no whole session: %s",
                             why);
}

static int read_bytes(struct stream *stream, void *data, size_t size, struct sbx_error *err) {
        int r = sbx_fd_read_all(stream->fd, data, size, stream->call);

        if (r == -EPIPE)
                return refuse(err, "it ends too early");
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, NULL, "the file can't be read: %s", SBX_ERRNO_TEXT(r));
        sbx_sha256_add(&stream->hash, (struct sbx_bytes){data, size});
        return 0;
}

static int read_into(struct stream *stream, uint64_t size, struct sbx_buffer *out, struct sbx_error *err) {
        while (size > 0) {
                size_t some = size < STEP_BYTES ? (size_t)size : STEP_BYTES;
                int r = sbx_buffer_reserve(out, some);

                if (r < 0)
                        return sbx_error_set(err, r, ORIGIN, NULL, "the file can't be read: %s", SBX_ERRNO_TEXT(r));
                r = read_bytes(stream, out->data + out->size, some, err);
                if (r < 0)
                        return r;
                out->size += some;
                out->data[out->size] = '\0';
                size -= some;
        }
        return 0;
}

static int read_magic(struct stream *stream, struct sbx_error *err) {
        char magic[MAGIC_SIZE];
        int r = read_bytes(stream, magic, sizeof(magic), err);

        if (r < 0 || memcmp(magic, MAGIC, MAGIC_SIZE) == 0)
                return r;
        if (memcmp(magic, MAGIC_NAME, sizeof(MAGIC_NAME) - 1) == 0)
                return sbx_error_set(err, -EPROTONOSUPPORT, ORIGIN, "Import it with the version that wrote it.",
                                     "the file was written by a newer version");
        return refuse(err, "it does not begin like one");
}

static int read_manifest(struct stream *stream, struct sbx_manifest *ret_manifest, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(SBX_MANIFEST_BYTES_MAX);
        struct sbx_manifest_owner owner = {0};
        unsigned char digits[8];
        uint64_t size = 0;
        int r = read_magic(stream, err);

        if (r == 0)
                r = read_bytes(stream, digits, sizeof(digits), err);
        if (r < 0)
                return r;
        for (size_t i = 0; i < sizeof(digits); i++)
                size |= (uint64_t)digits[i] << (8 * i);
        if (size > SBX_MANIFEST_BYTES_MAX)
                return refuse(err, "its manifest is too large");
        r = read_into(stream, size, &text, err);
        if (r == 0)
                r = sbx_manifest_decode(sbx_buffer_bytes(&text), ret_manifest, &owner, err);
        sbx_manifest_owner_clear(&owner);
        if (r == 0 && ret_manifest->count == 0)
                r = refuse(err, "it has no checkpoint");
        return r;
}

/* Blobs that wait to be stored together. */
struct batch {
        struct sbx_vault *vault;
        struct sbx_buffer blobs[BATCH_BLOBS];
        char names[BATCH_BLOBS][SBX_VAULT_NAME_SIZE];
        struct sbx_store_change changes[BATCH_BLOBS];
        size_t count, bytes;
        uint64_t number; /* of the next blob */
};

static void batch_clear(struct batch *batch) {
        for (size_t i = 0; i < batch->count; i++)
                sbx_buffer_free(&batch->blobs[i]);
        batch->count = batch->bytes = 0;
}

static void batch_free(struct batch **batch) {
        if (*batch != NULL)
                batch_clear(*batch);
        free(*batch);
}

static int batch_store(struct batch *batch, const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_vault *vault = batch->vault;
        int r = 0;

        if (batch->count > 0)
                r = vault->store.ops->commit(vault->store.instance, batch->changes, batch->count,
                                             vault->durable ? vault->lease : NULL, vault->token, 0, call, err);
        batch_clear(batch);
        return r;
}

/* Blobs get names of this store: those in the file are unique in the one that it comes from. No checkpoint is "c0". */
static int take_blob(struct batch *batch, struct stream *stream, struct sbx_blob *blob, struct sbx_error *err) {
        struct sbx_buffer *bytes = &batch->blobs[batch->count];
        unsigned char digest[1][SBX_SHA256_SIZE];
        int r;

        *bytes = (struct sbx_buffer)SBX_BUFFER(SBX_STATE_BYTES_MAX);
        r = read_into(stream, blob->bytes, bytes, err);
        if (r == 0)
                r = sbx_parts_digest(bytes, 1, digest, err);
        if (r == 0 && memcmp(digest[0], blob->digest, SBX_SHA256_SIZE) != 0)
                r = refuse(err, "a part of it is not what it was");
        if (r < 0) {
                sbx_buffer_free(bytes);
                return r;
        }
        snprintf(blob->name, sizeof(blob->name), "c0.%" PRIu64 ".%" PRIu64, batch->vault->token, batch->number++);
        snprintf(batch->names[batch->count], sizeof(batch->names[0]), "%s/%s", batch->vault->lease, blob->name);
        batch->changes[batch->count] = (struct sbx_store_change){batch->names[batch->count],
                                                                 {bytes->data != NULL ? bytes->data : "", bytes->size}};
        batch->count++;
        batch->bytes += bytes->size;
        return batch->bytes < BATCH_BYTES && batch->count < BATCH_BLOBS ? 0 : batch_store(batch, stream->call, err);
}

static int take_blobs(struct sbx_vault *vault, const struct sbx_manifest *manifest, struct stream *stream,
                      struct sbx_error *err) {
        __attribute__((cleanup(batch_free))) struct batch *batch = calloc(1, sizeof(*batch));
        int r = 0;

        if (batch == NULL)
                return SBX_NOMEM(err, ORIGIN);
        batch->vault = vault;
        sbx_manifest_mark(manifest, 0);
        for (size_t i = 0; r == 0 && i < manifest->count; i++)
                for (size_t j = 0; r == 0 && j < manifest->entries[i].parts->count; j++)
                        if (manifest->entries[i].parts->items[j]->mark++ == 0)
                                r = take_blob(batch, stream, manifest->entries[i].parts->items[j], err);
        return r < 0 ? r : batch_store(batch, stream->call, err);
}

static int read_tail(struct stream *stream, struct sbx_error *err) {
        unsigned char expected[SBX_SHA256_SIZE], digest[SBX_SHA256_SIZE], more;
        int r;

        sbx_sha256_end(&stream->hash, expected);
        r = read_bytes(stream, digest, sizeof(digest), err);
        if (r < 0)
                return r;
        if (memcmp(digest, expected, sizeof(digest)) != 0)
                return refuse(err, "its checksum is another one");
        r = sbx_fd_read_all(stream->fd, &more, 1, stream->call);
        if (r == 0)
                return refuse(err, "something follows it");
        return r == -EPIPE ? 0 : sbx_error_set(err, r, ORIGIN, NULL, "the file can't be read: %s", SBX_ERRNO_TEXT(r));
}

/* The order of the blobs is that of the manifest's list only if the list is in the order of their use: who writes one
 * makes it so, and who reads another one would find blobs that are not what their digests say. */
static int import(struct sbx_vault *vault, struct stream *stream, struct sbx_error *err) {
        _cleanup_manifest_ struct sbx_manifest next = {0};
        int r = read_manifest(stream, &next, err);

        if (r == 0)
                r = take_blobs(vault, &next, stream, err);
        if (r == 0)
                r = read_tail(stream, err);
        if (r == 0 && next.tree.last_number < vault->manifest.tree.last_number)
                next.tree.last_number = vault->manifest.tree.last_number;
        return r < 0 ? r : sbx_vault_commit(vault, &next, NULL, 0, stream->call, err);
}

int sbx_vault_import(struct sbx_vault *vault, int fd, const struct sbx_call *call, struct sbx_error *err) {
        struct stream stream = {.fd = fd, .call = call};
        struct sbx_error problem = {0};
        int r;

        if (vault->manifest.tree.count > 0)
                return sbx_error_set(err, -EEXIST, ORIGIN, "Take another name, or delete that session first.",
                                     "session '%s' has checkpoints of its own", vault->id);
        sbx_sha256_begin(&stream.hash);
        r = import(vault, &stream, err);
        if (r < 0 && sbx_vault_prune(vault, NULL, &problem) < 0)
                sbx_log(vault->owner->logger, SBX_LOG_WARNING,
                        "what was read of session '%s' is left in the store, until it is collected: %s", vault->id,
                        problem.message);
        return r;
}
