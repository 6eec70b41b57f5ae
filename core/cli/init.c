/* SPDX-License-Identifier: Apache-2.0 */
/* `init`: a commented configuration for a project, and the entry for MCP clients. */
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/mcp_client.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/project.h"

#define CONFIG_FILE "snipara-sandbox.cfg"
#define ENV_FILE ".env.example"

struct init_options {
        bool force, mcp, no_snipara;
        const char *client, *url, *token_variable;
};

static const char config_text[] =
        "# Configuration of snipara-sandbox for this project (libconfig syntax).\n"
        "#\n"
        "# What is commented out shows the default. `snipara-sandbox config show` lists every setting with its value\n"
        "# and where it comes from; environment variables (SNIPARA_SANDBOX_MODEL, ...) win over this file, --set\n"
        "# wins over both. Keep secrets out of it: they belong into .env or the environment.\n"
        "\n"
        "# Where code runs: the name of a backend among the plugins below.\n"
        "environment = \"local\";\n"
        "\n"
        "# ---- sessions and limits -------------------------------------------------------------------------\n"
        "# session_ttl = \"30m\";          # a session that nobody uses ends\n"
        "# max_sessions = 64;\n"
        "# max_output_bytes = \"1m\";      # of standard output and of standard error, for each execution\n"
        "# max_display_bytes = \"16m\";    # of figures and other rich output\n"
        "# interrupt_grace = \"2s\";       # from the interrupt at a time-out to the kill\n"
        "\n"
        "# ---- models, for agents ----------------------------------------------------------------------------\n"
        "# model = \"openai/gpt-4o-mini\";\n"
        "# temperature = 0.0;\n"
        "# max_depth = 4;\n"
        "# max_subcalls = 12;\n"
        "# token_budget = 8000;\n"
        "# tool_budget = 20;\n"
        "# timeout_seconds = 300;\n"
        "\n"
        "# ---- logging ---------------------------------------------------------------------------------------\n"
        "# verbose = false;\n"
        "# log_level = \"warning\";\n"
        "# log_dir = \"./logs\";\n";

static const char snipara_text[] =
        "\n"
        "# ---- Snipara: project context and memory (optional) --------------------------------------------------\n"
        "# Get an API key at https://snipara.com/dashboard and put it into .env as SNIPARA_API_KEY.\n"
        "# snipara_project_slug = \"your-project\";\n"
        "# memory_enabled = false;\n";

static const char plugins_text[] =
        "\n"
        "# ---- plugins -----------------------------------------------------------------------------------------\n"
        "# `snipara-sandbox plugins list` tells which are installed, `plugins info NAME` their options. The two below\n"
        "# are there without being named; an entry of the same name changes their options.\n"
        "#\n"
        "# plugins = (\n"
        "#   { name = \"local\"; plugin = \"backend-local\"; pool = 2; },\n"
        "#   { name = \"mcp\"; plugin = \"transport-mcp\"; }\n"
        "# );\n";

static const char env_text[] =
        "# Environment variables of snipara-sandbox: copy to .env, fill in, and keep .env out of version control.\n"
        "\n"
        "# Keys for models; set the ones you need\n"
        "OPENAI_API_KEY=\n"
        "ANTHROPIC_API_KEY=\n";

static const char env_snipara_text[] = "\n"
                                       "# Snipara (optional)\n"
                                       "SNIPARA_API_KEY=\n"
                                       "SNIPARA_PROJECT_SLUG=\n";

struct init {
        struct sbx_cli *cli;
        const struct init_options *options;
        const struct sbx_cli_mcp_client *client; /* NULL: none is asked for */
        const char *directory;
        int dir_fd;
};

static void tell(const struct init *init, enum sbx_cli_style style, const char *what, const char *name) {
        const char *directory = init->directory;

        (void)sbx_cli_print_styled(&init->cli->out, style, "%s", what);
        if (strcmp(directory, ".") == 0 || name[0] == '/')
                (void)sbx_cli_print(&init->cli->out, " %s\n", name);
        else
                (void)sbx_cli_print(&init->cli->out, " %s%s%s\n", directory,
                                    directory[strlen(directory) - 1] == '/' ? "" : "/", name);
}

/* 1: written; 0: kept what is there. */
static int write_file(const struct init *init, const char *name, bool replace, const char *const *parts,
                      struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer content = SBX_BUFFER(65536);
        int r = sbx_cli_project_look(init->dir_fd, name, NULL, err);

        if (r < 0 || (r > 0 && !replace))
                return r < 0 ? r : 0;
        for (; *parts != NULL; parts++)
                if (sbx_buffer_append_text(&content, *parts) < 0)
                        return SBX_NOMEM(err, "cli");
        r = sbx_cli_project_write(init->dir_fd, name, sbx_buffer_bytes(&content), 0644, replace, err);
        if (r < 0)
                return r;
        tell(init, SBX_CLI_GREEN, "wrote", name);
        return 1;
}

/* 0; -EEXIST: there is a configuration, and nothing else to do. */
static int write_config(const struct init *init, struct sbx_error *err) {
        const char *parts[] = {config_text, init->options->no_snipara ? "" : snipara_text, plugins_text, NULL};
        int r = write_file(init, CONFIG_FILE, init->options->force, parts, err);

        if (r != 0)
                return r < 0 ? r : 0;
        if (init->client == NULL)
                return sbx_error_set(err, -EEXIST, "cli", "--force replaces it", "%s/%s is there already",
                                     init->directory, CONFIG_FILE);
        tell(init, SBX_CLI_YELLOW, "kept", CONFIG_FILE);
        return 0;
}

static int write_env(const struct init *init, struct sbx_error *err) {
        const char *parts[] = {env_text, init->options->no_snipara ? NULL : env_snipara_text, NULL};
        int r = write_file(init, ENV_FILE, false, parts, err);

        return r < 0 ? r : 0;
}

static struct sbx_cli_mcp_entry entry_of(const struct init_options *options) {
        return (struct sbx_cli_mcp_entry){
                .url = options->url, .token_variable = options->token_variable, .force = options->force};
}

static int write_client(const struct init *init, struct sbx_error *err) {
        const struct sbx_cli_mcp_entry entry = entry_of(init->options);
        _cleanup_free_ char *path = NULL;
        int r;

        if (init->client == NULL)
                return 0;
        r = sbx_cli_mcp_client_add(init->client, init->dir_fd, &entry, &path, err);
        if (r >= 0)
                tell(init, r > 0 ? SBX_CLI_GREEN : SBX_CLI_YELLOW, r > 0 ? "wrote" : "kept (the entry is there)", path);
        return r < 0 ? r : 0;
}

/* The Python program of this name kept its settings in TOML; they are not taken over behind the user's back. */
static void tell_legacy(const struct init *init) {
        static const char *const names[] = {"snipara-sandbox.toml", "rlm.toml"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (faccessat(init->dir_fd, names[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                        sbx_cli_warning(init->cli, "copy its settings into " CONFIG_FILE "; the names are the same",
                                        "%s is not read by this version", names[i]);
}

static void tell_next(const struct init *init) {
        const struct sbx_cli_stream *out = &init->cli->out;

        (void)sbx_cli_print_styled(out, SBX_CLI_BOLD, "\nNext\n");
        (void)sbx_cli_print(out,
                            "  %s doctor                   can this machine make the jail?\n"
                            "  %s exec -c 'print(1 + 1)'   run something\n",
                            init->cli->program, init->cli->program);
        if (init->client != NULL)
                (void)sbx_cli_print(out, "  %s\n", init->client->next);
        else
                (void)sbx_cli_print(out,
                                    "  %s init --client NAME       let an MCP client find it (claude-code, cursor, "
                                    "vscode, claude-desktop)\n",
                                    init->cli->program);
        if (!init->options->no_snipara)
                (void)sbx_cli_print(out, "  For Snipara: set SNIPARA_API_KEY and SNIPARA_PROJECT_SLUG in .env "
                                         "(https://snipara.com/dashboard).\n");
}

/* Which client, from --client or --mcp. 0 or an exit code, told. */
static int choose_client(struct init *init) {
        const struct init_options *options = init->options;
        struct sbx_cli_mcp_entry entry;
        struct sbx_error err = {0};

        if (options->client == NULL && !options->mcp && (options->url != NULL || options->token_variable != NULL)) {
                sbx_cli_error(init->cli, "name the client: --client claude-code, cursor or vscode",
                              "--url and --token-variable are for the configuration file of a client");
                return SBX_CLI_USAGE;
        }
        if (options->client == NULL && !options->mcp)
                return 0;
        entry = entry_of(options);
        if (sbx_cli_mcp_client_find(options->client != NULL ? options->client : "claude-code", &init->client, &err) ==
                    0 &&
            sbx_cli_mcp_entry_check(init->client, &entry, &err) == 0)
                return 0;
        sbx_cli_error_show(init->cli, &err);
        return SBX_CLI_USAGE;
}

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        struct init_options options = {0};
        struct init init = {.cli = cli, .options = &options, .directory = "."};
        _cleanup_close_ int dir_fd = -1;
        struct sbx_error err = {0};
        int result, r;

        if (!sbx_cli_parse(cli, command, argc, argv, &options, &arguments, &result))
                return result;
        if (arguments.count > 1) {
                sbx_cli_error(cli, NULL, "init takes one directory, not also %s", arguments.items[1].text);
                return SBX_CLI_USAGE;
        }
        result = choose_client(&init);
        if (result != 0)
                return result;
        if (arguments.count == 1)
                init.directory = arguments.items[0].text;
        init.dir_fd = dir_fd = open(init.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir_fd < 0) {
                sbx_cli_error(cli, "give a directory that exists", "can't open the directory %s: %s", init.directory,
                              SBX_ERRNO_TEXT(-errno));
                return SBX_CLI_USAGE;
        }
        /* What concerns the user, not a project, leaves no files of a project behind. */
        r = init.client != NULL && init.client->of_user ? 0 : write_config(&init, &err);
        if (r >= 0 && (init.client == NULL || !init.client->of_user))
                r = write_env(&init, &err);
        if (r >= 0)
                r = write_client(&init, &err);
        if (r < 0) {
                sbx_cli_error_show(cli, &err);
                return SBX_CLI_FAILED;
        }
        tell_legacy(&init);
        tell_next(&init);
        return SBX_CLI_OK;
}

static const struct sbx_cli_option init_command_options[] = {
        {"force", 'f', SBX_CLI_FLAG, offsetof(struct init_options, force), NULL,
         "replace an existing configuration, and this program's entry in the client's", NULL},
        {"client", 'c', SBX_CLI_TEXT, offsetof(struct init_options, client), "NAME",
         "also add this program to the configuration file of an MCP client; other entries stay",
         "claude-code|claude-desktop|cursor|vscode"},
        {"mcp", 0, SBX_CLI_FLAG, offsetof(struct init_options, mcp), NULL,
         "the same as --client claude-code: .mcp.json, which other clients read too", NULL},
        {"url", 0, SBX_CLI_TEXT, offsetof(struct init_options, url), "URL",
         "the client connects to a server that runs (mcp-serve --http) instead of starting one", NULL},
        {"token-variable", 0, SBX_CLI_TEXT, offsetof(struct init_options, token_variable), "NAME",
         "the environment variable of the client that holds the server's token", NULL},
        {"no-snipara", 0, SBX_CLI_FLAG, offsetof(struct init_options, no_snipara), NULL,
         "leave out what concerns the Snipara service", NULL},
        {0},
};

static const struct sbx_cli_example examples[] = {
        {"init --client claude-code", "configuration here, and Claude Code finds the sandbox"},
        {"init --client vscode --url http://127.0.0.1:8000/mcp", "VS Code connects to a server that runs already"},
        {"init --force ~/project", "a fresh configuration in another directory"},
        {0},
};

const struct sbx_cli_command sbx_cli_init = {
        .name = "init",
        .arguments = "[DIRECTORY]",
        .summary = "Write a commented configuration for a project",
        .description =
                "Writes snipara-sandbox.cfg and .env.example, and with --client adds this program to that client's\n"
                "file: .mcp.json (claude-code), .cursor/mcp.json, .vscode/mcp.json, or, for claude-desktop alone and\n"
                "nothing else, ~/.config/Claude/claude_desktop_config.json. What was there is kept beside it, with\n"
                ".bak at its end. Symbolic links are refused. Exit code 1 when there is a configuration already.",
        .options = init_command_options,
        .examples = examples,
        .run = run,
};
