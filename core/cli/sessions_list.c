/* SPDX-License-Identifier: Apache-2.0 */
/* `sessions list`, `sessions delete`, `sessions gc`: what the store has, and less of it. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/number.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/sessions.h"

/* ---- list ---- */

static void add_state(struct sbx_cli_table *table, const json_t *session) {
        const char *server = sbx_cli_sessions_text(session, "server"),
                   *damaged = sbx_cli_sessions_text(session, "damaged");

        if (damaged[0] != '\0')
                sbx_cli_table_cellf(table, SBX_CLI_RED, "damaged: %s", damaged);
        else if (server[0] != '\0')
                sbx_cli_table_cellf(table, SBX_CLI_YELLOW, "in use by %s", server);
        else
                sbx_cli_table_cell(table, SBX_CLI_GREEN, "stored");
}

static void add_session(struct sbx_cli_table *table, const json_t *session, bool principals) {
        char amount[SBX_CLI_AMOUNT_SIZE];

        sbx_cli_table_cell(table, SBX_CLI_BOLD, sbx_cli_sessions_text(session, "id"));
        if (principals)
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, sbx_cli_sessions_text(session, "principal"));
        sbx_cli_table_cell(table, SBX_CLI_PLAIN, sbx_cli_sessions_text(session, "environment"));
        sbx_cli_table_cell(table, SBX_CLI_PLAIN, sbx_cli_sessions_text(session, "runtime"));
        sbx_cli_table_cellf(table, SBX_CLI_PLAIN, "%llu",
                            (unsigned long long)sbx_cli_sessions_count(session, "checkpoints"));
        sbx_cli_table_cell(table, SBX_CLI_PLAIN, sbx_cli_bytes_text(sbx_cli_sessions_count(session, "bytes"), amount));
        sbx_cli_sessions_add_time(table, sbx_cli_sessions_text(session, "used_at"));
        add_state(table, session);
}

static int show_list(const struct sbx_cli_sessions *sessions, const json_t *list) {
        static const char *const titles[] = {"SESSION",     "PRINCIPAL", "ENVIRONMENT",     "LANGUAGE",
                                             "CHECKPOINTS", "SIZE",      "LAST USED (UTC)", "STATE"};
        bool principals = sessions->options.all;
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(principals ? 8 : 7);
        const json_t *session;
        size_t index;

        if (json_array_size(list) == 0)
                return sbx_cli_print(&sessions->cli->out, "no session is stored\n");
        for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
                if (i != 1 || principals)
                        sbx_cli_table_cell(table, SBX_CLI_BOLD, titles[i]);
        json_array_foreach ((json_t *)list, index, session)
                add_session(table, session, principals);
        return sbx_cli_table_show(table, &sessions->cli->out, 0);
}

static int run_list(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_sessions_ struct sbx_cli_sessions sessions = SBX_CLI_SESSIONS(cli);
        _cleanup_json_ json_t *list = NULL;
        int result, r;

        if (!sbx_cli_sessions_begin(&sessions, command, argc, argv, 0, 0, &result))
                return result;
        r = sbx_sessions_stored(sessions.runtime->sessions,
                                sessions.options.all ? NULL : sbx_cli_sessions_principal(&sessions), &sessions.call,
                                &list, &sessions.err);
        sbx_cli_progress_clear(&sessions.progress);
        if (r >= 0)
                r = sessions.options.json ? sbx_cli_print_json(&cli->out, list, true) : show_list(&sessions, list);
        return sbx_cli_sessions_end(&sessions, r);
}

/* ---- delete ---- */

/* One that is damaged may have any name: what its manifest says of that can't be read. */
static bool may_be_stored(const json_t *list, const char *id) {
        const json_t *session;
        size_t index;

        json_array_foreach ((json_t *)list, index, session) {
                if (strcmp(sbx_cli_sessions_text(session, "id"), id) == 0 ||
                    sbx_cli_sessions_text(session, "damaged")[0] != '\0')
                        return true;
        }
        return false;
}

/* All of them must be there before the first one goes: a mistyped name must not leave half of the work done. */
static int check_names(struct sbx_cli_sessions *sessions) {
        _cleanup_json_ json_t *list = NULL;
        int r = sbx_sessions_stored(sessions->runtime->sessions, sbx_cli_sessions_principal(sessions), &sessions->call,
                                    &list, &sessions->err);

        for (size_t i = 0; r >= 0 && i < sessions->words.count; i++)
                if (!may_be_stored(list, sessions->words.items[i].text))
                        r = sbx_error_set(&sessions->err, -ENOENT, "cli",
                                          "'snipara-sandbox sessions list' tells which are",
                                          "no session '%s' is stored", sessions->words.items[i].text);
        return r;
}

static int run_delete(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_sessions_ struct sbx_cli_sessions sessions = SBX_CLI_SESSIONS(cli);
        int result, r;

        if (!sbx_cli_sessions_begin(&sessions, command, argc, argv, 1, SIZE_MAX, &result))
                return result;
        r = check_names(&sessions);
        for (size_t i = 0; r >= 0 && i < sessions.words.count; i++) {
                const char *id = sessions.words.items[i].text;

                r = sbx_sessions_destroy(sessions.runtime->sessions, sbx_cli_sessions_principal(&sessions), id,
                                         &sessions.err);
                if (r >= 0)
                        r = sbx_cli_print(&cli->out, "deleted %s\n", id);
        }
        return sbx_cli_sessions_end(&sessions, r);
}

/* ---- gc ---- */

static int show_collected(const struct sbx_cli_sessions *sessions, const json_t *told) {
        const struct sbx_cli_stream *out = &sessions->cli->out;
        const json_t *removed = json_object_get(told, "removed"), *store = json_object_get(told, "store"), *name;
        uint64_t quota = sbx_cli_sessions_count(store, "quota_bytes");
        char freed[SBX_CLI_AMOUNT_SIZE], stored[SBX_CLI_AMOUNT_SIZE], most[SBX_CLI_AMOUNT_SIZE];
        size_t index;
        int r = 0;

        json_array_foreach ((json_t *)removed, index, name) {
                if (r >= 0)
                        r = sbx_cli_print(out, "removed %s\n", json_string_value(name));
        }
        json_array_foreach ((json_t *)json_object_get(store, "damaged"), index, name) {
                sbx_cli_warning(sessions->cli, NULL, "damaged: %s", json_string_value(name));
        }
        if (r >= 0 && store != NULL)
                r = sbx_cli_print(out, "freed %s; the store has %s on disk%s%s (%s)\n",
                                  sbx_cli_bytes_text(sbx_cli_sessions_count(store, "removed_bytes"), freed),
                                  sbx_cli_bytes_text(sbx_cli_sessions_count(store, "stored_bytes"), stored),
                                  quota > 0 ? " of at most " : "", quota > 0 ? sbx_cli_bytes_text(quota, most) : "",
                                  sbx_cli_sessions_text(store, "location"));
        return r;
}

/* --idle, else the setting. */
static int idle_time(struct sbx_cli_sessions *sessions, uint64_t *ret_ms) {
        int64_t ms = sbx_config_int(sessions->runtime->config, "session_retention");

        if (sessions->options.idle != NULL && (sbx_number_duration(sessions->options.idle, &ms) < 0 || ms <= 0))
                return sbx_error_set(&sessions->err, -EINVAL, "cli", "give a number with a unit: 12h, 90m, 3600s",
                                     "--idle %s is no duration above 0", sessions->options.idle);
        *ret_ms = ms > 0 ? (uint64_t)ms : 0;
        return 0;
}

static int run_gc(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_sessions_ struct sbx_cli_sessions sessions = SBX_CLI_SESSIONS(cli);
        _cleanup_json_ json_t *told = NULL;
        uint64_t idle_ms = 0;
        int result, r;

        if (!sbx_cli_sessions_begin(&sessions, command, argc, argv, 0, 0, &result))
                return result;
        r = idle_time(&sessions, &idle_ms);
        if (r >= 0)
                r = sbx_sessions_collect(sessions.runtime->sessions,
                                         sessions.options.all ? NULL : sbx_cli_sessions_principal(&sessions), idle_ms,
                                         &sessions.call, &told, &sessions.err);
        sbx_cli_progress_clear(&sessions.progress);
        if (r >= 0)
                r = sessions.options.json ? sbx_cli_print_json(&cli->out, told, true) : show_collected(&sessions, told);
        return sbx_cli_sessions_end(&sessions, r);
}

/* ---- the commands -------------------------------------------------------------------------------------- */

#define ALL                                                                                                            \
        {                                                                                                              \
                "all", 'a', SBX_CLI_FLAG, offsetof(struct sbx_cli_sessions_options, all), NULL,                        \
                        "those of every principal: tokens of the HTTP server, agent runs", NULL                        \
        }

static const struct sbx_cli_option list_command_options[] = {
        ALL, SBX_CLI_SESSIONS_PRINCIPAL, SBX_CLI_SESSIONS_JSON, {0}};
static const struct sbx_cli_option delete_command_options[] = {SBX_CLI_SESSIONS_PRINCIPAL, {0}};
static const struct sbx_cli_option gc_command_options[] = {
        {"idle", 0, SBX_CLI_TEXT, offsetof(struct sbx_cli_sessions_options, idle), "TIME",
         "remove sessions that nobody used for so long: 12h, 90m (default: the setting session_retention)", NULL},
        ALL,
        SBX_CLI_SESSIONS_PRINCIPAL,
        SBX_CLI_SESSIONS_JSON,
        {0}};

static const struct sbx_cli_example list_examples[] = {
        {"sessions list", "which sessions of this project are stored, and who has them"},
        {0},
};
static const struct sbx_cli_example delete_examples[] = {
        {"sessions delete analysis", "a session with all its checkpoints"},
        {0},
};
static const struct sbx_cli_example gc_examples[] = {
        {"sessions gc --idle 168h", "remove what nobody used for a week, and free what that held"},
        {0},
};

const struct sbx_cli_command sbx_cli_sessions_list = {
        .name = "sessions list",
        .arguments = "",
        .summary = "List the stored sessions",
        .description =
                "A named session is stored after each execution, and goes on where it was when it is used again:\n"
                "by 'exec --session NAME', or by a server. 'default' is never stored.",
        .options = list_command_options,
        .examples = list_examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run_list,
};

const struct sbx_cli_command sbx_cli_sessions_delete = {
        .name = "sessions delete",
        .arguments = "NAME...",
        .summary = "Delete stored sessions",
        .description = "With all their checkpoints. A session that a server has is not deleted.",
        .options = delete_command_options,
        .examples = delete_examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run_delete,
};

const struct sbx_cli_command sbx_cli_sessions_gc = {
        .name = "sessions gc",
        .arguments = "",
        .summary = "Remove sessions that nobody used for long, and free the store's space",
        .description = "Also looks at all that is stored, and names what is damaged. Safe while servers use the store.",
        .options = gc_command_options,
        .examples = gc_examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run_gc,
};
