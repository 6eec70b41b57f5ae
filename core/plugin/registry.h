/* SPDX-License-Identifier: Apache-2.0 */
/* Plugin instances: find the file, load, check, open, start, and hand out by name. Thread-safe. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/plugin.h>

#include "base/buffer.h"
#include "config/config.h"

struct sbx_registry;

/* Directories of the installation, made absolute: configured at build time, or relative to the program when it runs
 * from the build tree (SNIPARA_SANDBOX_BUILD_ROOT is set by the development environment only). */
struct sbx_directories {
        char *plugins, *libexec, *guests, *data, *config;
        char *state, *runtime; /* made at the first use; NULL: the user has no home directory */
        bool build_tree;       /* a plugin is plugins/NAME/NAME.so, its helper programs are in plugins/NAME/ */
};

/* What struct sbx_host offers beyond the plugin itself, filled in by core/tools and core/runtime; all NULL until then:
 * plugins that ask get -ENOTSUP. Read at each call. What is handed over has this host's layout. */
struct sbx_runtime_services {
        void *data;
        int (*list)(void *data, int list, struct sbx_output *ret_json, struct sbx_error *err);
        /* `instance`: whose news it is. */
        void (*changed)(void *data, const char *instance, const struct sbx_change *change);
        int (*watch)(void *data, void (*changed)(void *watcher, const struct sbx_change *change), void *watcher,
                     struct sbx_watch **ret_watch, struct sbx_error *err);
        void (*unwatch)(void *data, struct sbx_watch *watch);
        int (*metrics)(void *data, struct sbx_output *ret_text, struct sbx_error *err);
        int (*ready)(void *data, struct sbx_error *err);
};
struct sbx_tool_services {
        void *data;
        int (*list)(void *data, struct sbx_output *ret_json, struct sbx_error *err);
        /* `client` may be NULL. */
        int (*submit)(void *data, const struct sbx_request *request, const struct sbx_client *client,
                      const struct sbx_request_done *done, struct sbx_tool_task **ret_task, struct sbx_error *err);
        void (*cancel)(void *data, struct sbx_tool_task *task);
        void (*release)(void *data, struct sbx_tool_task *task);
        struct sbx_runtime_services runtime;
};

/* A plugin that was loaded and checked. `plugin` is the host's own copy: members that the file's older or smaller
 * struct lacks are zero. */
struct sbx_module {
        struct sbx_plugin plugin; /* its `options` and `ops` are copies too, with this host's layout */
        char *path;
        void *handle;
        int fd; /* -1, or what the file was loaded through */
};
/* Loads and checks a file: regular, owner root or the user, not group- or world-writable (nor its directory), the entry
 * symbol, ABI major, kind, name = file name, a sane option table. The error says what was wrong and what to do. */
int sbx_module_load(const char *path, struct sbx_module **ret_module, struct sbx_error *err);
void sbx_module_free(struct sbx_module *module);
const char *sbx_plugin_kind_name(uint32_t kind);
/* Options that the core adds to every entry of the kind (`pool`); never NULL. */
const struct sbx_option *sbx_plugin_core_options(uint32_t kind);

/* An opened (and started) instance. `ops` is the host's copy of the kind's struct, zero where the plugin's ends. */
struct sbx_instance {
        const char *name;
        const struct sbx_module *module;
        void *state;
        const void *ops; /* struct sbx_<kind>_ops, full size, zero-filled */
        const struct sbx_settings *settings;
        const struct sbx_settings *core_settings; /* options the core adds for the kind: see kinds.c (`pool`) */
};

/* All that is passed outlives the registry. `tools` may be NULL. */
int sbx_registry_new(const struct sbx_config *config, const struct sbx_logger *logger,
                     const struct sbx_directories *directories, const struct sbx_tool_services *tools,
                     struct sbx_registry **ret_registry, struct sbx_error *err);
/* Stops and closes every instance, last started first; then unloads. */
void sbx_registry_free(struct sbx_registry *registry);
/* The instance of that name, loaded, opened and started at the first request. -ENOENT: no such entry (the error lists
 * those of the kind); -EINVAL: of another kind, bad options; and what the plugin says. A failure is remembered for
 * entries that are not `critical` only as long as the runtime lives: later requests answer the same; but a backend that
 * did not start is tried again after a second. */
int sbx_registry_get(struct sbx_registry *registry, const char *name, uint32_t kind, const struct sbx_call *call,
                     const struct sbx_instance **ret_instance, struct sbx_error *err);
/* Starts what has to run before anybody asks for it: every enabled entry that is `critical`, and every enabled sink and
 * context source (by the name of its plugin: "sink-", "context-") that the configuration mentions. Fails when a
 * critical one fails; of the others each failure is logged, and the entry is disabled. */
int sbx_registry_start_required(struct sbx_registry *registry, const struct sbx_call *call, struct sbx_error *err);
/* Opens without starting, for `probe` and `plugins info`. */
int sbx_registry_open(struct sbx_registry *registry, const char *name, const struct sbx_instance **ret_instance,
                      struct sbx_error *err);
/* Every plugin file of the plugin directory, sorted by name: for `plugins list`. The callback returns 0 to go on; the
 * module lives until it returns. */
int sbx_registry_scan(struct sbx_registry *registry,
                      int (*found)(void *data, const char *path, const struct sbx_module *module_or_null,
                                   const struct sbx_error *problem),
                      void *data);

int sbx_directories_find(struct sbx_directories *ret_directories, struct sbx_error *err);
void sbx_directories_free(struct sbx_directories *directories);
/* Makes a directory that only the user can enter, with its parents, or checks that the one there is the user's own:
 * `state` and `runtime` come into being like that, at their first use. */
int sbx_directory_create(const char *path, struct sbx_error *err);

/* Outputs that plugins append to. */
struct sbx_buffer;
int sbx_output_new(size_t max_bytes, struct sbx_output **ret_output);
struct sbx_bytes sbx_output_bytes(const struct sbx_output *output);
void sbx_output_free(struct sbx_output *output);
/* Its content becomes that of a buffer; nothing is copied. */
void sbx_output_move(struct sbx_output *output, struct sbx_buffer *to);
int sbx_output_append(struct sbx_output *output, const void *data, size_t size);
