/* SPDX-License-Identifier: Apache-2.0 */
/* `logs ID`: a run as a tree that people can read. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/logs_events.h"
#include "cli/output.h"

#define LINES_SHOWN 4u
#define LINE_SHOWN 160u /* bytes */
#define ARGUMENTS_SHOWN 120u

struct view {
        const struct sbx_cli *cli;
        const struct sbx_logs_events *events;
        bool full;
        int problem; /* of writing */
};

/* ---- lines ---- */

SBX_PRINTF(4, 5)
static void put(struct view *view, unsigned indent, enum sbx_cli_style style, const char *format, ...) {
        _cleanup_free_ char *text = NULL;
        va_list args;
        int size;

        if (view->problem < 0)
                return;
        va_start(args, format);
        size = vasprintf(&text, format, args);
        va_end(args);
        if (size < 0) {
                text = NULL;
                view->problem = -ENOMEM;
                return;
        }
        view->problem = sbx_cli_print(&view->cli->out, "%*s", (int)indent, "");
        if (view->problem >= 0)
                view->problem = sbx_cli_print_styled(&view->cli->out, style, "%s", text);
        if (view->problem >= 0)
                view->problem = sbx_cli_write(&view->cli->out, (struct sbx_bytes){"\n", 1});
}

/* One line of a text that somebody else wrote. What would move the cursor is shown as its symbol (U+2400 ...), else a
 * text could write over the lines that say where it comes from. */
static char *harmless(const char *text, size_t size) {
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(SBX_LOGS_LINE_MAX * 3);
        int r = 0;

        for (size_t i = 0; i < size && r >= 0; i++) {
                unsigned char c = (unsigned char)text[i];

                if (c == '\t' || (c >= ' ' && c != 0x7f))
                        r = sbx_buffer_append(&out, &c, 1);
                else
                        r = sbx_buffer_printf(&out, "\xe2\x90%c", c == 0x7f ? 0xa1 : 0x80 + c);
        }
        return r < 0 ? NULL : size > 0 ? sbx_buffer_steal(&out) : strdup("");
}

static void put_line(struct view *view, unsigned indent, const char *mark, struct sbx_bytes line) {
        size_t cut = view->full || line.size <= LINE_SHOWN ? line.size : sbx_utf8_cut(line, LINE_SHOWN);
        _cleanup_free_ char *text = harmless(line.data, cut);

        if (text == NULL)
                view->problem = -ENOMEM;
        else
                put(view, indent, SBX_CLI_PLAIN, "%s%s%s", mark, text, cut < line.size ? " ..." : "");
}

/* A text of any number of lines, each behind `mark`; a mark that is a label ("answer: ") stands at the first alone. */
static void put_text(struct view *view, unsigned indent, const char *mark, const char *text) {
        size_t left = strlen(text), length = strlen(mark), shown = 0, hidden = 0;
        bool is_label = length > 2 && mark[length - 2] == ':';

        while (left > 0 && text[left - 1] == '\n')
                left--;
        while (left > 0 && view->problem >= 0) {
                const char *newline = memchr(text, '\n', left);
                size_t size = newline != NULL ? (size_t)(newline - text) : left;

                if (view->full || shown < LINES_SHOWN) {
                        put_line(view, indent, mark, (struct sbx_bytes){text, size});
                        if (shown++ == 0 && is_label) {
                                mark = "";
                                indent += 2;
                        }
                } else {
                        hidden++;
                }
                size += newline != NULL;
                text += size;
                left -= size;
        }
        if (hidden > 0)
                put(view, indent, SBX_CLI_DIM, "%s... %zu more line%s", mark, hidden, hidden > 1 ? "s" : "");
}

/* ---- parts of a title ---- */

SBX_PRINTF(2, 3)
static void add_part(struct sbx_buffer *title, const char *format, ...) {
        char part[512];
        va_list args;
        int size;

        va_start(args, format);
        size = vsnprintf(part, sizeof(part), format, args);
        va_end(args);
        if (size > 0 && part[0] != '\0')
                (void)sbx_buffer_printf(title, "%s%s", title->size > 0 ? "  " : "", part);
}

static void add_numbers(struct sbx_buffer *title, const json_t *event) {
        double in = sbx_logs_number(event, "input_tokens"), out = sbx_logs_number(event, "output_tokens");
        double cost = sbx_logs_number(event, "estimated_cost_usd"), ms = sbx_logs_number(event, "duration_ms");
        char text[SBX_CLI_AMOUNT_SIZE];

        if (in > 0 || out > 0)
                add_part(title, "%.0f in, %.0f out", in > 0 ? in : 0, out > 0 ? out : 0);
        if (cost >= 0 && (in > 0 || out > 0))
                add_part(title, "$%.4f", cost);
        if (ms >= 0)
                add_part(title, "%s", sbx_cli_duration_text((uint64_t)(ms * 1e6), text));
}

/* "name(arguments)" of the first tool call. */
static char *call_text(const struct view *view, const json_t *call) {
        const json_t *arguments = json_object_get(call, "arguments");
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(SBX_LOGS_LINE_MAX);
        const char *name = sbx_logs_text(call, "name");
        size_t begin;
        int r = sbx_buffer_printf(&out, "%s(", name[0] != '\0' ? name : "?");

        begin = out.size;
        if (r >= 0 && json_is_string(arguments))
                r = sbx_buffer_append_text(&out, json_string_value(arguments));
        else if (r >= 0 && arguments != NULL)
                r = sbx_json_encode(arguments, &out);
        if (r >= 0 && !view->full && out.size - begin > ARGUMENTS_SHOWN) {
                out.size =
                        begin + sbx_utf8_cut((struct sbx_bytes){out.data + begin, out.size - begin}, ARGUMENTS_SHOWN);
                r = sbx_buffer_append_text(&out, " ...");
        }
        if (r >= 0)
                r = sbx_buffer_append_text(&out, ")");
        return r < 0 ? NULL : harmless(out.data, out.size);
}

static void put_call(struct view *view, unsigned indent, enum sbx_cli_style style, const char *before,
                     const json_t *call, const char *after) {
        _cleanup_free_ char *text = call_text(view, call);

        if (text == NULL)
                view->problem = -ENOMEM;
        else
                put(view, indent, style, "%s%s%s", before, text, after);
}

/* ---- the kinds of events ---- */

static void put_title(struct view *view, unsigned indent, bool good, const struct sbx_buffer *title) {
        _cleanup_free_ char *text = harmless(title->data != NULL ? title->data : "", title->size);

        if (text == NULL)
                view->problem = -ENOMEM;
        else
                put(view, indent, good ? SBX_CLI_BOLD : SBX_CLI_RED, "%s", text);
}

static void put_error(struct view *view, unsigned indent, const json_t *event) {
        const char *error = sbx_logs_text(event, "error");

        if (error[0] != '\0')
                put_text(view, indent, "error: ", error);
}

static const json_t *result_of(const json_t *event, const json_t *call) {
        const json_t *results = json_object_get(event, "tool_results"), *result;
        const char *id = sbx_logs_text(call, "id");
        size_t index;

        json_array_foreach (results, index, result)
                if (sbx_logs_is(result, "tool_call_id", id))
                        return result;
        return NULL;
}

static bool has_execution(const struct view *view, const struct sbx_logs_event *event) {
        for (size_t i = event->first_child; i != SBX_LOGS_NONE; i = view->events->items[i].next)
                if (sbx_logs_is(view->events->items[i].object, "event", "execution"))
                        return true;
        return false;
}

/* The tools that the model called; what executions came to stands below, as their own events. */
static void put_tool_calls(struct view *view, unsigned indent, const struct sbx_logs_event *event) {
        const json_t *calls = json_object_get(event->object, "tool_calls"), *call;
        bool executions = has_execution(view, event);
        size_t index;

        json_array_foreach (calls, index, call) {
                const json_t *result = result_of(event->object, call);
                bool failed = json_is_true(json_object_get(result, "is_error"));

                if (executions && !failed && strncmp(sbx_logs_text(call, "name"), "execute", strlen("execute")) == 0)
                        continue;
                put_call(view, indent, failed ? SBX_CLI_RED : SBX_CLI_CYAN, "-> ", call, failed ? "  failed" : "");
                if (result != NULL)
                        put_text(view, indent + 3, "", sbx_logs_text(result, "content"));
        }
}

static void show_completion(struct view *view, unsigned indent, const struct sbx_logs_event *event) {
        _cleanup_buffer_ struct sbx_buffer title = SBX_BUFFER(4096);
        const json_t *object = event->object;
        const char *finish = sbx_logs_text(object, "finish_reason");
        bool failed = sbx_logs_text(object, "error")[0] != '\0';

        add_part(&title, "completion");
        add_part(&title, "%s", sbx_logs_text(object, "sub_call_type"));
        add_part(&title, "%s", sbx_logs_text(object, "model"));
        add_numbers(&title, object);
        if (finish[0] != '\0' && strcmp(finish, "stop") != 0 && strcmp(finish, "tool_calls") != 0)
                add_part(&title, "%s", finish);
        put_title(view, indent, !failed, &title);
        if (view->full || sbx_logs_is(object, "event", ""))
                put_text(view, indent + 2, "prompt: ", sbx_logs_text(object, "prompt"));
        put_error(view, indent + 2, object);
        put_text(view, indent + 2, "", sbx_logs_text(object, "response"));
        put_tool_calls(view, indent + 2, event);
}

static void show_execution(struct view *view, unsigned indent, const json_t *object) {
        _cleanup_buffer_ struct sbx_buffer title = SBX_BUFFER(4096);
        const char *end = sbx_logs_text(object, "end"), *state = sbx_logs_text(object, "state");
        const json_t *passed = json_object_get(object, "passed");
        bool good = strcmp(end, "ok") == 0 && !json_is_false(passed);

        add_part(&title, "%s", sbx_logs_text(object, "event"));
        add_part(&title, "%s", sbx_logs_text(object, "tool"));
        if (json_is_boolean(passed))
                add_part(&title, json_is_true(passed) ? "passed" : "failed");
        add_part(&title, "%s", sbx_logs_text(object, "session_id"));
        add_part(&title, "%s", end);
        if (state[0] != '\0' && strcmp(state, "kept") != 0)
                add_part(&title, "variables %s", strcmp(state, "rolled_back") == 0 ? "rolled back" : "lost");
        add_numbers(&title, object);
        put_title(view, indent, good, &title);
        put_text(view, indent + 2, "| ", sbx_logs_text(object, "prompt"));
        put_text(view, indent + 2, "> ", sbx_logs_text(object, "response"));
        put_error(view, indent + 2, object);
}

static void show_tool_call(struct view *view, unsigned indent, const json_t *object) {
        const json_t *call = json_array_get(json_object_get(object, "tool_calls"), 0);
        const json_t *result = json_array_get(json_object_get(object, "tool_results"), 0);
        bool failed = json_is_true(json_object_get(result, "is_error"));
        char time[SBX_CLI_AMOUNT_SIZE], after[SBX_CLI_AMOUNT_SIZE + 16];
        double ms = sbx_logs_number(object, "duration_ms");

        snprintf(after, sizeof(after), "%s  %s", failed ? "  failed" : "",
                 ms >= 0 ? sbx_cli_duration_text((uint64_t)(ms * 1e6), time) : "");
        put_call(view, indent, failed ? SBX_CLI_RED : SBX_CLI_CYAN, "call ", call, after);
        put_text(view, indent + 2, "", sbx_logs_text(result, "content"));
}

static void show_event(struct view *view, unsigned indent, const struct sbx_logs_event *event) {
        const json_t *object = event->object;

        if (sbx_logs_is(object, "event", "execution") || sbx_logs_is(object, "event", "check"))
                show_execution(view, indent, object);
        else if (sbx_logs_is(object, "event", "tool_call"))
                show_tool_call(view, indent, object);
        else
                show_completion(view, indent, event);
}

/* Bounded: sbx_logs_events_make leaves out what is deeper than SBX_LOGS_DEPTH_MAX. */
static void show_branch(struct view *view, unsigned depth, size_t index) {
        const struct sbx_logs_event *event = &view->events->items[index];

        if (view->problem < 0)
                return;
        show_event(view, 2 * depth, event);
        for (size_t i = event->first_child; i != SBX_LOGS_NONE; i = view->events->items[i].next)
                show_branch(view, depth + 1, i);
}

/* ---- begin and end ---- */

static void show_header(struct view *view, const char *id, const json_t *header) {
        char time[SBX_LOGS_TIME_SIZE];
        const char *timestamp = sbx_logs_text(header, "timestamp");
        _cleanup_buffer_ struct sbx_buffer title = SBX_BUFFER(4096);

        put(view, 0, SBX_CLI_BOLD, "%s", id);
        if (timestamp[0] != '\0')
                add_part(&title, "%s", sbx_logs_time_text(timestamp, time));
        add_part(&title, "%s", sbx_logs_text(header, "kind"));
        add_part(&title, "%s", sbx_logs_text(header, "model"));
        add_part(&title, "%s", sbx_logs_text(header, "environment"));
        if (title.size > 0) {
                _cleanup_free_ char *text = harmless(title.data, title.size);

                put(view, 0, SBX_CLI_DIM, "%s", text != NULL ? text : "");
        }
        put_text(view, 0, "prompt: ", sbx_logs_text(header, "prompt"));
        if (view->full)
                put_text(view, 0, "system: ", sbx_logs_text(header, "system"));
        put(view, 0, SBX_CLI_PLAIN, "%s", "");
}

static double sum_of(const struct view *view, const char *key) {
        double sum = 0;

        for (size_t i = 0; i < view->events->count; i++) {
                double number = sbx_logs_number(view->events->items[i].object, key);

                sum += number > 0 ? number : 0;
        }
        return sum;
}

static double total_of(const struct view *view, const json_t *totals, const char *key, const char *key_of_event) {
        double total = sbx_logs_number(totals, key);

        return total >= 0 ? total : sum_of(view, key_of_event);
}

static double count_of(const struct view *view, const char *event) {
        double count = 0;

        for (size_t i = 0; i < view->events->count; i++) {
                const char *kind = sbx_logs_text(view->events->items[i].object, "event");

                count += kind[0] == '\0' || strcmp(kind, event) == 0; /* 2.2.7 records model calls alone */
        }
        return count;
}

static void show_totals(struct view *view, const json_t *totals) {
        double in = total_of(view, totals, "total_input_tokens", "input_tokens");
        double out = total_of(view, totals, "total_output_tokens", "output_tokens");
        double cost = sbx_logs_number(totals, "total_cost_usd"), ms = sbx_logs_number(totals, "total_duration_ms");
        double calls = sbx_logs_number(totals, "total_calls"), tools = sbx_logs_number(totals, "total_tool_calls");
        const char *end = sbx_logs_text(totals, "end");
        _cleanup_buffer_ struct sbx_buffer line = SBX_BUFFER(4096);
        char text[SBX_CLI_AMOUNT_SIZE];

        add_part(&line, "%s", end[0] != '\0' ? end : totals != NULL ? "ended" : "not ended");
        calls = calls >= 0 ? calls : count_of(view, "completion");
        add_part(&line, "%.0f model call%s", calls, calls == 1 ? "" : "s");
        if (tools >= 0)
                add_part(&line, "%.0f tool call%s", tools, tools == 1 ? "" : "s");
        add_part(&line, "%.0f tokens (%.0f in, %.0f out)", in + out, in, out);
        if (cost >= 0)
                add_part(&line, "$%.4f", cost);
        else
                add_part(&line, "cost unknown");
        if (ms >= 0)
                add_part(&line, "%s", sbx_cli_duration_text((uint64_t)(ms * 1e6), text));
        if (json_is_boolean(json_object_get(totals, "validated")))
                add_part(&line, json_is_true(json_object_get(totals, "validated")) ? "validated" : "not validated");
        put(view, 0, SBX_CLI_PLAIN, "%s", "");
        put_title(view, 0, end[0] == '\0' || strcmp(end, "ok") == 0, &line);
        put_error(view, 0, totals);
        put_text(view, 0, "answer: ",
                 sbx_logs_text(totals, json_is_string(json_object_get(totals, "answer")) ? "answer" : "response"));
}

/* What else the file tells: resumed, events lost, ... */
static void show_notes(struct view *view, const json_t *lines) {
        size_t index;
        json_t *line;

        json_array_foreach (lines, index, line) {
                const char *event = sbx_logs_text(line, "event");
                double count = sbx_logs_number(line, "count");
                char time[SBX_LOGS_TIME_SIZE], number[32] = "";

                if (index == 0 || !sbx_logs_is_metadata(line) || strcmp(event, "run_ended") == 0)
                        continue;
                if (count >= 0)
                        snprintf(number, sizeof(number), "  %.0f", count);
                put(view, 0, SBX_CLI_YELLOW, "note: %s%s  %s", event, number,
                    sbx_logs_time_text(sbx_logs_text(line, "timestamp"), time));
        }
}

int sbx_logs_tree_show(const struct sbx_cli *cli, const char *id, const json_t *lines, bool full) {
        _cleanup_logs_events_ struct sbx_logs_events events = {0};
        struct view view = {.cli = cli, .events = &events, .full = full};

        if (sbx_logs_events_make(lines, &events) < 0)
                return -ENOMEM;
        show_header(&view, id, sbx_logs_header(lines));
        for (size_t i = 0; i < events.count; i++)
                if (events.items[i].parent == SBX_LOGS_NONE)
                        show_branch(&view, 0, i);
        show_totals(&view, sbx_logs_totals(lines));
        show_notes(&view, lines);
        return view.problem;
}
