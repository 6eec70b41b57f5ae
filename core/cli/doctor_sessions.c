/* SPDX-License-Identifier: Apache-2.0 */
/* What `doctor` says of the place where sessions are kept. Whether it is writable, and encrypted, its plugin tells. */
#include <snipara-sandbox/store.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/doctor.h"
#include "cli/output.h"

#define AREA "sessions"
#define PREFIX "sessions/"
#define MANIFEST "/manifest"

struct stored {
        size_t sessions;
        uint64_t bytes;
};

static int count_item(void *data, const char *name, uint64_t size_bytes) {
        struct stored *stored = data;
        size_t length = strlen(name);

        stored->sessions += length > strlen(MANIFEST) && strcmp(name + length - strlen(MANIFEST), MANIFEST) == 0;
        stored->bytes += size_bytes;
        return 0;
}

static void check_contents(struct sbx_cli_checks *checks, const struct sbx_instance *instance,
                           const struct sbx_call *call) {
        const struct sbx_store_ops *ops = instance->ops;
        struct stored stored = {0};
        const struct sbx_store_events events = {.struct_size = sizeof(events), .data = &stored, .item = count_item};
        struct sbx_error err = {0};
        char amount[SBX_CLI_AMOUNT_SIZE];
        int r = ops->list(instance->state, PREFIX, &events, call, &err);

        if (r < 0)
                sbx_cli_check(checks, AREA, SBX_PROBE_FAILED, "store", err.hint, "%s can't be read: %s", instance->name,
                              err.message[0] != '\0' ? err.message : SBX_ERRNO_TEXT(r));
        else
                sbx_cli_check(checks, AREA, SBX_PROBE_OK, "store", NULL,
                              "named sessions are kept in %s (%s): %zu of them, %s", instance->name,
                              instance->module->plugin.name, stored.sessions, sbx_cli_bytes_text(stored.bytes, amount));
}

void sbx_cli_check_sessions(struct sbx_cli_checks *checks, const struct sbx_cli_parts *parts,
                            const struct sbx_call *call) {
        const char *store = sbx_config_string(parts->config, "store");
        const struct sbx_plugin_entry *entry;
        const struct sbx_instance *instance = NULL;
        struct sbx_error err = {0};
        int r;

        if (store == NULL || store[0] == '\0') {
                sbx_cli_check(checks, AREA, SBX_PROBE_WARNING, "store",
                              "set store to the name of a store's plugin entry",
                              "sessions end with their server: the setting store is empty");
                return;
        }
        entry = sbx_config_plugin_find(parts->config, store);
        r = sbx_registry_get(parts->registry, store, SBX_PLUGIN_STORE, call, &instance, &err);
        if (r < 0) {
                /* The built-in bundle names plugins that a package may leave out. */
                sbx_cli_check(checks, AREA,
                              entry != NULL && entry->built_in && r == -ENOENT ? SBX_PROBE_WARNING : SBX_PROBE_FAILED,
                              "store", err.hint, "sessions end with their server: %s", err.message);
                return;
        }
        if (((const struct sbx_store_ops *)instance->ops)->commit == NULL)
                sbx_cli_check(checks, AREA, SBX_PROBE_FAILED, "store", "use a newer version of the plugin",
                              "sessions end with their server: %s can't commit changes together", instance->name);
        else
                check_contents(checks, instance, call);
}
