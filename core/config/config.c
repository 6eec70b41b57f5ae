/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: the layers in their order, then the core's settings out of them. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "config/internal.h"

void sbx_config_free(struct sbx_config *config) {
        if (config == NULL)
                return;
        sbx_settings_free(&config->settings);
        sbx_entries_free(config);
        sbx_raws_free(&config->core);
        sbx_raws_free(&config->flags);
        sbx_variables_free(&config->environment);
        sbx_variables_free(&config->dotenv);
        sbx_strings_free(config->files);
        free(config->project);
        free(config->working);
        free(config);
}
SBX_DEFINE_CLEANUP(struct sbx_config *, sbx_config_free, cleanup_config)

/* ---- places ---- */

static int absolute_directory(const char *path, char **ret, struct sbx_error *err) {
        char *absolute = realpath(path, NULL);
        int r = absolute != NULL ? 0 : -errno;

        if (r < 0)
                return sbx_error_set(err, r, SBX_CONFIG_ORIGIN, "Give a directory that exists.",
                                     "can't use the directory %s: %s", path, SBX_ERRNO_TEXT(r));
        *ret = absolute;
        return 0;
}

/* XDG Base Directory Specification: $XDG_CONFIG_HOME must be absolute to count, else $HOME/.config. */
static int user_directory(char **ret) {
        const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

        *ret = NULL;
        if (base != NULL && base[0] == '/')
                return sbx_text_format(ret, "%s/snipara-sandbox", base);
        if (home != NULL && home[0] == '/')
                return sbx_text_format(ret, "%s/.config/snipara-sandbox", home);
        return 0;
}

/* SNIPARA_SANDBOX_CONFIG, from the environment or .env; a relative path starts where the variable was set. */
static int file_of_variable(const struct sbx_config *config, char **ret) {
        const struct sbx_variables *from = &config->environment;
        const struct sbx_variable *found = sbx_variables_find(from, "SNIPARA_SANDBOX_CONFIG");

        *ret = NULL;
        if (found == NULL) {
                from = &config->dotenv;
                found = sbx_variables_find(from, "SNIPARA_SANDBOX_CONFIG");
        }
        if (found == NULL)
                return 0;
        if (found->value[0] == '/')
                return sbx_text_format(ret, "%s", found->value);
        return sbx_text_format(ret, "%s/%s", from->directory, found->value);
}

/* ---- variables ---- */

/* A variable that nobody knows, but that is nearly one that is known, was meant to do something. */
static int report_misspelt(const struct sbx_variable *variable, const struct sbx_logger *logger) {
        struct sbx_nearest nearest = SBX_NEAREST(variable->name);
        struct sbx_option_variables names = {0};

        if (strncmp(variable->name, "SNIPARA_SANDBOX_", 16) != 0)
                return 0;
        for (const struct sbx_option *option = sbx_core_options; option->name != NULL; option++) {
                if (sbx_option_variables(NULL, option->name, &names) < 0)
                        return -ENOMEM;
                for (size_t i = 0; names.names[i] != NULL; i++) {
                        nearest.best = NULL;
                        sbx_nearest_offer(&nearest, names.names[i]);
                        if (nearest.best == NULL || nearest.distance > 2)
                                continue;
                        if (nearest.distance > 0)
                                sbx_log(logger, SBX_LOG_WARNING, "%s is not a setting; did you mean %s?",
                                        variable->origin, names.names[i]);
                        sbx_option_variables_free(&names);
                        return 0;
                }
                sbx_option_variables_free(&names);
        }
        return 0;
}

static int load_variables(struct sbx_config *config, const struct sbx_logger *logger, struct sbx_error *err) {
        _cleanup_free_ char *path = NULL;
        int r = sbx_environment_copy(config->working, &config->environment);

        if (r < 0)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        r = sbx_dotenv_load(config->project, logger, &config->dotenv, &path, err);
        if (r == 0 && path != NULL)
                sbx_log(logger, SBX_LOG_DEBUG, "read %s", path);
        for (size_t i = 0; r == 0 && i < config->environment.count; i++)
                r = report_misspelt(&config->environment.items[i], logger);
        for (size_t i = 0; r == 0 && i < config->dotenv.count; i++)
                r = report_misspelt(&config->dotenv.items[i], logger);
        return r == -ENOMEM ? SBX_NOMEM(err, SBX_CONFIG_ORIGIN) : r;
}

/* ---- flags ---- */

static int refuse_flag(const struct sbx_config *config, const char *name, struct sbx_error *err) {
        _cleanup_free_ char *subject = strndup(name, strcspn(name, ".")), *hint = NULL;
        bool of_entry = strchr(name, '.') != NULL;
        struct sbx_nearest nearest = SBX_NEAREST(subject != NULL ? subject : "");

        for (size_t i = 0; of_entry && i < config->entry_count; i++)
                sbx_nearest_offer(&nearest, config->entries[i]->name);
        for (const struct sbx_option *option = sbx_core_options; !of_entry && option->name != NULL; option++)
                sbx_nearest_offer(&nearest, option->name);
        if (subject == NULL || (nearest.best != NULL && sbx_text_format(&hint, "Did you mean `%s`?", nearest.best) < 0))
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        return sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN,
                             hint != NULL ? hint
                                          : "`snipara-sandbox config show` lists all settings and plugin entries.",
                             of_entry ? "flag: no plugin entry is named `%s`" : "flag: unknown setting `%s`", subject);
}

/* NAME=VALUE for the core, ENTRY.OPTION=VALUE for a plugin entry. */
static int apply_flag(struct sbx_config *config, const char *flag, struct sbx_error *err) {
        const char *equals = strchr(flag, '=');
        _cleanup_free_ char *name = equals != NULL ? strndup(flag, (size_t)(equals - flag)) : NULL;
        char *dot = name != NULL ? strchr(name, '.') : NULL;
        struct sbx_entry *entry = NULL;
        struct sbx_raw raw = {0};
        int r;

        if (equals == NULL)
                return sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN, "Write NAME=VALUE.", "flag: %.64s: has no value",
                                     flag);
        if (name == NULL)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        if (dot != NULL) {
                *dot = '\0';
                entry = sbx_entry_find(config, name);
                if (entry == NULL && strcmp(dot + 1, "plugin") == 0) {
                        r = sbx_entry_need(config, name, "flag", &entry, err);
                        if (r < 0)
                                return r;
                }
                if (entry == NULL)
                        *dot = '.';
        }
        if (dot == NULL ? sbx_option_find(sbx_core_options, name) == NULL : entry == NULL)
                return refuse_flag(config, name, err);
        if (sbx_raw_from_text(entry != NULL ? dot + 1 : name, equals + 1, "flag", config->working, &raw) < 0)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        if (entry != NULL) {
                r = sbx_entry_set(entry, &entry->flags, &raw, err);
                entry->shown.built_in =
                        false; /* somebody means it: it is used from the beginning, and missed if absent */
        } else if (sbx_raws_put(&config->flags, &raw) < 0) {
                r = SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        } else {
                r = 0;
        }
        sbx_raw_clear(&raw);
        return r;
}

/* ---- loading ---- */

static int load_layers(struct sbx_config *config, const char *system_directory,
                       const struct sbx_runtime_options *options, const struct sbx_logger *logger,
                       struct sbx_error *err) {
        bool no_environment = (options->flags & SBX_RUNTIME_NO_ENVIRONMENT) != 0;
        _cleanup_free_ char *user = NULL, *named = NULL;
        struct sbx_config_places places = {.system = system_directory, .project = config->project};
        int r = 0;

        config->ignores_environment = no_environment;
        if (!no_environment) {
                r = load_variables(config, logger, err);
                if (r < 0)
                        return r;
                if (user_directory(&user) < 0 || file_of_variable(config, &named) < 0)
                        return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        }
        places.user = user;
        places.file = options->config_path != NULL ? options->config_path : named;
        r = sbx_entries_built_in(config, err);
        if (r == 0)
                r = sbx_config_read_layers(config, &places, logger, err);
        return r;
}

/* What variables say of an entry's own keys stands below flags, so flags go last. */
static int finish(struct sbx_config *config, const struct sbx_runtime_options *options, struct sbx_error *err) {
        struct sbx_layers layers = {
                .flags = &config->flags,
                .environment = &config->environment,
                .dotenv = &config->dotenv,
                .files = &config->core,
                .directory = config->project,
        };
        int r = sbx_entries_apply_variables(config, err);

        for (const char *const *flag = options->settings; r == 0 && flag != NULL && *flag != NULL; flag++)
                r = apply_flag(config, *flag, err);
        if (r == 0)
                r = sbx_entries_finish(config, err);
        if (r == 0)
                r = sbx_settings_resolve(sbx_core_options, &layers, &config->settings, err);
        return r == 0 ? sbx_core_check(&config->settings, err) : r;
}

/* The .env that was read is a file too, above the others. */
static int list_dotenv(struct sbx_config *config, struct sbx_error *err) {
        _cleanup_free_ char *path = NULL;

        if (config->dotenv.directory == NULL)
                return 0;
        if (sbx_text_format(&path, "%s/.env", config->dotenv.directory) < 0 ||
            sbx_strings_append(&config->files, path, strlen(path)) < 0)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        return 0;
}

int sbx_config_load_from(const char *system_directory, const struct sbx_runtime_options *options,
                         const struct sbx_logger *logger, struct sbx_config **ret_config, struct sbx_error *err) {
        _cleanup_(cleanup_config) struct sbx_config *config = calloc(1, sizeof(*config));
        struct sbx_runtime_options known = {.struct_size = sizeof(known)};
        int r;

        if (options != NULL && options->struct_size == 0)
                return sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN,
                                     "Set .struct_size = sizeof(struct sbx_runtime_options).",
                                     "struct sbx_runtime_options has no size");
        if (options != NULL)
                memcpy(&known, options, options->struct_size < sizeof(known) ? options->struct_size : sizeof(known));
        if (config == NULL)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        config->files = calloc(1, sizeof(*config->files));
        if (config->files == NULL)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        r = absolute_directory(".", &config->working, err);
        if (r == 0)
                r = absolute_directory(known.directory != NULL ? known.directory : ".", &config->project, err);
        if (r == 0)
                r = load_layers(config, system_directory, &known, logger, err);
        if (r == 0)
                r = list_dotenv(config, err);
        if (r == 0)
                r = finish(config, &known, err);
        if (r < 0)
                return r;
        *ret_config = steal_pointer(config);
        return 0;
}

int sbx_config_load(const struct sbx_runtime_options *options, const struct sbx_logger *logger,
                    struct sbx_config **ret_config, struct sbx_error *err) {
        return sbx_config_load_from(SBX_CONFDIR, options, logger, ret_config, err);
}

/* ---- reading ---- */

const struct sbx_settings *sbx_config_core(const struct sbx_config *config) {
        return &config->settings;
}

const char *sbx_config_string(const struct sbx_config *config, const char *name) {
        const struct sbx_value *value = sbx_settings_get(&config->settings, name);

        return value != NULL ? value->string : NULL;
}

int64_t sbx_config_int(const struct sbx_config *config, const char *name) {
        const struct sbx_value *value = sbx_settings_get(&config->settings, name);

        return value != NULL ? value->integer : 0;
}

bool sbx_config_bool(const struct sbx_config *config, const char *name) {
        const struct sbx_value *value = sbx_settings_get(&config->settings, name);

        return value != NULL && value->boolean;
}

const char *sbx_config_environment(const struct sbx_config *config, const char *name) {
        const struct sbx_variable *variable;
        const char *value;

        if (config->ignores_environment)
                return NULL;
        value = getenv(name);
        if (value != NULL && value[0] != '\0')
                return value;
        variable = sbx_variables_find(&config->dotenv, name);
        return variable != NULL ? variable->value : NULL;
}

const char *sbx_config_directory(const struct sbx_config *config) {
        return config->project;
}

const char *const *sbx_config_files(const struct sbx_config *config) {
        return (const char *const *)config->files;
}
