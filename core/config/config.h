/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration: layers of libconfig files, .env, environment and flags, merged into typed settings that know where
 * they came from. Immutable after loading, so any thread may read it.
 *
 * Layers, lowest first: built-in defaults; /etc/snipara-sandbox/snipara-sandbox.cfg and its conf.d/NAME.cfg in name
 * order; $XDG_CONFIG_HOME/snipara-sandbox/ likewise; ./snipara-sandbox.cfg; `.env` of the project (nearest one up to
 * the directory that holds .git); environment variables; flags. `--config FILE` or $SNIPARA_SANDBOX_CONFIG replaces
 * the files of all three places. See docs/configuration.md.
 */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/plugin.h>
#include <snipara-sandbox/runtime.h>

#include "base/log.h"

struct sbx_config;

/* What no setting, argument or plugin may exceed. */
#define SBX_HARD_DEPTH_MAX 5
#define SBX_HARD_AGENT_ITERATIONS_MAX 50
#define SBX_HARD_COST_MAX_USD 10
#define SBX_HARD_TIMEOUT_MAX_S 600

/* Where a value came from: "default", "/etc/...cfg:12", "environment SNIPARA_SANDBOX_MODEL", ".env:3 ...", "flag". */
struct sbx_value {
        uint32_t type; /* enum sbx_option_type */
        bool set;      /* false: no default and nowhere given */
        bool boolean;
        int64_t integer; /* INT, SIZE, DURATION */
        double real;
        const char *string; /* STRING, ENUM, PATH */
        char **strings;     /* STRINGS: NULL-terminated, never NULL */
        const char *origin;
};

/* A set of options with values: of the core, or of one plugin entry. */
struct sbx_settings {
        const struct sbx_option *table;
        size_t count;
        struct sbx_value *values; /* parallel to the table */
};
/* NULL: no such option (a programming error of the caller). */
const struct sbx_value *sbx_settings_get(const struct sbx_settings *settings, const char *name);
void sbx_settings_free(struct sbx_settings *settings);
/* Appends the value for people, as one would write it in a configuration file: "512m" in quotes, 30, true, a list in
 * brackets; a secret as "********", an unset value as (unset). 0, -EFBIG, -ENOMEM. */
struct sbx_buffer;
int sbx_value_show(const struct sbx_option *option, const struct sbx_value *value, struct sbx_buffer *out);

/* One entry of `plugins`, merged over the layers by name. */
struct sbx_plugin_entry {
        const char *name;   /* instance: "local" */
        const char *plugin; /* "backend-local", or an absolute path of a .so: what `path` says, else `plugin` */
        bool enabled, critical;
        bool built_in;      /* only the built-in bundle names it: it may be absent from the installation */
        const char *origin; /* where it was last mentioned */
};

int sbx_config_load(const struct sbx_runtime_options *options, const struct sbx_logger *logger,
                    struct sbx_config **ret_config, struct sbx_error *err);
void sbx_config_free(struct sbx_config *config);

/* The core's own settings (core/config/options.c holds their table: names as in snipara-sandbox 2.2.7). */
const struct sbx_settings *sbx_config_core(const struct sbx_config *config);
const char *sbx_config_string(const struct sbx_config *config, const char *name); /* NULL: unset */
int64_t sbx_config_int(const struct sbx_config *config, const char *name);
bool sbx_config_bool(const struct sbx_config *config, const char *name);

size_t sbx_config_plugin_count(const struct sbx_config *config);
const struct sbx_plugin_entry *sbx_config_plugin(const struct sbx_config *config, size_t index);
const struct sbx_plugin_entry *sbx_config_plugin_find(const struct sbx_config *config, const char *name);

/* Validates what the layers say of plugin entry `name` against an option table (the plugin's options and those that the
 * core adds to entries of its kind, such as `pool`; the core's own keys name, plugin, path, enabled and critical are
 * allowed too). Unknown keys, wrong types and values out of range are refused with file and line and the nearest known
 * name: -EINVAL. -ENOENT: no such entry. Environment: SNIPARA_SANDBOX_<NAME>_<OPTION> (what is not a letter or digit
 * as underscore), legacy RLM_<NAME>_<OPTION>; flags: NAME.OPTION=value. `table` must outlive the settings. */
int sbx_config_plugin_settings(const struct sbx_config *config, const char *name, const struct sbx_option *table,
                               struct sbx_settings *ret_settings, struct sbx_error *err);

/* A few options of an entry alone, whatever others it has: for who must know them before the plugin is loaded. */
int sbx_config_plugin_glance(const struct sbx_config *config, const char *name, const struct sbx_option *table,
                             struct sbx_settings *ret_settings, struct sbx_error *err);

/* A variable of the process's environment, else of the project's .env. NULL: in neither, empty, or both are ignored
 * (SBX_RUNTIME_NO_ENVIRONMENT). For variables that belong to others, such as OPENAI_API_KEY. */
const char *sbx_config_environment(const struct sbx_config *config, const char *name);
/* The project's directory, absolute. */
const char *sbx_config_directory(const struct sbx_config *config);

/* Files that were read, lowest layer first (.env is the last), for `config show`; NULL-terminated. */
const char *const *sbx_config_files(const struct sbx_config *config);
