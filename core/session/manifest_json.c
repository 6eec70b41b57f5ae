/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests as JSON. What is read may have been written by an enemy, or by a disk that forgets: every number is bounded
 * before it is used, and every name checked.
 *
 * {"format": 1, "program", "principal", "session", "identity" (null): {"environment", "backend", "runtime",
 * "created_at", "memory_limit_bytes"}, "used_ms", "tree": tree.h, "blobs": [[name, bytes, digest]], "parts":
 * {checkpoint: [[first, count]]}}, where [first, count] is a run of `blobs`. */
#include "session/manifest.h"

#include <limits.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"

#define ORIGIN "sessions"
#define UNSEEN UINT_MAX

/* ---- writing ---- */

static json_t *encode_identity(const struct sbx_manifest *manifest) {
        const struct sbx_vault_identity *identity = &manifest->identity;

        if (!manifest->identified)
                return json_null();
        return json_pack("{s:s, s:s, s:s, s:s, s:I}", "environment", identity->environment, "backend",
                         identity->backend, "runtime", identity->runtime, "created_at", identity->created_at,
                         "memory_limit_bytes", (json_int_t)identity->memory_limit_bytes);
}

static int encode_blob(struct sbx_blob *blob, json_t *blobs, struct sbx_error *err) {
        char digest[2 * SBX_SHA256_SIZE + 1];

        if (json_array_size(blobs) >= SBX_MANIFEST_BLOBS_MAX)
                return sbx_error_set(err, -ENOSPC, ORIGIN, "Delete checkpoints that nobody needs.",
                                     "the session's checkpoints have more than %u different parts",
                                     SBX_MANIFEST_BLOBS_MAX);
        blob->mark = (unsigned)json_array_size(blobs);
        sbx_hex_encode(blob->digest, sizeof(blob->digest), digest);
        if (json_array_append_new(blobs, json_pack("[s, I, s]", blob->name, (json_int_t)blob->bytes, digest)) < 0)
                return SBX_NOMEM(err, ORIGIN);
        return 0;
}

/* Runs of blobs that stand behind each other. */
static int encode_parts(const struct sbx_parts *parts, json_t *blobs, json_t *runs, struct sbx_error *err) {
        size_t first = 0;

        for (size_t i = 0; i < parts->count; i++) {
                if (parts->items[i]->mark == UNSEEN) {
                        int r = encode_blob(parts->items[i], blobs, err);

                        if (r < 0)
                                return r;
                }
                if (i + 1 < parts->count &&
                    (parts->items[i + 1]->mark == parts->items[i]->mark + 1 ||
                     (parts->items[i + 1]->mark == UNSEEN && parts->items[i]->mark + 1 == json_array_size(blobs))))
                        continue;
                if (json_array_append_new(runs, json_pack("[I, I]", (json_int_t)parts->items[first]->mark,
                                                          (json_int_t)(i + 1 - first))) < 0)
                        return SBX_NOMEM(err, ORIGIN);
                first = i + 1;
        }
        return 0;
}

static int encode_entries(const struct sbx_manifest *manifest, json_t *blobs, json_t *all, struct sbx_error *err) {
        size_t count = 0;

        sbx_manifest_mark(manifest, UNSEEN);
        for (size_t i = 0; i < manifest->count; i++) {
                json_t *runs = json_array();
                int r = runs != NULL ? encode_parts(manifest->entries[i].parts, blobs, runs, err)
                                     : SBX_NOMEM(err, ORIGIN);

                if (json_object_set_new(all, manifest->entries[i].id, runs) < 0 && r == 0)
                        r = SBX_NOMEM(err, ORIGIN);
                if (r < 0)
                        return r;
                count += manifest->entries[i].parts->count;
        }
        if (count > SBX_MANIFEST_PARTS_MAX)
                return sbx_error_set(err, -ENOSPC, ORIGIN, "Delete checkpoints that nobody needs.",
                                     "the session's checkpoints have more than %u parts", SBX_MANIFEST_PARTS_MAX);
        return 0;
}

/* As sbx_json_parse() counts them. */
static size_t count_values(const json_t *json) {
        const char *key;
        json_t *value;
        size_t index, count = 1;

        if (json_is_object(json)) {
                count = 4;
                json_object_foreach ((json_t *)json, key, value)
                        count += 1 + count_values(value);
        } else if (json_is_array(json)) {
                count = 4;
                json_array_foreach (json, index, value)
                        count += count_values(value);
        }
        return count;
}

static int write_text(const json_t *json, struct sbx_buffer *out, struct sbx_error *err) {
        int r;

        out->max = SBX_MANIFEST_BYTES_MAX;
        r = count_values(json) < SBX_JSON_VALUES_MAX ? sbx_json_encode(json, out) : -EFBIG;
        if (r == -EFBIG)
                return sbx_error_set(err, r, ORIGIN, "Delete checkpoints that nobody needs.",
                                     "what is told about the session's checkpoints is more than a manifest may be");
        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "the session's manifest can't be written: %s",
                                     SBX_ERRNO_TEXT(r))
                     : 0;
}

int sbx_manifest_encode(const struct sbx_manifest *manifest, const char *principal, const char *session,
                        unsigned reserve, struct sbx_buffer *out, struct sbx_error *err) {
        _cleanup_json_ json_t *json = NULL, *tree = sbx_tree_encode(&manifest->tree);
        _cleanup_json_ json_t *blobs = json_array(), *parts = json_object();
        int r;

        if (tree == NULL || blobs == NULL || parts == NULL)
                return SBX_NOMEM(err, ORIGIN);
        r = encode_entries(manifest, blobs, parts, err);
        if (r < 0)
                return r;
        if (reserve > 0 &&
            json_object_set_new(tree, "last",
                                json_integer((json_int_t)manifest->tree.last_number + (json_int_t)reserve)) < 0)
                return SBX_NOMEM(err, ORIGIN);
        json = json_pack("{s:i, s:s, s:s, s:s, s:o, s:I, s:O, s:O, s:O}", "format", SBX_MANIFEST_FORMAT, "program",
                         "snipara-sandbox " SBX_VERSION, "principal", principal, "session", session, "identity",
                         encode_identity(manifest), "used_ms", (json_int_t)manifest->used_ms, "tree", tree, "blobs",
                         blobs, "parts", parts);
        return json != NULL ? write_text(json, out, err) : SBX_NOMEM(err, ORIGIN);
}

/* ---- reading ---- */

#define REFUSE(err, ...) sbx_error_set((err), -EINVAL, ORIGIN, NULL, __VA_ARGS__)

static int copy_text(const json_t *object, const char *key, char *ret_text, size_t size, struct sbx_error *err) {
        const char *text = NULL;
        int r = sbx_json_get_string(object, "identity", key, SBX_JSON_REQUIRED, &text, err);

        if (r < 0)
                return r;
        if (strlen(text) >= size)
                return REFUSE(err, "identity.%s is too long", key);
        snprintf(ret_text, size, "%s", text);
        return 0;
}

static int decode_identity(const json_t *json, struct sbx_manifest *manifest, struct sbx_error *err) {
        struct sbx_vault_identity *identity = &manifest->identity;
        int64_t bytes = 0;
        int r;

        if (json == NULL || json_is_null(json))
                return 0;
        if (!json_is_object(json))
                return REFUSE(err, "identity is no object");
        r = copy_text(json, "environment", identity->environment, sizeof(identity->environment), err);
        if (r == 0)
                r = copy_text(json, "backend", identity->backend, sizeof(identity->backend), err);
        if (r == 0)
                r = copy_text(json, "runtime", identity->runtime, sizeof(identity->runtime), err);
        if (r == 0)
                r = copy_text(json, "created_at", identity->created_at, sizeof(identity->created_at), err);
        if (r == 0)
                r = sbx_json_get_int(json, "identity", "memory_limit_bytes", SBX_JSON_REQUIRED, 0, INT64_MAX, &bytes,
                                     err);
        identity->memory_limit_bytes = (uint64_t)bytes;
        manifest->identified = r == 0;
        return r;
}

/* The blobs of a manifest while it is read. */
struct blob_list {
        struct sbx_blob **items;
        size_t count;
};

static void blob_list_clear(struct blob_list *list) {
        for (size_t i = 0; i < list->count; i++)
                sbx_blob_unref(list->items[i]);
        free(list->items);
}

static int decode_blob(const json_t *json, size_t index, struct blob_list *list, struct sbx_error *err) {
        const json_t *size = json_array_get(json, 1), *digest_text = json_array_get(json, 2);
        const char *name = json_string_value(json_array_get(json, 0));
        unsigned char digest[SBX_SHA256_SIZE];

        if (json_array_size(json) != 3 || name == NULL || !sbx_blob_name_valid(name))
                return REFUSE(err, "blobs[%zu] is no name, size and digest", index);
        if (!json_is_integer(size) || json_integer_value(size) < 0 ||
            json_integer_value(size) > SBX_CHECKPOINT_BYTES_MAX)
                return REFUSE(err, "blobs[%zu] is of a size that no blob has", index);
        if (!json_is_string(digest_text) || sbx_hex_decode(json_string_value(digest_text), digest, sizeof(digest)) < 0)
                return REFUSE(err, "blobs[%zu] has no digest", index);
        list->items[index] = sbx_blob_new(name, (uint64_t)json_integer_value(size), digest);
        if (list->items[index] == NULL)
                return SBX_NOMEM(err, ORIGIN);
        list->count = index + 1;
        return 0;
}

static int compare_names(const void *a, const void *b) {
        return strcmp((*(struct sbx_blob *const *)a)->name, (*(struct sbx_blob *const *)b)->name);
}

/* Two blobs of one name would let the removal of the one take the other away. */
static int check_unique(const struct blob_list *list, struct sbx_error *err) {
        _cleanup_free_ struct sbx_blob **sorted = calloc(list->count + 1, sizeof(*sorted));

        if (sorted == NULL)
                return SBX_NOMEM(err, ORIGIN);
        for (size_t i = 0; i < list->count; i++)
                sorted[i] = list->items[i];
        qsort(sorted, list->count, sizeof(*sorted), compare_names);
        for (size_t i = 1; i < list->count; i++)
                if (compare_names(&sorted[i - 1], &sorted[i]) == 0)
                        return REFUSE(err, "blob '%s' is listed twice", sorted[i]->name);
        return 0;
}

static int decode_blobs(const json_t *json, struct blob_list *list, struct sbx_error *err) {
        size_t count = json_array_size(json);
        int r = 0;

        if (!json_is_array(json) || count > SBX_MANIFEST_BLOBS_MAX)
                return REFUSE(err, "blobs is no array of at most %u", SBX_MANIFEST_BLOBS_MAX);
        list->items = calloc(count + 1, sizeof(*list->items));
        if (list->items == NULL)
                return SBX_NOMEM(err, ORIGIN);
        for (size_t i = 0; r == 0 && i < count; i++)
                r = decode_blob(json_array_get(json, i), i, list, err);
        return r < 0 ? r : check_unique(list, err);
}

static bool decode_run(const json_t *run, size_t blobs, size_t *ret_first, size_t *ret_count) {
        json_int_t first = json_integer_value(json_array_get(run, 0));
        json_int_t count = json_integer_value(json_array_get(run, 1));

        if (json_array_size(run) != 2 || first < 0 || count <= 0 || (uint64_t)first >= blobs ||
            (uint64_t)count > blobs - (uint64_t)first)
                return false;
        *ret_first = (size_t)first;
        *ret_count = (size_t)count;
        return true;
}

static int decode_runs(const json_t *runs, const struct blob_list *list, struct sbx_parts *parts,
                       struct sbx_error *err) {
        size_t filled = 0, first, count;

        for (size_t i = 0; i < json_array_size(runs); i++) {
                if (!decode_run(json_array_get(runs, i), list->count, &first, &count) || count > parts->count - filled)
                        return REFUSE(err, "a checkpoint has parts that are not there");
                for (size_t j = 0; j < count; j++) {
                        parts->items[filled] = list->items[first + j];
                        parts->items[filled++]->references++;
                }
        }
        return filled == parts->count ? 0 : REFUSE(err, "a checkpoint lacks parts");
}

static int decode_entry(const json_t *json, const struct sbx_checkpoint *checkpoint, const struct blob_list *list,
                        struct sbx_manifest *manifest, struct sbx_error *err) {
        const json_t *runs = json_object_get(json, checkpoint->id);
        struct sbx_parts *parts;
        int r;

        if (!json_is_array(runs))
                return REFUSE(err, "checkpoint %s has no parts", checkpoint->id);
        parts = sbx_parts_new(checkpoint->part_count);
        if (parts == NULL)
                return SBX_NOMEM(err, ORIGIN);
        r = decode_runs(runs, list, parts, err);
        if (r == 0 && sbx_parts_bytes(parts) != checkpoint->bytes)
                r = REFUSE(err, "checkpoint %s is not as large as its parts", checkpoint->id);
        if (r == 0)
                r = sbx_manifest_add_parts(manifest, checkpoint->id, parts, err);
        if (r < 0)
                sbx_parts_unref(parts);
        return r;
}

static int decode_entries(const json_t *json, const struct blob_list *list, struct sbx_manifest *manifest,
                          struct sbx_error *err) {
        size_t total = 0;

        if (!json_is_object(json) || json_object_size(json) != manifest->tree.count)
                return REFUSE(err, "parts is no object with a member for each checkpoint");
        for (size_t i = 0; i < manifest->tree.count; i++) {
                int r;

                total += manifest->tree.items[i]->part_count;
                if (total > SBX_MANIFEST_PARTS_MAX)
                        return REFUSE(err, "there are more than %u parts", SBX_MANIFEST_PARTS_MAX);
                r = decode_entry(json, manifest->tree.items[i], list, manifest, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int decode_owner(const json_t *json, struct sbx_manifest_owner *owner, struct sbx_error *err) {
        const char *principal = NULL, *session = NULL;
        int r = sbx_json_get_string(json, "manifest", "principal", SBX_JSON_REQUIRED, &principal, err);

        if (r == 0)
                r = sbx_json_get_string(json, "manifest", "session", SBX_JSON_REQUIRED, &session, err);
        if (r < 0)
                return r;
        owner->principal = strdup(principal);
        owner->session = strdup(session);
        return owner->principal != NULL && owner->session != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

static int decode_body(const json_t *json, struct sbx_manifest *manifest, struct sbx_manifest_owner *owner,
                       struct sbx_error *err) {
        __attribute__((cleanup(blob_list_clear))) struct blob_list list = {0};
        int r = decode_owner(json, owner, err);

        if (r == 0)
                r = decode_identity(json_object_get(json, "identity"), manifest, err);
        if (r == 0)
                r = sbx_json_get_int(json, "manifest", "used_ms", SBX_JSON_REQUIRED, 0, SBX_CREATED_MS_MAX,
                                     &manifest->used_ms, err);
        if (r == 0)
                r = sbx_tree_decode(json_object_get(json, "tree"), &manifest->tree, err);
        if (r == 0)
                r = decode_blobs(json_object_get(json, "blobs"), &list, err);
        return r < 0 ? r : decode_entries(json_object_get(json, "parts"), &list, manifest, err);
}

static int decode_format(const json_t *json, struct sbx_error *err) {
        int64_t format = 0;
        int r = sbx_json_get_int(json, "manifest", "format", SBX_JSON_REQUIRED, 1, INT64_MAX, &format, err);

        if (r == 0 && format > SBX_MANIFEST_FORMAT)
                return sbx_error_set(err, -EPROTONOSUPPORT, ORIGIN, "Use the newer program, or delete the session.",
                                     "it was written by a newer version (format %lld; this one, " SBX_VERSION
                                     ", knows %d)",
                                     (long long)format, SBX_MANIFEST_FORMAT);
        return r;
}

void sbx_manifest_owner_clear(struct sbx_manifest_owner *owner) {
        free(owner->principal);
        free(owner->session);
        *owner = (struct sbx_manifest_owner){0};
}

int sbx_manifest_decode(struct sbx_bytes text, struct sbx_manifest *ret_manifest, struct sbx_manifest_owner *ret_owner,
                        struct sbx_error *err) {
        _cleanup_manifest_ struct sbx_manifest manifest = {0};
        struct sbx_manifest_owner owner = {0};
        _cleanup_json_ json_t *json = NULL;
        struct sbx_error problem = {0};
        int r = sbx_json_parse(text, SBX_MANIFEST_BYTES_MAX, "manifest", &json, &problem);

        if (r == 0)
                r = decode_format(json, &problem);
        if (r == 0)
                r = decode_body(json, &manifest, &owner, &problem);
        if (r < 0) {
                sbx_manifest_owner_clear(&owner);
                if (r == -ENOMEM || r == -EPROTONOSUPPORT)
                        return sbx_error_set(err, r, ORIGIN, problem.hint, "%s", problem.message);
                return sbx_error_set(err, -EBADMSG, ORIGIN, "Delete the session, or bring its manifest back.",
                                     "its manifest is damaged: %s", problem.message);
        }
        *ret_manifest = manifest;
        *ret_owner = owner;
        manifest = (struct sbx_manifest){0};
        return 0;
}
