/* SPDX-License-Identifier: Apache-2.0 */
/* `config show`: every setting with its value and where that came from. */
#include <jansson.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/runtime.h"

#define VALUE_MAX (1u << 20)

struct show_options {
        bool json, origin;
};

struct show {
        struct sbx_cli *cli;
        struct sbx_cli_parts parts;
};

static void show_free(struct show *show) {
        sbx_cli_parts_free(&show->parts);
}

/* ---- for people ---------------------------------------------------------------------------------------- */

static void add_rows(struct sbx_cli_table *table, const struct sbx_settings *settings) {
        for (size_t i = 0; settings != NULL && i < settings->count; i++) {
                _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(VALUE_MAX);
                const struct sbx_value *value = &settings->values[i];
                bool changed = value->origin != NULL && strcmp(value->origin, "default") != 0;

                if (sbx_value_show(&settings->table[i], value, &text) < 0)
                        sbx_buffer_clear(&text);
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, settings->table[i].name);
                sbx_cli_table_cell(table, changed ? SBX_CLI_BOLD : SBX_CLI_PLAIN, text.data);
                sbx_cli_table_cell(table, SBX_CLI_DIM, value->set ? value->origin : "");
        }
}

static int show_settings(const struct sbx_cli *cli, const struct sbx_settings *own, const struct sbx_settings *added) {
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(3);

        add_rows(table, own);
        add_rows(table, added);
        return sbx_cli_table_show(table, &cli->out, 2);
}

static int show_files(const struct show *show) {
        const struct sbx_cli_stream *out = &show->cli->out;
        const char *const *files = sbx_config_files(show->parts.config);
        int r = sbx_cli_print_styled(out, SBX_CLI_BOLD, "Files read\n");

        if (files[0] == NULL && r >= 0)
                r = sbx_cli_print(out, "  none: built-in defaults, environment and command line only\n");
        for (; *files != NULL && r >= 0; files++)
                r = sbx_cli_print(out, "  %s\n", *files);
        return r;
}

static int show_entry(struct show *show, const struct sbx_plugin_entry *entry) {
        const struct sbx_cli_stream *out = &show->cli->out;
        const struct sbx_instance *instance = NULL;
        struct sbx_error err = {0};
        int r;

        r = sbx_cli_print_styled(out, SBX_CLI_BOLD, "\nPlugin %s", entry->name);
        if (r >= 0)
                r = sbx_cli_print(out, " (%s%s%s, from %s)\n", entry->plugin, entry->enabled ? "" : ", not enabled",
                                  entry->critical ? ", critical" : "", entry->origin);
        if (r < 0 || !entry->enabled)
                return r;
        if (sbx_registry_open(show->parts.registry, entry->name, &instance, &err) < 0)
                return sbx_cli_print(out, "  not usable: %s\n", err.message);
        return show_settings(show->cli, instance->settings, instance->core_settings);
}

static int show_people(struct show *show) {
        int r = show_files(show);

        if (r >= 0)
                r = sbx_cli_print_styled(&show->cli->out, SBX_CLI_BOLD, "\nSettings\n");
        if (r >= 0)
                r = show_settings(show->cli, sbx_config_core(show->parts.config), NULL);
        for (size_t i = 0; r >= 0 && i < sbx_config_plugin_count(show->parts.config); i++)
                r = show_entry(show, sbx_config_plugin(show->parts.config, i));
        return r;
}

/* ---- one line for each value --------------------------------------------------------------------------- */

static int list_settings(const struct sbx_cli *cli, const char *entry, const struct sbx_settings *settings) {
        int r = 0;

        for (size_t i = 0; settings != NULL && i < settings->count && r >= 0; i++) {
                _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(VALUE_MAX);
                const struct sbx_value *value = &settings->values[i];

                if (!value->set)
                        continue;
                r = sbx_value_show(&settings->table[i], value, &text);
                if (r >= 0)
                        r = sbx_cli_print(&cli->out, "%s\t%s%s%s=%s\n", value->origin, entry != NULL ? entry : "",
                                          entry != NULL ? "." : "", settings->table[i].name, text.data);
        }
        return r;
}

static int show_origins(struct show *show) {
        int r = list_settings(show->cli, NULL, sbx_config_core(show->parts.config));

        for (size_t i = 0; r >= 0 && i < sbx_config_plugin_count(show->parts.config); i++) {
                const struct sbx_plugin_entry *entry = sbx_config_plugin(show->parts.config, i);
                const struct sbx_instance *instance = NULL;
                struct sbx_error err = {0};

                if (!entry->enabled)
                        continue;
                if (sbx_registry_open(show->parts.registry, entry->name, &instance, &err) < 0) {
                        sbx_cli_warning(show->cli, err.hint, "plugin %s: %s", entry->name, err.message);
                        continue;
                }
                r = list_settings(show->cli, entry->name, instance->settings);
                if (r >= 0)
                        r = list_settings(show->cli, entry->name, instance->core_settings);
        }
        return r;
}

/* ---- for scripts --------------------------------------------------------------------------------------- */

static json_t *strings_json(char *const *strings) {
        json_t *list = json_array();

        for (; *strings != NULL; strings++)
                if (json_array_append_new(list, json_string(*strings)) < 0) {
                        json_decref(list);
                        return NULL;
                }
        return list;
}

/* Numbers as a configuration file takes them: sizes in bytes, durations in seconds. */
static json_t *value_json(const struct sbx_value *value) {
        if (!value->set)
                return json_null();
        switch (value->type) {
        case SBX_OPTION_BOOL:
                return json_boolean(value->boolean);
        case SBX_OPTION_INT:
        case SBX_OPTION_SIZE:
                return json_integer(value->integer);
        case SBX_OPTION_DURATION:
                return value->integer % 1000 == 0 ? json_integer(value->integer / 1000)
                                                  : json_real((double)value->integer / 1000.0);
        case SBX_OPTION_FLOAT:
                return json_real(value->real);
        case SBX_OPTION_STRINGS:
                return strings_json(value->strings);
        default:
                return json_string(value->string);
        }
}

/* Of a secret, only whether it is set: NAME_set. */
static int add_values(json_t *values, json_t *origins, const struct sbx_settings *settings) {
        for (size_t i = 0; settings != NULL && i < settings->count; i++) {
                const struct sbx_option *option = &settings->table[i];
                const struct sbx_value *value = &settings->values[i];
                _cleanup_free_ char *name = NULL;
                bool secret = (option->flags & SBX_OPTION_SECRET) != 0;

                if (asprintf(&name, "%s%s", option->name, secret ? "_set" : "") < 0) {
                        name = NULL;
                        return -ENOMEM;
                }
                if (json_object_set_new(values, name, secret ? json_boolean(value->set) : value_json(value)) < 0 ||
                    (value->set && json_object_set_new(origins, option->name, json_string(value->origin)) < 0))
                        return -ENOMEM;
        }
        return 0;
}

static int add_entry(struct show *show, json_t *plugins, const struct sbx_plugin_entry *entry) {
        _cleanup_json_ json_t *options = json_object(), *origins = json_object();
        const struct sbx_instance *instance = NULL;
        struct sbx_error err = {0};
        int r = 0;

        if (entry->enabled && sbx_registry_open(show->parts.registry, entry->name, &instance, &err) == 0) {
                r = add_values(options, origins, instance->settings);
                if (r >= 0)
                        r = add_values(options, origins, instance->core_settings);
        }
        if (r < 0)
                return r;
        return json_array_append_new(plugins, json_pack("{s:s, s:s, s:b, s:b, s:s, s:s?, s:O, s:O}", "name",
                                                        entry->name, "plugin", entry->plugin, "enabled", entry->enabled,
                                                        "critical", entry->critical, "origin", entry->origin, "problem",
                                                        err.code != 0 ? err.message : NULL, "options", options,
                                                        "origins", origins)) < 0
                       ? -ENOMEM
                       : 0;
}

static bool is_env_file(const char *path) {
        const char *slash = strrchr(path, '/');

        return strcmp(slash != NULL ? slash + 1 : path, ".env") == 0;
}

/* The members that `config show --json` of the Python program has: settings by name, the file that counts most. */
static int add_sources(const struct show *show, json_t *document) {
        const char *const *files = sbx_config_files(show->parts.config);
        const char *config_file = NULL, *env_file = NULL;
        _cleanup_json_ json_t *list = json_array();

        for (; *files != NULL; files++) {
                if (is_env_file(*files))
                        env_file = *files;
                else
                        config_file = *files;
                if (json_array_append_new(list, json_string(*files)) < 0)
                        return -ENOMEM;
        }
        return json_object_update_new(document,
                                      json_pack("{s:s, s:b, s:s?, s:b, s:O}", "config_file",
                                                config_file != NULL ? config_file : "snipara-sandbox.cfg",
                                                "config_file_exists", config_file != NULL, "project_env_file", env_file,
                                                "project_env_file_exists", env_file != NULL, "files", list)) < 0
                       ? -ENOMEM
                       : 0;
}

static int show_json(struct show *show) {
        const struct sbx_config *config = show->parts.config;
        _cleanup_json_ json_t *document = json_object(), *origins = json_object(), *plugins = json_array();
        int r = add_sources(show, document);

        if (r >= 0)
                r = add_values(document, origins, sbx_config_core(config));
        for (size_t i = 0; r >= 0 && i < sbx_config_plugin_count(config); i++)
                r = add_entry(show, plugins, sbx_config_plugin(config, i));
        if (r >= 0 &&
            (json_object_set(document, "origins", origins) < 0 || json_object_set(document, "plugins", plugins) < 0))
                r = -ENOMEM;
        return r < 0 ? r : sbx_cli_print_json(&show->cli->out, document, true);
}

/* ---- the command --------------------------------------------------------------------------------------- */

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        __attribute__((cleanup(show_free))) struct show show = {.cli = cli};
        struct show_options options = {0};
        struct sbx_error err = {0};
        int result, r;

        if (!sbx_cli_parse(cli, command, argc, argv, &options, &arguments, &result))
                return result;
        result = sbx_cli_no_arguments(cli, command, &arguments);
        if (result != 0)
                return result;
        r = sbx_cli_parts_open(cli, &show.parts, &err);
        if (r < 0)
                return sbx_cli_fail(cli, r, &err);
        r = options.json ? show_json(&show) : options.origin ? show_origins(&show) : show_people(&show);
        return r < 0 ? SBX_CLI_FAILED : SBX_CLI_OK;
}

static const struct sbx_cli_option config_command_options[] = {
        {"json", 0, SBX_CLI_FLAG, offsetof(struct show_options, json), NULL,
         "print a JSON object: settings by name, origins, files, plugins", NULL},
        {"origin", 0, SBX_CLI_FLAG, offsetof(struct show_options, origin), NULL,
         "print one line for each value: where it comes from, a tab, NAME=VALUE", NULL},
        {0},
};

static const struct sbx_cli_example examples[] = {
        {"config show", "what is in force here, and why"},
        {"config show --origin | grep -v ^default", "only what somebody has set"},
        {0},
};

const struct sbx_cli_command sbx_cli_config_show = {
        .name = "config show",
        .arguments = "",
        .summary = "Show every setting and where it comes from",
        .description = "Secrets are masked. Sizes are in bytes and durations in seconds in the JSON.",
        .options = config_command_options,
        .examples = examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run,
};
