/* SPDX-License-Identifier: Apache-2.0 */
/* backend-wasm: descriptor and lifecycle. */
#include "backend.h"
#include "helper.h"
#include "util.h"

static void destroy(struct backend *backend) {
        pthread_mutex_destroy(&backend->prepare_lock);
        pthread_mutex_destroy(&backend->images_lock);
        pthread_mutex_destroy(&backend->helpers_lock);
        free(backend);
}

static int open_instance(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        struct backend *backend = calloc(1, sizeof(*backend));
        int r;

        if (backend == NULL)
                return sbx_error_set(err, -ENOMEM, WASM_ORIGIN, NULL, "out of memory");
        memcpy(&backend->host, host,
               host->struct_size < sizeof(backend->host) ? host->struct_size : sizeof(backend->host));
        pthread_mutex_init(&backend->prepare_lock, NULL);
        pthread_mutex_init(&backend->images_lock, NULL);
        pthread_mutex_init(&backend->helpers_lock, NULL);
        backend->drop = geteuid() == 0;
        r = wasm_options_read(host, &backend->options, err);
        if (r < 0) {
                destroy(backend);
                return r;
        }
        *ret_instance = backend;
        return 0;
}

int backend_start(void *instance, const struct sbx_call *call, struct sbx_error *err) {
        struct backend *backend = instance;
        struct guest_image *image = NULL;
        struct sbx_error own = {0};
        int r;

        pthread_mutex_lock(&backend->helpers_lock);
        backend->started = true;
        pthread_mutex_unlock(&backend->helpers_lock);
        /* An image that is still to be built is built by an instance that was started. */
        r = image_for_runtime(backend, NULL, NULL, &image, &own);
        if (r == -ENOENT) {
                backend_log(backend, SBX_LOG_INFO, own.message);
                return 0;
        }
        /* The first guest_start waits until it is ready, and tells if it never is. */
        if (r == 0)
                r = helper_launch(backend, image, call, &own);
        if (r < 0) {
                backend_stop(backend);
                return sbx_error_set(err, r, WASM_ORIGIN, own.hint, "%s", own.message);
        }
        return 0;
}

void backend_stop(void *instance) {
        struct backend *backend = instance;

        helpers_shut_down(backend);
        runtimes_free(backend);
}

static void close_instance(void *instance) {
        struct backend *backend = instance;

        backend_stop(backend);
        wasm_options_free(&backend->options);
        destroy(backend);
}

const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        static const struct sbx_plugin plugin = {
                .struct_size = sizeof(plugin),
                .abi_major = SBX_ABI_MAJOR,
                .abi_minor = SBX_ABI_MINOR,
                .kind = SBX_PLUGIN_BACKEND,
                .name = "backend-wasm",
                .version = SBX_VERSION,
                .summary = "Guests in WebAssembly: CPython compiled ahead of time, copied, saved and restored exactly",
                .license = "Apache-2.0",
                .options = wasm_option_table,
                .ops = &backend_ops,
                .open = open_instance,
                .start = backend_start,
                .stop = backend_stop,
                .close = close_instance,
                .probe = probe_backend,
        };

        return &plugin;
}
