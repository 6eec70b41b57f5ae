/* SPDX-License-Identifier: Apache-2.0 */
/* A session's manifest and blobs in the store: read, and changed in one commit. */
#include "session/vault_internal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#include "base/cleanup.h"

#define ORIGIN SBX_VAULT_ORIGIN
#define ERASE_AT_ONCE 1024u /* names in one commit */

static inline void cleanup_output(struct sbx_output **output) {
        sbx_output_free(*output);
}
#define _cleanup_output_ __attribute__((cleanup(cleanup_output)))

/* ---- reading ---- */

int sbx_vault_load(const struct sbx_vault_store *store, const char *key, const struct sbx_call *call,
                   struct sbx_manifest *ret_manifest, struct sbx_manifest_owner *ret_owner, struct sbx_error *err) {
        _cleanup_output_ struct sbx_output *output = NULL;
        char name[SBX_VAULT_NAME_SIZE], expected[SBX_VAULT_KEY_SIZE];
        struct sbx_manifest_owner owner = {0};
        struct sbx_bytes text = {0};
        int r = sbx_output_new(SBX_MANIFEST_BYTES_MAX, &output);

        if (r < 0)
                return SBX_NOMEM(err, ORIGIN);
        snprintf(name, sizeof(name), SBX_VAULT_PREFIX "%s/manifest", key);
        r = store->ops->get(store->instance, name, call, output, err);
        if (r == -EFBIG)
                return sbx_error_set(err, -EBADMSG, ORIGIN, "Delete the session.",
                                     "its manifest is damaged: it is too large");
        if (r < 0)
                return r;
        r = sbx_manifest_unseal(sbx_output_bytes(output), &text, err);
        if (r == 0)
                r = sbx_manifest_decode(text, ret_manifest, &owner, err);
        if (r < 0)
                return r;
        sbx_vault_key(owner.principal, owner.session, expected);
        if (strcmp(expected, key) != 0) {
                sbx_manifest_clear(ret_manifest);
                sbx_manifest_owner_clear(&owner);
                return sbx_error_set(err, -EBADMSG, ORIGIN, "Delete the session.",
                                     "its manifest is damaged: it is another session's");
        }
        *ret_owner = owner;
        return 0;
}

static int get_blob(struct sbx_vault *vault, const struct sbx_blob *blob, const struct sbx_call *call,
                    struct sbx_buffer *part, struct sbx_error *err) {
        _cleanup_output_ struct sbx_output *output = NULL;
        char name[SBX_VAULT_NAME_SIZE];
        struct sbx_error problem = {0};
        int r = sbx_output_new((size_t)blob->bytes, &output);

        if (r < 0)
                return SBX_NOMEM(err, ORIGIN);
        snprintf(name, sizeof(name), "%s/%s", vault->lease, blob->name);
        r = vault->store.ops->get(vault->store.instance, name, call, output, &problem);
        if (r == -ENOENT || r == -EFBIG || (r == 0 && sbx_output_bytes(output).size != blob->bytes))
                return sbx_error_set(err, -EBADMSG, ORIGIN, NULL, "part %s of it is %s", blob->name,
                                     r == -ENOENT ? "missing" : "not as large as it was");
        if (r < 0)
                return sbx_error_set(err, r, problem.origin, problem.hint, "part %s of it can't be read: %s",
                                     blob->name, problem.message);
        part->max = SBX_STATE_BYTES_MAX;
        sbx_output_move(output, part);
        return 0;
}

static int check_parts(const struct sbx_parts *parts, const struct sbx_session_state *state, struct sbx_error *err) {
        _cleanup_free_ unsigned char(*digests)[SBX_SHA256_SIZE] = calloc(parts->count + 1, sizeof(*digests));
        int r;

        if (digests == NULL)
                return SBX_NOMEM(err, ORIGIN);
        r = sbx_parts_digest(state->parts, state->part_count, digests, err);
        for (size_t i = 0; r == 0 && i < parts->count; i++)
                if (memcmp(digests[i], parts->items[i]->digest, sizeof(digests[i])) != 0)
                        r = sbx_error_set(err, -EBADMSG, ORIGIN, NULL, "part %s of it is not what it was",
                                          parts->items[i]->name);
        return r;
}

int sbx_vault_read_blob(struct sbx_vault *vault, const struct sbx_blob *blob, const struct sbx_call *call,
                        struct sbx_buffer *ret_bytes, struct sbx_error *err) {
        unsigned char digest[1][SBX_SHA256_SIZE];
        int r = get_blob(vault, blob, call, ret_bytes, err);

        if (r == 0)
                r = sbx_parts_digest(ret_bytes, 1, digest, err);
        if (r == 0 && memcmp(digest[0], blob->digest, SBX_SHA256_SIZE) != 0)
                r = sbx_error_set(err, -EBADMSG, ORIGIN, NULL, "part %s of it is not what it was", blob->name);
        return r;
}

static int read_parts(struct sbx_vault *vault, const struct sbx_parts *parts, const struct sbx_call *call,
                      struct sbx_session_state *state, struct sbx_error *err) {
        int r = 0;

        state->parts = calloc(parts->count + 1, sizeof(*state->parts));
        if (state->parts == NULL)
                return SBX_NOMEM(err, ORIGIN);
        for (size_t i = 0; r == 0 && i < parts->count; i++) {
                state->part_count = i + 1;
                r = get_blob(vault, parts->items[i], call, &state->parts[i], err);
        }
        return r < 0 ? r : check_parts(parts, state, err);
}

int sbx_vault_read(struct sbx_vault *vault, const char *id, const struct sbx_call *call,
                   struct sbx_session_state *ret_state, struct sbx_error *err) {
        const struct sbx_checkpoint *checkpoint = sbx_tree_find(&vault->manifest.tree, id);
        const struct sbx_parts *parts =
                checkpoint != NULL ? sbx_manifest_parts(&vault->manifest, checkpoint->id) : NULL;
        struct sbx_session_state state = {0};
        int r;

        if (checkpoint == NULL)
                return sbx_error_set(err, -ENOENT, ORIGIN, "List the session's checkpoints.",
                                     "session '%s' has no checkpoint '%s'", vault->id, id);
        if (parts == NULL)
                return sbx_error_set(err, -ENOENT, ORIGIN, NULL, "nothing of checkpoint %s of session '%s' is stored",
                                     checkpoint->id, vault->id);
        state.mechanism = checkpoint->mechanism;
        state.about = json_incref(checkpoint->about);
        r = read_parts(vault, parts, call, &state, err);
        if (r < 0) {
                sbx_error_wrap(err, "checkpoint %s of session '%s' can't be used", checkpoint->id, vault->id);
                sbx_state_clear(&state);
                return r;
        }
        *ret_state = state;
        return 0;
}

/* ---- changing ---- */

/* A commit while it is put together; names have to live as long. */
struct changes {
        struct sbx_store_change *items;
        char (*names)[SBX_VAULT_NAME_SIZE];
        size_t count;
};

static void changes_clear(struct changes *changes) {
        free(changes->items);
        free(changes->names);
}
#define _cleanup_changes_ __attribute__((cleanup(changes_clear)))

static int changes_init(struct changes *changes, size_t most, struct sbx_error *err) {
        changes->items = calloc(most, sizeof(*changes->items));
        changes->names = calloc(most, sizeof(*changes->names));
        return changes->items != NULL && changes->names != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

static void change_add(struct changes *changes, const char *directory, const char *name, struct sbx_bytes blob) {
        char *full = changes->names[changes->count];

        snprintf(full, sizeof(changes->names[0]), "%s/%s", directory, name);
        changes->items[changes->count++] = (struct sbx_store_change){full, blob};
}

static size_t count_parts(const struct sbx_manifest *manifest) {
        size_t count = 0;

        for (size_t i = 0; i < manifest->count; i++)
                count += manifest->entries[i].parts->count;
        return count;
}

enum { MARK_OLD = 1, MARK_KEPT = 2, MARK_NEW = 3 };

/* What `next` has and the present manifest has not is new: those are parts of its newest checkpoint. The other way
 * round it goes. */
static void collect_changes(struct sbx_vault *vault, const struct sbx_manifest *next,
                            const struct sbx_session_state *state, struct changes *changes) {
        const struct sbx_parts *parts = next->count > 0 ? next->entries[next->count - 1].parts : NULL;

        sbx_manifest_mark(next, MARK_NEW);
        sbx_manifest_mark(&vault->manifest, MARK_OLD);
        for (size_t i = 0; state != NULL && parts != NULL && i < parts->count; i++) {
                struct sbx_blob *blob = parts->items[i];
                const struct sbx_buffer *part = &state->parts[i];

                if (blob->mark != MARK_NEW)
                        continue;
                blob->mark = MARK_KEPT;
                change_add(changes, vault->lease, blob->name,
                           (struct sbx_bytes){part->data != NULL ? part->data : "", part->size});
        }
        sbx_manifest_mark(next, MARK_KEPT);
        for (size_t i = 0; i < vault->manifest.count; i++)
                for (size_t j = 0; j < vault->manifest.entries[i].parts->count; j++) {
                        struct sbx_blob *blob = vault->manifest.entries[i].parts->items[j];

                        if (blob->mark != MARK_OLD)
                                continue;
                        blob->mark = MARK_KEPT;
                        change_add(changes, vault->lease, blob->name, (struct sbx_bytes){NULL, 0});
                }
}

static int store_changes(struct sbx_vault *vault, const struct changes *changes, unsigned flags,
                         const struct sbx_call *call, struct sbx_error *err) {
        const char *lease = vault->durable ? vault->lease : NULL;
        int r = vault->store.ops->commit(vault->store.instance, changes->items, changes->count, lease, vault->token,
                                         flags, call, err);

        if (r == -ESTALE)
                atomic_store(&vault->lost, true);
        return r;
}

int sbx_vault_commit(struct sbx_vault *vault, struct sbx_manifest *next, const struct sbx_session_state *state,
                     unsigned flags, const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(SBX_MANIFEST_BYTES_MAX);
        _cleanup_changes_ struct changes changes = {0};
        int r;

        next->used_ms = sbx_vault_now_ms();
        r = sbx_manifest_encode(next, vault->principal, vault->id, vault->frozen ? SBX_VAULT_RESERVE : 0, &text, err);
        if (r == 0)
                r = sbx_manifest_seal(&text, err);
        if (r == 0)
                r = changes_init(&changes, count_parts(&vault->manifest) + count_parts(next) + 1, err);
        if (r < 0)
                return r;
        collect_changes(vault, next, state, &changes);
        change_add(&changes, vault->lease, "manifest", sbx_buffer_bytes(&text));
        r = store_changes(vault, &changes, flags, call, err);
        if (r < 0)
                return r;
        sbx_manifest_clear(&vault->manifest);
        vault->manifest = *next;
        vault->stored = true;
        *next = (struct sbx_manifest){0};
        return 0;
}

/* ---- erasing ---- */

/* Names in the vault's directory. */
struct name_list {
        char (*items)[SBX_VAULT_NAME_SIZE];
        size_t count, capacity;
        size_t skip; /* of what the store tells */
};

static int note_name(void *data, const char *name, uint64_t size_bytes) {
        struct name_list *list = data;

        if (list->count == list->capacity) {
                size_t capacity = list->capacity > 0 ? 2 * list->capacity : 64;
                void *items = reallocarray(list->items, capacity, sizeof(*list->items));

                if (items == NULL)
                        return -ENOMEM;
                list->items = items;
                list->capacity = capacity;
        }
        if (strlen(name + list->skip) >= sizeof(*list->items))
                return -EBADMSG;
        snprintf(list->items[list->count++], sizeof(*list->items), "%s", name + list->skip);
        return 0;
}

static void name_list_clear(struct name_list *list) {
        free(list->items);
}
#define _cleanup_names_ __attribute__((cleanup(name_list_clear)))

/* Together, but so many at once that no store minds. */
static int erase_names(struct sbx_vault *vault, const struct name_list *list, const struct sbx_call *call,
                       struct sbx_error *err) {
        int r = 0;

        for (size_t done = 0; r == 0 && done < list->count;) {
                _cleanup_changes_ struct changes changes = {0};

                r = changes_init(&changes, ERASE_AT_ONCE, err);
                if (r < 0)
                        return r;
                for (size_t i = 0; i < ERASE_AT_ONCE && done < list->count; i++, done++)
                        change_add(&changes, vault->lease, list->items[done], (struct sbx_bytes){NULL, 0});
                r = store_changes(vault, &changes, 0, call, err);
        }
        return r;
}

static int list_names(struct sbx_vault *vault, const struct sbx_call *call, struct name_list *list,
                      struct sbx_error *err) {
        struct sbx_store_events events = {.struct_size = sizeof(events), .data = list, .item = note_name};
        char prefix[SBX_VAULT_NAME_SIZE];

        snprintf(prefix, sizeof(prefix), "%s/", vault->lease);
        list->skip = strlen(prefix);
        return vault->store.ops->list(vault->store.instance, prefix, &events, call, err);
}

static int compare_texts(const void *a, const void *b) {
        return strcmp(a, b);
}

/* The manifest goes first: a session without it is not there, whatever else is left. */
int sbx_vault_erase(struct sbx_vault *vault, const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_names_ struct name_list list = {0};
        char first[sizeof(*list.items)];
        int r = list_names(vault, call, &list, err);

        for (size_t i = 0; r == 0 && i < list.count; i++)
                if (strcmp(list.items[i], "manifest") == 0) {
                        memcpy(first, list.items[0], sizeof(first));
                        memcpy(list.items[0], list.items[i], sizeof(first));
                        memcpy(list.items[i], first, sizeof(first));
                }
        return r < 0 ? r : erase_names(vault, &list, call, err);
}

int sbx_vault_prune(struct sbx_vault *vault, const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_names_ struct name_list list = {0}, kept = {0};
        size_t left = 0;
        int r = list_names(vault, call, &list, err);

        for (size_t i = 0; r == 0 && i < vault->manifest.count; i++)
                for (size_t j = 0; r == 0 && j < vault->manifest.entries[i].parts->count; j++)
                        r = note_name(&kept, vault->manifest.entries[i].parts->items[j]->name, 0);
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, NULL, "the blobs can't be listed: %s", SBX_ERRNO_TEXT(r));
        if (kept.count > 0)
                qsort(kept.items, kept.count, sizeof(*kept.items), compare_texts);
        for (size_t i = 0; i < list.count; i++) {
                const char *name = list.items[i];

                if (strcmp(name, "manifest") == 0 ||
                    (kept.count > 0 &&
                     bsearch(name, kept.items, kept.count, sizeof(*kept.items), compare_texts) != NULL))
                        continue;
                if (left != i)
                        memcpy(list.items[left], name, sizeof(*list.items));
                left++;
        }
        list.count = left;
        return erase_names(vault, &list, call, err);
}
