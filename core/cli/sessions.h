/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands `sessions ...` share: a runtime that is open, and how they begin and end. */
#pragma once

#include <jansson.h>

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "runtime/runtime.h"

struct sbx_cli_sessions_options {
        const char *principal, *label, *checkpoint, *idle;
        bool json, all, force;
};

struct sbx_cli_sessions {
        struct sbx_cli *cli;
        struct sbx_cli_sessions_options options;
        struct sbx_cli_arguments words;
        struct sbx_runtime *runtime;
        struct sbx_cli_signals signals;
        struct sbx_cli_progress progress;
        struct sbx_call call;
        struct sbx_error err;
};
#define SBX_CLI_SESSIONS(program)                                                                                      \
        {                                                                                                              \
                .cli = (program), .signals = {.fd = -1 }                                                               \
        }
void sbx_cli_sessions_close(struct sbx_cli_sessions *sessions);
#define _cleanup_sessions_ __attribute__((cleanup(sbx_cli_sessions_close)))

/* Reads the command line, which must have at least `least` and at most `most` words, and opens the runtime. False: the
 * command is over with `*ret_exit`. */
bool sbx_cli_sessions_begin(struct sbx_cli_sessions *sessions, const struct sbx_cli_command *command, int argc,
                            char **argv, size_t least, size_t most, int *ret_exit);
/* The exit code that `r` stands for; what is wrong, `sessions->err` or that nobody reads, is told. */
int sbx_cli_sessions_end(struct sbx_cli_sessions *sessions, int r);

/* The word at `index`; NULL: there are not so many. */
const char *sbx_cli_sessions_word(const struct sbx_cli_sessions *sessions, size_t index);
const char *sbx_cli_sessions_principal(const struct sbx_cli_sessions *sessions);
/* 0, or -EINVAL with what to do: the configuration keeps no sessions, or its store can't be had. */
int sbx_cli_sessions_need_store(struct sbx_cli_sessions *sessions);

const char *sbx_cli_sessions_text(const json_t *object, const char *member); /* "": there is no such text */
uint64_t sbx_cli_sessions_count(const json_t *object, const char *member);
/* A cell "2026-11-21 07:34:48" for "2026-11-21T07:34:48.123Z". */
void sbx_cli_sessions_add_time(struct sbx_cli_table *table, const char *timestamp);
/* "not saved: NAME  TYPE  REASON" and so on: a table of {"name", "type", "reason"}, behind `title`; nothing if there
 * are none. On standard error. */
int sbx_cli_sessions_show_left_out(const struct sbx_cli_sessions *sessions, const char *title, const json_t *list);

/* Options that several of the commands have; each table ends with the json option. */
#define SBX_CLI_SESSIONS_PRINCIPAL                                                                                     \
        {                                                                                                              \
                "principal", 0, SBX_CLI_TEXT, offsetof(struct sbx_cli_sessions_options, principal), "NAME",            \
                        "whose session: the name of a token of the HTTP server (default: the local user's)", NULL      \
        }
#define SBX_CLI_SESSIONS_JSON                                                                                          \
        { "json", 0, SBX_CLI_FLAG, offsetof(struct sbx_cli_sessions_options, json), NULL, "print JSON", NULL }

extern const struct sbx_cli_command sbx_cli_sessions_list, sbx_cli_sessions_show, sbx_cli_sessions_delete,
        sbx_cli_sessions_gc, sbx_cli_sessions_checkpoint, sbx_cli_sessions_rollback, sbx_cli_sessions_fork,
        sbx_cli_sessions_export, sbx_cli_sessions_import;
