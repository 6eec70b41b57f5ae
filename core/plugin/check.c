/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a loaded plugin keeps the contract: ABI, names, lifecycle, operations. Every refusal says what to mend. */
#include <snipara-sandbox/backend.h>

#include "plugin/internal.h"

#include "base/cleanup.h"
#include "base/error.h"

bool sbx_plugin_name_valid(const char *name) {
        size_t length = strlen(name);

        if (length == 0 || length > SBX_PLUGIN_NAME_MAX || name[0] < 'a' || name[0] > 'z')
                return false;
        return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

int sbx_descriptor_check_abi(const struct sbx_plugin *descriptor, const char *path, struct sbx_error *err) {
        uint32_t major;

        /* At this offset in every major, so that a mismatch can be told before anything else is believed. */
        memcpy(&major, (const char *)descriptor + offsetof(struct sbx_plugin, abi_major), sizeof(major));
        if (major == SBX_ABI_MAJOR)
                return 0;
        return sbx_error_set(err, -EPROTO, SBX_PLUGIN_ORIGIN,
                             major > SBX_ABI_MAJOR
                                     ? "Install a newer snipara-sandbox, or a release of the plugin for this one."
                                     : "Build the plugin again with the headers of this snipara-sandbox.",
                             "%s was built for plugin ABI %u, this program has ABI %u", path, major, SBX_ABI_MAJOR);
}

static int check_name(const struct sbx_module *module, const struct sbx_kind *kind, struct sbx_error *err) {
        const char *name = module->plugin.name;
        _cleanup_free_ char *expected = sbx_plugin_file_name(module->path);

        if (expected == NULL)
                return SBX_NOMEM(err, SBX_PLUGIN_ORIGIN);
        if (name == NULL || !sbx_plugin_name_valid(name))
                return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN,
                                     "Set .name to a lower-case letter, then letters, digits or '-', at most 63 bytes.",
                                     "%s calls itself \"%.80s\", which is not a plugin name", module->path,
                                     name != NULL ? name : "(null)");
        if (strcmp(name, expected) != 0)
                return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN,
                                     "Name the file after the plugin: NAME.so; or correct .name and build it again.",
                                     "%s calls itself \"%s\", but its file says \"%s\"", module->path, name, expected);
        if (strncmp(name, kind->prefix, strlen(kind->prefix)) != 0)
                return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN,
                                     "Name it after its kind: backend-, llm-, context-, sink-, transport- or store-.",
                                     "%s is a %s plugin, but its name \"%s\" does not begin with \"%s\"", module->path,
                                     kind->name, name, kind->prefix);
        return 0;
}

/* Texts that people read: they go to terminals and documents as they are. */
static bool is_line(const char *text, size_t max) {
        size_t length = text != NULL ? strnlen(text, max + 1) : 0;

        if (length == 0 || length > max)
                return false;
        for (size_t i = 0; i < length; i++)
                if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F)
                        return false;
        return true;
}

static int check_texts(const struct sbx_module *module, struct sbx_error *err) {
        const struct {
                const char *name, *text;
                size_t max;
        } texts[] = {
                {"version", module->plugin.version, 64},
                {"summary", module->plugin.summary, 200},
                {"license", module->plugin.license, 200},
        };

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                if (!is_line(texts[i].text, texts[i].max))
                        return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN,
                                             "Fill it in: one line without control characters.",
                                             "the descriptor of %s has no usable .%s (1 to %zu bytes)", module->path,
                                             texts[i].name, texts[i].max);
        return 0;
}

static int check_lifecycle(const struct sbx_module *module, struct sbx_error *err) {
        const struct sbx_plugin *plugin = &module->plugin;
        const char *missing = plugin->open == NULL ? "open" : plugin->close == NULL ? "close" : NULL;

        if (missing == NULL)
                return 0;
        return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN,
                             "open and close are required; start, stop and probe may be NULL.",
                             "the descriptor of %s has no %s()", module->path, missing);
}

static bool has_operation(const char *ops, size_t offset) {
        void (*function)(void);

        memcpy(&function, ops + offset, sizeof(function));
        return function != NULL;
}

/* `module->plugin.ops` is the host's own copy by now: full size, zero where the plugin's struct ends earlier. */
static int check_operations(const struct sbx_module *module, const struct sbx_kind *kind, struct sbx_error *err) {
        const char *ops = module->plugin.ops;
        uint32_t features = 0;

        if (kind->kind == SBX_PLUGIN_BACKEND)
                memcpy(&features, ops + offsetof(struct sbx_backend_ops, features), sizeof(features));
        for (const struct sbx_kind_operation *op = kind->operations; op->name != NULL; op++) {
                if (has_operation(ops, op->offset) || (op->features != 0 && (op->features & features) == 0) ||
                    (op->instead != NULL && has_operation(ops, op->instead_offset)))
                        continue;
                if (op->features != 0)
                        return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN,
                                             "Implement the operation, or clear its bit in .features.",
                                             "%s declares feature 0x%x, but its operations have no %s()", module->path,
                                             op->features, op->name);
                return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN,
                                     "Set it in the struct that .ops points to; its header says what it does.",
                                     "the operations of %s have no %s()%s%s%s, which every %s plugin needs", module->path,
                                     op->name, op->instead != NULL ? " or " : "",
                                     op->instead != NULL ? op->instead : "", op->instead != NULL ? "()" : "",
                                     kind->name);
        }
        return 0;
}

int sbx_module_check(const struct sbx_module *module, const struct sbx_kind *kind, struct sbx_error *err) {
        int r = check_name(module, kind, err);

        if (r == 0)
                r = check_texts(module, err);
        if (r == 0)
                r = check_lifecycle(module, err);
        if (r == 0)
                r = check_operations(module, kind, err);
        if (r == 0)
                r = sbx_options_check(module, kind, err);
        return r;
}
