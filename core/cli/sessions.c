/* SPDX-License-Identifier: Apache-2.0 */
/* How the commands `sessions ...` begin and end. */
#include "cli/sessions.h"

#include <stdlib.h>

#include "base/error.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/runtime.h"

void sbx_cli_sessions_close(struct sbx_cli_sessions *sessions) {
        sbx_cli_progress_clear(&sessions->progress);
        sbx_runtime_free(sessions->runtime); /* gives the sessions back */
        sbx_cli_arguments_free(&sessions->words);
        sbx_cli_signals_close(&sessions->signals);
        pthread_mutex_destroy(&sessions->progress.lock);
}

const char *sbx_cli_sessions_word(const struct sbx_cli_sessions *sessions, size_t index) {
        return index < sessions->words.count ? sessions->words.items[index].text : NULL;
}

const char *sbx_cli_sessions_principal(const struct sbx_cli_sessions *sessions) {
        return sessions->options.principal != NULL ? sessions->options.principal : "";
}

static int tell_words(const struct sbx_cli_sessions *sessions, const struct sbx_cli_command *command, size_t least) {
        char hint[SBX_ERROR_HINT_MAX];

        snprintf(hint, sizeof(hint), "usage: %s %s %s", sessions->cli->program, command->name, command->arguments);
        if (sessions->words.count < least)
                sbx_cli_error(sessions->cli, hint, "%s needs %s", command->name, command->arguments);
        else
                sbx_cli_error(sessions->cli, hint, "too many words: %s",
                              sessions->words.items[sessions->words.count - 1].text);
        return SBX_CLI_USAGE;
}

/* The sessions that it opens end with it, so nothing is made ready for others. */
static int open_runtime(struct sbx_cli_sessions *sessions) {
        int r = sbx_cli_signals_open(&sessions->signals, true);

        if (r < 0)
                return sbx_error_set(&sessions->err, r, "cli", NULL, "signals: %s", SBX_ERRNO_TEXT(r));
        sessions->call = (struct sbx_call){.struct_size = sizeof(sessions->call), .cancel_fd = sessions->signals.fd};
        sbx_cli_progress_of(&sessions->progress, &sessions->call);
        r = sbx_cli_one_shot(sessions->cli, NULL, &sessions->err);
        return r < 0 ? r : sbx_cli_runtime_open(sessions->cli, &sessions->runtime, &sessions->err);
}

bool sbx_cli_sessions_begin(struct sbx_cli_sessions *sessions, const struct sbx_cli_command *command, int argc,
                            char **argv, size_t least, size_t most, int *ret_exit) {
        int r;

        sbx_cli_progress_init(&sessions->progress, sessions->cli);
        if (!sbx_cli_parse(sessions->cli, command, argc, argv, &sessions->options, &sessions->words, ret_exit))
                return false;
        if (sessions->words.count < least || sessions->words.count > most) {
                *ret_exit = tell_words(sessions, command, least);
                return false;
        }
        r = open_runtime(sessions);
        if (r >= 0)
                r = sbx_cli_sessions_need_store(sessions);
        if (r < 0)
                *ret_exit = sbx_cli_sessions_end(sessions, r);
        return r >= 0;
}

int sbx_cli_sessions_need_store(struct sbx_cli_sessions *sessions) {
        const char *store = sbx_config_string(sessions->runtime->config, "store");
        const struct sbx_instance *instance;

        if (store == NULL || store[0] == '\0')
                return sbx_error_set(&sessions->err, -EINVAL, "cli",
                                     "set it to the name of a store's plugin entry: --set store=store",
                                     "no session is stored: the setting store is empty");
        return sbx_registry_get(sessions->runtime->registry, store, SBX_PLUGIN_STORE, &sessions->call, &instance,
                                &sessions->err);
}

int sbx_cli_sessions_end(struct sbx_cli_sessions *sessions, int r) {
        sbx_cli_progress_clear(&sessions->progress);
        if (r >= 0)
                return SBX_CLI_OK;
        if (sessions->err.code != 0)
                return sbx_cli_fail(sessions->cli, r, &sessions->err);
        if (r == -ENOMEM)
                return sbx_cli_out_of_memory(sessions->cli);
        return r == -EPIPE ? SBX_CLI_NO_READER : SBX_CLI_FAILED;
}

/* ---- what was told ---- */

const char *sbx_cli_sessions_text(const json_t *object, const char *member) {
        const char *text = json_string_value(json_object_get(object, member));

        return text != NULL ? text : "";
}

uint64_t sbx_cli_sessions_count(const json_t *object, const char *member) {
        json_int_t count = json_integer_value(json_object_get(object, member));

        return count > 0 ? (uint64_t)count : 0;
}

void sbx_cli_sessions_add_time(struct sbx_cli_table *table, const char *timestamp) {
        bool whole = strlen(timestamp) >= strlen("2026-11-21T07:34:48");

        sbx_cli_table_cellf(table, SBX_CLI_PLAIN, "%.10s%s%.8s", timestamp, whole ? " " : "",
                            whole ? timestamp + 11 : "");
}

int sbx_cli_sessions_show_left_out(const struct sbx_cli_sessions *sessions, const char *title, const json_t *list) {
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(3);
        const json_t *item;
        size_t index;
        int r;

        if (json_array_size(list) == 0)
                return 0;
        json_array_foreach ((json_t *)list, index, item) {
                sbx_cli_table_cell(table, SBX_CLI_BOLD, sbx_cli_sessions_text(item, "name"));
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, sbx_cli_sessions_text(item, "type"));
                sbx_cli_table_cell(table, SBX_CLI_DIM, sbx_cli_sessions_text(item, "reason"));
        }
        r = sbx_cli_print_styled(&sessions->cli->err, SBX_CLI_YELLOW, "%s:\n", title);
        return r < 0 ? r : sbx_cli_table_show(table, &sessions->cli->err, 2);
}
