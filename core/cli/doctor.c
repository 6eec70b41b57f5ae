/* SPDX-License-Identifier: Apache-2.0 */
/* `doctor`: can this machine and this user do what the configuration asks for, and if not, what to type. */
#include "cli/doctor.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/runtime.h"
#include "cli/signals.h"

#define PROBE_TIME_MS 60000

struct doctor_options {
        bool json;
};

struct doctor {
        struct sbx_cli *cli;
        struct sbx_cli_parts parts;
        struct sbx_cli_checks checks;
        struct sbx_cli_signals signals;
        const char *area; /* of the probe that runs */
        bool optional;    /* it is of a backend that nothing asks for: what it lacks is no problem here */
        bool told;        /* it found something that is not well */
        size_t plugins_found;
};

static void doctor_free(struct doctor *doctor) {
        sbx_cli_parts_free(&doctor->parts);
        sbx_cli_signals_close(&doctor->signals);
        json_decref(doctor->checks.list);
}

static const char *const status_names[] = {
        [SBX_PROBE_OK] = "ok", [SBX_PROBE_WARNING] = "warning", [SBX_PROBE_FAILED] = "failed"};

void sbx_cli_check(struct sbx_cli_checks *checks, const char *area, enum sbx_probe_status status, const char *subject,
                   const char *remedy, const char *detail_format, ...) {
        _cleanup_free_ char *detail = NULL;
        va_list args;
        int size;

        va_start(args, detail_format);
        size = vasprintf(&detail, detail_format, args);
        va_end(args);
        if (size < 0)
                detail = NULL;
        if ((unsigned)status > SBX_PROBE_FAILED)
                status = SBX_PROBE_FAILED;
        checks->failed += status == SBX_PROBE_FAILED;
        if (detail == NULL ||
            json_array_append_new(checks->list,
                                  json_pack("{s:s, s:s, s:s, s:o, s:o}", "area", area, "subject", subject, "status",
                                            status_names[status], "detail",
                                            sbx_json_text((struct sbx_bytes){detail, strlen(detail)}), "remedy",
                                            remedy != NULL && remedy[0] != '\0'
                                                    ? sbx_json_text((struct sbx_bytes){remedy, strlen(remedy)})
                                                    : json_null())) < 0)
                checks->problem = -ENOMEM;
}

/* ---- configuration ------------------------------------------------------------------------------------- */

static void check_files(struct doctor *doctor) {
        const char *const *files = sbx_config_files(doctor->parts.config);

        if (files[0] == NULL)
                sbx_cli_check(&doctor->checks, "configuration", SBX_PROBE_OK, "files", NULL,
                              "none read; built-in defaults ('%s init' writes one)", doctor->cli->program);
        for (; *files != NULL; files++)
                sbx_cli_check(&doctor->checks, "configuration", SBX_PROBE_OK, "file", NULL, "%s", *files);
}

static void check_environment(struct doctor *doctor) {
        const char *name = sbx_config_string(doctor->parts.config, "environment");
        const struct sbx_plugin_entry *entry = sbx_config_plugin_find(doctor->parts.config, name);

        if (entry != NULL && entry->enabled)
                sbx_cli_check(&doctor->checks, "configuration", SBX_PROBE_OK, "environment", NULL, "%s (%s)", name,
                              entry->plugin);
        else
                sbx_cli_check(&doctor->checks, "configuration", SBX_PROBE_FAILED, "environment",
                              "set environment to the name of an enabled backend among the plugins",
                              "no enabled plugin entry is called %s", name);
}

/* False: nothing that needs a configuration can be checked. */
static bool check_configuration(struct doctor *doctor) {
        struct sbx_error err = {0};

        if (sbx_cli_parts_open(doctor->cli, &doctor->parts, &err) < 0) {
                sbx_cli_check(&doctor->checks, "configuration", SBX_PROBE_FAILED, "settings", err.hint, "%s",
                              err.message);
                sbx_cli_check(&doctor->checks, "plugins", SBX_PROBE_WARNING, "all", NULL,
                              "not checked: mend the configuration first");
                return false;
        }
        check_files(doctor);
        check_environment(doctor);
        return true;
}

/* ---- plugins ------------------------------------------------------------------------------------------- */

static int check_found(void *data, const char *path, const struct sbx_module *module, const struct sbx_error *problem) {
        struct doctor *doctor = data;

        doctor->plugins_found++;
        if (module != NULL)
                sbx_cli_check(&doctor->checks, "plugins", SBX_PROBE_OK, module->plugin.name, NULL, "%s %s",
                              sbx_plugin_kind_name(module->plugin.kind), module->plugin.version);
        else
                sbx_cli_check(&doctor->checks, "plugins", SBX_PROBE_FAILED, path, problem->hint, "%s",
                              problem->message);
        return 0;
}

static void check_files_of_plugins(struct doctor *doctor) {
        struct sbx_error err = {0};

        if (sbx_registry_scan(doctor->parts.registry, check_found, doctor) < 0)
                sbx_cli_check(&doctor->checks, "plugins", SBX_PROBE_FAILED, "directory", err.hint, "can't list %s",
                              doctor->parts.directories.plugins);
        else if (doctor->plugins_found == 0)
                sbx_cli_check(&doctor->checks, "plugins", SBX_PROBE_FAILED, "directory",
                              "install the plugins: 'meson install' puts them there", "%s holds no plugin",
                              doctor->parts.directories.plugins);
}

static void probe_report(void *data, int status, const char *subject, const char *detail, const char *remedy) {
        struct doctor *doctor = data;

        if (status == SBX_PROBE_FAILED && doctor->optional)
                status = SBX_PROBE_WARNING;
        doctor->told |= status != SBX_PROBE_OK;
        sbx_cli_check(&doctor->checks, doctor->area, (enum sbx_probe_status)status, subject, remedy, "%s",
                      detail != NULL ? detail : "");
}

static void probe_instance(struct doctor *doctor, const struct sbx_instance *instance) {
        const struct sbx_probe_events events = {.struct_size = sizeof(events), .data = doctor, .report = probe_report};
        struct sbx_call call = {
                .struct_size = sizeof(call),
                .cancel_fd = doctor->signals.fd,
                .deadline_ns = sbx_clock_deadline_ms(PROBE_TIME_MS),
        };
        int r;

        if (instance->module->plugin.probe == NULL) {
                sbx_cli_check(&doctor->checks, doctor->area, SBX_PROBE_OK, "options", NULL, "accepted");
                return;
        }
        doctor->told = false;
        r = instance->module->plugin.probe(instance->state, &events, &call);
        if (r < 0 && !doctor->told) {
                _cleanup_free_ char *detail = NULL;

                if (asprintf(&detail, "ended early: %s", SBX_ERRNO_TEXT(r)) < 0)
                        detail = NULL;
                probe_report(doctor, SBX_PROBE_FAILED, "probe", detail, NULL);
        }
}

/* The built-in bundle names plugins that a package may leave out; only where code runs is needed by everything. */
static bool is_needed(const struct doctor *doctor, const struct sbx_plugin_entry *entry) {
        const char *environment = sbx_config_string(doctor->parts.config, "environment");

        return !entry->built_in || entry->critical || strcmp(entry->name, environment) == 0;
}

static void check_entry(struct doctor *doctor, const struct sbx_plugin_entry *entry) {
        const struct sbx_instance *instance = NULL;
        _cleanup_free_ char *area = NULL;
        struct sbx_error err = {0};
        int r;

        if (asprintf(&area, "%s (%s)", entry->name, entry->plugin) < 0) {
                area = NULL;
                doctor->checks.problem = -ENOMEM;
                return;
        }
        doctor->area = area;
        r = sbx_registry_open(doctor->parts.registry, entry->name, &instance, &err);
        doctor->optional = r == 0 && instance->module->plugin.kind == SBX_PLUGIN_BACKEND && !is_needed(doctor, entry);
        if (r < 0)
                sbx_cli_check(&doctor->checks, area,
                              r == -ENOENT && !is_needed(doctor, entry) ? SBX_PROBE_WARNING : SBX_PROBE_FAILED, "open",
                              err.hint, "%s", err.message);
        else
                probe_instance(doctor, instance);
}

static void check_sessions(struct doctor *doctor) {
        struct sbx_call call = {
                .struct_size = sizeof(call),
                .cancel_fd = doctor->signals.fd,
                .deadline_ns = sbx_clock_deadline_ms(PROBE_TIME_MS),
        };

        sbx_cli_check_sessions(&doctor->checks, &doctor->parts, &call);
}

static void check_plugins(struct doctor *doctor) {
        const struct sbx_config *config = doctor->parts.config;

        check_files_of_plugins(doctor);
        for (size_t i = 0; i < sbx_config_plugin_count(config); i++) {
                const struct sbx_plugin_entry *entry = sbx_config_plugin(config, i);

                if (entry->enabled)
                        check_entry(doctor, entry);
        }
}

/* ---- output -------------------------------------------------------------------------------------------- */

static const char *text_of(const json_t *check, const char *key) {
        const char *text = json_string_value(json_object_get(check, key));

        return text != NULL ? text : "";
}

static void add_mark(struct sbx_cli_table *table, const char *status) {
        if (strcmp(status, "ok") == 0)
                sbx_cli_table_cell(table, SBX_CLI_GREEN, "✓");
        else if (strcmp(status, "failed") == 0)
                sbx_cli_table_cell(table, SBX_CLI_RED, "✗");
        else
                sbx_cli_table_cell(table, SBX_CLI_YELLOW, "○");
}

static void add_remedy(struct sbx_cli_table *table, const char *remedy) {
        while (remedy[0] != '\0') {
                size_t size = strcspn(remedy, "\n");

                sbx_cli_table_cell(table, SBX_CLI_PLAIN, "");
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, "");
                sbx_cli_table_cellf(table, SBX_CLI_CYAN, "→ %.*s", (int)size, remedy);
                remedy += size + (remedy[size] == '\n');
        }
}

/* The checks from `*at` on that belong to one area, under its name. */
static int show_area(const struct doctor *doctor, size_t *at) {
        const json_t *list = doctor->checks.list, *check = json_array_get(list, *at);
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(3);
        const char *area = text_of(check, "area");
        int r;

        for (; check != NULL && strcmp(text_of(check, "area"), area) == 0; check = json_array_get(list, *at)) {
                add_mark(table, text_of(check, "status"));
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, text_of(check, "subject"));
                sbx_cli_table_cell(table, SBX_CLI_DIM, text_of(check, "detail"));
                add_remedy(table, text_of(check, "remedy"));
                (*at)++;
        }
        r = sbx_cli_print_styled(&doctor->cli->out, SBX_CLI_BOLD, "%s\n", area);
        return r < 0 ? r : sbx_cli_table_show(table, &doctor->cli->out, 2);
}

static int show_people(const struct doctor *doctor) {
        const struct sbx_cli_stream *out = &doctor->cli->out;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < json_array_size(doctor->checks.list);)
                r = show_area(doctor, &i);
        if (r < 0)
                return r;
        if (doctor->checks.failed == 0)
                return sbx_cli_print_styled(out, SBX_CLI_GREEN, "\nEverything needed is there.\n");
        return sbx_cli_print_styled(out, SBX_CLI_RED, "\n%d %s; what to do stands behind the arrows.\n",
                                    doctor->checks.failed, doctor->checks.failed == 1 ? "problem" : "problems");
}

static int show_json(const struct doctor *doctor) {
        _cleanup_json_ json_t *document = json_pack("{s:b, s:s, s:O}", "ok", doctor->checks.failed == 0, "version",
                                                    SBX_VERSION, "checks", doctor->checks.list);

        return document == NULL ? -ENOMEM : sbx_cli_print_json(&doctor->cli->out, document, true);
}

/* ---- the command --------------------------------------------------------------------------------------- */

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        __attribute__((cleanup(doctor_free))) struct doctor doctor = {.cli = cli, .signals = {.fd = -1}};
        struct doctor_options options = {0};
        int result, r;

        if (!sbx_cli_parse(cli, command, argc, argv, &options, &arguments, &result))
                return result;
        result = sbx_cli_no_arguments(cli, command, &arguments);
        if (result != 0)
                return result;
        doctor.checks.list = json_array();
        r = sbx_cli_signals_open(&doctor.signals, true);
        if (r < 0 || doctor.checks.list == NULL)
                return sbx_cli_out_of_memory(cli);
        if (check_configuration(&doctor)) {
                check_plugins(&doctor);
                check_sessions(&doctor);
        }
        sbx_cli_check_host(&doctor.checks);
        if (sbx_cli_signals_take(&doctor.signals) != 0)
                return SBX_CLI_INTERRUPTED;
        if (doctor.checks.problem < 0)
                return sbx_cli_out_of_memory(cli);
        r = options.json ? show_json(&doctor) : show_people(&doctor);
        return r < 0 || doctor.checks.failed > 0 ? SBX_CLI_FAILED : SBX_CLI_OK;
}

static const struct sbx_cli_option doctor_command_options[] = {
        {"json", 0, SBX_CLI_FLAG, offsetof(struct doctor_options, json), NULL, "print JSON", NULL},
        {0},
};

static const struct sbx_cli_example examples[] = {
        {"doctor", "does everything work here, and what to type where it does not"},
        {"doctor --json", "the same for a script: {\"ok\", \"checks\": [...]}"},
        {0},
};

const struct sbx_cli_command sbx_cli_doctor = {
        .name = "doctor",
        .arguments = "",
        .summary = "Check that the sandbox works here",
        .description =
                "Reads the configuration, loads each plugin and lets each configured one try what it needs.\n"
                "✓ works, ✗ does not (what to do stands below it), ○ worth knowing.\n"
                "Exit code 1 when there is a ✗.",
        .options = doctor_command_options,
        .examples = examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run,
};
