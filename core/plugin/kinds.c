/* SPDX-License-Identifier: Apache-2.0 */
/* What the core knows of each kind of plugin: its operations, and the options that the core adds to its entries. */
#include <snipara-sandbox/backend.h>
#include <snipara-sandbox/context.h>
#include <snipara-sandbox/provider.h>
#include <snipara-sandbox/sink.h>
#include <snipara-sandbox/store.h>
#include <snipara-sandbox/transport.h>

#include "plugin/internal.h"

#define OPERATION(kind, member)                                                                                        \
        { #member, offsetof(struct sbx_##kind##_ops, member), 0, NULL, 0 }
#define OPERATION_FOR(kind, member, bits)                                                                              \
        { #member, offsetof(struct sbx_##kind##_ops, member), (bits), NULL, 0 }
#define OPERATION_OR(kind, member, other)                                                                              \
        { #member, offsetof(struct sbx_##kind##_ops, member), 0, #other, offsetof(struct sbx_##kind##_ops, other) }
#define END                                                                                                            \
        { NULL, 0, 0, NULL, 0 }
#define SIZE_THROUGH(kind, member)                                                                                     \
        (offsetof(struct sbx_##kind##_ops, member) + sizeof(((struct sbx_##kind##_ops *)NULL)->member))

static const struct sbx_kind_operation backend_operations[] = {
        OPERATION(backend, guest_start),
        OPERATION(backend, guest_interrupt),
        OPERATION(backend, guest_kill),
        OPERATION(backend, guest_usage),
        OPERATION(backend, guest_close),
        OPERATION_FOR(backend, guest_fork, SBX_BACKEND_FORK),
        OPERATION_FOR(backend, guest_save, SBX_BACKEND_SAVE),
        OPERATION_FOR(backend, guest_restore, SBX_BACKEND_SAVE),
        OPERATION_FOR(backend, prepare, SBX_BACKEND_PREPARE),
        END,
};
static const struct sbx_kind_operation provider_operations[] = {OPERATION(provider, complete), END};
static const struct sbx_kind_operation context_operations[] = {
        OPERATION(context, tools),
        OPERATION_OR(context, call, request),
        END,
};
static const struct sbx_kind_operation sink_operations[] = {OPERATION(sink, event), END};
static const struct sbx_kind_operation transport_operations[] = {OPERATION(transport, serve), END};
static const struct sbx_kind_operation store_operations[] = {
        OPERATION(store, put), OPERATION(store, get), OPERATION(store, list), OPERATION(store, remove), END,
};

static const struct sbx_option no_options[] = {{.name = NULL}};

/* core/guest keeps the pool, so every backend has it without knowing. */
static const struct sbx_option backend_options[] = {
        {.struct_size = sizeof(struct sbx_option),
         .type = SBX_OPTION_INT,
         .name = "pool",
         .default_value = "2",
         .unit = "guests",
         .help = "Guests kept ready ahead of demand; 0 starts each one when it is asked for.",
         .minimum = 0,
         .maximum = 64},
        {.struct_size = sizeof(struct sbx_option),
         .type = SBX_OPTION_STRINGS,
         .name = "pool_languages",
         .default_value = "python",
         .help = "Languages that they are kept ready for, so many each: python, node, bash, python3.12, ..."},
        {.struct_size = sizeof(struct sbx_option),
         .type = SBX_OPTION_ENUM,
         .name = "checkpoint",
         .default_value = "always",
         .choices = "always|changed|off",
         .help = "Keep the state of each session to go on with when its interpreter or the server is ended: after every "
                 "execution, or after those that changed its variables."},
        {.struct_size = sizeof(struct sbx_option),
         .type = SBX_OPTION_DURATION,
         .name = "checkpoint_time",
         .default_value = "2s",
         .help = "How long an automatic checkpoint may take; what takes longer is not kept, and the result says so.",
         .minimum = 1,
         .maximum = 600000},
        {.struct_size = sizeof(struct sbx_option),
         .type = SBX_OPTION_DURATION,
         .name = "checkpoint_wait",
         .default_value = "100ms",
         .help = "How long an execution waits for its checkpoint: a state of more than 4 MB that took longer the last time is "
                 "kept once the session is quiet.",
         .minimum = 0,
         .maximum = 600000},
        {.struct_size = sizeof(struct sbx_option),
         .type = SBX_OPTION_SIZE,
         .name = "checkpoint_size",
         .default_value = "256m",
         .help = "How large the state of a session may be that is kept.",
         .minimum = 4096,
         .maximum = INT64_C(1) << 30},
        {.struct_size = sizeof(struct sbx_option),
         .type = SBX_OPTION_INT,
         .name = "checkpoint_copies",
         .default_value = "4",
         .unit = "copies",
         .help = "Copies of running sessions to keep for each, so that going back is quick; for backends that can.",
         .minimum = 1,
         .maximum = 1024},
        {.name = NULL},
};

/* core/trajectory chooses what a sink gets. */
static const struct sbx_option sink_options[] = {
        {.struct_size = sizeof(struct sbx_option),
         .type = SBX_OPTION_ENUM,
         .name = "events",
         .default_value = "all",
         .choices = "all|runs",
         .help = "Which events it gets: all, or those of runs (run, agent) alone."},
        {.name = NULL},
};

static const struct sbx_kind kinds[] = {
        {SBX_PLUGIN_BACKEND, "backend", "backend-", sizeof(struct sbx_backend_ops), SIZE_THROUGH(backend, guest_close),
         backend_operations, backend_options},
        {SBX_PLUGIN_PROVIDER, "provider", "llm-", sizeof(struct sbx_provider_ops), SIZE_THROUGH(provider, complete),
         provider_operations, no_options},
        {SBX_PLUGIN_CONTEXT, "context", "context-", sizeof(struct sbx_context_ops), SIZE_THROUGH(context, call),
         context_operations, no_options},
        {SBX_PLUGIN_SINK, "sink", "sink-", sizeof(struct sbx_sink_ops), SIZE_THROUGH(sink, event), sink_operations,
         sink_options},
        {SBX_PLUGIN_TRANSPORT, "transport", "transport-", sizeof(struct sbx_transport_ops),
         SIZE_THROUGH(transport, serve), transport_operations, no_options},
        {SBX_PLUGIN_STORE, "store", "store-", sizeof(struct sbx_store_ops), SIZE_THROUGH(store, remove),
         store_operations, no_options},
};
#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

const struct sbx_kind *sbx_kind_find(uint32_t kind) {
        for (size_t i = 0; i < KIND_COUNT; i++)
                if (kinds[i].kind == kind)
                        return &kinds[i];
        return NULL;
}

const struct sbx_kind *sbx_kind_of_plugin(const char *plugin) {
        const char *slash = strrchr(plugin, '/');
        const char *base = slash != NULL ? slash + 1 : plugin;

        for (size_t i = 0; i < KIND_COUNT; i++)
                if (strncmp(base, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
                        return &kinds[i];
        return NULL;
}

const char *sbx_plugin_kind_name(uint32_t kind) {
        const struct sbx_kind *found = sbx_kind_find(kind);

        return found != NULL ? found->name : "unknown";
}

const struct sbx_option *sbx_plugin_core_options(uint32_t kind) {
        const struct sbx_kind *found = sbx_kind_find(kind);

        return found != NULL ? found->core_options : no_options;
}
