/* SPDX-License-Identifier: Apache-2.0 */
/* Serving a transport: the instance is started at the first request and runs on the caller's thread. */
#include "runtime/runtime.h"

#include <snipara-sandbox/transport.h>

#include "base/error.h"

int sbx_runtime_serve(struct sbx_runtime *runtime, const char *name, int input_fd, int output_fd,
                      const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_call own = {.struct_size = sizeof(own), .cancel_fd = -1};
        const struct sbx_instance *instance = NULL;
        const struct sbx_transport_ops *ops;
        int r;

        (void)sbx_runtime_call(call, &own);
        r = sbx_registry_get(runtime->registry, name, SBX_PLUGIN_TRANSPORT, &own, &instance, err);
        if (r < 0)
                return r;
        sbx_sessions_warm(runtime->sessions);
        sbx_runtime_connect_sources(runtime);
        sbx_runtime_connect_sinks(runtime); /* a client may begin runs */
        ops = instance->ops;
        r = ops->serve(instance->state, input_fd, output_fd, &own, err);
        return r < 0 ? sbx_error_set(err, r, "runtime", NULL, "transport '%s': %s", name, SBX_ERRNO_TEXT(r)) : 0;
}
