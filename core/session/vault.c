/* SPDX-License-Identifier: Apache-2.0 */
/* One session's vault: opened, changed, closed. Each change is made on a copy of the manifest, which takes its place
 * once the store has it. */
#include "session/vault_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"

#define ORIGIN SBX_VAULT_ORIGIN
#define TOUCH_AFTER_MS (10 * INT64_C(60000)) /* of use without a checkpoint, so that nobody takes it for unused */
#define SURPLUS_AT_ONCE 8u /* where checkpoints_max was lowered the next ones take the rest: a commit is no larger */
#define CLOSE_TIMEOUT_MS UINT64_C(5000)

/* ---- opening ---- */

static int open_in_memory(struct sbx_vault *vault, struct sbx_error *err) {
        struct sbx_vaults *vaults = vault->owner;

        vault->store = (struct sbx_vault_store){&sbx_memory_store_ops, vaults->memory};
        pthread_mutex_lock(&vaults->lock);
        snprintf(vault->key, sizeof(vault->key), "memory-%" PRIu64, ++vaults->memory_number);
        pthread_mutex_unlock(&vaults->lock);
        snprintf(vault->lease, sizeof(vault->lease), SBX_VAULT_PREFIX "%s", vault->key);
        return 0;
}

static int load(struct sbx_vault *vault, bool create, const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_manifest_owner owner = {0};
        struct sbx_error problem = {0};
        int r = sbx_vault_load(&vault->store, vault->key, call, &vault->manifest, &owner, &problem);

        sbx_manifest_owner_clear(&owner);
        if (r == -ENOENT && create)
                return 0;
        if (r == -ENOENT)
                return sbx_error_set(err, r, ORIGIN, "List the stored sessions.", "there is no stored session '%s'",
                                     vault->id);
        if (r < 0)
                return sbx_error_set(err, r, problem.origin, problem.hint, "session '%s' can't go on: %s", vault->id,
                                     problem.message);
        vault->stored = true;
        return 0;
}

static int open_stored(struct sbx_vault *vault, bool create, const struct sbx_call *call, struct sbx_error *err) {
        int r;

        vault->durable = true;
        sbx_vault_key(vault->principal, vault->id, vault->key);
        snprintf(vault->lease, sizeof(vault->lease), SBX_VAULT_PREFIX "%s", vault->key);
        r = sbx_vault_lease_take(vault, vault->owner->store_wait_ms, call, err);
        if (r < 0)
                return r;
        r = load(vault, create, call, err);
        if (r < 0)
                sbx_vault_lease_release(vault);
        return r;
}

/* A store that is full, or that can't be written, still gives what it has: a session that it knows must not begin anew
 * beside it. One that it does not know can do without. */
static bool can_do_without(struct sbx_vault *vault, int code, const struct sbx_call *call) {
        struct sbx_manifest_owner owner = {0};
        struct sbx_manifest manifest = {0};
        int r;

        if (code != -ENOSPC && code != -EDQUOT && code != -EROFS && code != -EACCES && code != -EPERM)
                return false;
        r = sbx_vault_load(&vault->store, vault->key, call, &manifest, &owner, NULL);
        sbx_manifest_owner_clear(&owner);
        sbx_manifest_clear(&manifest);
        return r == -ENOENT;
}

static int do_without(struct sbx_vault *vault, const struct sbx_error *problem, struct sbx_error *err) {
        vault->problem = strdup(problem->message);
        if (vault->problem == NULL)
                return SBX_NOMEM(err, ORIGIN);
        vault->durable = false;
        sbx_log(vault->owner->logger, SBX_LOG_WARNING, "session '%s' is not stored: %s", vault->id, problem->message);
        return open_in_memory(vault, err);
}

static int open_durable(struct sbx_vault *vault, bool create, const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_error problem = {0};
        int r = sbx_vaults_store(vault->owner, call, &vault->store, &problem);

        if (r < 0 && create && r != -ECANCELED && r != -ETIMEDOUT)
                return open_in_memory(vault, err); /* sbx_vaults_problem() says why */
        if (r == 0)
                r = open_stored(vault, create, call, &problem);
        if (r < 0 && create && can_do_without(vault, r, call))
                return do_without(vault, &problem, err);
        return r < 0 ? sbx_error_set(err, r, problem.origin, problem.hint, "%s", problem.message) : 0;
}

int sbx_vault_open(struct sbx_vaults *vaults, const char *principal, const char *id, bool create,
                   const struct sbx_call *call, struct sbx_vault **ret_vault, struct sbx_error *err) {
        struct sbx_vault *vault = NULL;
        int r = sbx_vault_new(vaults, principal, id, &vault, err);

        if (r < 0)
                return r;
        if (sbx_vaults_durable(vaults, principal, id))
                r = open_durable(vault, create, call, err);
        else if (create)
                r = open_in_memory(vault, err);
        else
                r = sbx_error_set(err, -ENOENT, ORIGIN, NULL, "session '%s' is never stored", id);
        if (r < 0)
                sbx_vault_free(vault);
        else
                *ret_vault = vault;
        return r;
}

/* ---- closing ---- */

/* That a session was used is worth a write now and then; its ids always are. */
static void touch(struct sbx_vault *vault, const struct sbx_call *call) {
        _cleanup_manifest_ struct sbx_manifest next = {0};
        struct sbx_error problem = {0};
        int r;

        if (!vault->stored || atomic_load(&vault->lost) ||
            (!vault->frozen && sbx_vault_now_ms() - vault->manifest.used_ms < TOUCH_AFTER_MS))
                return;
        r = sbx_manifest_copy(&vault->manifest, &next, &problem);
        if (r == 0)
                r = sbx_vault_commit(vault, &next, NULL, SBX_STORE_SOON, call, &problem);
        if (r < 0)
                sbx_log(vault->owner->logger, SBX_LOG_INFO, "when session '%s' was used last is not stored: %s",
                        vault->id, problem.message);
}

void sbx_vault_close(struct sbx_vault *vault) {
        struct sbx_call call = {
                .struct_size = sizeof(call), .cancel_fd = -1, .deadline_ns = sbx_clock_deadline_ms(CLOSE_TIMEOUT_MS)};

        if (vault == NULL)
                return;
        if (vault->durable) {
                touch(vault, &call);
                sbx_vault_lease_release(vault);
        } else {
                sbx_memory_store_forget(vault->owner->memory, vault->lease);
        }
        sbx_vault_free(vault);
}

int sbx_vault_destroy(struct sbx_vault *vault, const struct sbx_call *call, struct sbx_error *err) {
        int r = 0;

        if (vault->durable)
                r = sbx_vault_erase(vault, call, err);
        if (r < 0)
                sbx_error_wrap(err, "what is stored of session '%s' can't be removed", vault->id);
        vault->stored = false;
        sbx_vault_close(vault);
        return r;
}

/* ---- what it has ---- */

bool sbx_vault_durable(const struct sbx_vault *vault) {
        return vault->durable;
}

const char *sbx_vault_problem(const struct sbx_vault *vault) {
        if (vault->durable || !sbx_vaults_durable(vault->owner, vault->principal, vault->id))
                return NULL;
        return vault->problem != NULL ? vault->problem : sbx_vaults_problem(vault->owner);
}

const struct sbx_tree *sbx_vault_tree(const struct sbx_vault *vault) {
        return &vault->manifest.tree;
}

bool sbx_vault_identity(const struct sbx_vault *vault, struct sbx_vault_identity *ret_identity) {
        if (vault->manifest.identified)
                *ret_identity = vault->manifest.identity;
        return vault->manifest.identified;
}

void sbx_vault_identify(struct sbx_vault *vault, const struct sbx_vault_identity *identity) {
        vault->manifest.identity = *identity;
        vault->manifest.identified = true;
}

/* ---- adding ---- */

/* Blobs by their digests, to find those that are there already. */
struct blob_table {
        struct sbx_blob **slots;
        size_t size; /* a power of two */
};

static size_t slot_of(const struct blob_table *table, const unsigned char digest[SBX_SHA256_SIZE]) {
        size_t hash;

        memcpy(&hash, digest, sizeof(hash));
        return hash & (table->size - 1);
}

static struct sbx_blob *table_find(const struct blob_table *table, uint64_t bytes,
                                   const unsigned char digest[SBX_SHA256_SIZE]) {
        for (size_t at = slot_of(table, digest); table->slots[at] != NULL; at = (at + 1) & (table->size - 1))
                if (table->slots[at]->bytes == bytes && memcmp(table->slots[at]->digest, digest, SBX_SHA256_SIZE) == 0)
                        return table->slots[at];
        return NULL;
}

static void table_add(struct blob_table *table, struct sbx_blob *blob) {
        size_t at = slot_of(table, blob->digest);

        while (table->slots[at] != NULL)
                at = (at + 1) & (table->size - 1);
        table->slots[at] = blob;
}

static int table_fill(struct blob_table *table, const struct sbx_manifest *manifest, size_t more,
                      struct sbx_error *err) {
        size_t count = more;

        sbx_manifest_mark(manifest, 0);
        for (size_t i = 0; i < manifest->count; i++)
                count += manifest->entries[i].parts->count;
        for (table->size = 16; table->size < 2 * count;)
                table->size *= 2;
        table->slots = calloc(table->size, sizeof(*table->slots));
        if (table->slots == NULL)
                return SBX_NOMEM(err, ORIGIN);
        for (size_t i = 0; i < manifest->count; i++)
                for (size_t j = 0; j < manifest->entries[i].parts->count; j++) {
                        struct sbx_blob *blob = manifest->entries[i].parts->items[j];

                        if (blob->mark++ == 0)
                                table_add(table, blob);
                }
        return 0;
}

static int fill_parts(struct sbx_vault *vault, const char *id, const struct sbx_session_state *state,
                      struct blob_table *table, unsigned char (*digests)[SBX_SHA256_SIZE], struct sbx_parts *parts) {
        for (size_t i = 0; i < state->part_count; i++) {
                struct sbx_blob *blob = table_find(table, state->parts[i].size, digests[i]);
                char name[SBX_BLOB_NAME_SIZE];

                if (blob != NULL) {
                        blob->references++;
                } else {
                        snprintf(name, sizeof(name), "%s.%" PRIu64 ".%zu", id, vault->token, i);
                        blob = sbx_blob_new(name, state->parts[i].size, digests[i]);
                        if (blob == NULL)
                                return -ENOMEM;
                        table_add(table, blob);
                }
                parts->items[i] = blob;
        }
        return 0;
}

static int make_parts(struct sbx_vault *vault, const char *id, const struct sbx_session_state *state,
                      struct sbx_manifest *next, struct sbx_error *err) {
        _cleanup_free_ unsigned char(*digests)[SBX_SHA256_SIZE] = calloc(state->part_count, sizeof(*digests));
        struct sbx_parts *parts = sbx_parts_new(state->part_count);
        struct blob_table table = {0};
        int r = digests != NULL && parts != NULL ? sbx_parts_digest(state->parts, state->part_count, digests, err)
                                                 : SBX_NOMEM(err, ORIGIN);

        if (r == 0)
                r = table_fill(&table, &vault->manifest, state->part_count, err);
        if (r == 0 && fill_parts(vault, id, state, &table, digests, parts) < 0)
                r = SBX_NOMEM(err, ORIGIN);
        if (r == 0)
                r = sbx_manifest_add_parts(next, id, parts, err);
        free(table.slots);
        if (r < 0)
                sbx_parts_unref(parts);
        return r;
}

static int check_state(const struct sbx_session_state *state, struct sbx_error *err) {
        if (state->part_count == 0 || state->part_count > SBX_CHECKPOINT_PARTS_MAX)
                return sbx_error_set(err, -EFBIG, ORIGIN, NULL, "a checkpoint has 1 to %u parts, not %zu",
                                     SBX_CHECKPOINT_PARTS_MAX, state->part_count);
        if (sbx_state_bytes(state) > (uint64_t)SBX_CHECKPOINT_BYTES_MAX)
                return sbx_error_set(err, -EFBIG, ORIGIN, NULL, "a checkpoint has at most %" PRId64 " bytes",
                                     SBX_CHECKPOINT_BYTES_MAX);
        if (state->mechanism == SBX_MECHANISM_FROZEN)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "a frozen process can't be stored");
        return state->about == NULL ? 0 : sbx_checkpoint_check_about(state->about, "about", err);
}

/* The checkpoint with its parts, and without those that are too many. */
static int prepare(struct sbx_vault *vault, const struct sbx_checkpoint *given, const struct sbx_session_state *state,
                   struct sbx_manifest *next, struct sbx_error *err) {
        struct sbx_checkpoint wanted = *given, *checkpoint = NULL, *surplus;
        unsigned gone = 0;
        int r = sbx_manifest_copy(&vault->manifest, next, err);

        if (r < 0)
                return r;
        wanted.mechanism = state->mechanism;
        wanted.about = state->about;
        wanted.bytes = sbx_state_bytes(state);
        wanted.part_count = (unsigned)state->part_count;
        r = sbx_tree_add(&next->tree, &wanted, &checkpoint, err);
        if (r == 0)
                r = make_parts(vault, checkpoint->id, state, next, err);
        while (r == 0 && gone++ < SURPLUS_AT_ONCE &&
               (surplus = sbx_tree_surplus(&next->tree, vault->owner->checkpoints_max)) != NULL)
                sbx_manifest_remove(next, surplus);
        return r;
}

int sbx_vault_add(struct sbx_vault *vault, const struct sbx_checkpoint *given, struct sbx_session_state *state,
                  bool soon, const struct sbx_call *call, const struct sbx_checkpoint **ret_checkpoint,
                  struct sbx_error *err) {
        _cleanup_manifest_ struct sbx_manifest next = {0};
        int r = check_state(state, err);

        if (r == 0)
                r = prepare(vault, given, state, &next, err);
        if (r == 0)
                r = sbx_vault_commit(vault, &next, state, soon ? SBX_STORE_SOON : 0, call, err);
        if (r == 0)
                *ret_checkpoint = sbx_tree_find(&vault->manifest.tree, vault->manifest.tree.head);
        else if (r == -ESTALE)
                sbx_error_wrap(err, "another server has taken session '%s'", vault->id);
        return r;
}

int sbx_vault_add_frozen(struct sbx_vault *vault, const struct sbx_checkpoint *given,
                         const struct sbx_checkpoint **ret_checkpoint, struct sbx_error *err) {
        struct sbx_checkpoint wanted = *given, *checkpoint = NULL;
        int r;

        wanted.part_count = 0;
        r = sbx_tree_add(&vault->manifest.tree, &wanted, &checkpoint, err);
        if (r < 0)
                return r;
        vault->frozen = true;
        *ret_checkpoint = checkpoint;
        return 0;
}

/* ---- moving and removing ---- */

static int find(const struct sbx_vault *vault, const char *id, struct sbx_checkpoint **ret_checkpoint,
                struct sbx_error *err) {
        *ret_checkpoint = sbx_tree_find(&vault->manifest.tree, id);
        if (*ret_checkpoint == NULL)
                return sbx_error_set(err, -ENOENT, ORIGIN, "List the session's checkpoints.",
                                     "session '%s' has no checkpoint '%s'", vault->id, id);
        return 0;
}

int sbx_vault_move(struct sbx_vault *vault, const char *id, const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_manifest_ struct sbx_manifest next = {0};
        struct sbx_checkpoint *checkpoint = NULL;
        int r = id[0] != '\0' ? find(vault, id, &checkpoint, err) : 0;

        if (r < 0)
                return r;
        if (!vault->stored || (checkpoint != NULL && checkpoint->part_count == 0)) {
                snprintf(vault->manifest.tree.head, sizeof(vault->manifest.tree.head), "%s",
                         checkpoint != NULL ? checkpoint->id : "");
                return 0;
        }
        r = sbx_manifest_copy(&vault->manifest, &next, err);
        if (r < 0)
                return r;
        snprintf(next.tree.head, sizeof(next.tree.head), "%s", checkpoint != NULL ? checkpoint->id : "");
        return sbx_vault_commit(vault, &next, NULL, SBX_STORE_SOON, call, err);
}

int sbx_vault_remove(struct sbx_vault *vault, const char *id, const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_manifest_ struct sbx_manifest next = {0};
        struct sbx_checkpoint *checkpoint = NULL;
        int r = find(vault, id, &checkpoint, err);

        if (r < 0)
                return r;
        if (checkpoint->part_count == 0) {
                sbx_tree_remove(&vault->manifest.tree, checkpoint);
                return 0;
        }
        r = sbx_manifest_copy(&vault->manifest, &next, err);
        if (r < 0)
                return r;
        sbx_manifest_remove(&next, sbx_tree_find(&next.tree, checkpoint->id));
        return sbx_vault_commit(vault, &next, NULL, SBX_STORE_SOON, call, err);
}
