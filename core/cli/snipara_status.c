/* SPDX-License-Identifier: Apache-2.0 */
/* `snipara-status`: which credential Snipara's tools would use, for which project, and what is wrong with the others.
 * It asks nobody: `doctor` does. */
#include <jansson.h>
#include <pwd.h>
#include <time.h>
#include <unistd.h>

#include <snipara_tokens.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/runtime.h"

#define PLUGIN "context-snipara"
#define MASK "********"
#define SOON_S 3600

struct status_options {
        bool json;
};

/* Borrowed pointers live as long as `parts` and `tokens`. */
struct status {
        struct sbx_cli *cli;
        struct sbx_cli_parts parts;
        char *path; /* of the tokens' file; NULL: no home directory */
        struct snipara_tokens tokens;
        struct sbx_error file_problem, plugin_problem;
        int64_t now_s;
        const struct snipara_token *token; /* in force; NULL: none */
        const struct sbx_value *key, *slug;
        const char *base;
        const char *project; /* that the tools would ask for; NULL: none is known */
        bool logged_in, memory;
};

static void status_free(struct status *status) {
        snipara_tokens_clear(&status->tokens);
        free(status->path);
        sbx_cli_parts_free(&status->parts);
}

static bool has_text(const struct sbx_value *value) {
        return value != NULL && value->set && value->string != NULL && value->string[0] != '\0';
}

/* ---- finding out ----------------------------------------------------------------------------------------- */

static int find_path(struct status *status) {
        const char *home = sbx_config_environment(status->parts.config, "HOME");
        char buffer[4096];
        struct passwd entry, *found = NULL;

        if ((home == NULL || home[0] != '/') && getpwuid_r(geteuid(), &entry, buffer, sizeof(buffer), &found) == 0 &&
            found != NULL)
                home = found->pw_dir;
        if (home == NULL || home[0] != '/')
                return 0;
        if (asprintf(&status->path, "%s/%s", home, SNIPARA_TOKENS_PATH) < 0) {
                status->path = NULL;
                return -ENOMEM;
        }
        return 0;
}

/* The address that the plugin was told, and whether it can be used at all. */
static void look_at_plugin(struct status *status) {
        const struct sbx_config *config = status->parts.config;

        status->base = sbx_config_string(config, "snipara_base_url");
        for (size_t i = 0; i < sbx_config_plugin_count(config); i++) {
                const struct sbx_plugin_entry *entry = sbx_config_plugin(config, i);
                const struct sbx_instance *instance = NULL;
                const struct sbx_value *base;

                if (!entry->enabled || strcmp(entry->plugin, PLUGIN) != 0)
                        continue;
                if (sbx_registry_open(status->parts.registry, entry->name, &instance, &status->plugin_problem) < 0)
                        return;
                base = sbx_settings_get(instance->settings, "base_url");
                if (has_text(base))
                        status->base = base->string;
                return;
        }
        sbx_error_set(&status->plugin_problem, -ENOENT, "cli", "Enable an entry of it among the plugins.",
                      "no enabled plugin entry is of " PLUGIN);
}

static void choose(struct status *status) {
        const struct sbx_settings *core = sbx_config_core(status->parts.config);
        const struct snipara_token *token;
        const char *wanted;

        status->key = sbx_settings_get(core, "snipara_api_key");
        status->slug = sbx_settings_get(core, "snipara_project_slug");
        wanted = has_text(status->slug) ? status->slug->string : NULL;
        token = snipara_tokens_choose(&status->tokens, wanted, status->now_s);
        if (token != NULL && snipara_token_valid(token, status->now_s))
                status->token = token;
        status->project = status->token != NULL ? status->token->slug : wanted;
        token = snipara_tokens_choose(&status->tokens, NULL, status->now_s);
        status->logged_in = token != NULL && snipara_token_valid(token, status->now_s);
        status->memory = sbx_config_bool(status->parts.config, "memory_enabled") || status->logged_in;
}

static int find_out(struct status *status, struct sbx_error *err) {
        struct snipara_stamp stamp;
        int r = sbx_cli_parts_open(status->cli, &status->parts, err);

        if (r == 0)
                r = find_path(status);
        if (r < 0)
                return r;
        status->now_s = (int64_t)time(NULL);
        if (status->path != NULL)
                (void)snipara_tokens_load(status->path, &status->tokens, &stamp, &status->file_problem);
        if (status->file_problem.code == -ENOENT)
                status->file_problem = (struct sbx_error){0};
        choose(status);
        look_at_plugin(status);
        return 0;
}

/* "oauth", "api_key", or NULL: the words of snipara-sandbox 2.2.7. */
static const char *method(const struct status *status) {
        return status->token != NULL ? "oauth" : has_text(status->key) ? "api_key" : NULL;
}

/* What keeps a credential from being used; NULL: nothing. */
static const char *problem(const struct status *status) {
        if (method(status) == NULL)
                return NULL;
        if (!snipara_secret_valid(status->token != NULL ? status->token->access : status->key->string))
                return "the credential holds blanks or other characters that no key has";
        if (status->project == NULL)
                return "no project is named: set SNIPARA_PROJECT_SLUG or snipara_project_slug";
        if (!snipara_slug_valid(status->project))
                return "the project's slug can't be part of an address: letters, digits, '.', '_' and '-' can";
        return status->plugin_problem.code != 0 ? status->plugin_problem.message : NULL;
}

/* "valid", "expired", "no_expiry", "unknown". */
static const char *token_state(const struct status *status, const struct snipara_token *token) {
        if (token->expiry_unknown)
                return "unknown";
        if (!token->expires)
                return "no_expiry";
        return snipara_token_valid(token, status->now_s) ? "valid" : "expired";
}

/* Empty if there is none. */
static void expiry_text(const struct snipara_token *token, char *text, size_t size) {
        time_t seconds = (time_t)token->expires_s;
        struct tm utc;

        if (!token->expires || gmtime_r(&seconds, &utc) == NULL ||
            strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
                text[0] = '\0';
}

/* ---- for people ------------------------------------------------------------------------------------------ */

static void add_token(struct sbx_cli_table *table, const struct status *status, const struct snipara_token *token) {
        const char *state = token_state(status, token);
        char expires[32];

        expiry_text(token, expires, sizeof(expires));
        sbx_cli_table_cell(table, SBX_CLI_CYAN, token->slug);
        if (strcmp(state, "expired") == 0)
                sbx_cli_table_cell(table, SBX_CLI_RED, "expired");
        else if (strcmp(state, "valid") == 0 && token->expires_s - status->now_s < SOON_S)
                sbx_cli_table_cell(table, SBX_CLI_YELLOW, "expires soon");
        else if (strcmp(state, "valid") == 0)
                sbx_cli_table_cell(table, SBX_CLI_GREEN, "valid");
        else
                sbx_cli_table_cell(table, SBX_CLI_DIM,
                                   strcmp(state, "unknown") == 0 ? "expiry can't be read" : "never expires");
        sbx_cli_table_cell(table, SBX_CLI_DIM, expires);
}

static int show_tokens(const struct status *status) {
        const struct sbx_cli_stream *out = &status->cli->out;
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(3);
        int r = sbx_cli_print_styled(out, SBX_CLI_BOLD, "\nOAuth tokens");

        if (r >= 0)
                r = sbx_cli_print(out, " (%s)\n", status->path != NULL ? status->path : "there is no home directory");
        if (r >= 0 && status->file_problem.code != 0)
                r = sbx_cli_print(out, "  %s\n  → %s\n", status->file_problem.message, status->file_problem.hint);
        else if (r >= 0 && status->tokens.count == 0)
                r = sbx_cli_print(out, "  none\n");
        for (size_t i = 0; i < status->tokens.count; i++)
                add_token(table, status, &status->tokens.items[i]);
        return r < 0 ? r : sbx_cli_table_show(table, out, 2);
}

static void add_setting(struct sbx_cli_table *table, const char *name, const struct sbx_value *value, bool secret) {
        sbx_cli_table_cell(table, SBX_CLI_PLAIN, name);
        if (!has_text(value)) {
                sbx_cli_table_cell(table, SBX_CLI_DIM, "not set");
                sbx_cli_table_cell(table, SBX_CLI_DIM, "");
                return;
        }
        sbx_cli_table_cell(table, SBX_CLI_GREEN, secret ? MASK : value->string);
        sbx_cli_table_cell(table, SBX_CLI_DIM, value->origin);
}

static int show_settings(const struct status *status) {
        const struct sbx_cli_stream *out = &status->cli->out;
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(3);
        int r = sbx_cli_print_styled(out, SBX_CLI_BOLD, "\nSettings\n");

        add_setting(table, "snipara_api_key", status->key, true);
        add_setting(table, "snipara_project_slug", status->slug, false);
        return r < 0 ? r : sbx_cli_table_show(table, out, 2);
}

static int show_in_force(const struct status *status) {
        const struct sbx_cli_stream *out = &status->cli->out;
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(2);
        bool automatic = status->memory && !sbx_config_bool(status->parts.config, "memory_enabled");
        int r = sbx_cli_print_styled(out, SBX_CLI_BOLD, "\nIn force\n");

        sbx_cli_table_cell(table, SBX_CLI_PLAIN, "method");
        sbx_cli_table_cell(table, SBX_CLI_CYAN, method(status) != NULL ? method(status) : "none");
        sbx_cli_table_cell(table, SBX_CLI_PLAIN, "project");
        sbx_cli_table_cellf(table, SBX_CLI_CYAN, "%s%s", status->project != NULL ? status->project : "none",
                            status->project != NULL && !has_text(status->slug) ? " (of the first valid token)" : "");
        sbx_cli_table_cell(table, SBX_CLI_PLAIN, "address");
        sbx_cli_table_cell(table, SBX_CLI_PLAIN, status->base);
        sbx_cli_table_cell(table, SBX_CLI_PLAIN, "memory tools");
        sbx_cli_table_cell(table, SBX_CLI_PLAIN,
                           automatic        ? "yes, because you are logged in"
                           : status->memory ? "yes"
                                            : "no (memory_enabled, or log in)");
        return r < 0 ? r : sbx_cli_table_show(table, out, 2);
}

static int show_headline(const struct status *status) {
        const struct sbx_cli_stream *out = &status->cli->out;
        const char *wrong = problem(status);

        if (method(status) == NULL)
                return sbx_cli_print_styled(out, SBX_CLI_RED, "✗ Not authenticated with Snipara\n");
        if (wrong != NULL)
                return sbx_cli_print_styled(out, SBX_CLI_YELLOW, "○ There is %s, but it is not used: %s\n",
                                            status->token != NULL ? "an OAuth token" : "an API key", wrong);
        return sbx_cli_print_styled(out, SBX_CLI_GREEN, "✓ Authenticated with %s\n",
                                    status->token != NULL ? "OAuth" : "an API key");
}

static int show_advice(const struct status *status) {
        const struct sbx_cli_stream *out = &status->cli->out;
        const char *program = status->cli->program;

        if (method(status) == NULL)
                return sbx_cli_print(
                        out, "\nTo use Snipara's tools, one of:\n"
                             "  → pip install snipara-mcp && snipara-mcp-login\n"
                             "  → export SNIPARA_API_KEY=... SNIPARA_PROJECT_SLUG=...   (keys: "
                             "https://snipara.com/dashboard)\n"
                             "Without them everything else works, and context comes from the project's files.\n");
        if (!has_text(status->slug) && status->tokens.count > 1 &&
            sbx_cli_print(out, "\nThere are several tokens: set snipara_project_slug to choose one.\n") < 0)
                return -EPIPE;
        return sbx_cli_print(out, "\n'%s doctor' asks the service whether it accepts the credential.\n", program);
}

static int show_people(const struct status *status) {
        int r = show_headline(status);

        if (r >= 0)
                r = show_tokens(status);
        if (r >= 0)
                r = show_settings(status);
        if (r >= 0)
                r = show_in_force(status);
        return r < 0 ? r : show_advice(status);
}

/* ---- for scripts ----------------------------------------------------------------------------------------- */

/* Paths and messages with paths may hold anything. */
static json_t *text_json(const char *text) {
        return text != NULL ? sbx_json_text((struct sbx_bytes){text, strlen(text)}) : json_null();
}

static json_t *token_json(const struct status *status, const struct snipara_token *token) {
        int64_t left_s = token->expires_s - status->now_s;
        char expires[32];
        json_t *value;

        expiry_text(token, expires, sizeof(expires));
        value = json_pack("{s:s, s:s, s:b, s:s, s:s?}", "project_id", token->id, "project_slug", token->slug, "valid",
                          snipara_token_valid(token, status->now_s), "status", token_state(status, token), "expires_at",
                          expires[0] != '\0' ? expires : NULL);
        if (value != NULL && token->expires && left_s > 0 &&
            json_object_set_new(value, "expires_in_minutes", json_integer(left_s / 60)) < 0) {
                json_decref(value);
                return NULL;
        }
        return value;
}

/* The members that 2.2.7 knows (get_auth_status), and what else decides. */
static int show_json(const struct status *status) {
        _cleanup_json_ json_t *projects = json_array(), *document = NULL;

        for (size_t i = 0; i < status->tokens.count; i++)
                if (json_array_append_new(projects, token_json(status, &status->tokens.items[i])) < 0)
                        return -ENOMEM;
        document = json_pack(
                "{s:b, s:s?, s:o, s:b, s:O, s:b, s:o, s:o, s:o, s:o, s:o, s:b}", "authenticated",
                method(status) != NULL, "auth_method", method(status), "problem", text_json(problem(status)),
                "oauth_available", status->tokens.count > 0, "oauth_projects", projects, "api_key_available",
                has_text(status->key), "api_key_origin", text_json(has_text(status->key) ? status->key->origin : NULL),
                "token_file", text_json(status->path), "token_file_problem",
                text_json(status->file_problem.code != 0 ? status->file_problem.message : NULL), "project_slug",
                text_json(status->project), "base_url", text_json(status->base), "memory_enabled", status->memory);
        return document == NULL ? -ENOMEM : sbx_cli_print_json(&status->cli->out, document, true);
}

/* ---- the command ----------------------------------------------------------------------------------------- */

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        __attribute__((cleanup(status_free))) struct status status = {.cli = cli};
        struct status_options options = {0};
        struct sbx_error err = {0};
        int result, r;

        if (!sbx_cli_parse(cli, command, argc, argv, &options, &arguments, &result))
                return result;
        result = sbx_cli_no_arguments(cli, command, &arguments);
        if (result != 0)
                return result;
        r = find_out(&status, &err);
        if (r < 0)
                return r == -ENOMEM ? sbx_cli_out_of_memory(cli) : sbx_cli_fail(cli, r, &err);
        r = options.json ? show_json(&status) : show_people(&status);
        return r < 0 ? SBX_CLI_FAILED : SBX_CLI_OK;
}

static const struct sbx_cli_option status_command_options[] = {
        {"json", 0, SBX_CLI_FLAG, offsetof(struct status_options, json), NULL, "print JSON", NULL},
        {0},
};

static const struct sbx_cli_example examples[] = {
        {"snipara-status", "which credential and project Snipara's tools would use"},
        {"snipara-status --json", "the same for a script: {\"authenticated\", \"auth_method\", ...}"},
        {0},
};

const struct sbx_cli_command sbx_cli_snipara_status = {
        .name = "snipara-status",
        .arguments = "",
        .summary = "Show which credential of Snipara is in force",
        .description =
                "Looks at ~/.snipara/tokens.json, the environment and the configuration; asks no network. Secrets\n"
                "are masked.",
        .options = status_command_options,
        .examples = examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run,
};
