/* SPDX-License-Identifier: Apache-2.0 */
/* What a store has of all sessions: found by the names of blobs, looked at without taking a lease. */
#include "session/vault_internal.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"

#define ORIGIN SBX_VAULT_ORIGIN

/* ---- which there are ---- */

void sbx_vault_scan_clear(struct sbx_vault_scan *scan) {
        free(scan->items);
        *scan = (struct sbx_vault_scan){0};
}

/* Names come in order, so those of one session are behind each other. What is no session's is somebody else's. */
static int note_blob(void *data, const char *name, uint64_t size_bytes) {
        struct sbx_vault_scan *scan = data;
        const char *key = name + strlen(SBX_VAULT_PREFIX), *slash = strchr(key, '/');
        struct sbx_vault_found *last = scan->count > 0 ? &scan->items[scan->count - 1] : NULL, *items;
        char text[SBX_VAULT_KEY_SIZE] = "";

        if (slash == NULL || (size_t)(slash - key) >= sizeof(text))
                return 0;
        memcpy(text, key, (size_t)(slash - key));
        if (!sbx_vault_key_valid(text))
                return 0;
        if (last == NULL || strcmp(last->key, text) != 0) {
                if (scan->count == scan->capacity) {
                        size_t capacity = scan->capacity > 0 ? 2 * scan->capacity : 16;

                        items = reallocarray(scan->items, capacity, sizeof(*items));
                        if (items == NULL)
                                return -ENOMEM;
                        scan->items = items;
                        scan->capacity = capacity;
                }
                last = &scan->items[scan->count++];
                *last = (struct sbx_vault_found){0};
                memcpy(last->key, text, sizeof(text));
        }
        last->bytes += size_bytes;
        last->blobs += strcmp(slash + 1, "manifest") != 0;
        return 0;
}

int sbx_vault_scan(const struct sbx_vault_store *store, const struct sbx_call *call, struct sbx_vault_scan *ret_scan,
                   struct sbx_error *err) {
        struct sbx_vault_scan scan = {0};
        struct sbx_store_events events = {.struct_size = sizeof(events), .data = &scan, .item = note_blob};
        struct sbx_error problem = {0};
        int r = store->ops->list(store->instance, SBX_VAULT_PREFIX, &events, call, &problem);

        if (r < 0 && r != -EBADMSG) {
                sbx_vault_scan_clear(&scan);
                return sbx_error_set(err, r, problem.origin, problem.hint, "%s", problem.message);
        }
        if (r == -EBADMSG) /* some names are lost; what is left is no worse for it */
                memcpy(scan.damage, problem.message, sizeof(scan.damage));
        *ret_scan = scan;
        return 0;
}

/* ---- one of them ---- */

/* Who has it; null: nobody who lives. */
static json_t *describe_server(const struct sbx_vault_store *store, const char *key, const struct sbx_call *call) {
        struct sbx_store_lease lease = {.struct_size = sizeof(lease)};
        char name[SBX_VAULT_LEASE_SIZE], who[SBX_LEASE_HOLDER_SIZE];

        snprintf(name, sizeof(name), SBX_VAULT_PREFIX "%s", key);
        if (store->ops->lease_look(store->instance, name, call, &lease, NULL) < 0 || lease.remaining_ms == 0)
                return json_null();
        lease.holder[sizeof(lease.holder) - 1] = '\0';
        if (sbx_lease_holder_gone(lease.holder))
                return json_null();
        sbx_lease_holder_show(lease.holder, who, sizeof(who));
        return json_string(who);
}

static json_t *describe(const struct sbx_vault_found *found, const struct sbx_manifest *manifest,
                        const struct sbx_manifest_owner *owner) {
        const struct sbx_tree *tree = &manifest->tree;
        const struct sbx_checkpoint *newest = tree->count > 0 ? tree->items[tree->count - 1] : NULL;
        const struct sbx_vault_identity *identity = &manifest->identity;
        char used_at[SBX_TIMESTAMP_SIZE];

        sbx_timestamp_of(manifest->used_ms, used_at);
        return json_pack("{s:s, s:s, s:s, s:s?, s:s?, s:s?, s:s, s:I, s:I, s:I, s:s?, s:n}", "id", owner->session,
                         "principal", owner->principal, "key", found->key, "environment",
                         manifest->identified ? identity->environment : NULL, "runtime",
                         manifest->identified ? identity->runtime : NULL, "created_at",
                         manifest->identified ? identity->created_at : NULL, "used_at", used_at, "checkpoints",
                         (json_int_t)tree->count, "bytes", (json_int_t)found->bytes, "executions",
                         (json_int_t)(newest != NULL ? newest->executions : 0), "head",
                         tree->head[0] != '\0' ? tree->head : NULL, "damaged");
}

/* One whose manifest can't be read goes by its key. */
static json_t *describe_damaged(const struct sbx_vault_found *found, const char *problem) {
        return json_pack("{s:s, s:n, s:s, s:n, s:n, s:n, s:n, s:i, s:I, s:i, s:n, s:s}", "id", found->key, "principal",
                         "key", found->key, "environment", "runtime", "created_at", "used_at", "checkpoints", 0,
                         "bytes", (json_int_t)found->bytes, "executions", 0, "head", "damaged", problem);
}

/* What the store lost the names of. */
static int list_damage(const struct sbx_vault_scan *scan, json_t *list, struct sbx_error *err) {
        const struct sbx_vault_found unknown = {.key = "?"};
        json_t *entry = describe_damaged(&unknown, scan->damage);

        if (entry == NULL || json_object_set_new(entry, "server", json_null()) < 0) {
                json_decref(entry);
                return SBX_NOMEM(err, ORIGIN);
        }
        return json_array_append_new(list, entry) < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

static int list_one(const struct sbx_vault_store *store, const struct sbx_vault_found *found, const char *principal,
                    const struct sbx_call *call, json_t *list, struct sbx_error *err) {
        _cleanup_manifest_ struct sbx_manifest manifest = {0};
        struct sbx_manifest_owner owner = {0};
        struct sbx_error problem = {0};
        json_t *entry = NULL;
        int r = sbx_vault_load(store, found->key, call, &manifest, &owner, &problem);
        bool damaged = r == -EBADMSG || r == -EPROTONOSUPPORT;

        if (r == -ENOENT) /* removed meanwhile, or not all of it */
                return 0;
        if (r < 0 && !damaged)
                return sbx_error_set(err, r, problem.origin, problem.hint, "%s", problem.message);
        if (principal != NULL && strcmp(damaged ? "" : owner.principal, principal) != 0) {
                sbx_manifest_owner_clear(&owner);
                return 0;
        }
        entry = damaged ? describe_damaged(found, problem.message) : describe(found, &manifest, &owner);
        sbx_manifest_owner_clear(&owner);
        if (entry == NULL || json_object_set_new(entry, "server", describe_server(store, found->key, call)) < 0) {
                json_decref(entry);
                return SBX_NOMEM(err, ORIGIN);
        }
        return json_array_append_new(list, entry) < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

static const char *text_of(const json_t *entry, const char *key) {
        const char *text = json_string_value(json_object_get(entry, key));

        return text != NULL ? text : "";
}

static int compare_entries(const void *left, const void *right) {
        const json_t *a = *(json_t *const *)left, *b = *(json_t *const *)right;
        int order = strcmp(text_of(a, "principal"), text_of(b, "principal"));

        return order != 0 ? order : strcmp(text_of(a, "id"), text_of(b, "id"));
}

static int sort_list(json_t *list, json_t **ret_list, struct sbx_error *err) {
        size_t count = json_array_size(list);
        _cleanup_free_ json_t **entries = calloc(count + 1, sizeof(*entries));
        _cleanup_json_ json_t *sorted = json_array();

        if (entries == NULL || sorted == NULL)
                return SBX_NOMEM(err, ORIGIN);
        for (size_t i = 0; i < count; i++)
                entries[i] = json_array_get(list, i);
        qsort(entries, count, sizeof(*entries), compare_entries);
        for (size_t i = 0; i < count; i++)
                if (json_array_append(sorted, entries[i]) < 0)
                        return SBX_NOMEM(err, ORIGIN);
        *ret_list = steal_pointer(sorted);
        return 0;
}

int sbx_vaults_list(struct sbx_vaults *vaults, const char *principal, const struct sbx_call *call, json_t **ret_list,
                    struct sbx_error *err) {
        __attribute__((cleanup(sbx_vault_scan_clear))) struct sbx_vault_scan scan = {0};
        _cleanup_json_ json_t *list = json_array();
        struct sbx_vault_store store = {0};
        int r = list != NULL ? sbx_vaults_store(vaults, call, &store, err) : SBX_NOMEM(err, ORIGIN);

        if (r == 0)
                r = sbx_vault_scan(&store, call, &scan, err);
        for (size_t i = 0; r == 0 && i < scan.count; i++)
                r = list_one(&store, &scan.items[i], principal, call, list, err);
        if (r == 0 && scan.damage[0] != '\0' && (principal == NULL || principal[0] == '\0'))
                r = list_damage(&scan, list, err);
        return r < 0 ? r : sort_list(list, ret_list, err);
}

int sbx_vaults_look(struct sbx_vaults *vaults, const char *principal, const char *id, const struct sbx_call *call,
                    struct sbx_tree *ret_tree, struct sbx_error *err) {
        struct sbx_manifest_owner owner = {0};
        struct sbx_vault_store store = {0};
        struct sbx_manifest manifest = {0};
        struct sbx_error problem = {0};
        char key[SBX_VAULT_KEY_SIZE];
        int r;

        if (!sbx_vaults_durable(vaults, principal, id))
                return sbx_error_set(err, -ENOENT, ORIGIN, NULL, "session '%s' is never stored", id);
        r = sbx_vaults_store(vaults, call, &store, err);
        if (r < 0)
                return r;
        sbx_vault_key(principal, id, key);
        r = sbx_vault_load(&store, key, call, &manifest, &owner, &problem);
        sbx_manifest_owner_clear(&owner);
        if (r == -ENOENT)
                return sbx_error_set(err, r, ORIGIN, "List the stored sessions.", "there is no stored session '%s'",
                                     id);
        if (r < 0)
                return sbx_error_set(err, r, problem.origin, problem.hint, "session '%s' can't be looked at: %s", id,
                                     problem.message);
        *ret_tree = manifest.tree;
        manifest.tree = (struct sbx_tree){0};
        sbx_manifest_clear(&manifest);
        return 0;
}
