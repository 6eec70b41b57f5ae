/* SPDX-License-Identifier: Apache-2.0 */
/* `logs`: recent runs. Of each file the first and the last line are read, and nothing between them, so that a directory
 * of any size is listed at once. */
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/logs.h"
#include "cli/output.h"

#define PROMPT_SHOWN 40u   /* bytes, in the table */
#define PROMPT_LISTED 500u /* in the JSON */

/* ---- one file ---- */

/* Whether a process is at work on it: sink-jsonl holds a lock. */
static bool is_locked(int fd) {
        if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
                (void)flock(fd, LOCK_UN);
                return false;
        }
        return errno == EWOULDBLOCK;
}

static const char *state_of(int fd, const json_t *first, const json_t *last) {
        if (json_object_get(first, "prev") == NULL)
                return "ended"; /* 2.2.7 writes its files when a run is over */
        if (sbx_logs_is(last, "event", "run_ended"))
                return "ended";
        return is_locked(fd) ? "running" : "stopped";
}

static json_t *number_or_null(double value, bool whole) {
        if (value < 0)
                return json_null();
        return whole ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *prompt_of(const json_t *first, const json_t *second) {
        const char *prompt = sbx_logs_text(first, "prompt");
        struct sbx_bytes text;

        if (prompt[0] == '\0')
                prompt = sbx_logs_text(second, "prompt");
        text = (struct sbx_bytes){prompt, strlen(prompt)};
        return json_stringn(prompt, sbx_utf8_cut(text, PROMPT_LISTED));
}

static json_t *text_or_null(const char *text) {
        return text[0] != '\0' ? json_string(text) : json_null();
}

/* The members of 2.2.7's `logs --json`, and more. */
static json_t *summary_of(const struct sbx_logs_directory *directory, const char *id, int fd, const json_t *first,
                          const json_t *second, const json_t *last) {
        bool chained = json_object_get(first, "prev") != NULL, ended = sbx_logs_is(last, "event", "run_ended");
        const json_t *totals = ended ? last : chained ? NULL : first;
        const char *state = state_of(fd, first, last), *kind = sbx_logs_text(first, "kind"), *error = "";
        double calls = sbx_logs_number(totals, "total_calls");
        _cleanup_free_ char *path = NULL;
        json_t *summary = NULL;

        if (asprintf(&path, "%s/%s.jsonl", directory->path, id) < 0) {
                path = NULL;
                return NULL;
        }
        if (calls < 0)
                calls = sbx_logs_number(totals, "event_count");
        if (ended || !chained)
                error = sbx_logs_text(last, "error");
        if (kind[0] == '\0' && sbx_logs_is(first, "event", "log_started"))
                kind = "events";
        summary = json_pack("{s:s, s:o, s:o, s:o, s:o, s:s}", "id", id, "timestamp",
                            text_or_null(sbx_logs_text(first, "timestamp")), "calls", number_or_null(calls, true),
                            "tokens", number_or_null(sbx_logs_number(totals, "total_tokens"), true), "duration_ms",
                            number_or_null(sbx_logs_number(totals, "total_duration_ms"), true), "path", path);
        if (summary == NULL ||
            json_object_update_new(
                    summary, json_pack("{s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o}", "kind", text_or_null(kind), "prompt",
                                       prompt_of(first, second), "model", text_or_null(sbx_logs_text(first, "model")),
                                       "tool_calls", number_or_null(sbx_logs_number(totals, "total_tool_calls"), true),
                                       "cost_usd", number_or_null(sbx_logs_number(totals, "total_cost_usd"), false),
                                       "state", state, "end", text_or_null(ended ? sbx_logs_text(last, "end") : ""),
                                       "error", text_or_null(error))) < 0) {
                json_decref(summary);
                return NULL;
        }
        return summary;
}

/* NULL and 0: the file is of something else, or gone by now. */
static int summarize(const struct sbx_logs_directory *directory, const char *id, json_t **ret_summary) {
        _cleanup_json_ json_t *first = NULL, *second = NULL, *last = NULL;
        struct sbx_error ignored = {0};
        _cleanup_close_ int fd = -1;

        if (sbx_logs_file_open(directory, id, &fd, &ignored) < 0 ||
            sbx_logs_ends_read(fd, &first, &second, &last, &ignored) < 0 || first == NULL ||
            json_object_get(first, "trajectory_id") == NULL)
                return 0;
        *ret_summary = summary_of(directory, id, fd, first, second, last);
        return *ret_summary != NULL ? 0 : -ENOMEM;
}

/* ---- the table ---- */

const char *sbx_logs_time_text(const char *timestamp, char text[SBX_LOGS_TIME_SIZE]) {
        struct tm parts = {0}, local;
        const char *rest = strptime(timestamp, "%Y-%m-%dT%H:%M:%S", &parts);
        int hours = 0, minutes = 0;
        char sign = '+';
        time_t at;

        snprintf(text, SBX_LOGS_TIME_SIZE, "%.19s", timestamp);
        if (rest == NULL)
                return text;
        if (*rest == '.')
                rest += 1 + strspn(rest + 1, "0123456789");
        if (*rest != 'Z' && sscanf(rest, "%c%2d:%2d", &sign, &hours, &minutes) != 3)
                return text;
        at = timegm(&parts) - (time_t)(sign == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
        if (localtime_r(&at, &local) != NULL)
                strftime(text, SBX_LOGS_TIME_SIZE, "%Y-%m-%d %H:%M:%S", &local);
        return text;
}

static void add_number(struct sbx_cli_table *table, const json_t *summary, const char *key) {
        double value = sbx_logs_number(summary, key);

        if (value < 0)
                sbx_cli_table_cell(table, SBX_CLI_DIM, "-");
        else
                sbx_cli_table_cellf(table, SBX_CLI_PLAIN, "%.0f", value);
}

static void add_cost(struct sbx_cli_table *table, const json_t *summary) {
        double cost = sbx_logs_number(summary, "cost_usd");

        if (cost < 0)
                sbx_cli_table_cell(table, SBX_CLI_DIM, "-");
        else
                sbx_cli_table_cellf(table, SBX_CLI_PLAIN, "$%.4f", cost);
}

static void add_duration(struct sbx_cli_table *table, const json_t *summary) {
        double ms = sbx_logs_number(summary, "duration_ms");
        char text[SBX_CLI_AMOUNT_SIZE];

        if (ms < 0)
                sbx_cli_table_cell(table, SBX_CLI_DIM, "-");
        else
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, sbx_cli_duration_text((uint64_t)(ms * 1e6), text));
}

static void add_outcome(struct sbx_cli_table *table, const json_t *summary) {
        const char *end = sbx_logs_text(summary, "end"), *state = sbx_logs_text(summary, "state");

        if (strcmp(state, "ended") != 0)
                sbx_cli_table_cell(table, SBX_CLI_YELLOW, state);
        else if (end[0] != '\0')
                sbx_cli_table_cell(table, strcmp(end, "ok") == 0 ? SBX_CLI_GREEN : SBX_CLI_RED, end);
        else if (json_is_string(json_object_get(summary, "error")))
                sbx_cli_table_cell(table, SBX_CLI_RED, "error");
        else
                sbx_cli_table_cell(table, SBX_CLI_DIM, "-");
}

static void add_prompt(struct sbx_cli_table *table, const json_t *summary) {
        const char *prompt = sbx_logs_text(summary, "prompt");
        size_t size = strlen(prompt), cut = sbx_utf8_cut((struct sbx_bytes){prompt, size}, PROMPT_SHOWN);

        sbx_cli_table_cellf(table, SBX_CLI_PLAIN, "%.*s%s", (int)cut, prompt, cut < size ? "..." : "");
}

static void add_row(struct sbx_cli_table *table, const struct sbx_logs_name *name, const json_t *summary) {
        const char *kind = sbx_logs_text(summary, "kind");
        char time[SBX_LOGS_TIME_SIZE];

        sbx_cli_table_cellf(table, SBX_CLI_CYAN, "%.*s", (int)name->unique, name->id);
        sbx_cli_table_cell(table, SBX_CLI_DIM, sbx_logs_time_text(sbx_logs_text(summary, "timestamp"), time));
        sbx_cli_table_cell(table, SBX_CLI_PLAIN, kind[0] != '\0' ? kind : "-");
        add_prompt(table, summary);
        add_number(table, summary, "calls");
        add_number(table, summary, "tokens");
        add_cost(table, summary);
        add_duration(table, summary);
        add_outcome(table, summary);
}

static struct sbx_cli_table *new_table(void) {
        static const char *const titles[] = {"ID",     "Time", "Kind",     "Prompt", "Calls",
                                             "Tokens", "Cost", "Duration", "Outcome"};
        size_t columns = sizeof(titles) / sizeof(titles[0]);
        struct sbx_cli_table *table = sbx_cli_table_new(columns);

        for (size_t i = 0; i < columns; i++)
                sbx_cli_table_cell(table, SBX_CLI_BOLD, titles[i]);
        return table;
}

/* ---- all of them ---- */

static int newest_first(const void *left, const void *right) {
        const struct sbx_logs_name *one = left, *other = right;

        if (one->modified.tv_sec != other->modified.tv_sec)
                return one->modified.tv_sec > other->modified.tv_sec ? -1 : 1;
        if (one->modified.tv_nsec != other->modified.tv_nsec)
                return one->modified.tv_nsec > other->modified.tv_nsec ? -1 : 1;
        return strcmp(one->id, other->id);
}

static int show(const struct sbx_cli *cli, const struct sbx_logs_directory *directory,
                const struct sbx_logs_names *names, size_t count, bool json) {
        _cleanup_table_ struct sbx_cli_table *table = new_table();
        _cleanup_json_ json_t *list = json_array();
        size_t shown = 0;

        for (size_t i = 0; i < names->count && (count == 0 || shown < count); i++) {
                _cleanup_json_ json_t *summary = NULL;

                if (summarize(directory, names->items[i].id, &summary) < 0)
                        return -ENOMEM;
                if (summary == NULL)
                        continue;
                shown++;
                if (json && json_array_append(list, summary) < 0)
                        return -ENOMEM;
                if (!json)
                        add_row(table, &names->items[i], summary);
        }
        if (json)
                return sbx_cli_print_json(&cli->out, list, true);
        if (shown == 0)
                return sbx_cli_print_styled(&cli->out, SBX_CLI_DIM, "No trajectories found in %s\n", directory->path);
        return sbx_cli_table_show(table, &cli->out, 0);
}

int sbx_logs_list(const struct sbx_cli *cli, const struct sbx_logs_directory *directory, size_t count, bool json) {
        _cleanup_logs_names_ struct sbx_logs_names names = {0};
        struct sbx_error err = {0};
        int r = sbx_logs_names_read(directory, &names, &err);

        if (r < 0)
                return sbx_cli_fail(cli, r, &err);
        if (names.count > 1)
                qsort(names.items, names.count, sizeof(names.items[0]), newest_first);
        return show(cli, directory, &names, count, json) < 0 ? SBX_CLI_FAILED : SBX_CLI_OK;
}
