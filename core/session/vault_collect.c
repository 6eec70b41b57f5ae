/* SPDX-License-Identifier: Apache-2.0 */
/* Removes stored sessions: one by its name, those that nobody uses, and what is left of those that went halfway. Each
 * under its lease, so that nothing is taken from a server that works with it. */
#include "session/vault_internal.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"

#define ORIGIN SBX_VAULT_ORIGIN
#define TOLD_BYTES_MAX ((size_t)4 << 20) /* of what the store says about a collection */

/* A vault that stands for a key, with its lease; -EBUSY: somebody has it. */
static int lock_key(struct sbx_vaults *vaults, const struct sbx_vault_store *store, const char *key, uint64_t wait_ms,
                    const struct sbx_call *call, struct sbx_vault **ret_vault, struct sbx_error *err) {
        struct sbx_vault *vault = NULL;
        int r = sbx_vault_new(vaults, "", key, &vault, err);

        if (r < 0)
                return r;
        vault->durable = true;
        vault->store = *store;
        snprintf(vault->key, sizeof(vault->key), "%s", key);
        snprintf(vault->lease, sizeof(vault->lease), SBX_VAULT_PREFIX "%s", key);
        r = sbx_vault_lease_take(vault, wait_ms, call, err);
        if (r < 0)
                sbx_vault_free(vault);
        else
                *ret_vault = vault;
        return r;
}

static void unlock_key(struct sbx_vault *vault) {
        sbx_vault_lease_release(vault);
        sbx_vault_free(vault);
}

/* ---- one by its name ---- */

static int erase_key(struct sbx_vaults *vaults, const struct sbx_vault_store *store, const char *key,
                     const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_vault *vault = NULL;
        int r = lock_key(vaults, store, key, vaults->store_wait_ms, call, &vault, err);

        if (r < 0)
                return r;
        r = sbx_vault_erase(vault, call, err);
        unlock_key(vault);
        return r;
}

/* What stands for a session that is damaged: its key is its name then, for the local user. */
static bool is_damaged(const struct sbx_vault_store *store, const char *key, const struct sbx_call *call) {
        struct sbx_manifest_owner owner = {0};
        struct sbx_manifest manifest = {0};
        int r = sbx_vault_load(store, key, call, &manifest, &owner, NULL);

        sbx_manifest_owner_clear(&owner);
        sbx_manifest_clear(&manifest);
        return r == -EBADMSG || r == -EPROTONOSUPPORT;
}

static bool exists(const struct sbx_vault_store *store, const char *key, const struct sbx_call *call) {
        struct sbx_manifest_owner owner = {0};
        struct sbx_manifest manifest = {0};
        int r = sbx_vault_load(store, key, call, &manifest, &owner, NULL);

        sbx_manifest_owner_clear(&owner);
        sbx_manifest_clear(&manifest);
        return r != -ENOENT;
}

int sbx_vaults_destroy(struct sbx_vaults *vaults, const char *principal, const char *id, const struct sbx_call *call,
                       struct sbx_error *err) {
        struct sbx_vault_store store = {0};
        char key[SBX_VAULT_KEY_SIZE];
        int r;

        if (!sbx_vaults_durable(vaults, principal, id))
                return sbx_error_set(err, -ENOENT, ORIGIN, NULL, "session '%s' is never stored", id);
        r = sbx_vaults_store(vaults, call, &store, err);
        if (r < 0)
                return r;
        sbx_vault_key(principal, id, key);
        if (exists(&store, key, call))
                r = erase_key(vaults, &store, key, call, err);
        else if (principal[0] == '\0' && sbx_vault_key_valid(id) && is_damaged(&store, id, call))
                r = erase_key(vaults, &store, id, call, err);
        else
                return sbx_error_set(err, -ENOENT, ORIGIN, "List the stored sessions.",
                                     "there is no stored session '%s'", id);
        if (r < 0)
                sbx_error_wrap(err, "what is stored of session '%s' can't be removed", id);
        return r;
}

/* ---- those that nobody uses ---- */

struct collection {
        struct sbx_vaults *vaults;
        struct sbx_vault_store store;
        const char *principal;
        int64_t unused_since_ms; /* -1: however long */
        json_t *removed;
};

static bool is_unused(const struct collection *collection, const struct sbx_manifest *manifest,
                      const struct sbx_manifest_owner *owner) {
        return collection->unused_since_ms >= 0 && manifest->used_ms < collection->unused_since_ms &&
               (collection->principal == NULL || strcmp(owner->principal, collection->principal) == 0);
}

static size_t mark_blobs(const struct sbx_manifest *manifest) {
        size_t different = 0;

        sbx_manifest_mark(manifest, 0);
        for (size_t i = 0; i < manifest->count; i++)
                for (size_t j = 0; j < manifest->entries[i].parts->count; j++)
                        different += manifest->entries[i].parts->items[j]->mark++ == 0;
        return different;
}

/* With the lease: what was found without it is looked at again. */
static int settle_locked(struct collection *collection, struct sbx_vault *vault, const struct sbx_call *call,
                         struct sbx_error *err) {
        struct sbx_manifest_owner owner = {0};
        int r = sbx_vault_load(&vault->store, vault->key, call, &vault->manifest, &owner, err);

        if (r == -ENOENT) {
                r = sbx_vault_erase(vault, call, err);
        } else if (r == 0 && is_unused(collection, &vault->manifest, &owner)) {
                r = sbx_vault_erase(vault, call, err);
                if (r == 0 && json_array_append_new(collection->removed, json_string(owner.session)) < 0)
                        r = SBX_NOMEM(err, ORIGIN);
        } else if (r == 0) {
                r = sbx_vault_prune(vault, call, err);
        }
        sbx_manifest_owner_clear(&owner);
        return r;
}

/* Sessions that are damaged, or that a server has, are left alone. */
static int settle(struct collection *collection, const struct sbx_vault_found *found, const struct sbx_call *call,
                  struct sbx_error *err) {
        _cleanup_manifest_ struct sbx_manifest manifest = {0};
        struct sbx_manifest_owner owner = {0};
        struct sbx_error problem = {0};
        struct sbx_vault *vault = NULL;
        int r = sbx_vault_load(&collection->store, found->key, call, &manifest, &owner, &problem);
        bool wanted = r == -ENOENT ||
                      (r == 0 && (is_unused(collection, &manifest, &owner) || mark_blobs(&manifest) != found->blobs));

        sbx_manifest_owner_clear(&owner);
        if (r == 0 || r == -ENOENT || r == -EBADMSG || r == -EPROTONOSUPPORT)
                r = 0;
        if (r == 0 && wanted) {
                problem = (struct sbx_error){0};
                r = lock_key(collection->vaults, &collection->store, found->key, 0, call, &vault, &problem);
                if (r == 0) {
                        r = settle_locked(collection, vault, call, &problem);
                        unlock_key(vault);
                } else if (r == -EBUSY) {
                        r = 0;
                }
        }
        return r < 0 ? sbx_error_set(err, r, problem.origin, problem.hint, "%s", problem.message) : 0;
}

static int collect_store(const struct sbx_vault_store *store, const struct sbx_call *call, json_t **ret_told,
                         struct sbx_error *err) {
        struct sbx_output *output = NULL;
        int r = sbx_output_new(TOLD_BYTES_MAX, &output);

        if (r < 0)
                return SBX_NOMEM(err, ORIGIN);
        r = store->ops->collect(store->instance, call, output, err);
        if (r == 0)
                r = sbx_json_parse(sbx_output_bytes(output), TOLD_BYTES_MAX, "what the store says", ret_told, err);
        sbx_output_free(output);
        return r;
}

int sbx_vaults_collect(struct sbx_vaults *vaults, const char *principal, uint64_t idle_ms, const struct sbx_call *call,
                       json_t **ret_told, struct sbx_error *err) {
        __attribute__((cleanup(sbx_vault_scan_clear))) struct sbx_vault_scan scan = {0};
        _cleanup_json_ json_t *removed = json_array(), *told = NULL;
        struct collection collection = {.vaults = vaults, .principal = principal, .removed = removed};
        json_t *result;
        int r = removed != NULL ? sbx_vaults_store(vaults, call, &collection.store, err) : SBX_NOMEM(err, ORIGIN);

        collection.unused_since_ms =
                idle_ms > 0 && idle_ms < (uint64_t)sbx_vault_now_ms() ? sbx_vault_now_ms() - (int64_t)idle_ms : -1;
        if (r == 0)
                r = sbx_vault_scan(&collection.store, call, &scan, err);
        for (size_t i = 0; r == 0 && i < scan.count; i++)
                r = settle(&collection, &scan.items[i], call, err);
        if (r == 0)
                r = collect_store(&collection.store, call, &told, err);
        if (r < 0)
                return r;
        result = json_pack("{s:O, s:O}", "removed", removed, "store", told);
        if (result == NULL)
                return SBX_NOMEM(err, ORIGIN);
        *ret_told = result;
        return 0;
}
