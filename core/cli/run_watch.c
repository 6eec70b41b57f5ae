/* SPDX-License-Identifier: Apache-2.0 */
/* Shows a run while it goes on. Text of the model is the answer, on standard output; everything else is progress, on
 * standard error, and only where a terminal or --verbose asks for it. */
#include "cli/run_watch.h"

#include <signal.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/output.h"

#define TEXT_MAX (64u << 20)
#define EVENT_MAX ((size_t)64 << 20)
#define LINE_MAX_BYTES 72u /* of code or arguments in a line of progress */

void sbx_cli_watch_init(struct sbx_cli_watch *watch, struct sbx_cli *cli, const struct sbx_cli_signals *signals,
                        bool json, bool raw) {
        *watch = (struct sbx_cli_watch){
                .cli = cli,
                .signals = signals,
                .raw = raw,
                .streams = cli->out.terminal && !json && !raw,
                .text = SBX_BUFFER(TEXT_MAX),
        };
}

void sbx_cli_watch_free(struct sbx_cli_watch *watch) {
        sbx_buffer_free(&watch->text);
}

static const char *text_of(const json_t *event, const char *key) {
        const char *text = json_string_value(json_object_get(event, key));

        return text != NULL ? text : "";
}

static bool shows_progress(const struct sbx_cli_watch *watch) {
        return !watch->raw && (watch->cli->err.terminal || watch->cli->verbose);
}

/* ---- lines ---- */

static void clear_status(struct sbx_cli_watch *watch) {
        if (watch->status)
                (void)sbx_cli_write(&watch->cli->err, (struct sbx_bytes){"\r\033[K", 4});
        watch->status = false;
        if (watch->open_line)
                (void)sbx_cli_write(&watch->cli->out, (struct sbx_bytes){"\n", 1});
        watch->open_line = false;
}

/* A line that the next one replaces; on a terminal alone. */
static void show_status(struct sbx_cli_watch *watch, const char *what, const char *detail) {
        if (!shows_progress(watch) || !watch->cli->err.terminal)
                return;
        clear_status(watch);
        (void)sbx_cli_print_styled(&watch->cli->err, SBX_CLI_DIM, "  … %s%s%s", what, detail[0] != '\0' ? "  " : "",
                                   detail);
        watch->status = true;
}

/* The first line of the text that has something on it, short enough. */
static void first_line(const char *text, char *line, size_t size) {
        struct sbx_bytes bytes;
        size_t begin = strspn(text, " \t\r\n");

        bytes = (struct sbx_bytes){text + begin, strcspn(text + begin, "\r\n")};
        bytes.size = sbx_utf8_cut(bytes, LINE_MAX_BYTES);
        snprintf(line, size, "%.*s%s", (int)bytes.size, text + begin, text[begin + bytes.size] != '\0' ? " …" : "");
}

/* What a tool call is about: its code, its query, its path; else its arguments. */
static void describe_call(const json_t *event, char *line, size_t size) {
        static const char *const telling[] = {"code", "query", "prompt", "path", "answer", "variable_name", "content"};
        const json_t *arguments = json_object_get(event, "arguments");
        _cleanup_free_ char *all = NULL;

        for (size_t i = 0; i < sizeof(telling) / sizeof(telling[0]); i++) {
                const char *text = json_string_value(json_object_get(arguments, telling[i]));

                if (text != NULL) {
                        first_line(text, line, size);
                        return;
                }
        }
        all = json_object_size(arguments) > 0 ? json_dumps(arguments, JSON_COMPACT) : NULL;
        first_line(all != NULL ? all : "", line, size);
}

/* ---- events ---- */

static void on_tool_begin(struct sbx_cli_watch *watch, const json_t *event) {
        char line[2 * LINE_MAX_BYTES];

        sbx_buffer_clear(&watch->text);
        describe_call(event, line, sizeof(line));
        show_status(watch, text_of(event, "name"), line);
}

static void on_tool_end(struct sbx_cli_watch *watch, const json_t *event) {
        bool failed = json_is_true(json_object_get(event, "is_error"));
        double ms = json_number_value(json_object_get(event, "duration_ms"));
        char line[2 * LINE_MAX_BYTES], amount[SBX_CLI_AMOUNT_SIZE];
        int64_t depth = json_integer_value(json_object_get(event, "depth"));

        if (!shows_progress(watch))
                return;
        clear_status(watch);
        first_line(text_of(event, "text"), line, sizeof(line));
        (void)sbx_cli_print_styled(&watch->cli->err, failed ? SBX_CLI_RED : SBX_CLI_GREEN, "%*s%s ",
                                   (int)(2 + 2 * (depth > 0 && depth < 8 ? depth : 0)), "", failed ? "✗" : "✓");
        (void)sbx_cli_print(&watch->cli->err, "%s", text_of(event, "name"));
        (void)sbx_cli_print_styled(&watch->cli->err, SBX_CLI_DIM, "  %s  %s\n",
                                   sbx_cli_duration_text((uint64_t)(ms * 1e6), amount), line);
        show_status(watch, watch->model, "");
}

static void on_iteration(struct sbx_cli_watch *watch, const json_t *event) {
        if (!shows_progress(watch))
                return;
        clear_status(watch);
        (void)sbx_cli_print_styled(&watch->cli->err, SBX_CLI_BOLD, "Iteration %lld of %lld\n",
                                   (long long)json_integer_value(json_object_get(event, "iteration")),
                                   (long long)json_integer_value(json_object_get(event, "max_iterations")));
        show_status(watch, watch->model, "");
}

static void on_check(struct sbx_cli_watch *watch, const json_t *event) {
        bool passed = json_is_true(json_object_get(event, "passed"));
        char line[2 * LINE_MAX_BYTES];

        if (!shows_progress(watch))
                return;
        clear_status(watch);
        first_line(text_of(event, "response"), line, sizeof(line));
        (void)sbx_cli_print_styled(&watch->cli->err, passed ? SBX_CLI_GREEN : SBX_CLI_RED, "  %s check  ",
                                   passed ? "✓" : "✗");
        (void)sbx_cli_print_styled(&watch->cli->err, SBX_CLI_DIM, "%s\n", passed ? "passed" : line);
}

static void on_notice(struct sbx_cli_watch *watch, const json_t *event) {
        clear_status(watch);
        sbx_cli_warning(watch->cli, NULL, "%s", text_of(event, "text"));
}

static void on_started(struct sbx_cli_watch *watch, const json_t *event) {
        snprintf(watch->run_id, sizeof(watch->run_id), "%s", text_of(event, "trajectory_id"));
        snprintf(watch->model, sizeof(watch->model), "%s", text_of(event, "model"));
        show_status(watch, watch->model, "");
}

static void watch_event(void *data, struct sbx_bytes json) {
        static const struct {
                const char *name;
                void (*show)(struct sbx_cli_watch *watch, const json_t *event);
        } shown[] = {
                {"run_started", on_started}, {"tool_begin", on_tool_begin}, {"tool_end", on_tool_end},
                {"iteration", on_iteration}, {"check", on_check},           {"notice", on_notice},
        };
        struct sbx_cli_watch *watch = data;
        _cleanup_json_ json_t *event = NULL;

        if (sbx_json_parse(json, EVENT_MAX, "event", &event, NULL) < 0)
                return; /* too large to show */
        if (watch->raw) {
                (void)sbx_cli_print_json(&watch->cli->err, event, false);
                if (strcmp(text_of(event, "event"), "run_started") == 0)
                        snprintf(watch->run_id, sizeof(watch->run_id), "%s", text_of(event, "trajectory_id"));
                return;
        }
        for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
                if (strcmp(shown[i].name, text_of(event, "event")) == 0)
                        shown[i].show(watch, event);
}

static void watch_text(void *data, unsigned depth, struct sbx_bytes text) {
        struct sbx_cli_watch *watch = data;
        _cleanup_buffer_ struct sbx_buffer shown = SBX_BUFFER(TEXT_MAX);

        if (depth > 0 || text.size == 0)
                return;
        (void)sbx_buffer_append(&watch->text, text.data, text.size); /* too much to compare: the answer comes again */
        if (!watch->streams)
                return;
        if (watch->status)
                clear_status(watch);
        if (sbx_cli_filter_append(&watch->filter, text, &shown) < 0 || shown.size == 0)
                return;
        watch->open_line = shown.data[shown.size - 1] != '\n';
        if (sbx_cli_write(&watch->cli->out, sbx_buffer_bytes(&shown)) == -EPIPE)
                sbx_cli_signals_raise(watch->signals, SIGPIPE);
}

struct sbx_run_events sbx_cli_watch_events(struct sbx_cli_watch *watch) {
        return (struct sbx_run_events){
                .struct_size = sizeof(struct sbx_run_events),
                .data = watch,
                .text = watch_text,
                .event = watch_event,
        };
}

/* ---- the result ---- */

static bool was_streamed(const struct sbx_cli_watch *watch, const char *answer) {
        return watch->streams && watch->text.size == strlen(answer) &&
               memcmp(watch->text.size > 0 ? watch->text.data : "", answer, watch->text.size) == 0;
}

static void add_row(struct sbx_cli_table *table, const char *label, enum sbx_cli_style style, const char *format, ...)
        SBX_PRINTF(4, 5);
static void add_row(struct sbx_cli_table *table, const char *label, enum sbx_cli_style style, const char *format, ...) {
        _cleanup_free_ char *text = NULL;
        va_list args;
        int n;

        va_start(args, format);
        n = vasprintf(&text, format, args);
        va_end(args);
        sbx_cli_table_cell(table, SBX_CLI_DIM, label);
        sbx_cli_table_cell(table, style, n >= 0 ? text : "");
}

static void add_cost(struct sbx_cli_table *table, const json_t *result) {
        const json_t *cost = json_object_get(result, "total_cost_usd");

        if (cost == NULL)
                cost = json_object_get(result, "total_cost");
        if (json_is_number(cost))
                add_row(table, "cost", SBX_CLI_PLAIN, "$%.4f", json_number_value(cost));
        else
                add_row(table, "cost", SBX_CLI_YELLOW, "unknown: no price is known for the model");
}

static void show_summary(struct sbx_cli_watch *watch, const json_t *result) {
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(2);
        bool success = json_is_true(json_object_get(result, "success"));
        const json_t *validated = json_object_get(result, "validated"), *iterations, *calls;
        char amount[SBX_CLI_AMOUNT_SIZE];

        iterations = json_object_get(result, "iterations");
        calls = json_object_get(result, "total_calls");
        add_row(table, "run", SBX_CLI_PLAIN, "%s", text_of(result, "trajectory_id"));
        add_row(table, "end", success ? SBX_CLI_GREEN : SBX_CLI_RED, "%s%s%s", text_of(result, "end"),
                text_of(result, "answer_source")[0] != '\0' ? ", answer: " : "", text_of(result, "answer_source"));
        if (json_is_boolean(validated))
                add_row(table, "validated", json_is_true(validated) ? SBX_CLI_GREEN : SBX_CLI_RED, "%s",
                        json_is_true(validated) ? "yes" : "no");
        if (json_is_integer(iterations))
                add_row(table, "iterations", SBX_CLI_PLAIN, "%lld", (long long)json_integer_value(iterations));
        if (json_is_integer(calls))
                add_row(table, "model calls", SBX_CLI_PLAIN, "%lld", (long long)json_integer_value(calls));
        add_row(table, "tool calls", SBX_CLI_PLAIN, "%lld",
                (long long)json_integer_value(json_object_get(result, "total_tool_calls")));
        add_row(table, "tokens", SBX_CLI_PLAIN, "%lld",
                (long long)json_integer_value(json_object_get(result, "total_tokens")));
        add_cost(table, result);
        add_row(table, "duration", SBX_CLI_PLAIN, "%s",
                sbx_cli_duration_text((uint64_t)(json_number_value(json_object_get(result, "duration_ms")) * 1e6),
                                      amount));
        (void)sbx_cli_print(&watch->cli->err, "\n");
        (void)sbx_cli_table_show(table, &watch->cli->err, 2);
        (void)sbx_cli_print_styled(&watch->cli->err, SBX_CLI_DIM, "  %s logs %.8s shows each step\n",
                                   watch->cli->program, text_of(result, "trajectory_id"));
}

void sbx_cli_watch_result(struct sbx_cli_watch *watch, const json_t *result) {
        const char *answer = text_of(result, "answer");

        if (answer[0] == '\0')
                answer = text_of(result, "response");
        clear_status(watch);
        if (answer[0] != '\0' && !was_streamed(watch, answer))
                (void)sbx_cli_print(&watch->cli->out, "%s%s", answer, answer[strlen(answer) - 1] == '\n' ? "" : "\n");
        if (shows_progress(watch))
                show_summary(watch, result);
}
