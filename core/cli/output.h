/* SPDX-License-Identifier: Apache-2.0 */
/* What people read: errors with a hint, colour where there is a terminal, tables. Text goes through the terminal filter
 * (terminal.h) when a terminal shows it, because names, messages and values may come from a guest or a hostile file. */
#pragma once

#include <jansson.h>

#include "base/buffer.h"
#include "cli/cli.h"

enum sbx_cli_style {
        SBX_CLI_PLAIN,
        SBX_CLI_BOLD,
        SBX_CLI_DIM,
        SBX_CLI_RED,
        SBX_CLI_GREEN,
        SBX_CLI_YELLOW,
        SBX_CLI_CYAN
};

/* Finds out what the streams are. Colour: a terminal, TERM not "dumb", NO_COLOR unset or empty (no-color.org). */
void sbx_cli_output_init(struct sbx_cli *cli);

/* Writes all of it to the descriptor as it is. 0, or -errno (-EPIPE: nobody reads any more). */
int sbx_cli_write(const struct sbx_cli_stream *stream, struct sbx_bytes bytes);
/* Appends text as the stream would show it: filtered for a terminal, in a style if it has colour. */
int sbx_cli_append(const struct sbx_cli_stream *stream, enum sbx_cli_style style, struct sbx_bytes text,
                   struct sbx_buffer *out);
int sbx_cli_print(const struct sbx_cli_stream *stream, const char *format, ...) SBX_PRINTF(2, 3);
int sbx_cli_print_styled(const struct sbx_cli_stream *stream, enum sbx_cli_style style, const char *format, ...)
        SBX_PRINTF(3, 4);

/* "error: message" and "hint: hint" (NULL or "": none) on standard error. */
void sbx_cli_error(const struct sbx_cli *cli, const char *hint, const char *format, ...) SBX_PRINTF(3, 4);
void sbx_cli_warning(const struct sbx_cli *cli, const char *hint, const char *format, ...) SBX_PRINTF(3, 4);
void sbx_cli_error_show(const struct sbx_cli *cli, const struct sbx_error *err);
/* The same, and the exit code for a library error: usage and configuration, an interruption, or the sandbox. */
int sbx_cli_fail(const struct sbx_cli *cli, int code, const struct sbx_error *err);
int sbx_cli_out_of_memory(const struct sbx_cli *cli); /* tells it; SBX_CLI_SANDBOX */

/* Log receiver for struct sbx_runtime_options and struct sbx_logger; `data` is the struct sbx_cli. Any thread. */
void sbx_cli_log(void *data, int level, const char *message);

/* A table: cells are copied; columns are as wide as their widest cell, the last is not padded. */
struct sbx_cli_table;
struct sbx_cli_table *sbx_cli_table_new(size_t columns); /* NULL: out of memory, and so may every later `table` be */
void sbx_cli_table_free(struct sbx_cli_table *table);
/* The next cell, row by row. NULL text: empty. Out of memory is remembered and told by sbx_cli_table_show. */
void sbx_cli_table_cell(struct sbx_cli_table *table, enum sbx_cli_style style, const char *text);
void sbx_cli_table_cellf(struct sbx_cli_table *table, enum sbx_cli_style style, const char *format, ...)
        SBX_PRINTF(3, 4);
/* Prints it with `indent` spaces before each row. 0 or -errno. */
int sbx_cli_table_show(const struct sbx_cli_table *table, const struct sbx_cli_stream *stream, unsigned indent);
static inline void sbx_cleanup_table(struct sbx_cli_table **table) {
        sbx_cli_table_free(*table);
}
#define _cleanup_table_ __attribute__((cleanup(sbx_cleanup_table)))

/* Prints a JSON document and a newline; indented for people who look, or one line. 0 or -errno. */
int sbx_cli_print_json(const struct sbx_cli_stream *stream, const json_t *value, bool indented);

/* Words like "32 MB", "1.5 s" for people. Returns `text`. */
#define SBX_CLI_AMOUNT_SIZE 32
const char *sbx_cli_bytes_text(uint64_t bytes, char text[SBX_CLI_AMOUNT_SIZE]);
const char *sbx_cli_duration_text(uint64_t ns, char text[SBX_CLI_AMOUNT_SIZE]);
