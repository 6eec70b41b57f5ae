/* SPDX-License-Identifier: Apache-2.0 */
/* `plugins list`, `plugins info NAME`, `plugins check FILE`. */
#include <jansson.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/plugins.h"
#include "cli/runtime.h"

struct plugins_options {
        bool json;
};

static void module_free(struct sbx_module **module) {
        sbx_module_free(*module);
}

/* ---- list ---------------------------------------------------------------------------------------------- */

/* One row: a file of the plugin directory, or an entry of the configuration whose plugin is elsewhere or nowhere. */
struct listing {
        struct sbx_cli_parts *parts;
        json_t *rows;
};

/* The names of the enabled entries that use the plugin: "local, local2". */
static json_t *entries_of(const struct sbx_config *config, const char *plugin) {
        json_t *names = json_array();

        for (size_t i = 0; i < sbx_config_plugin_count(config); i++) {
                const struct sbx_plugin_entry *entry = sbx_config_plugin(config, i);

                if (entry->enabled && strcmp(entry->plugin, plugin) == 0)
                        (void)json_array_append_new(names, json_string(entry->name));
        }
        return names;
}

static int add_row(struct listing *listing, const char *name, const char *path, const struct sbx_module *module,
                   const struct sbx_error *problem) {
        _cleanup_json_ json_t *entries = entries_of(listing->parts->config, name);
        const char *state = module == NULL ? "broken" : json_array_size(entries) > 0 ? "configured" : "available";
        json_t *row;

        row = json_pack("{s:s, s:s?, s:s?, s:s?, s:s, s:O, s:s, s:s?, s:s?}", "name", name, "kind",
                        module != NULL ? sbx_plugin_kind_name(module->plugin.kind) : NULL, "version",
                        module != NULL ? module->plugin.version : NULL, "summary",
                        module != NULL ? module->plugin.summary : NULL, "state", state, "entries", entries, "path",
                        path, "problem", problem != NULL ? problem->message : NULL, "hint",
                        problem != NULL && problem->hint[0] != '\0' ? problem->hint : NULL);
        return json_array_append_new(listing->rows, row) < 0 ? -ENOMEM : 0;
}

static int add_found(void *data, const char *path, const struct sbx_module *module, const struct sbx_error *problem) {
        const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
        size_t size = strlen(base) > 3 ? strlen(base) - 3 : strlen(base); /* without ".so" */
        _cleanup_free_ char *name = strndup(base, size);

        return name == NULL ? -ENOMEM : add_row(data, name, path, module, problem);
}

static bool is_listed(const json_t *rows, const char *plugin) {
        const json_t *row;
        size_t i;

        json_array_foreach(rows, i, row) {
                const char *name = json_string_value(json_object_get(row, "name"));

                if (name != NULL && strcmp(name, plugin) == 0)
                        return true;
        }
        return false;
}

/* What the configuration names and the plugin directory does not hold: absolute paths, and what is missing. */
static int add_configured(struct listing *listing) {
        const struct sbx_config *config = listing->parts->config;
        int r = 0;

        for (size_t i = 0; i < sbx_config_plugin_count(config) && r >= 0; i++) {
                const struct sbx_plugin_entry *entry = sbx_config_plugin(config, i);
                __attribute__((cleanup(module_free))) struct sbx_module *module = NULL;
                struct sbx_error problem = {0};

                if (!entry->enabled || is_listed(listing->rows, entry->plugin))
                        continue;
                if (entry->plugin[0] != '/' || sbx_module_load(entry->plugin, &module, &problem) < 0)
                        (void)sbx_error_set(&problem, -ENOENT, "cli",
                                            "install it, or take the entry out of the configuration",
                                            "%s is not installed in %s (named by %s)", entry->plugin,
                                            listing->parts->directories.plugins, entry->origin);
                r = add_row(listing, entry->plugin, entry->plugin, module, problem.code != 0 ? &problem : NULL);
        }
        return r;
}

static enum sbx_cli_style state_style(const char *state) {
        return strcmp(state, "configured") == 0 ? SBX_CLI_GREEN
               : strcmp(state, "broken") == 0   ? SBX_CLI_RED
                                                : SBX_CLI_PLAIN;
}

static const char *text_of(const json_t *row, const char *key) {
        const char *text = json_string_value(json_object_get(row, key));

        return text != NULL ? text : "";
}

static int show_list(const struct sbx_cli *cli, const struct listing *listing) {
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(5);
        const json_t *row;
        size_t i;

        if (json_array_size(listing->rows) == 0)
                return sbx_cli_print(&cli->out, "no plugins in %s\n", listing->parts->directories.plugins);
        for (i = 0; i < 5; i++)
                sbx_cli_table_cell(table, SBX_CLI_BOLD, ((const char *[]){"NAME", "KIND", "VERSION", "STATE", ""})[i]);
        json_array_foreach(listing->rows, i, row) {
                const char *problem = text_of(row, "problem");

                sbx_cli_table_cell(table, SBX_CLI_BOLD, text_of(row, "name"));
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, text_of(row, "kind"));
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, text_of(row, "version"));
                sbx_cli_table_cell(table, state_style(text_of(row, "state")), text_of(row, "state"));
                sbx_cli_table_cell(table, SBX_CLI_DIM, problem[0] != '\0' ? problem : text_of(row, "summary"));
        }
        return sbx_cli_table_show(table, &cli->out, 0);
}

static int run_list(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        _cleanup_parts_ struct sbx_cli_parts parts = {0};
        _cleanup_json_ json_t *rows = json_array();
        struct listing listing = {.parts = &parts, .rows = rows};
        struct plugins_options options = {0};
        struct sbx_error err = {0};
        int result, r;

        if (!sbx_cli_parse(cli, command, argc, argv, &options, &arguments, &result))
                return result;
        result = sbx_cli_no_arguments(cli, command, &arguments);
        if (result != 0)
                return result;
        r = sbx_cli_parts_open(cli, &parts, &err);
        if (r >= 0)
                r = sbx_registry_scan(parts.registry, add_found, &listing);
        if (r >= 0)
                r = add_configured(&listing);
        if (r < 0)
                return sbx_cli_fail(cli, r, &err);
        r = options.json ? sbx_cli_print_json(&cli->out, rows, true) : show_list(cli, &listing);
        return r < 0 ? SBX_CLI_FAILED : SBX_CLI_OK;
}

/* ---- info ---------------------------------------------------------------------------------------------- */

/* Looks for a plugin by its name while the registry lists them, and tells about it. */
struct search {
        const struct sbx_cli *cli;
        const char *name;
        bool json;
        bool found;
        int result;
        struct sbx_error problem;
};

static int tell_module(const struct search *search, const struct sbx_module *module) {
        return search->json ? sbx_cli_plugin_json(search->cli, module) : sbx_cli_plugin_show(search->cli, module);
}

static int match_found(void *data, const char *path, const struct sbx_module *module, const struct sbx_error *problem) {
        const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
        struct search *search = data;
        size_t size = strlen(search->name);

        if (strncmp(base, search->name, size) != 0 || strcmp(base + size, ".so") != 0)
                return 0;
        search->found = true;
        if (module != NULL)
                search->result = tell_module(search, module);
        else
                search->problem = *problem;
        return 1;
}

/* NAME is a plugin's, or an entry's of the configuration, or a path. */
static int find_module(struct search *search, struct sbx_cli_parts *parts, struct sbx_error *err) {
        const struct sbx_plugin_entry *entry = sbx_config_plugin_find(parts->config, search->name);
        __attribute__((cleanup(module_free))) struct sbx_module *module = NULL;
        int r;

        if (entry != NULL)
                search->name = entry->plugin;
        if (strchr(search->name, '/') != NULL) {
                r = sbx_module_load(search->name, &module, err);
                return r < 0 ? r : tell_module(search, module);
        }
        r = sbx_registry_scan(parts->registry, match_found, search);
        if (r < 0)
                return r;
        if (!search->found)
                return sbx_error_set(err, -ENOENT, "cli", "'snipara-sandbox plugins list' names those that are",
                                     "there is no plugin and no plugin entry '%s'", search->name);
        if (search->problem.code != 0) {
                *err = search->problem;
                return search->problem.code;
        }
        return search->result;
}

static int run_info(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        _cleanup_parts_ struct sbx_cli_parts parts = {0};
        struct plugins_options options = {0};
        struct sbx_error err = {0};
        struct search search;
        int result, r;

        if (!sbx_cli_parse(cli, command, argc, argv, &options, &arguments, &result))
                return result;
        if (arguments.count != 1) {
                sbx_cli_error(cli, "'snipara-sandbox plugins list' names them",
                              "plugins info takes the name of one plugin");
                return SBX_CLI_USAGE;
        }
        search = (struct search){.cli = cli, .name = arguments.items[0].text, .json = options.json};
        r = sbx_cli_parts_open(cli, &parts, &err);
        if (r >= 0)
                r = find_module(&search, &parts, &err);
        if (r < 0 && err.code == 0)
                return SBX_CLI_FAILED; /* standard output can't be written */
        return r < 0 ? sbx_cli_fail(cli, r, &err) : SBX_CLI_OK;
}

/* ---- check --------------------------------------------------------------------------------------------- */

static int run_check(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        __attribute__((cleanup(module_free))) struct sbx_module *module = NULL;
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        struct plugins_options options = {0};
        _cleanup_free_ char *path = NULL;
        struct sbx_error err = {0};
        int result, r;

        if (!sbx_cli_parse(cli, command, argc, argv, &options, &arguments, &result))
                return result;
        if (arguments.count != 1) {
                sbx_cli_error(cli, NULL, "plugins check takes the path of one file");
                return SBX_CLI_USAGE;
        }
        path = realpath(arguments.items[0].text, NULL);
        if (path == NULL) {
                sbx_cli_error(cli, "give the path of a plugin's .so file", "can't find %s: %s", arguments.items[0].text,
                              SBX_ERRNO_TEXT(-errno));
                return SBX_CLI_USAGE;
        }
        r = sbx_module_load(path, &module, &err);
        if (options.json) {
                r = r < 0 ? sbx_cli_plugin_problem_json(cli, path, &err) : sbx_cli_plugin_json(cli, module);
                return r < 0 || module == NULL ? SBX_CLI_FAILED : SBX_CLI_OK;
        }
        if (r < 0) {
                sbx_cli_error_show(cli, &err);
                return SBX_CLI_FAILED;
        }
        r = sbx_cli_print(&cli->out, "%s: a good %s plugin, %s %s, ABI %u.%u\n", path,
                          sbx_plugin_kind_name(module->plugin.kind), module->plugin.name, module->plugin.version,
                          module->plugin.abi_major, module->plugin.abi_minor);
        return r < 0 ? SBX_CLI_FAILED : SBX_CLI_OK;
}

/* ---- the commands -------------------------------------------------------------------------------------- */

static const struct sbx_cli_option plugins_command_options[] = {
        {"json", 0, SBX_CLI_FLAG, offsetof(struct plugins_options, json), NULL, "print JSON", NULL},
        {0},
};

static const struct sbx_cli_example list_examples[] = {
        {"plugins list", "what is installed, what is configured, what is broken and why"},
        {0},
};

static const struct sbx_cli_example info_examples[] = {
        {"plugins info backend-local", "every option with type, default and range"},
        {"plugins info local", "the same, by the name of a plugin entry"},
        {0},
};

static const struct sbx_cli_example check_examples[] = {
        {"plugins check ./sink-mine.so", "would this file be loaded?"},
        {0},
};

const struct sbx_cli_command sbx_cli_plugins_list = {
        .name = "plugins list",
        .arguments = "",
        .summary = "List plugins: configured, available or broken",
        .options = plugins_command_options,
        .examples = list_examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run_list,
};

const struct sbx_cli_command sbx_cli_plugins_info = {
        .name = "plugins info",
        .arguments = "NAME",
        .summary = "Describe a plugin and its options",
        .options = plugins_command_options,
        .examples = info_examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run_info,
};

const struct sbx_cli_command sbx_cli_plugins_check = {
        .name = "plugins check",
        .arguments = "FILE",
        .summary = "Load and validate a plugin file",
        .description = "Loading a plugin runs its initialisers: check only files that you would run. Exit code 1 when\n"
                       "the file is refused.",
        .options = plugins_command_options,
        .examples = check_examples,
        .run = run_check,
};
