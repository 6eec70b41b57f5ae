/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of core/plugin share among themselves; other modules include plugin/registry.h. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "plugin/registry.h"

#define SBX_PLUGIN_ORIGIN "plugin"
#define SBX_PLUGIN_NAME_MAX 63
#define SBX_PLUGIN_OPTIONS_MAX 256
/* Larger than any struct of the ABI will be for long; a `struct_size` beyond it is rubbish, not a newer minor. */
#define SBX_STRUCT_SIZE_MAX 65536u

/* ---- kinds.c ------------------------------------------------------------------------------------------- */

/* An operation that a plugin of the kind must have: always, or when one of the `features` bits is set. */
struct sbx_kind_operation {
        const char *name; /* NULL ends the list */
        size_t offset;
        uint32_t features;
        const char *instead; /* NULL, or another operation that does as well */
        size_t instead_offset;
};

struct sbx_kind {
        uint32_t kind;
        const char *name;   /* "backend" */
        const char *prefix; /* of the names of its plugins: "backend-" */
        size_t ops_size;    /* of the whole struct, as this host knows it */
        size_t ops_minimum; /* up to and with the last operation that is always required */
        const struct sbx_kind_operation *operations;
        const struct sbx_option *core_options; /* that the core adds to each entry of the kind; never NULL */
};
const struct sbx_kind *sbx_kind_find(uint32_t kind); /* NULL: not known */
/* By the name of a plugin or the path of its file: "sink-jsonl", "/opt/x/sink-jsonl.so". NULL: no kind's prefix. */
const struct sbx_kind *sbx_kind_of_plugin(const char *plugin);

/* ---- copy.c -------------------------------------------------------------------------------------------- */

/* Copies min(size, struct_size of the source) bytes, zero-fills the rest and sets the copy's struct_size to `size`.
 * Both begin with a uint32_t struct_size. */
void sbx_struct_copy(void *target, size_t size, const void *source);
/* A table of options with this host's layout, ended by an entry without a name; free() frees it. NULL is an empty
 * table. -EINVAL: sizes or the length make no sense. */
int sbx_options_copy(const struct sbx_option *table, const char *what, struct sbx_option **ret_table, size_t *ret_count,
                     struct sbx_error *err);
/* The size that a foreign struct claims lies between `minimum` and SBX_STRUCT_SIZE_MAX. `what` names it: "struct
 * sbx_plugin of /path". */
int sbx_struct_size_check(const void *foreign, size_t minimum, const char *what, struct sbx_error *err);

/* ---- check.c, check_options.c ---------------------------------------------------------------------------- */

bool sbx_plugin_name_valid(const char *name); /* [a-z][a-z0-9-]*, at most 63 bytes */
/* The descriptor's ABI, before anything else of it is read. */
int sbx_descriptor_check_abi(const struct sbx_plugin *descriptor, const char *path, struct sbx_error *err);
/* A module whose `plugin` is filled in. */
int sbx_module_check(const struct sbx_module *module, const struct sbx_kind *kind, struct sbx_error *err);
int sbx_options_check(const struct sbx_module *module, const struct sbx_kind *kind, struct sbx_error *err);

/* ---- trust.c ------------------------------------------------------------------------------------------- */

/* A plugin's file that only root or the user can have written. */
struct sbx_plugin_file {
        int fd;
        char *load_path; /* what to hand to dlopen(): nobody else can put another file there */
        bool needs_fd;   /* load_path goes through `fd`, which stays open while the object is loaded */
};
#define SBX_PLUGIN_FILE                                                                                                \
        { .fd = -1 }
int sbx_plugin_file_open(const char *path, struct sbx_plugin_file *ret_file, struct sbx_error *err);
void sbx_plugin_file_close(struct sbx_plugin_file *file);

/* ---- search.c ------------------------------------------------------------------------------------------ */

/* The file of a plugin: "backend-local" in the plugin directory, or an absolute path as it is. Does not look whether it
 * is there. The path is to be freed. */
int sbx_plugin_path(const struct sbx_directories *directories, const char *plugin, char **ret_path,
                    struct sbx_error *err);
/* Paths of all plugin files of the plugin directory, sorted; NULL-terminated. An absent directory is an empty one. */
int sbx_plugin_list(const struct sbx_directories *directories, char ***ret_paths, struct sbx_error *err);
void sbx_plugin_list_free(char **paths);
/* "sink-jsonl" of "/opt/x/sink-jsonl.so", to be freed; NULL: -ENOMEM. */
char *sbx_plugin_file_name(const char *path);

/* ---- host.c -------------------------------------------------------------------------------------------- */

struct sbx_host_setup {
        const char *instance_name, *plugin_name;
        uint32_t kind; /* of the plugin: enum sbx_plugin_kind */
        const struct sbx_config *config;
        const struct sbx_settings *settings;
        const struct sbx_logger *logger;
        const struct sbx_directories *directories;
        const struct sbx_tool_services *tools; /* may be NULL */
};
#define SBX_HOST_SHARED_COUNT 21u
/* `self` of the services of one instance. */
struct sbx_host_state {
        struct sbx_host services;
        struct sbx_host_setup setup;
        char *libexec, *data;
        char *shared[SBX_HOST_SHARED_COUNT]; /* texts of shared settings that were asked for */
        pthread_mutex_t lock;                /* protects `shared` */
};
/* The services of one instance. What `setup` points to outlives it. NULL: -ENOMEM. */
struct sbx_host_state *sbx_host_new(const struct sbx_host_setup *setup);
const struct sbx_host *sbx_host_services(const struct sbx_host_state *state);
void sbx_host_free(struct sbx_host_state *state);

/* ---- host_requests.c: members of struct sbx_host ---------------------------------------------------------- */

int sbx_host_tool_list(struct sbx_host_state *self, struct sbx_output *ret_json, struct sbx_error *err);
int sbx_host_tool_submit(struct sbx_host_state *self, const char *name, struct sbx_bytes arguments,
                         const char *principal, const struct sbx_tool_events *events, struct sbx_tool_task **ret_task,
                         struct sbx_error *err);
void sbx_host_tool_cancel(struct sbx_host_state *self, struct sbx_tool_task *task);
void sbx_host_tool_release(struct sbx_host_state *self, struct sbx_tool_task *task);
int sbx_host_list(struct sbx_host_state *self, int list, struct sbx_output *ret_json, struct sbx_error *err);
int sbx_host_request_submit(struct sbx_host_state *self, const struct sbx_request *request,
                            const struct sbx_client *client, const struct sbx_request_done *done,
                            struct sbx_tool_task **ret_task, struct sbx_error *err);
void sbx_host_changed(struct sbx_host_state *self, const struct sbx_change *change);
int sbx_host_watch(struct sbx_host_state *self, void (*changed)(void *data, const struct sbx_change *change),
                   void *data, struct sbx_watch **ret_watch, struct sbx_error *err);
void sbx_host_unwatch(struct sbx_host_state *self, struct sbx_watch *watch);
int sbx_host_metrics(struct sbx_host_state *self, struct sbx_output *ret_text, struct sbx_error *err);
int sbx_host_ready(struct sbx_host_state *self, struct sbx_error *err);

/* ---- instance.c: one entry of `plugins`, from file to running plugin. One thread at a time for each. -------- */

enum sbx_slot_phase { SBX_SLOT_IDLE, SBX_SLOT_LOADED, SBX_SLOT_OPENED, SBX_SLOT_STARTED };

struct sbx_slot {
        struct sbx_instance instance; /* what is handed out */
        const struct sbx_plugin_entry *entry;
        enum sbx_slot_phase phase;
        struct sbx_module *module;
        struct sbx_host_state *host;
        struct sbx_option *table;       /* the plugin's options, then those of the core */
        struct sbx_settings all;        /* values for `table` */
        struct sbx_settings own, added; /* its two parts, borrowed from `all` */
};

struct sbx_slot_services {
        const struct sbx_config *config;
        const struct sbx_logger *logger;
        const struct sbx_directories *directories;
        const struct sbx_tool_services *tools;
};
/* Each takes the slot one phase further, and leaves it where it was on failure. */
int sbx_slot_load(struct sbx_slot *slot, const struct sbx_slot_services *services, struct sbx_error *err);
int sbx_slot_open(struct sbx_slot *slot, const struct sbx_slot_services *services, struct sbx_error *err);
int sbx_slot_start(struct sbx_slot *slot, const struct sbx_call *call, struct sbx_error *err);
void sbx_slot_stop(struct sbx_slot *slot);   /* STARTED -> OPENED */
void sbx_slot_close(struct sbx_slot *slot);  /* OPENED -> LOADED */
void sbx_slot_unload(struct sbx_slot *slot); /* LOADED -> IDLE */
