/* SPDX-License-Identifier: Apache-2.0 */
/* The memory store behind a gate that tests open and close. */
#include "fake_store.h"

#include <stdlib.h>

#include "../test.h"
#include "base/buffer.h"

/* Before an operation: waits, and answers 0 or what it fails with instead. */
static int enter(struct fake_store *store, enum fake_store_operation operation, struct sbx_error *err) {
        struct fake_operation *at = &store->operations[operation];
        int r = 0;

        pthread_mutex_lock(&store->lock);
        at->calls++;
        at->waiting++;
        pthread_cond_broadcast(&store->changed);
        while (at->hold)
                pthread_cond_wait(&store->changed, &store->lock);
        at->waiting--;
        if (at->error != 0 && !at->after && at->spared == 0)
                r = at->error;
        else if (at->error != 0 && !at->after)
                at->spared--;
        pthread_mutex_unlock(&store->lock);
        return r < 0 ? sbx_error_set(err, r, "fake", "Heal it.", "the fake store was told to fail") : 0;
}

/* After one that worked. */
static int leave(struct fake_store *store, enum fake_store_operation operation, int r, struct sbx_error *err) {
        int error;

        pthread_mutex_lock(&store->lock);
        error = store->operations[operation].after ? store->operations[operation].error : 0;
        pthread_mutex_unlock(&store->lock);
        return r == 0 && error < 0 ? sbx_error_set(err, error, "fake", NULL, "the fake store lost its answer") : r;
}

#define REAL sbx_memory_store_ops

static int fake_put(void *instance, const char *name, struct sbx_bytes blob, const struct sbx_call *call,
                    struct sbx_error *err) {
        struct fake_store *store = instance;
        int r = enter(store, FAKE_PUT, err);

        return r < 0 ? r : leave(store, FAKE_PUT, REAL.put(store->memory, name, blob, call, err), err);
}

static int fake_get(void *instance, const char *name, const struct sbx_call *call, struct sbx_output *ret_blob,
                    struct sbx_error *err) {
        struct fake_store *store = instance;
        int r = enter(store, FAKE_GET, err);

        return r < 0 ? r : REAL.get(store->memory, name, call, ret_blob, err);
}

static int fake_list(void *instance, const char *prefix, const struct sbx_store_events *events,
                     const struct sbx_call *call, struct sbx_error *err) {
        struct fake_store *store = instance;
        int r = enter(store, FAKE_LIST, err);

        return r < 0 ? r : REAL.list(store->memory, prefix, events, call, err);
}

static int fake_remove(void *instance, const char *name, const struct sbx_call *call, struct sbx_error *err) {
        struct fake_store *store = instance;
        int r = enter(store, FAKE_REMOVE, err);

        return r < 0 ? r : REAL.remove(store->memory, name, call, err);
}

static int fake_commit(void *instance, const struct sbx_store_change *changes, size_t count, const char *lease,
                       uint64_t token, uint32_t flags, const struct sbx_call *call, struct sbx_error *err) {
        struct fake_store *store = instance;
        int r = enter(store, FAKE_COMMIT, err);

        if (r < 0)
                return r;
        r = REAL.commit(store->memory, changes, count, lease, token, flags, call, err);
        return leave(store, FAKE_COMMIT, r, err);
}

static int fake_take(void *instance, const char *lease, const char *holder, uint32_t ttl_ms, uint64_t replace_token,
                     const struct sbx_call *call, struct sbx_store_lease *ret_lease, struct sbx_error *err) {
        struct fake_store *store = instance;
        int r = enter(store, FAKE_TAKE, err);

        if (r < 0)
                return r;
        r = REAL.lease_take(store->memory, lease, holder, ttl_ms, replace_token, call, ret_lease, err);
        return leave(store, FAKE_TAKE, r, err);
}

static int fake_renew(void *instance, const char *lease, uint64_t token, uint32_t ttl_ms, const struct sbx_call *call,
                      struct sbx_error *err) {
        struct fake_store *store = instance;
        int r = enter(store, FAKE_RENEW, err);

        return r < 0 ? r : REAL.lease_renew(store->memory, lease, token, ttl_ms, call, err);
}

static int fake_release(void *instance, const char *lease, uint64_t token, const struct sbx_call *call,
                        struct sbx_error *err) {
        struct fake_store *store = instance;
        int r = enter(store, FAKE_RELEASE, err);

        return r < 0 ? r : REAL.lease_release(store->memory, lease, token, call, err);
}

static int fake_collect(void *instance, const struct sbx_call *call, struct sbx_output *ret_json,
                        struct sbx_error *err) {
        struct fake_store *store = instance;
        int r = enter(store, FAKE_COLLECT, err);

        return r < 0 ? r : REAL.collect(store->memory, call, ret_json, err);
}

static int fake_look(void *instance, const char *lease, const struct sbx_call *call, struct sbx_store_lease *ret_lease,
                     struct sbx_error *err) {
        struct fake_store *store = instance;
        int r = enter(store, FAKE_LOOK, err);

        return r < 0 ? r : REAL.lease_look(store->memory, lease, call, ret_lease, err);
}

void fake_store_open(struct fake_store *store) {
        *store = (struct fake_store){
                .ops = {.struct_size = sizeof(store->ops),
                        .put = fake_put,
                        .get = fake_get,
                        .list = fake_list,
                        .remove = fake_remove,
                        .commit = fake_commit,
                        .lease_take = fake_take,
                        .lease_renew = fake_renew,
                        .lease_release = fake_release,
                        .collect = fake_collect,
                        .lease_look = fake_look},
                .module = {.plugin = {.struct_size = sizeof(struct sbx_plugin), .name = "store-fake"}, .fd = -1},
        };
        store->instance =
                (struct sbx_instance){.name = "fake", .module = &store->module, .state = store, .ops = &store->ops};
        assert_int_equal(sbx_memory_store_new(UINT64_MAX, &store->memory, NULL), 0);
        pthread_mutex_init(&store->lock, NULL);
        pthread_cond_init(&store->changed, NULL);
}

void fake_store_close(struct fake_store *store) {
        sbx_memory_store_free(store->memory);
        pthread_cond_destroy(&store->changed);
        pthread_mutex_destroy(&store->lock);
}

static void set(struct fake_store *store, enum fake_store_operation operation, unsigned spared, int error, bool after) {
        pthread_mutex_lock(&store->lock);
        store->operations[operation].spared = spared;
        store->operations[operation].error = error;
        store->operations[operation].after = after;
        pthread_mutex_unlock(&store->lock);
}

void fake_store_fail(struct fake_store *store, enum fake_store_operation operation, unsigned spared, int error) {
        set(store, operation, spared, error, false);
}

void fake_store_lose_answer(struct fake_store *store, enum fake_store_operation operation, int error) {
        set(store, operation, 0, error, true);
}

void fake_store_heal(struct fake_store *store) {
        for (unsigned i = 0; i < FAKE_OPERATIONS; i++)
                set(store, (enum fake_store_operation)i, 0, 0, false);
}

unsigned fake_store_calls(struct fake_store *store, enum fake_store_operation operation) {
        unsigned calls;

        pthread_mutex_lock(&store->lock);
        calls = store->operations[operation].calls;
        pthread_mutex_unlock(&store->lock);
        return calls;
}

void fake_store_hold(struct fake_store *store, enum fake_store_operation operation) {
        pthread_mutex_lock(&store->lock);
        store->operations[operation].hold = true;
        pthread_mutex_unlock(&store->lock);
}

void fake_store_wait_held(struct fake_store *store, enum fake_store_operation operation, unsigned calls) {
        pthread_mutex_lock(&store->lock);
        while (store->operations[operation].waiting < calls)
                pthread_cond_wait(&store->changed, &store->lock);
        pthread_mutex_unlock(&store->lock);
}

void fake_store_let_go(struct fake_store *store, enum fake_store_operation operation) {
        pthread_mutex_lock(&store->lock);
        store->operations[operation].hold = false;
        pthread_cond_broadcast(&store->changed);
        pthread_mutex_unlock(&store->lock);
}

/* ---- blobs ---- */

struct search {
        const char *suffix;
        char *found;
        size_t count;
};

static int look(void *data, const char *name, uint64_t size_bytes) {
        struct search *search = data;
        size_t length = strlen(name), suffix = search->suffix != NULL ? strlen(search->suffix) : 0;

        search->count++;
        if (search->suffix != NULL && search->found == NULL && length >= suffix &&
            strcmp(name + length - suffix, search->suffix) == 0)
                search->found = strdup(name);
        return 0;
}

char *fake_store_find(struct fake_store *store, const char *suffix) {
        struct search search = {.suffix = suffix};
        struct sbx_store_events events = {.struct_size = sizeof(events), .data = &search, .item = look};

        assert_int_equal(REAL.list(store->memory, "", &events, NULL, NULL), 0);
        return search.found;
}

size_t fake_store_count(struct fake_store *store) {
        struct search search = {0};
        struct sbx_store_events events = {.struct_size = sizeof(events), .data = &search, .item = look};

        assert_int_equal(REAL.list(store->memory, "", &events, NULL, NULL), 0);
        return search.count;
}

void fake_store_read(struct fake_store *store, const char *name, struct sbx_buffer *out) {
        struct sbx_output *output = NULL;

        assert_int_equal(sbx_output_new(SIZE_MAX, &output), 0);
        assert_int_equal(REAL.get(store->memory, name, NULL, output, NULL), 0);
        sbx_output_move(output, out);
        sbx_output_free(output);
}

void fake_store_write(struct fake_store *store, const char *name, struct sbx_bytes bytes) {
        assert_int_equal(REAL.put(store->memory, name, bytes, NULL, NULL), 0);
}

void fake_store_remove(struct fake_store *store, const char *name) {
        assert_int_equal(REAL.remove(store->memory, name, NULL, NULL), 0);
}
