/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a plugin file, for people and for scripts. */
#include "cli/plugins.h"

#include <inttypes.h>
#include <jansson.h>

#include "base/json.h"
#include "cli/output.h"

static const char *type_name(uint32_t type) {
        static const char *const names[] = {
                [SBX_OPTION_BOOL] = "bool",         [SBX_OPTION_INT] = "int",         [SBX_OPTION_SIZE] = "size",
                [SBX_OPTION_DURATION] = "duration", [SBX_OPTION_FLOAT] = "float",     [SBX_OPTION_STRING] = "string",
                [SBX_OPTION_ENUM] = "enum",         [SBX_OPTION_STRINGS] = "strings", [SBX_OPTION_PATH] = "path",
        };

        return type < sizeof(names) / sizeof(names[0]) && names[type] != NULL ? names[type] : "unknown";
}

static bool has_range(const struct sbx_option *option) {
        return option->minimum != 0 || option->maximum != 0;
}

/* One end of a range, as one would write it. */
static int append_bound(const struct sbx_option *option, int64_t bound, struct sbx_buffer *out) {
        char amount[SBX_CLI_AMOUNT_SIZE];

        if (option->type == SBX_OPTION_SIZE && bound >= 0)
                return sbx_buffer_append_text(out, sbx_cli_bytes_text((uint64_t)bound, amount));
        if (option->type == SBX_OPTION_DURATION && bound >= 0)
                return bound % 1000 == 0 ? sbx_buffer_printf(out, "%" PRId64 " s", bound / 1000)
                                         : sbx_buffer_printf(out, "%" PRId64 " ms", bound);
        return sbx_buffer_printf(out, "%" PRId64, bound);
}

/* "0 to 64", "namespaces|landlock|none", "required", "secret", the unit. */
static int append_limits(const struct sbx_option *option, struct sbx_buffer *out) {
        int r = 0;

        if (option->choices != NULL)
                r = sbx_buffer_append_text(out, option->choices);
        if (r >= 0 && has_range(option))
                r = append_bound(option, option->minimum, out);
        if (r >= 0 && has_range(option))
                r = sbx_buffer_append_text(out, " to ");
        if (r >= 0 && has_range(option))
                r = append_bound(option, option->maximum, out);
        if (r >= 0 && option->unit != NULL)
                r = sbx_buffer_printf(out, "%s%s", out->size > 0 ? " " : "", option->unit);
        if (r >= 0 && (option->flags & SBX_OPTION_REQUIRED) != 0)
                r = sbx_buffer_printf(out, "%srequired", out->size > 0 ? ", " : "");
        if (r >= 0 && (option->flags & SBX_OPTION_SECRET) != 0)
                r = sbx_buffer_printf(out, "%ssecret", out->size > 0 ? ", " : "");
        return r;
}

static void add_options(struct sbx_cli_table *table, const struct sbx_option *options) {
        for (; options != NULL && options->name != NULL; options++) {
                _cleanup_buffer_ struct sbx_buffer limits = SBX_BUFFER(4096);

                if (append_limits(options, &limits) < 0)
                        sbx_buffer_clear(&limits);
                sbx_cli_table_cell(table, SBX_CLI_BOLD, options->name);
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, type_name(options->type));
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, options->default_value);
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, limits.data);
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, options->help);
        }
}

int sbx_cli_plugin_show(const struct sbx_cli *cli, const struct sbx_module *module) {
        static const char *const titles[] = {"OPTION", "TYPE", "DEFAULT", "LIMITS", "MEANING"};
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(5);
        const struct sbx_plugin *plugin = &module->plugin;
        int r;

        r = sbx_cli_print_styled(&cli->out, SBX_CLI_BOLD, "%s", plugin->name);
        if (r >= 0)
                r = sbx_cli_print(&cli->out, " %s (%s, %s, ABI %u.%u)\n%s\n%s\n\n", plugin->version,
                                  sbx_plugin_kind_name(plugin->kind), plugin->license, plugin->abi_major,
                                  plugin->abi_minor, plugin->summary, module->path);
        for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
                sbx_cli_table_cell(table, SBX_CLI_BOLD, titles[i]);
        add_options(table, plugin->options);
        add_options(table, sbx_plugin_core_options(plugin->kind));
        return r < 0 ? r : sbx_cli_table_show(table, &cli->out, 0);
}

static int add_options_json(json_t *list, const struct sbx_option *options) {
        for (; options != NULL && options->name != NULL; options++) {
                json_t *option = json_pack("{s:s, s:s, s:s?, s:s?, s:s?, s:s?, s:b, s:b}", "name", options->name,
                                           "type", type_name(options->type), "default", options->default_value,
                                           "choices", options->choices, "unit", options->unit, "help", options->help,
                                           "required", (options->flags & SBX_OPTION_REQUIRED) != 0, "secret",
                                           (options->flags & SBX_OPTION_SECRET) != 0);

                if (option != NULL && has_range(options) &&
                    json_object_update_new(option, json_pack("{s:I, s:I}", "minimum", (json_int_t)options->minimum,
                                                             "maximum", (json_int_t)options->maximum)) < 0) {
                        json_decref(option);
                        return -ENOMEM;
                }
                if (json_array_append_new(list, option) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int sbx_cli_plugin_json(const struct sbx_cli *cli, const struct sbx_module *module) {
        _cleanup_json_ json_t *options = json_array(), *document = NULL;
        const struct sbx_plugin *plugin = &module->plugin;

        if (add_options_json(options, plugin->options) < 0 ||
            add_options_json(options, sbx_plugin_core_options(plugin->kind)) < 0)
                return -ENOMEM;
        document = json_pack("{s:b, s:s, s:s, s:s, s:s, s:s, s:s, s:[i, i], s:O}", "ok", 1, "name", plugin->name,
                             "kind", sbx_plugin_kind_name(plugin->kind), "version", plugin->version, "summary",
                             plugin->summary, "license", plugin->license, "path", module->path, "abi",
                             (int)plugin->abi_major, (int)plugin->abi_minor, "options", options);
        return document == NULL ? -ENOMEM : sbx_cli_print_json(&cli->out, document, true);
}

int sbx_cli_plugin_problem_json(const struct sbx_cli *cli, const char *path, const struct sbx_error *problem) {
        _cleanup_json_ json_t *document = json_pack("{s:b, s:s, s:s, s:s}", "ok", 0, "path", path, "problem",
                                                    problem->message, "hint", problem->hint);

        return document == NULL ? -ENOMEM : sbx_cli_print_json(&cli->out, document, true);
}
