/* SPDX-License-Identifier: Apache-2.0 */
/* One entry of `plugins`, phase by phase: load its plugin, open, start, and back. */
#include "plugin/internal.h"

#include "base/cleanup.h"
#include "base/error.h"

/* ---- load ------------------------------------------------------------------------------------------------ */

int sbx_slot_load(struct sbx_slot *slot, const struct sbx_slot_services *services, struct sbx_error *err) {
        _cleanup_free_ char *path = NULL;
        int r = sbx_plugin_path(services->directories, slot->entry->plugin, &path, err);

        if (r == 0)
                r = sbx_module_load(path, &slot->module, err);
        if (r < 0) {
                sbx_error_wrap(err, "plugin entry \"%s\" (%s)", slot->entry->name, slot->entry->origin);
                return r;
        }
        slot->instance.module = slot->module;
        slot->phase = SBX_SLOT_LOADED;
        return 0;
}

void sbx_slot_unload(struct sbx_slot *slot) {
        slot->instance.module = NULL;
        sbx_module_free(steal_pointer(slot->module));
        slot->phase = SBX_SLOT_IDLE;
}

/* ---- open ------------------------------------------------------------------------------------------------ */

static size_t option_count(const struct sbx_option *table) {
        size_t count = 0;

        while (table[count].name != NULL)
                count++;
        return count;
}

/* The plugin's options and the core's are validated together, so that a key that neither has is refused once. */
static int read_settings(struct sbx_slot *slot, const struct sbx_config *config, struct sbx_error *err) {
        const struct sbx_kind *kind = sbx_kind_find(slot->module->plugin.kind);
        size_t own = option_count(slot->module->plugin.options), added = option_count(kind->core_options);
        int r;

        slot->table = calloc(own + added + 1, sizeof(*slot->table));
        if (slot->table == NULL)
                return SBX_NOMEM(err, SBX_PLUGIN_ORIGIN);
        memcpy(slot->table, slot->module->plugin.options, own * sizeof(*slot->table));
        memcpy(slot->table + own, kind->core_options, added * sizeof(*slot->table));
        r = sbx_config_plugin_settings(config, slot->entry->name, slot->table, &slot->all, err);
        if (r < 0)
                return r;
        slot->own = (struct sbx_settings){slot->table, own, slot->all.values};
        slot->added = (struct sbx_settings){slot->table + own, added, slot->all.values + own};
        slot->instance.settings = &slot->own;
        slot->instance.core_settings = &slot->added;
        return 0;
}

static void forget_settings(struct sbx_slot *slot) {
        slot->instance.settings = slot->instance.core_settings = NULL;
        slot->own = slot->added = (struct sbx_settings){0};
        sbx_settings_free(&slot->all);
        free(steal_pointer(slot->table));
        sbx_host_free(steal_pointer(slot->host));
}

/* Says whose failure it was, also when the plugin did not say anything. */
static int plugin_failed(const struct sbx_slot *slot, const char *function, int code, struct sbx_error *err) {
        sbx_error_set(err, code, slot->module->plugin.name, NULL, "%s() failed: %s", function, SBX_ERRNO_TEXT(code));
        sbx_error_wrap(err, "plugin entry \"%s\" (%s)", slot->entry->name, slot->module->plugin.name);
        return code;
}

static int open_plugin(struct sbx_slot *slot, const struct sbx_slot_services *services, struct sbx_error *err) {
        const struct sbx_host_setup setup = {
                .instance_name = slot->entry->name,
                .plugin_name = slot->module->plugin.name,
                .kind = slot->module->plugin.kind,
                .config = services->config,
                .settings = &slot->own,
                .logger = services->logger,
                .directories = services->directories,
                .tools = services->tools,
        };
        void *state = NULL;
        int r;

        slot->host = sbx_host_new(&setup);
        if (slot->host == NULL)
                return SBX_NOMEM(err, SBX_PLUGIN_ORIGIN);
        r = slot->module->plugin.open(sbx_host_services(slot->host), &state, err);
        if (r < 0)
                return plugin_failed(slot, "open", r, err);
        if (state == NULL)
                return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN,
                                     "Hand back what close() shall free; every instance has a state of its own.",
                                     "plugin %s: open() succeeded, but gave no instance", slot->module->plugin.name);
        slot->instance.state = state;
        slot->instance.ops = slot->module->plugin.ops;
        return 0;
}

int sbx_slot_open(struct sbx_slot *slot, const struct sbx_slot_services *services, struct sbx_error *err) {
        int r = read_settings(slot, services->config, err);

        if (r == 0)
                r = open_plugin(slot, services, err);
        if (r < 0) {
                forget_settings(slot);
                return r;
        }
        slot->phase = SBX_SLOT_OPENED;
        return 0;
}

void sbx_slot_close(struct sbx_slot *slot) {
        slot->module->plugin.close(slot->instance.state);
        slot->instance.state = NULL;
        slot->instance.ops = NULL;
        forget_settings(slot);
        slot->phase = SBX_SLOT_LOADED;
}

/* ---- start ----------------------------------------------------------------------------------------------- */

int sbx_slot_start(struct sbx_slot *slot, const struct sbx_call *call, struct sbx_error *err) {
        static const struct sbx_call no_limit = {.struct_size = sizeof(no_limit), .cancel_fd = -1};
        const struct sbx_plugin *plugin = &slot->module->plugin;
        int r = plugin->start != NULL ? plugin->start(slot->instance.state, call != NULL ? call : &no_limit, err) : 0;

        if (r < 0)
                return plugin_failed(slot, "start", r, err);
        slot->phase = SBX_SLOT_STARTED;
        return 0;
}

void sbx_slot_stop(struct sbx_slot *slot) {
        if (slot->module->plugin.stop != NULL)
                slot->module->plugin.stop(slot->instance.state);
        slot->phase = SBX_SLOT_OPENED;
}
