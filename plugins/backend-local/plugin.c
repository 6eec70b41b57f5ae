/* SPDX-License-Identifier: Apache-2.0 */
/* backend-local: descriptor and lifecycle. */
#include "local.h"
#include "util.h"

static int open_instance(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        struct local *local = calloc(1, sizeof(*local));
        int r;

        if (local == NULL)
                return sbx_error_set(err, -ENOMEM, LOCAL_ORIGIN, NULL, "out of memory");
        memcpy(&local->host, host, host->struct_size < sizeof(local->host) ? host->struct_size : sizeof(local->host));
        pthread_mutex_init(&local->lock, NULL);
        pthread_mutex_init(&local->images_lock, NULL);
        pthread_mutex_init(&local->versions_lock, NULL);
        r = local_options_read(host, &local->options, err);
        if (r < 0) {
                pthread_mutex_destroy(&local->lock);
                pthread_mutex_destroy(&local->images_lock);
                pthread_mutex_destroy(&local->versions_lock);
                free(local);
                return r;
        }
        *ret_instance = local;
        return 0;
}

int local_start(void *instance, const struct sbx_call *call, struct sbx_error *err) {
        struct local *local = instance;
        int r = identity_find(local, err);

        if (r == 0)
                r = interpreter_find(local->options.python, local->options.node, local->options.read_only,
                                     &local->interpreter, err);
        if (r == 0)
                r = cgroup_manager_new(local->options.cgroup, local->options.cgroup_base, &local->cgroups, err);
        if (r == 0)
                r = cgroup_manager_admit(local->cgroups, local->uid, err);
        if (r == 0) {
                limits_find(local);
                pthread_mutex_lock(&local->lock);
                local->started = true;
                pthread_mutex_unlock(&local->lock);
                /* The first guest_start waits until it is ready, and tells if it never is. */
                r = zygote_launch(local, call, err);
        }
        if (r < 0)
                local_stop(local);
        return r;
}

void local_stop(void *instance) {
        struct local *local = instance;

        zygote_shut_down(local);
        cgroup_manager_free(steal_pointer(local->cgroups));
        interpreter_free(&local->interpreter);
}

static void close_instance(void *instance) {
        struct local *local = instance;

        local_stop(local);
        local_options_free(&local->options);
        pthread_mutex_destroy(&local->lock);
        pthread_mutex_destroy(&local->images_lock);
        pthread_mutex_destroy(&local->versions_lock);
        free(local);
}

const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        static const struct sbx_plugin plugin = {
                .struct_size = sizeof(plugin),
                .abi_major = SBX_ABI_MAJOR,
                .abi_minor = SBX_ABI_MINOR,
                .kind = SBX_PLUGIN_BACKEND,
                .name = "backend-local",
                .version = SBX_VERSION,
                .summary = "Guests on this machine: namespaces, seccomp, Landlock and control groups",
                .license = "Apache-2.0",
                .options = local_option_table,
                .ops = &local_ops,
                .open = open_instance,
                .start = local_start,
                .stop = local_stop,
                .close = close_instance,
                .probe = probe_local,
        };

        return &plugin;
}
