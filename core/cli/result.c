/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what came of an execution to people. */
#include "cli/result.h"

#include <signal.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/output.h"

#define CHUNK_MAX (64u << 20)
#define REPORT_MAX (1u << 20)

static const struct sbx_cli_stream *stream_of(const struct sbx_cli_live *live, int fd) {
        return fd == STDOUT_FILENO ? &live->cli->out : &live->cli->err;
}

static void write_live(struct sbx_cli_live *live, int fd, struct sbx_bytes bytes) {
        int r = sbx_cli_write(stream_of(live, fd), bytes);

        if (bytes.size > 0) {
                live->last[fd == STDERR_FILENO] = ((const char *)bytes.data)[bytes.size - 1];
                live->escapes[fd == STDERR_FILENO] |= memchr(bytes.data, '\033', bytes.size) != NULL;
        }
        if (r < 0 && fd == STDOUT_FILENO && live->problem == 0) {
                live->problem = r;
                sbx_cli_signals_raise(live->signals, SIGPIPE);
        }
}

static void live_output(void *data, int fd, struct sbx_bytes bytes) {
        _cleanup_buffer_ struct sbx_buffer shown = SBX_BUFFER(CHUNK_MAX);
        struct sbx_cli_live *live = data;

        if (fd != STDOUT_FILENO && fd != STDERR_FILENO)
                return;
        if (live->progress != NULL)
                sbx_cli_progress_clear(live->progress);
        if (!stream_of(live, fd)->terminal)
                write_live(live, fd, bytes);
        else if (sbx_cli_filter_append(&live->filters[fd == STDERR_FILENO], bytes, &shown) >= 0)
                write_live(live, fd, sbx_buffer_bytes(&shown));
        else
                live->problem = -ENOMEM;
}

struct sbx_output_events sbx_cli_live_events(struct sbx_cli_live *live) {
        return (struct sbx_output_events){
                .struct_size = sizeof(struct sbx_output_events),
                .data = live,
                .output = live_output,
        };
}

/* Ends unfinished output of the code, so that what follows begins in the first column and in no colour of its. */
static void end_output(struct sbx_cli_live *live, int fd) {
        _cleanup_buffer_ struct sbx_buffer rest = SBX_BUFFER(256);
        const struct sbx_cli_stream *stream = stream_of(live, fd);
        size_t i = fd == STDERR_FILENO;

        if (stream->terminal && sbx_cli_filter_finish(&live->filters[i], &rest) >= 0)
                write_live(live, fd, sbx_buffer_bytes(&rest));
        if (stream->terminal && live->escapes[i])
                (void)sbx_cli_write(stream, (struct sbx_bytes){"\033[0m", 4});
        if (live->last[i] != 0 && live->last[i] != '\n')
                (void)sbx_cli_write(stream, (struct sbx_bytes){"\n", 1});
        live->last[i] = 0;
        live->escapes[i] = false;
}

/* The last line, the exception itself, in red; the way to it dim. */
static void show_traceback(const struct sbx_cli *cli, const char *traceback) {
        size_t size = strlen(traceback), split;

        while (size > 0 && traceback[size - 1] == '\n')
                size--;
        split = size;
        while (split > 0 && traceback[split - 1] != '\n')
                split--;
        (void)sbx_cli_print_styled(&cli->err, SBX_CLI_DIM, "%.*s", (int)split, traceback);
        (void)sbx_cli_print_styled(&cli->err, SBX_CLI_RED, "%.*s", (int)(size - split), traceback + split);
        (void)sbx_cli_print(&cli->err, "\n");
}

static const char *hint_for(enum sbx_end end) {
        switch (end) {
        case SBX_END_TIMEOUT:
                return "--timeout SECONDS (at most 600) or a longer --profile (analysis, extended) gives it more time";
        case SBX_END_MEMORY:
                return "a larger --profile (analysis: 2 GB, extended: 4 GB) gives it more memory";
        default:
                return NULL;
        }
}

static void show_end(const struct sbx_cli *cli, const struct sbx_result *result) {
        if (result->traceback != NULL && result->traceback[0] != '\0')
                show_traceback(cli, result->traceback);
        if ((result->end == SBX_END_ERROR || result->end == SBX_END_CANCELLED) && result->traceback != NULL &&
            result->traceback[0] != '\0')
                return; /* its last line is the message */
        sbx_cli_error(cli, hint_for(result->end), "%s: %s", sbx_end_name(result->end),
                      result->error_message != NULL ? result->error_message : "no reason given");
}

static void show_dropped(const struct sbx_cli *cli, const struct sbx_result *result) {
        static const char hint[] = "--set max_output_bytes=16m keeps more";
        char amount[SBX_CLI_AMOUNT_SIZE];

        if (result->stdout_dropped_bytes > 0)
                sbx_cli_warning(cli, hint, "%s of standard output were dropped",
                                sbx_cli_bytes_text(result->stdout_dropped_bytes, amount));
        if (result->stderr_dropped_bytes > 0)
                sbx_cli_warning(cli, hint, "%s of standard error were dropped",
                                sbx_cli_bytes_text(result->stderr_dropped_bytes, amount));
        if (result->display_dropped_count > 0)
                sbx_cli_warning(cli, "--set max_display_bytes=64m keeps more",
                                "%llu figures or other displays were dropped",
                                (unsigned long long)result->display_dropped_count);
}

/* What the session could not keep of its state, as far as earlier results have not said so. The names, types and
 * reasons come from its code. */
static void show_unkept(const struct sbx_cli *cli, const struct sbx_result *result) {
        _cleanup_json_ json_t *checkpoint = NULL;
        const char *reason;
        const json_t *item;
        size_t i;

        if (result->checkpoint == NULL ||
            sbx_json_parse((struct sbx_bytes){result->checkpoint, strlen(result->checkpoint)}, REPORT_MAX, "checkpoint",
                           &checkpoint, NULL) < 0)
                return;
        json_array_foreach (json_object_get(checkpoint, "unsaved"), i, item) {
                const char *name = "?", *type = "?", *why = "";

                if (!json_is_true(json_object_get(item, "new")))
                        continue;
                (void)sbx_json_get_string(item, "unsaved", "name", 0, &name, NULL);
                (void)sbx_json_get_string(item, "unsaved", "type", 0, &type, NULL);
                (void)sbx_json_get_string(item, "unsaved", "reason", 0, &why, NULL);
                (void)sbx_cli_print_styled(&cli->err, SBX_CLI_YELLOW, "note: %.200s (%.200s) is not saved%s%.200s\n",
                                           name, type, why[0] != '\0' ? ": " : "", why);
        }
        reason = json_string_value(json_object_get(checkpoint, "reason"));
        if (reason != NULL && json_is_true(json_object_get(checkpoint, "reason_new")))
                sbx_cli_warning(cli, NULL, "the session's state is not kept: %s", reason);
}

/* What a terminal can't show is named; text is printed. */
static void show_displays(const struct sbx_cli *cli, const struct sbx_result *result) {
        for (uint32_t i = 0; i < result->display_count; i++) {
                const struct sbx_display *display = &result->displays[i];
                char amount[SBX_CLI_AMOUNT_SIZE];

                if (strcmp(display->mime_type, "text/plain") == 0 || strcmp(display->mime_type, "text/markdown") == 0)
                        (void)sbx_cli_print(&cli->out, "%.*s\n", (int)display->data.size,
                                            (const char *)display->data.data);
                else
                        (void)sbx_cli_print_styled(&cli->err, SBX_CLI_DIM, "[%s, %s; 'exec --json' prints the data]\n",
                                                   display->mime_type, sbx_cli_bytes_text(display->data.size, amount));
        }
}

void sbx_cli_result_show(struct sbx_cli_live *live, const struct sbx_result *result, enum sbx_cli_detail detail) {
        const struct sbx_cli *cli = live->cli;

        if (live->problem == -EPIPE)
                return; /* `| head` has seen enough */
        end_output(live, STDERR_FILENO);
        if (detail != SBX_CLI_QUIET || result->end != SBX_END_OK)
                end_output(live, STDOUT_FILENO);
        if (detail != SBX_CLI_QUIET) {
                show_displays(cli, result);
                if (result->value != NULL) {
                        int r = sbx_cli_print(&cli->out, "%s\n", result->value);

                        if (r < 0 && live->problem == 0)
                                live->problem = r;
                }
        }
        if (result->end != SBX_END_OK)
                show_end(cli, result);
        if (detail != SBX_CLI_QUIET && result->notice != NULL && result->notice[0] != '\0')
                (void)sbx_cli_print_styled(&cli->err, SBX_CLI_YELLOW, "note: %s\n", result->notice);
        if (detail != SBX_CLI_QUIET)
                show_unkept(cli, result);
        show_dropped(cli, result);
}

int sbx_cli_result_exit(const struct sbx_result *result) {
        switch (result->end) {
        case SBX_END_OK:
                return SBX_CLI_OK;
        case SBX_END_ERROR:
                return SBX_CLI_FAILED;
        case SBX_END_TIMEOUT:
                return SBX_CLI_TIMEOUT;
        case SBX_END_MEMORY:
                return SBX_CLI_MEMORY;
        case SBX_END_CANCELLED:
                return SBX_CLI_INTERRUPTED;
        case SBX_END_KILLED:
        case SBX_END_LOST:
                break;
        }
        return SBX_CLI_KILLED;
}

int sbx_cli_report_show(const struct sbx_cli *cli, const struct sbx_cli_stream *stream, struct sbx_bytes report) {
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(3);
        const char *backend = "?", *isolation = "?";
        _cleanup_json_ json_t *document = NULL;
        struct sbx_error err = {0};
        const json_t *layer;
        size_t i;
        int r;

        r = sbx_json_parse(report, REPORT_MAX, "isolation report", &document, &err);
        if (r >= 0)
                r = sbx_json_get_string(document, "", "backend", 0, &backend, &err);
        if (r >= 0)
                r = sbx_json_get_string(document, "", "isolation", 0, &isolation, &err);
        if (r < 0) {
                sbx_cli_error_show(cli, &err);
                return r;
        }
        json_array_foreach(json_object_get(document, "layers"), i, layer) {
                const char *name = "?", *state = "?", *detail = "";

                (void)sbx_json_get_string(layer, "layers", "name", 0, &name, NULL);
                (void)sbx_json_get_string(layer, "layers", "state", 0, &state, NULL);
                (void)sbx_json_get_string(layer, "layers", "detail", 0, &detail, NULL);
                sbx_cli_table_cell(table, SBX_CLI_PLAIN, name);
                sbx_cli_table_cell(table, strcmp(state, "applied") == 0 ? SBX_CLI_GREEN : SBX_CLI_YELLOW, state);
                sbx_cli_table_cell(table, SBX_CLI_DIM, detail);
        }
        r = sbx_cli_print_styled(stream, SBX_CLI_BOLD, "isolation: %s (%s)\n", isolation, backend);
        return r < 0 ? r : sbx_cli_table_show(table, stream, 2);
}
