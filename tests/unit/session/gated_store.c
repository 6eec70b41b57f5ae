/* SPDX-License-Identifier: Apache-2.0 */
/* The memory store behind a gate that tests open and close. */
#include "gated_store.h"

#include <stdlib.h>

#include "../test.h"
#include "base/buffer.h"

/* Before an operation: waits, and answers 0 or what it fails with instead. */
static int enter(struct gated_store *store, enum gated_store_operation operation, struct sbx_error *err) {
        struct gated_operation *at = &store->operations[operation];
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
        return r < 0 ? sbx_error_set(err, r, "fake", "Heal it.", "the store was told to fail") : 0;
}

/* After one that worked. */
static int leave(struct gated_store *store, enum gated_store_operation operation, int r, struct sbx_error *err) {
        int error;

        pthread_mutex_lock(&store->lock);
        error = store->operations[operation].after ? store->operations[operation].error : 0;
        pthread_mutex_unlock(&store->lock);
        return r == 0 && error < 0 ? sbx_error_set(err, error, "fake", NULL, "the store lost its answer") : r;
}

#define REAL sbx_memory_store_ops

static int gated_put(void *instance, const char *name, struct sbx_bytes blob, const struct sbx_call *call,
                     struct sbx_error *err) {
        struct gated_store *store = instance;
        int r = enter(store, GATE_PUT, err);

        return r < 0 ? r : leave(store, GATE_PUT, REAL.put(store->memory, name, blob, call, err), err);
}

static int gated_get(void *instance, const char *name, const struct sbx_call *call, struct sbx_output *ret_blob,
                     struct sbx_error *err) {
        struct gated_store *store = instance;
        int r = enter(store, GATE_GET, err);

        return r < 0 ? r : REAL.get(store->memory, name, call, ret_blob, err);
}

static int gated_list(void *instance, const char *prefix, const struct sbx_store_events *events,
                      const struct sbx_call *call, struct sbx_error *err) {
        struct gated_store *store = instance;
        int r = enter(store, GATE_LIST, err);

        return r < 0 ? r : leave(store, GATE_LIST, REAL.list(store->memory, prefix, events, call, err), err);
}

static int gated_remove(void *instance, const char *name, const struct sbx_call *call, struct sbx_error *err) {
        struct gated_store *store = instance;
        int r = enter(store, GATE_REMOVE, err);

        return r < 0 ? r : REAL.remove(store->memory, name, call, err);
}

static int gated_commit(void *instance, const struct sbx_store_change *changes, size_t count, const char *lease,
                        uint64_t token, uint32_t flags, const struct sbx_call *call, struct sbx_error *err) {
        struct gated_store *store = instance;
        int r = enter(store, GATE_COMMIT, err);

        if (r < 0)
                return r;
        r = REAL.commit(store->memory, changes, count, lease, token, flags, call, err);
        return leave(store, GATE_COMMIT, r, err);
}

static int gated_take(void *instance, const char *lease, const char *holder, uint32_t ttl_ms, uint64_t replace_token,
                      const struct sbx_call *call, struct sbx_store_lease *ret_lease, struct sbx_error *err) {
        struct gated_store *store = instance;
        int r = enter(store, GATE_TAKE, err);

        if (r < 0)
                return r;
        r = REAL.lease_take(store->memory, lease, holder, ttl_ms, replace_token, call, ret_lease, err);
        return leave(store, GATE_TAKE, r, err);
}

static int gated_renew(void *instance, const char *lease, uint64_t token, uint32_t ttl_ms, const struct sbx_call *call,
                       struct sbx_error *err) {
        struct gated_store *store = instance;
        int r = enter(store, GATE_RENEW, err);

        return r < 0 ? r : REAL.lease_renew(store->memory, lease, token, ttl_ms, call, err);
}

static int gated_release(void *instance, const char *lease, uint64_t token, const struct sbx_call *call,
                         struct sbx_error *err) {
        struct gated_store *store = instance;
        int r = enter(store, GATE_RELEASE, err);

        return r < 0 ? r : REAL.lease_release(store->memory, lease, token, call, err);
}

static int gated_collect(void *instance, const struct sbx_call *call, struct sbx_output *ret_json,
                         struct sbx_error *err) {
        struct gated_store *store = instance;
        int r = enter(store, GATE_COLLECT, err);

        return r < 0 ? r : REAL.collect(store->memory, call, ret_json, err);
}

static int gated_look(void *instance, const char *lease, const struct sbx_call *call, struct sbx_store_lease *ret_lease,
                      struct sbx_error *err) {
        struct gated_store *store = instance;
        int r = enter(store, GATE_LOOK, err);

        return r < 0 ? r : REAL.lease_look(store->memory, lease, call, ret_lease, err);
}

void gated_store_open(struct gated_store *store) {
        *store = (struct gated_store){
                .ops = {.struct_size = sizeof(store->ops),
                        .put = gated_put,
                        .get = gated_get,
                        .list = gated_list,
                        .remove = gated_remove,
                        .commit = gated_commit,
                        .lease_take = gated_take,
                        .lease_renew = gated_renew,
                        .lease_release = gated_release,
                        .collect = gated_collect,
                        .lease_look = gated_look},
                .module = {.plugin = {.struct_size = sizeof(struct sbx_plugin), .name = "store-fake"}, .fd = -1},
        };
        store->instance =
                (struct sbx_instance){.name = "fake", .module = &store->module, .state = store, .ops = &store->ops};
        assert_int_equal(sbx_memory_store_new(UINT64_MAX, &store->memory, NULL), 0);
        pthread_mutex_init(&store->lock, NULL);
        pthread_cond_init(&store->changed, NULL);
}

void gated_store_close(struct gated_store *store) {
        sbx_memory_store_free(store->memory);
        pthread_cond_destroy(&store->changed);
        pthread_mutex_destroy(&store->lock);
}

static void set(struct gated_store *store, enum gated_store_operation operation, unsigned spared, int error,
                bool after) {
        pthread_mutex_lock(&store->lock);
        store->operations[operation].spared = spared;
        store->operations[operation].error = error;
        store->operations[operation].after = after;
        pthread_mutex_unlock(&store->lock);
}

void gated_store_fail(struct gated_store *store, enum gated_store_operation operation, unsigned spared, int error) {
        set(store, operation, spared, error, false);
}

void gated_store_lose_answer(struct gated_store *store, enum gated_store_operation operation, int error) {
        set(store, operation, 0, error, true);
}

void gated_store_heal(struct gated_store *store) {
        for (unsigned i = 0; i < GATE_OPERATIONS; i++)
                set(store, (enum gated_store_operation)i, 0, 0, false);
}

unsigned gated_store_calls(struct gated_store *store, enum gated_store_operation operation) {
        unsigned calls;

        pthread_mutex_lock(&store->lock);
        calls = store->operations[operation].calls;
        pthread_mutex_unlock(&store->lock);
        return calls;
}

void gated_store_hold(struct gated_store *store, enum gated_store_operation operation) {
        pthread_mutex_lock(&store->lock);
        store->operations[operation].hold = true;
        pthread_mutex_unlock(&store->lock);
}

void gated_store_wait_held(struct gated_store *store, enum gated_store_operation operation, unsigned calls) {
        pthread_mutex_lock(&store->lock);
        while (store->operations[operation].waiting < calls)
                pthread_cond_wait(&store->changed, &store->lock);
        pthread_mutex_unlock(&store->lock);
}

void gated_store_let_go(struct gated_store *store, enum gated_store_operation operation) {
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

char *gated_store_find(struct gated_store *store, const char *suffix) {
        struct search search = {.suffix = suffix};
        struct sbx_store_events events = {.struct_size = sizeof(events), .data = &search, .item = look};

        assert_int_equal(REAL.list(store->memory, "", &events, NULL, NULL), 0);
        return search.found;
}

size_t gated_store_count(struct gated_store *store) {
        struct search search = {0};
        struct sbx_store_events events = {.struct_size = sizeof(events), .data = &search, .item = look};

        assert_int_equal(REAL.list(store->memory, "", &events, NULL, NULL), 0);
        return search.count;
}

void gated_store_read(struct gated_store *store, const char *name, struct sbx_buffer *out) {
        struct sbx_output *output = NULL;

        assert_int_equal(sbx_output_new(SIZE_MAX, &output), 0);
        assert_int_equal(REAL.get(store->memory, name, NULL, output, NULL), 0);
        sbx_output_move(output, out);
        sbx_output_free(output);
}

void gated_store_write(struct gated_store *store, const char *name, struct sbx_bytes bytes) {
        assert_int_equal(REAL.put(store->memory, name, bytes, NULL, NULL), 0);
}

void gated_store_remove(struct gated_store *store, const char *name) {
        assert_int_equal(REAL.remove(store->memory, name, NULL, NULL), 0);
}
