/* SPDX-License-Identifier: Apache-2.0 */
/* A store in memory: blobs in the order of their names, each shared by the store and by those who read it. */
#include "session/memory_store.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/thread.h"
#include "plugin/registry.h"

#define ORIGIN "store"

struct blob {
        atomic_uint references;
        size_t size;
        char *name;
        char data[];
};

struct lease {
        struct lease *next;
        uint64_t token, end_ns;
        char holder[256], name[];
};

struct sbx_memory_store {
        uint64_t max_bytes;
        pthread_mutex_t lock; /* protects what follows */
        struct blob **blobs;  /* by their names */
        size_t count, capacity;
        uint64_t bytes;
        struct lease *leases;
        uint64_t last_token;
};

/* ---- blobs ---- */

static void blob_unref(struct blob *blob) {
        if (blob == NULL || atomic_fetch_sub(&blob->references, 1) > 1)
                return;
        free(blob->name);
        free(blob);
}

static struct blob *blob_new(const char *name, struct sbx_bytes bytes) {
        struct blob *blob = bytes.size < SIZE_MAX - sizeof(*blob) ? malloc(sizeof(*blob) + bytes.size) : NULL;

        if (blob == NULL)
                return NULL;
        atomic_init(&blob->references, 1);
        blob->size = bytes.size;
        blob->name = strdup(name);
        if (blob->name == NULL) {
                free(blob);
                return NULL;
        }
        if (bytes.size > 0)
                memcpy(blob->data, bytes.data, bytes.size);
        return blob;
}

/* Where it is, or would be. */
static size_t find_locked(const struct sbx_memory_store *store, const char *name, bool *ret_found) {
        size_t low = 0, high = store->count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int order = strcmp(store->blobs[middle]->name, name);

                if (order == 0) {
                        *ret_found = true;
                        return middle;
                }
                if (order < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        *ret_found = false;
        return low;
}

static size_t size_of_locked(const struct sbx_memory_store *store, const char *name) {
        bool found;
        size_t at = find_locked(store, name, &found);

        return found ? store->blobs[at]->size : 0;
}

/* There is room for one more. Returns what was there before. */
static struct blob *replace_locked(struct sbx_memory_store *store, const char *name, struct blob *blob) {
        struct blob *old = NULL;
        bool found;
        size_t at = find_locked(store, name, &found);

        if (found) {
                old = store->blobs[at];
                store->bytes -= old->size;
        }
        if (blob != NULL)
                store->bytes += blob->size;
        if (found && blob == NULL)
                memmove(store->blobs + at, store->blobs + at + 1, (--store->count - at) * sizeof(*store->blobs));
        if (!found && blob != NULL)
                memmove(store->blobs + at + 1, store->blobs + at, (store->count++ - at) * sizeof(*store->blobs));
        if (blob != NULL)
                store->blobs[at] = blob;
        return old;
}

/* ---- leases ---- */

static struct lease *lease_find_locked(const struct sbx_memory_store *store, const char *name) {
        struct lease *at = store->leases;

        while (at != NULL && strcmp(at->name, name) != 0)
                at = at->next;
        return at;
}

static void lease_tell_locked(const struct lease *lease, struct sbx_store_lease *ret_lease) {
        uint64_t now = sbx_clock_ns();

        ret_lease->token = lease->token;
        ret_lease->remaining_ms = lease->end_ns > now ? (uint32_t)((lease->end_ns - now) / SBX_NS_PER_MS) : 0;
        memcpy(ret_lease->holder, lease->holder, sizeof(lease->holder));
}

static struct lease *lease_add_locked(struct sbx_memory_store *store, const char *name) {
        struct lease *lease = calloc(1, sizeof(*lease) + strlen(name) + 1);

        if (lease == NULL)
                return NULL;
        memcpy(lease->name, name, strlen(name) + 1);
        lease->next = store->leases;
        store->leases = lease;
        return lease;
}

static int lease_take(void *instance, const char *name, const char *holder, uint32_t ttl_ms, uint64_t replace_token,
                      const struct sbx_call *call, struct sbx_store_lease *ret_lease, struct sbx_error *err) {
        struct sbx_memory_store *store = instance;
        struct lease *lease;

        SBX_LOCKED(&store->lock);
        lease = lease_find_locked(store, name);
        if (lease != NULL && lease->end_ns > sbx_clock_ns() && (replace_token == 0 || lease->token != replace_token)) {
                lease_tell_locked(lease, ret_lease);
                return sbx_error_set(err, -EBUSY, ORIGIN, NULL, "lease '%s' is held by %s", name, lease->holder);
        }
        if (lease == NULL)
                lease = lease_add_locked(store, name);
        if (lease == NULL)
                return SBX_NOMEM(err, ORIGIN);
        lease->token = ++store->last_token;
        lease->end_ns = sbx_clock_deadline_ms(ttl_ms);
        snprintf(lease->holder, sizeof(lease->holder), "%s", holder);
        lease_tell_locked(lease, ret_lease);
        return 0;
}

static int lease_renew(void *instance, const char *name, uint64_t token, uint32_t ttl_ms, const struct sbx_call *call,
                       struct sbx_error *err) {
        struct sbx_memory_store *store = instance;
        struct lease *lease;

        SBX_LOCKED(&store->lock);
        lease = lease_find_locked(store, name);
        if (lease == NULL || lease->token != token)
                return sbx_error_set(err, -ESTALE, ORIGIN, NULL, "lease '%s' has another holder", name);
        lease->end_ns = sbx_clock_deadline_ms(ttl_ms);
        return 0;
}

static int lease_release(void *instance, const char *name, uint64_t token, const struct sbx_call *call,
                         struct sbx_error *err) {
        struct sbx_memory_store *store = instance;

        SBX_LOCKED(&store->lock);
        for (struct lease **at = &store->leases; *at != NULL; at = &(*at)->next)
                if (strcmp((*at)->name, name) == 0 && (*at)->token == token) {
                        struct lease *lease = *at;

                        *at = lease->next;
                        free(lease);
                        break;
                }
        return 0;
}

static int lease_look(void *instance, const char *name, const struct sbx_call *call, struct sbx_store_lease *ret_lease,
                      struct sbx_error *err) {
        struct sbx_memory_store *store = instance;
        const struct lease *lease;

        SBX_LOCKED(&store->lock);
        lease = lease_find_locked(store, name);
        if (lease == NULL)
                return sbx_error_set(err, -ENOENT, ORIGIN, NULL, "nobody has lease '%s'", name);
        lease_tell_locked(lease, ret_lease);
        return 0;
}

/* ---- changes ---- */

static int reserve_locked(struct sbx_memory_store *store, size_t more, struct sbx_error *err) {
        size_t capacity = store->capacity > 0 ? store->capacity : 64;
        struct blob **blobs;

        if (store->count + more <= store->capacity)
                return 0;
        while (capacity < store->count + more)
                capacity *= 2;
        blobs = reallocarray(store->blobs, capacity, sizeof(*blobs));
        if (blobs == NULL)
                return SBX_NOMEM(err, ORIGIN);
        store->blobs = blobs;
        store->capacity = capacity;
        return 0;
}

static int check_locked(struct sbx_memory_store *store, const struct sbx_store_change *changes, size_t count,
                        const char *lease_name, uint64_t token, struct sbx_error *err) {
        const struct lease *lease = lease_name != NULL ? lease_find_locked(store, lease_name) : NULL;
        uint64_t before = 0, after = 0;

        if (lease_name != NULL && (lease == NULL || lease->token != token))
                return sbx_error_set(err, -ESTALE, ORIGIN, NULL, "lease '%s' has another holder", lease_name);
        for (size_t i = 0; i < count; i++) {
                before += size_of_locked(store, changes[i].name);
                after += changes[i].blob.data != NULL ? changes[i].blob.size : 0;
        }
        if (after > before && store->bytes - before + after > store->max_bytes)
                return sbx_error_set(err, -ENOSPC, ORIGIN,
                                     "Delete checkpoints that nobody needs, or set `checkpoint_memory` higher.",
                                     "checkpoints that are kept in memory may take %" PRIu64 " bytes, and %" PRIu64
                                     " of them are taken",
                                     store->max_bytes, store->bytes);
        return reserve_locked(store, count, err);
}

/* In: the new ones. Out: the old ones. */
static int apply(struct sbx_memory_store *store, const struct sbx_store_change *changes, size_t count,
                 const char *lease, uint64_t token, struct blob **blobs, struct sbx_error *err) {
        int r;

        SBX_LOCKED(&store->lock);
        r = check_locked(store, changes, count, lease, token, err);
        for (size_t i = 0; r == 0 && i < count; i++)
                blobs[i] = replace_locked(store, changes[i].name, blobs[i]);
        return r;
}

static int commit(void *instance, const struct sbx_store_change *changes, size_t count, const char *lease,
                  uint64_t token, uint32_t flags, const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_free_ struct blob **blobs = calloc(count + 1, sizeof(*blobs));
        int r = blobs != NULL ? 0 : SBX_NOMEM(err, ORIGIN);

        for (size_t i = 0; r == 0 && i < count; i++) {
                if (changes[i].blob.data == NULL)
                        continue;
                blobs[i] = blob_new(changes[i].name, changes[i].blob);
                if (blobs[i] == NULL)
                        r = SBX_NOMEM(err, ORIGIN);
        }
        if (r == 0)
                r = apply(instance, changes, count, lease, token, blobs, err);
        for (size_t i = 0; blobs != NULL && i < count; i++)
                blob_unref(blobs[i]);
        return r;
}

static int put(void *instance, const char *name, struct sbx_bytes blob, const struct sbx_call *call,
               struct sbx_error *err) {
        struct sbx_store_change change = {name, {blob.data != NULL ? blob.data : "", blob.size}};

        return commit(instance, &change, 1, NULL, 0, 0, call, err);
}

static int remove_blob(void *instance, const char *name, const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_memory_store *store = instance;
        bool found;

        SBX_LOCKED(&store->lock);
        find_locked(store, name, &found);
        if (!found)
                return sbx_error_set(err, -ENOENT, ORIGIN, NULL, "there is no blob '%s'", name);
        blob_unref(replace_locked(store, name, NULL));
        return 0;
}

/* ---- looking ---- */

static struct blob *blob_ref_of(struct sbx_memory_store *store, const char *name) {
        bool found;
        size_t at;

        SBX_LOCKED(&store->lock);
        at = find_locked(store, name, &found);
        if (!found)
                return NULL;
        atomic_fetch_add(&store->blobs[at]->references, 1);
        return store->blobs[at];
}

static int get(void *instance, const char *name, const struct sbx_call *call, struct sbx_output *ret_blob,
               struct sbx_error *err) {
        struct blob *blob = blob_ref_of(instance, name);
        int r;

        if (blob == NULL)
                return sbx_error_set(err, -ENOENT, ORIGIN, NULL, "there is no blob '%s'", name);
        r = sbx_output_append(ret_blob, blob->data, blob->size);
        blob_unref(blob);
        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "blob '%s' can't be handed over: %s", name,
                                     SBX_ERRNO_TEXT(r))
                     : 0;
}

static int list(void *instance, const char *prefix, const struct sbx_store_events *events, const struct sbx_call *call,
                struct sbx_error *err) {
        struct sbx_memory_store *store = instance;
        size_t length = strlen(prefix);
        bool found;
        int r = 0;

        SBX_LOCKED(&store->lock);
        for (size_t i = find_locked(store, prefix, &found); r == 0 && i < store->count; i++) {
                if (strncmp(store->blobs[i]->name, prefix, length) != 0)
                        break;
                r = events->item(events->data, store->blobs[i]->name, store->blobs[i]->size);
        }
        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "the listing was stopped: %s", SBX_ERRNO_TEXT(r)) : 0;
}

static int collect(void *instance, const struct sbx_call *call, struct sbx_output *ret_json, struct sbx_error *err) {
        struct sbx_memory_store *store = instance;
        char text[256];
        int size, r;

        pthread_mutex_lock(&store->lock);
        size = snprintf(text, sizeof(text),
                        "{\"blobs\": %zu, \"bytes\": %" PRIu64 ", \"stored_bytes\": %" PRIu64
                        ", \"quota_bytes\": %" PRIu64 ", \"removed\": 0, \"removed_bytes\": 0, \"damaged\": [], "
                        "\"location\": \"memory of this server\"}",
                        store->count, store->bytes, store->bytes, store->max_bytes <= INT64_MAX ? store->max_bytes : 0);
        pthread_mutex_unlock(&store->lock);
        r = sbx_output_append(ret_json, text, (size_t)size);
        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "figures can't be handed over: %s", SBX_ERRNO_TEXT(r)) : 0;
}

const struct sbx_store_ops sbx_memory_store_ops = {
        .struct_size = sizeof(struct sbx_store_ops),
        .put = put,
        .get = get,
        .list = list,
        .remove = remove_blob,
        .commit = commit,
        .lease_take = lease_take,
        .lease_renew = lease_renew,
        .lease_release = lease_release,
        .collect = collect,
        .lease_look = lease_look,
};

/* ---- the store ---- */

int sbx_memory_store_new(uint64_t max_bytes, struct sbx_memory_store **ret_store, struct sbx_error *err) {
        struct sbx_memory_store *store = calloc(1, sizeof(*store));

        if (store == NULL)
                return SBX_NOMEM(err, ORIGIN);
        store->max_bytes = max_bytes;
        pthread_mutex_init(&store->lock, NULL);
        *ret_store = store;
        return 0;
}

void sbx_memory_store_forget(struct sbx_memory_store *store, const char *directory) {
        size_t length = strlen(directory), kept = 0;

        SBX_LOCKED(&store->lock);
        for (size_t i = 0; i < store->count; i++) {
                struct blob *blob = store->blobs[i];

                if (strncmp(blob->name, directory, length) == 0 && blob->name[length] == '/') {
                        store->bytes -= blob->size;
                        blob_unref(blob);
                } else {
                        store->blobs[kept++] = blob;
                }
        }
        store->count = kept;
}

void sbx_memory_store_free(struct sbx_memory_store *store) {
        struct lease *lease;

        if (store == NULL)
                return;
        for (size_t i = 0; i < store->count; i++)
                blob_unref(store->blobs[i]);
        free(store->blobs);
        while ((lease = store->leases) != NULL) {
                store->leases = lease->next;
                free(lease);
        }
        pthread_mutex_destroy(&store->lock);
        free(store);
}
