/* SPDX-License-Identifier: Apache-2.0 */
/* store-dir: the descriptor, the options and the lifecycle of an instance. */
#include <stddef.h>

#include "collect.h"
#include "commit.h"
#include "lease.h"
#include "place.h"
#include "probe.h"
#include "read.h"
#include "sync.h"

static const struct sbx_option options[] = {
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_PATH,
                .name = "directory",
                .help = "Where the store is; made with mode 0700 when something is stored. Default: sessions/<project> "
                        "in the user's state directory.",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_PATH,
                .name = "key_file",
                .help = "Encrypts what is stored: a file with 32 random bytes, or 64 hexadecimal digits, that only its "
                        "owner can read. To be set before anything is stored.",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_SIZE,
                .name = "quota",
                .default_value = "8g",
                .unit = "bytes",
                .help = "How much the store may take on the disk; 0: no limit.",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_SIZE,
                .name = "max_blob",
                .default_value = "1g",
                .unit = "bytes",
                .minimum = 1 << 20,
                .maximum = INT64_C(4) << 30,
                .help = "The largest blob that is stored.",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_INT,
                .name = "compression",
                .default_value = "1",
                .minimum = 0,
                .maximum = 19,
                .help = "Level of zstd; 0: nothing is compressed.",
        },
        {.name = NULL},
};

static int dir_open(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        struct dir_store *store = calloc(1, sizeof(*store));
        int r;

        if (store == NULL)
                return no_memory(err);
        *store = (struct dir_store){.host = host,
                                    .root_fd = -1,
                                    .names_fd = -1,
                                    .objects_fd = -1,
                                    .leases_fd = -1,
                                    .locks_fd = -1,
                                    .tmp_fd = -1,
                                    .trash_fd = -1,
                                    .mutex = PTHREAD_MUTEX_INITIALIZER,
                                    .usage_mutex = PTHREAD_MUTEX_INITIALIZER};
        store->key_file = host->option_string(host->self, "key_file");
        store->quota_bytes = (uint64_t)host->option_int(host->self, "quota");
        store->blob_max_bytes = (uint64_t)host->option_int(host->self, "max_blob");
        store->level = (int)host->option_int(host->self, "compression");
        r = place_find(host, &store->path, err);
        if (r < 0) {
                free(store);
                return r;
        }
        *ret_instance = store;
        return 0;
}

static int dir_start(void *instance, const struct sbx_call *call, struct sbx_error *err) {
        struct dir_store *store = instance;
        int r;

        (void)call;
        r = store_ready(store, false, err); /* what is wrong with it is better told now */
        return r < 0 && r != -ENOENT ? r : sync_start(store, err);
}

static void dir_stop(void *instance) {
        sync_stop(instance);
}

static void dir_close(void *instance) {
        struct dir_store *store = instance;

        sync_stop(store);
        store_close(store);
        pthread_mutex_destroy(&store->mutex);
        pthread_mutex_destroy(&store->usage_mutex);
        free(store->path);
        free(store);
}

static int dir_probe(void *instance, const struct sbx_probe_events *events, const struct sbx_call *call) {
        return store_probe(instance, events, call);
}

static int dir_put(void *instance, const char *name, struct sbx_bytes blob, const struct sbx_call *call,
                   struct sbx_error *err) {
        const struct sbx_store_change change = {name, {blob.data != NULL ? blob.data : "", blob.size}};

        return store_commit(instance, &change, 1, NULL, 0, 0, call, err);
}

static int dir_remove(void *instance, const char *name, const struct sbx_call *call, struct sbx_error *err) {
        return store_remove(instance, name, call, err);
}

static int dir_get(void *instance, const char *name, const struct sbx_call *call, struct sbx_output *ret_blob,
                   struct sbx_error *err) {
        return store_get(instance, name, call, ret_blob, err);
}

static int dir_list(void *instance, const char *prefix, const struct sbx_store_events *events,
                    const struct sbx_call *call, struct sbx_error *err) {
        return store_list(instance, prefix, events, call, err);
}

static int dir_commit(void *instance, const struct sbx_store_change *changes, size_t count, const char *lease,
                      uint64_t token, uint32_t flags, const struct sbx_call *call, struct sbx_error *err) {
        return store_commit(instance, changes, count, lease, token, flags, call, err);
}

static int dir_lease_take(void *instance, const char *lease, const char *holder, uint32_t ttl_ms,
                          uint64_t replace_token, const struct sbx_call *call, struct sbx_store_lease *ret_lease,
                          struct sbx_error *err) {
        return store_lease_take(instance, lease, holder, ttl_ms, replace_token, call, ret_lease, err);
}

static int dir_lease_renew(void *instance, const char *lease, uint64_t token, uint32_t ttl_ms,
                           const struct sbx_call *call, struct sbx_error *err) {
        return store_lease_renew(instance, lease, token, ttl_ms, call, err);
}

static int dir_lease_release(void *instance, const char *lease, uint64_t token, const struct sbx_call *call,
                             struct sbx_error *err) {
        return store_lease_release(instance, lease, token, call, err);
}

static int dir_lease_look(void *instance, const char *lease, const struct sbx_call *call,
                          struct sbx_store_lease *ret_lease, struct sbx_error *err) {
        return store_lease_look(instance, lease, call, ret_lease, err);
}

static int dir_collect(void *instance, const struct sbx_call *call, struct sbx_output *ret_json,
                       struct sbx_error *err) {
        return store_collect(instance, call, ret_json, err);
}

static const struct sbx_store_ops ops = {
        .struct_size = sizeof(ops),
        .put = dir_put,
        .get = dir_get,
        .list = dir_list,
        .remove = dir_remove,
        .commit = dir_commit,
        .lease_take = dir_lease_take,
        .lease_renew = dir_lease_renew,
        .lease_release = dir_lease_release,
        .lease_look = dir_lease_look,
        .collect = dir_collect,
};

static const struct sbx_plugin plugin = {
        .struct_size = sizeof(plugin),
        .abi_major = SBX_ABI_MAJOR,
        .abi_minor = SBX_ABI_MINOR,
        .kind = SBX_PLUGIN_STORE,
        .name = "store-dir",
        .version = SBX_VERSION,
        .summary = "Keeps sessions in a directory: atomic, checksummed, compressed, encrypted if a key is given",
        .license = "Apache-2.0",
        .options = options,
        .ops = &ops,
        .open = dir_open,
        .start = dir_start,
        .stop = dir_stop,
        .close = dir_close,
        .probe = dir_probe,
};

const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        return &plugin;
}
