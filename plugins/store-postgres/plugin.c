/* SPDX-License-Identifier: Apache-2.0 */
/* store-postgres: the descriptor and the lifecycle of an instance. */
#include "store.h"

#define STORE_NEEDS "Use the snipara-sandbox that this plugin was built for, or a newer one."

static void instance_close(void *data) {
        struct postgres_store *store = data;

        pool_free(store->pool);
        pthread_mutex_destroy(&store->lock);
        free(store);
}

static int instance_open(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        struct postgres_store *store;
        int r;

        if (host->struct_size < offsetof(struct sbx_host, environment) + sizeof(host->environment) ||
            host->environment == NULL)
                return sbx_error_set(err, -ENOTSUP, POSTGRES_ORIGIN, STORE_NEEDS, "the host is too old");
        store = calloc(1, sizeof(*store));
        if (store == NULL)
                return postgres_nomem(err);
        pthread_mutex_init(&store->lock, NULL);
        r = options_read(host, &store->options, err);
        if (r == 0)
                r = pool_new(&store->options, &store->pool, err);
        if (r < 0) {
                instance_close(store);
                return r;
        }
        *ret_instance = store;
        return 0;
}

/* Nothing yet: the server may come later than this program, and go while it runs. */
static int instance_start(void *data, const struct sbx_call *call, struct sbx_error *err) {
        return 0;
}

static void instance_stop(void *data) {
        pool_rest(((struct postgres_store *)data)->pool);
}

static int instance_probe(void *data, const struct sbx_probe_events *events, const struct sbx_call *call) {
        return store_probe(data, events, call);
}

/* ---- operations ---- */

static int op_put(void *data, const char *name, struct sbx_bytes blob, const struct sbx_call *call,
                  struct sbx_error *err) {
        struct sbx_store_change change = {.name = name, .blob = {blob.data != NULL ? blob.data : "", blob.size}};

        return store_commit(data, &change, 1, NULL, 0, 0, call, err);
}

static int op_get(void *data, const char *name, const struct sbx_call *call, struct sbx_output *ret_blob,
                  struct sbx_error *err) {
        return store_get(data, name, call, ret_blob, err);
}

static int op_list(void *data, const char *prefix, const struct sbx_store_events *events, const struct sbx_call *call,
                   struct sbx_error *err) {
        return store_list(data, prefix, events, call, err);
}

static int op_remove(void *data, const char *name, const struct sbx_call *call, struct sbx_error *err) {
        return store_remove(data, name, call, err);
}

static int op_commit(void *data, const struct sbx_store_change *changes, size_t count, const char *lease,
                     uint64_t token, uint32_t flags, const struct sbx_call *call, struct sbx_error *err) {
        return store_commit(data, changes, count, lease, token, flags, call, err);
}

static int op_lease_take(void *data, const char *lease, const char *holder, uint32_t ttl_ms, uint64_t replace_token,
                         const struct sbx_call *call, struct sbx_store_lease *ret_lease, struct sbx_error *err) {
        return store_lease_take(data, lease, holder, ttl_ms, replace_token, call, ret_lease, err);
}

static int op_lease_renew(void *data, const char *lease, uint64_t token, uint32_t ttl_ms, const struct sbx_call *call,
                          struct sbx_error *err) {
        return store_lease_renew(data, lease, token, ttl_ms, call, err);
}

static int op_lease_release(void *data, const char *lease, uint64_t token, const struct sbx_call *call,
                            struct sbx_error *err) {
        return store_lease_release(data, lease, token, call, err);
}

static int op_lease_look(void *data, const char *lease, const struct sbx_call *call, struct sbx_store_lease *ret_lease,
                         struct sbx_error *err) {
        return store_lease_look(data, lease, call, ret_lease, err);
}

static int op_collect(void *data, const struct sbx_call *call, struct sbx_output *ret_json, struct sbx_error *err) {
        return store_collect(data, call, ret_json, err);
}

static const struct sbx_store_ops ops = {
        .struct_size = sizeof(ops),
        .put = op_put,
        .get = op_get,
        .list = op_list,
        .remove = op_remove,
        .commit = op_commit,
        .lease_take = op_lease_take,
        .lease_renew = op_lease_renew,
        .lease_release = op_lease_release,
        .collect = op_collect,
        .lease_look = op_lease_look,
};

static const struct sbx_plugin plugin = {
        .struct_size = sizeof(plugin),
        .abi_major = SBX_ABI_MAJOR,
        .abi_minor = SBX_ABI_MINOR,
        .kind = SBX_PLUGIN_STORE,
        .name = "store-postgres",
        .version = SBX_VERSION,
        .summary = "Keeps sessions in PostgreSQL, for many machines",
        .license = "Apache-2.0",
        .options = postgres_option_table,
        .ops = &ops,
        .open = instance_open,
        .start = instance_start,
        .stop = instance_stop,
        .close = instance_close,
        .probe = instance_probe,
};

const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        return &plugin;
}
