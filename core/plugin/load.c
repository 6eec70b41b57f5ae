/* SPDX-License-Identifier: Apache-2.0 */
/* From a file to a checked module: dlopen, the entry symbol, and the host's own copies of what it describes. */
#include "plugin/internal.h"

#include <dlfcn.h>

#include "base/cleanup.h"
#include "base/error.h"

static void close_file(struct sbx_plugin_file *file) {
        sbx_plugin_file_close(file);
}

void sbx_module_free(struct sbx_module *module) {
        if (module == NULL)
                return;
        free((void *)module->plugin.options);
        free((void *)module->plugin.ops);
        if (module->handle != NULL)
                dlclose(module->handle);
        if (module->fd >= 0)
                close(module->fd);
        free(module->path);
        free(module);
}
SBX_DEFINE_CLEANUP(struct sbx_module *, sbx_module_free, cleanup_module)

static int open_object(const char *path, struct sbx_module *module, struct sbx_error *err) {
        _cleanup_(close_file) struct sbx_plugin_file file = SBX_PLUGIN_FILE;
        int r = sbx_plugin_file_open(path, &file, err);

        if (r < 0)
                return r;
        module->handle = dlopen(file.load_path, RTLD_NOW | RTLD_LOCAL);
        if (module->handle == NULL) {
                const char *why = dlerror();

                return sbx_error_set(err, -ENOEXEC, SBX_PLUGIN_ORIGIN,
                                     "Install the library that is missing, or build the plugin again for this system; "
                                     "link it with -Wl,--no-undefined.",
                                     "can't load plugin %s: %s", path, why != NULL ? why : "no reason given");
        }
        if (file.needs_fd)
                module->fd = steal_fd(&file.fd); /* its number is the object's name for the dynamic linker */
        return 0;
}

static int call_entry(const struct sbx_module *module, const struct sbx_plugin **ret_descriptor,
                      struct sbx_error *err) {
        void *symbol = dlsym(module->handle, SBX_PLUGIN_ENTRY_SYMBOL);
        const struct sbx_plugin *(*entry)(void);
        const struct sbx_plugin *descriptor;

        if (symbol == NULL)
                return sbx_error_set(err, -ENOEXEC, SBX_PLUGIN_ORIGIN,
                                     "If it is a plugin, export the function with default visibility; else remove it "
                                     "from the configuration.",
                                     "%s is not a plugin: it has no symbol %s", module->path, SBX_PLUGIN_ENTRY_SYMBOL);
        memcpy(&entry, &symbol, sizeof(entry)); /* ISO C has no cast from an object to a function */
        descriptor = entry();
        if (descriptor == NULL)
                return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN, "Return the address of a constant descriptor.",
                                     "%s() of %s returned NULL", SBX_PLUGIN_ENTRY_SYMBOL, module->path);
        *ret_descriptor = descriptor;
        return 0;
}

/* The kind's operations, full size. */
static int copy_operations(struct sbx_module *module, const void *foreign, const struct sbx_kind *kind,
                           struct sbx_error *err) {
        char what[SBX_ERROR_MESSAGE_MAX / 2];
        void *ops;
        int r;

        if (foreign == NULL)
                return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN,
                                     "Point .ops to the struct of operations of the plugin's kind.",
                                     "the descriptor of %s has no .ops", module->path);
        snprintf(what, sizeof(what), "struct sbx_%s_ops of %s", kind->name, module->path);
        r = sbx_struct_size_check(foreign, kind->ops_minimum, what, err);
        if (r < 0)
                return r;
        ops = malloc(kind->ops_size);
        if (ops == NULL)
                return SBX_NOMEM(err, SBX_PLUGIN_ORIGIN);
        sbx_struct_copy(ops, kind->ops_size, foreign);
        module->plugin.ops = ops;
        return 0;
}

/* Replaces what the descriptor points to by copies with this host's layout. */
static int copy_descriptor(struct sbx_module *module, const struct sbx_plugin *descriptor,
                           const struct sbx_kind **ret_kind, struct sbx_error *err) {
        char what[SBX_ERROR_MESSAGE_MAX / 2];
        const struct sbx_option *foreign_options;
        const void *foreign_ops;
        const struct sbx_kind *kind;
        struct sbx_option *options = NULL;
        size_t count;
        int r;

        snprintf(what, sizeof(what), "struct sbx_plugin of %s", module->path);
        r = sbx_struct_size_check(descriptor, offsetof(struct sbx_plugin, probe), what, err);
        if (r < 0)
                return r;
        sbx_struct_copy(&module->plugin, sizeof(module->plugin), descriptor);
        foreign_options = module->plugin.options;
        foreign_ops = module->plugin.ops;
        module->plugin.options = NULL; /* from here on both are the module's own */
        module->plugin.ops = NULL;
        kind = sbx_kind_find(module->plugin.kind);
        if (kind == NULL)
                return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN,
                                     "Install a newer snipara-sandbox, or correct .kind and build the plugin again.",
                                     "%s is of kind %u, which this program does not know", module->path,
                                     module->plugin.kind);
        snprintf(what, sizeof(what), "the option table of %s", module->path);
        r = sbx_options_copy(foreign_options, what, &options, &count, err);
        if (r < 0)
                return r;
        module->plugin.options = options;
        *ret_kind = kind;
        return copy_operations(module, foreign_ops, kind, err);
}

int sbx_module_load(const char *path, struct sbx_module **ret_module, struct sbx_error *err) {
        _cleanup_(cleanup_module) struct sbx_module *module = calloc(1, sizeof(*module));
        const struct sbx_plugin *descriptor = NULL;
        const struct sbx_kind *kind = NULL;
        int r;

        if (module == NULL)
                return SBX_NOMEM(err, SBX_PLUGIN_ORIGIN);
        module->fd = -1;
        module->path = strdup(path);
        if (module->path == NULL)
                return SBX_NOMEM(err, SBX_PLUGIN_ORIGIN);
        r = open_object(path, module, err);
        if (r == 0)
                r = call_entry(module, &descriptor, err);
        if (r == 0)
                r = sbx_descriptor_check_abi(descriptor, path, err);
        if (r == 0)
                r = copy_descriptor(module, descriptor, &kind, err);
        if (r == 0)
                r = sbx_module_check(module, kind, err);
        if (r < 0)
                return r;
        *ret_module = steal_pointer(module);
        return 0;
}
