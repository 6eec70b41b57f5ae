/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests in memory. */
#include "session/manifest.h"

#include <stdlib.h>

#include "base/cleanup.h"

#define ORIGIN "sessions"

void sbx_manifest_clear(struct sbx_manifest *manifest) {
        for (size_t i = 0; i < manifest->count; i++)
                sbx_parts_unref(manifest->entries[i].parts);
        free(manifest->entries);
        sbx_tree_clear(&manifest->tree);
        *manifest = (struct sbx_manifest){0};
}

int sbx_manifest_copy(const struct sbx_manifest *manifest, struct sbx_manifest *ret_copy, struct sbx_error *err) {
        struct sbx_manifest copy = {.identified = manifest->identified,
                                    .identity = manifest->identity,
                                    .used_ms = manifest->used_ms,
                                    .count = manifest->count};
        int r = sbx_tree_copy(&manifest->tree, &copy.tree, err);

        if (r < 0)
                return r;
        copy.entries = calloc(manifest->count + 1, sizeof(*copy.entries));
        if (copy.entries == NULL) {
                sbx_tree_clear(&copy.tree);
                return SBX_NOMEM(err, ORIGIN);
        }
        for (size_t i = 0; i < manifest->count; i++) {
                copy.entries[i] = manifest->entries[i];
                sbx_parts_ref(copy.entries[i].parts);
        }
        *ret_copy = copy;
        return 0;
}

struct sbx_parts *sbx_manifest_parts(const struct sbx_manifest *manifest, const char *id) {
        for (size_t i = manifest->count; i-- > 0;)
                if (strcmp(manifest->entries[i].id, id) == 0)
                        return manifest->entries[i].parts;
        return NULL;
}

int sbx_manifest_add_parts(struct sbx_manifest *manifest, const char *id, struct sbx_parts *parts,
                           struct sbx_error *err) {
        struct sbx_manifest_entry *entries =
                reallocarray(manifest->entries, manifest->count + 1, sizeof(*manifest->entries));

        if (entries == NULL)
                return SBX_NOMEM(err, ORIGIN);
        manifest->entries = entries;
        snprintf(entries[manifest->count].id, sizeof(entries[0].id), "%s", id);
        entries[manifest->count++].parts = parts;
        return 0;
}

void sbx_manifest_remove(struct sbx_manifest *manifest, struct sbx_checkpoint *checkpoint) {
        for (size_t i = 0; i < manifest->count; i++) {
                if (strcmp(manifest->entries[i].id, checkpoint->id) != 0)
                        continue;
                sbx_parts_unref(manifest->entries[i].parts);
                memmove(manifest->entries + i, manifest->entries + i + 1,
                        (manifest->count - i - 1) * sizeof(*manifest->entries));
                manifest->count--;
                break;
        }
        sbx_tree_remove(&manifest->tree, checkpoint);
}

void sbx_manifest_mark(const struct sbx_manifest *manifest, unsigned mark) {
        for (size_t i = 0; i < manifest->count; i++)
                for (size_t j = 0; j < manifest->entries[i].parts->count; j++)
                        manifest->entries[i].parts->items[j]->mark = mark;
}

/* ---- the checksum ---- */

#define SEAL_SIZE ((size_t)2 * SBX_SHA256_SIZE + 2)

static void seal_of(struct sbx_bytes text, char ret_seal[SEAL_SIZE + 1]) {
        unsigned char digest[SBX_SHA256_SIZE];

        sbx_sha256_of(text, digest);
        ret_seal[0] = '\n';
        sbx_hex_encode(digest, sizeof(digest), ret_seal + 1);
        memcpy(ret_seal + SEAL_SIZE - 1, "\n", 2);
}

int sbx_manifest_seal(struct sbx_buffer *text, struct sbx_error *err) {
        char seal[SEAL_SIZE + 1];
        int r;

        seal_of(sbx_buffer_bytes(text), seal);
        r = sbx_buffer_append(text, seal, SEAL_SIZE);
        return r < 0 ? sbx_error_set(err, r, ORIGIN, "Delete checkpoints that nobody needs.",
                                     "the session's manifest can't be written: %s", SBX_ERRNO_TEXT(r))
                     : 0;
}

int sbx_manifest_unseal(struct sbx_bytes bytes, struct sbx_bytes *ret_text, struct sbx_error *err) {
        size_t size = bytes.size > SEAL_SIZE ? bytes.size - SEAL_SIZE : 0;
        char seal[SEAL_SIZE + 1];

        seal_of((struct sbx_bytes){bytes.data, size}, seal);
        if (size == 0 || memcmp((const char *)bytes.data + size, seal, SEAL_SIZE) != 0)
                return sbx_error_set(err, -EBADMSG, ORIGIN, "Delete the session, or bring its manifest back.",
                                     "its manifest is damaged: its checksum is another one");
        *ret_text = (struct sbx_bytes){bytes.data, size};
        return 0;
}
