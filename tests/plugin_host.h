/* SPDX-License-Identifier: Apache-2.0 */
/* A small host for programs that drive one plugin in a test: loads the file, and answers what it asks from arguments of
 * the command line. "--name=value" is an option ("--name=" twice makes a list), "@name=value" a setting of the core,
 * "$NAME=value" a variable of the environment, "%name=PATH" a directory. Options that are not set have the default of
 * the plugin's table. What the plugin logs goes to standard error as "log LEVEL: TEXT". Include it once in a program.
 */
#pragma once

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include <snipara-sandbox/plugin.h>

struct sbx_host_state {
        int argc;
        char **argv;
        const struct sbx_plugin *plugin;
        struct sbx_host services;
};

struct sbx_output {
        char *data;
        size_t size, max;
};

/* The value of the `index`-th argument that begins with `prefix` and `name`; NULL: there are fewer. */
static inline const char *plugin_host_argument(const struct sbx_host_state *self, const char *prefix, const char *name,
                                               size_t index) {
        size_t prefix_size = strlen(prefix), name_size = strlen(name);

        for (int i = 1; i < self->argc; i++) {
                const char *argument = self->argv[i];

                if (strncmp(argument, prefix, prefix_size) == 0 &&
                    strncmp(argument + prefix_size, name, name_size) == 0 && argument[prefix_size + name_size] == '=' &&
                    index-- == 0)
                        return argument + prefix_size + name_size + 1;
        }
        return NULL;
}

static inline const struct sbx_option *plugin_host_option(const struct sbx_host_state *self, const char *name) {
        for (const struct sbx_option *option = self->plugin->options; option->name != NULL; option++)
                if (strcmp(option->name, name) == 0)
                        return option;
        fprintf(stderr, "the plugin asks for an option that is not in its table: %s\n", name);
        abort();
}

static inline const char *plugin_host_text(struct sbx_host_state *self, const char *name) {
        const struct sbx_option *option = plugin_host_option(self, name);
        const char *text = plugin_host_argument(self, "--", name, 0);

        return text != NULL ? text : option->default_value;
}

/* Numbers with the units of sizes and durations that tests use. */
static inline int64_t plugin_host_int(struct sbx_host_state *self, const char *name) {
        const char *text = plugin_host_text(self, name);
        bool duration = plugin_host_option(self, name)->type == SBX_OPTION_DURATION;
        char *end = NULL;
        int64_t number;

        if (text == NULL)
                return 0;
        number = strtoll(text, &end, 10);
        if (strcmp(end, "k") == 0)
                return number << 10;
        if (strcmp(end, "m") == 0)
                return duration ? number * 60000 : number << 20;
        if (strcmp(end, "g") == 0)
                return number << 30;
        return duration && strcmp(end, "ms") != 0 ? number * 1000 : number;
}

static inline int plugin_host_bool(struct sbx_host_state *self, const char *name) {
        const char *text = plugin_host_text(self, name);

        return text != NULL && strcmp(text, "true") == 0;
}

static inline double plugin_host_float(struct sbx_host_state *self, const char *name) {
        const char *text = plugin_host_text(self, name);

        return text != NULL ? strtod(text, NULL) : 0;
}

static inline size_t plugin_host_count(struct sbx_host_state *self, const char *name) {
        size_t count = 0;

        plugin_host_option(self, name);
        while (plugin_host_argument(self, "--", name, count) != NULL)
                count++;
        return count;
}

static inline const char *plugin_host_item(struct sbx_host_state *self, const char *name, size_t index) {
        return plugin_host_argument(self, "--", name, index);
}

static inline const char *plugin_host_setting(struct sbx_host_state *self, const char *name) {
        return plugin_host_argument(self, "@", name, 0);
}

static inline const char *plugin_host_environment(struct sbx_host_state *self, const char *name) {
        const char *text = plugin_host_argument(self, "$", name, 0);

        return text != NULL && *text != '\0' ? text : NULL;
}

static inline const char *plugin_host_directory(struct sbx_host_state *self, const char *name) {
        return plugin_host_argument(self, "%", name, 0);
}

static inline void plugin_host_log(struct sbx_host_state *self, int level, const char *message) {
        (void)self;
        fprintf(stderr, "log %d: %s\n", level, message);
}

static inline uint64_t plugin_host_clock(struct sbx_host_state *self) {
        struct timespec now;

        (void)self;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline int plugin_host_append(struct sbx_host_state *self, struct sbx_output *output, const void *data,
                                     size_t size) {
        char *grown;

        (void)self;
        if (size > output->max - output->size)
                return -EFBIG;
        grown = realloc(output->data, output->size + size + 1);
        if (grown == NULL)
                return -ENOMEM;
        memcpy(grown + output->size, data, size);
        output->data = grown;
        output->size += size;
        grown[output->size] = '\0';
        return 0;
}

/* What the plugin may ask of `state`, whose arguments and plugin are set. */
static inline void plugin_host_services(struct sbx_host_state *state) {
        state->services = (struct sbx_host){
                .struct_size = sizeof(struct sbx_host),
                .abi_major = SBX_ABI_MAJOR,
                .abi_minor = SBX_ABI_MINOR,
                .self = state,
                .instance_name = "test",
                .version = "0.0.0",
                .log = plugin_host_log,
                .option_bool = plugin_host_bool,
                .option_int = plugin_host_int,
                .option_float = plugin_host_float,
                .option_string = plugin_host_text,
                .option_count = plugin_host_count,
                .option_item = plugin_host_item,
                .clock_ns = plugin_host_clock,
                .output_append = plugin_host_append,
                .directory = plugin_host_directory,
                .setting = plugin_host_setting,
                .environment = plugin_host_environment,
        };
}

/* Loads `path` into `state`, with the services set. False: it can't be loaded (standard error says why). */
static inline bool plugin_host_load(struct sbx_host_state *state, const char *path, int argc, char **argv) {
        const struct sbx_plugin *(*entry)(void);
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        void *symbol = handle != NULL ? dlsym(handle, SBX_PLUGIN_ENTRY_SYMBOL) : NULL;

        if (symbol == NULL) {
                fprintf(stderr, "%s can't be loaded: %s\n", path, dlerror());
                return false;
        }
        memcpy(&entry, &symbol, sizeof(entry));
        *state = (struct sbx_host_state){.argc = argc, .argv = argv, .plugin = entry()};
        plugin_host_services(state);
        return true;
}
