/* SPDX-License-Identifier: Apache-2.0 */
/* The repl's % commands. */
#include "cli/repl.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/result.h"

#define REPR_SHOWN 100     /* bytes of a value in %vars */
#define CALL_TIME_MS 10000 /* for what should take a moment, if the session's code keeps the interpreter busy */

struct meta {
        const char *name, *argument, *help;
        void (*run)(struct sbx_cli_repl *repl, const char *argument);
};

static struct sbx_call call_of(const struct sbx_cli_repl *repl) {
        return (struct sbx_call){
                .struct_size = sizeof(struct sbx_call),
                .cancel_fd = repl->signals.fd,
                .deadline_ns = sbx_clock_deadline_ms(CALL_TIME_MS),
        };
}

static void show_variable(struct sbx_cli_table *table, const char *name, const json_t *variable) {
        const char *type = "", *repr = "";
        struct sbx_bytes text;
        size_t shown;

        (void)sbx_json_get_string(variable, name, "type", 0, &type, NULL);
        (void)sbx_json_get_string(variable, name, "repr", 0, &repr, NULL);
        text = (struct sbx_bytes){repr, strlen(repr)};
        shown = text.size > REPR_SHOWN ? sbx_utf8_cut(text, REPR_SHOWN) : text.size;
        sbx_cli_table_cell(table, SBX_CLI_BOLD, name);
        sbx_cli_table_cell(table, SBX_CLI_DIM, type);
        sbx_cli_table_cellf(table, SBX_CLI_PLAIN, "%.*s%s", (int)shown, repr, shown < text.size ? " ..." : "");
}

static void show_variables(struct sbx_cli_repl *repl, const char *argument) {
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(3);
        _cleanup_json_ json_t *variables = NULL;
        struct sbx_call call = call_of(repl);
        struct sbx_error err = {0};
        const char *name;
        json_t *variable;
        int r = sbx_sessions_get(repl->runtime->sessions, "", repl->session, &call, &variables, &err);

        if (r < 0) {
                (void)sbx_cli_fail(repl->cli, r, &err);
                return;
        }
        if (json_object_size(variables) == 0) {
                (void)sbx_cli_print(&repl->cli->out, "no variables yet\n");
                return;
        }
        json_object_foreach(variables, name, variable) show_variable(table, name, variable);
        (void)sbx_cli_table_show(table, &repl->cli->out, 0);
}

static void clear_variables(struct sbx_cli_repl *repl, const char *argument) {
        struct sbx_call call = call_of(repl);
        struct sbx_error err = {0};
        int r = sbx_sessions_clear(repl->runtime->sessions, "", repl->session, &call, &err);

        if (r < 0)
                (void)sbx_cli_fail(repl->cli, r, &err);
        else
                (void)sbx_cli_print(&repl->cli->out, "the variables of session %s are gone\n", repl->session);
}

static bool is_session_name(const char *name) {
        size_t size = strlen(name);

        return size > 0 && size <= SBX_SESSION_ID_MAX &&
               strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:@-") == size;
}

static void change_session(struct sbx_cli_repl *repl, const char *argument) {
        if (argument[0] == '\0')
                (void)sbx_cli_print(&repl->cli->out, "session %s\n", repl->session);
        else if (!is_session_name(argument))
                sbx_cli_error(repl->cli, "a name has letters, digits and _ . : @ -, at most 128 of them",
                              "no session can have the name '%s'", argument);
        else if (sbx_cli_repl_session(repl, argument) < 0)
                (void)sbx_cli_out_of_memory(repl->cli);
}

static void show_report(struct sbx_cli_repl *repl, const char *argument) {
        struct sbx_call call = call_of(repl);
        struct sbx_bytes report = {0};
        struct sbx_error err = {0};
        int r = sbx_runtime_report(repl->runtime, repl->session, &call, &report, &err);

        if (r < 0) {
                (void)sbx_cli_fail(repl->cli, r, &err);
                return;
        }
        (void)sbx_cli_report_show(repl->cli, &repl->cli->out, report);
        sbx_bytes_free(&report);
}

static void show_help(struct sbx_cli_repl *repl, const char *argument);

static const struct meta metas[] = {
        {"%vars", "", "the session's variables", show_variables},
        {"%clear", "", "remove them all", clear_variables},
        {"%session", " NAME", "go on in another session; without a name: which one this is", change_session},
        {"%report", "", "what isolation was applied to the session", show_report},
        {"%help", "", "this list", show_help},
        {0},
};

static void show_help(struct sbx_cli_repl *repl, const char *argument) {
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(2);

        for (const struct meta *meta = metas; meta->name != NULL; meta++) {
                sbx_cli_table_cellf(table, SBX_CLI_BOLD, "%s%s", meta->name, meta->argument);
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, meta->help);
        }
        sbx_cli_table_cell(table, SBX_CLI_BOLD, "Ctrl-C");
        sbx_cli_table_cell(table, SBX_CLI_PLAIN, "interrupt the code; variables stay");
        sbx_cli_table_cell(table, SBX_CLI_BOLD, "Ctrl-D");
        sbx_cli_table_cell(table, SBX_CLI_PLAIN, "leave; so do exit and quit");
        (void)sbx_cli_table_show(table, &repl->cli->out, 0);
}

/* Cuts `line` into the command's word and the rest, without blanks around. */
static char *split(char *line) {
        size_t size = strlen(line);
        char *rest;

        while (size > 0 && strchr(" \t\r\n", line[size - 1]) != NULL)
                line[--size] = '\0';
        rest = line + strcspn(line, " \t");
        if (*rest != '\0')
                *rest++ = '\0';
        return rest + strspn(rest, " \t");
}

void sbx_cli_repl_meta(struct sbx_cli_repl *repl, char *line) {
        const char *argument = split(line);
        struct sbx_nearest nearest = SBX_NEAREST(line);
        char hint[64];

        for (const struct meta *meta = metas; meta->name != NULL; meta++)
                if (strcmp(line, meta->name) == 0) {
                        meta->run(repl, argument);
                        return;
                }
        for (const struct meta *meta = metas; meta->name != NULL; meta++)
                sbx_nearest_offer(&nearest, meta->name);
        snprintf(hint, sizeof(hint),
                 nearest.best != NULL ? "did you mean %s? %%help lists them all" : "%%help lists them all%s",
                 nearest.best != NULL ? nearest.best : "");
        sbx_cli_error(repl->cli, hint, "there is no command %s", line);
}
