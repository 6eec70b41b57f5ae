/* SPDX-License-Identifier: Apache-2.0 */
/* What people read: errors with a hint, colour where there is a terminal, JSON for scripts. */
#include "cli/output.h"

#include <stdlib.h>
#include <unistd.h>

#include <snipara-sandbox/plugin.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/terminal.h"

#define TEXT_MAX (256u << 20)

static const char *const style_codes[] = {
        [SBX_CLI_PLAIN] = "",   [SBX_CLI_BOLD] = "1",    [SBX_CLI_DIM] = "2",   [SBX_CLI_RED] = "31",
        [SBX_CLI_GREEN] = "32", [SBX_CLI_YELLOW] = "33", [SBX_CLI_CYAN] = "36",
};

static struct sbx_cli_stream stream_of(int fd) {
        const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
        bool terminal = isatty(fd) != 0;
        bool able = term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;

        return (struct sbx_cli_stream){
                .fd = fd,
                .terminal = terminal,
                .colour = terminal && able && (no_colour == NULL || no_colour[0] == '\0'),
        };
}

void sbx_cli_output_init(struct sbx_cli *cli) {
        cli->out = stream_of(STDOUT_FILENO);
        cli->err = stream_of(STDERR_FILENO);
}

int sbx_cli_write(const struct sbx_cli_stream *stream, struct sbx_bytes bytes) {
        return bytes.size > 0 ? sbx_fd_write_all(stream->fd, bytes, NULL) : 0;
}

int sbx_cli_append(const struct sbx_cli_stream *stream, enum sbx_cli_style style, struct sbx_bytes text,
                   struct sbx_buffer *out) {
        struct sbx_cli_filter filter = {0};
        bool styled = stream->colour && style != SBX_CLI_PLAIN;
        int r = 0;

        if (styled)
                r = sbx_buffer_printf(out, "\033[%sm", style_codes[style]);
        if (r >= 0 && !stream->terminal)
                r = sbx_buffer_append(out, text.data, text.size);
        else if (r >= 0)
                r = sbx_cli_filter_append(&filter, text, out);
        if (r >= 0 && stream->terminal)
                r = sbx_cli_filter_finish(&filter, out);
        /* A style that the text itself set ends with it. */
        if (r >= 0 && (styled || (stream->colour && memchr(text.data, '\033', text.size) != NULL)))
                r = sbx_buffer_append_text(out, "\033[0m");
        return r < 0 ? r : 0;
}

SBX_PRINTF(3, 0)
static int print_styled(const struct sbx_cli_stream *stream, enum sbx_cli_style style, const char *format,
                        va_list args) {
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(TEXT_MAX);
        _cleanup_free_ char *text = NULL;
        int size = vasprintf(&text, format, args), r;

        if (size < 0) {
                text = NULL;
                return -ENOMEM;
        }
        r = sbx_cli_append(stream, style, (struct sbx_bytes){text, (size_t)size}, &out);
        return r < 0 ? r : sbx_cli_write(stream, sbx_buffer_bytes(&out));
}

int sbx_cli_print(const struct sbx_cli_stream *stream, const char *format, ...) {
        va_list args;
        int r;

        va_start(args, format);
        r = print_styled(stream, SBX_CLI_PLAIN, format, args);
        va_end(args);
        return r;
}

int sbx_cli_print_styled(const struct sbx_cli_stream *stream, enum sbx_cli_style style, const char *format, ...) {
        va_list args;
        int r;

        va_start(args, format);
        r = print_styled(stream, style, format, args);
        va_end(args);
        return r;
}

/* "label: text" and "hint: hint", in one write so that lines of several processes do not mix. */
static void show_message(const struct sbx_cli_stream *stream, enum sbx_cli_style style, const char *label,
                         const char *text, const char *hint) {
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(TEXT_MAX);
        int r;

        r = sbx_cli_append(stream, style, (struct sbx_bytes){label, strlen(label)}, &out);
        if (r >= 0)
                r = sbx_cli_append(stream, SBX_CLI_PLAIN, (struct sbx_bytes){text, strlen(text)}, &out);
        if (r >= 0)
                r = sbx_buffer_append_text(&out, "\n");
        if (r >= 0 && hint != NULL && hint[0] != '\0') {
                r = sbx_cli_append(stream, SBX_CLI_CYAN, (struct sbx_bytes){"hint: ", 6}, &out);
                if (r >= 0)
                        r = sbx_cli_append(stream, SBX_CLI_PLAIN, (struct sbx_bytes){hint, strlen(hint)}, &out);
                if (r >= 0)
                        r = sbx_buffer_append_text(&out, "\n");
        }
        /* Nothing is left to tell it to when standard error can't be written. */
        if (r >= 0)
                (void)sbx_cli_write(stream, sbx_buffer_bytes(&out));
}

SBX_PRINTF(5, 0)
static void show_formatted(const struct sbx_cli *cli, enum sbx_cli_style style, const char *label, const char *hint,
                           const char *format, va_list args) {
        char text[SBX_ERROR_MESSAGE_MAX];

        if (vsnprintf(text, sizeof(text), format, args) < 0)
                text[0] = '\0';
        sbx_error_trim_(text, sizeof(text));
        show_message(&cli->err, style, label, text, hint);
}

void sbx_cli_error(const struct sbx_cli *cli, const char *hint, const char *format, ...) {
        va_list args;

        va_start(args, format);
        show_formatted(cli, SBX_CLI_RED, "error: ", hint, format, args);
        va_end(args);
}

void sbx_cli_warning(const struct sbx_cli *cli, const char *hint, const char *format, ...) {
        va_list args;

        va_start(args, format);
        show_formatted(cli, SBX_CLI_YELLOW, "warning: ", hint, format, args);
        va_end(args);
}

void sbx_cli_error_show(const struct sbx_cli *cli, const struct sbx_error *err) {
        show_message(&cli->err, SBX_CLI_RED, "error: ", err->message[0] != '\0' ? err->message : "unknown error",
                     err->hint);
}

int sbx_cli_fail(const struct sbx_cli *cli, int code, const struct sbx_error *err) {
        if (code == -ECANCELED)
                return SBX_CLI_INTERRUPTED;
        sbx_cli_error_show(cli, err);
        switch (code) {
        case -EINVAL:
        case -ERANGE:
        case -ENOENT:
        case -EEXIST:
        case -EBUSY:
        case -EFBIG:
                return SBX_CLI_USAGE;
        default:
                return SBX_CLI_SANDBOX;
        }
}

int sbx_cli_out_of_memory(const struct sbx_cli *cli) {
        sbx_cli_error(cli, NULL, "out of memory");
        return SBX_CLI_SANDBOX;
}

void sbx_cli_log(void *data, int level, const char *message) {
        static const struct {
                const char *label;
                enum sbx_cli_style style;
        } levels[] = {
                [SBX_LOG_ERROR] = {"error: ", SBX_CLI_RED},
                [SBX_LOG_WARNING] = {"warning: ", SBX_CLI_YELLOW},
                [SBX_LOG_INFO] = {"info: ", SBX_CLI_DIM},
                [SBX_LOG_DEBUG] = {"debug: ", SBX_CLI_DIM},
        };
        const struct sbx_cli *cli = data;

        if (level < SBX_LOG_ERROR || level > SBX_LOG_DEBUG)
                level = SBX_LOG_ERROR;
        show_message(&cli->err, levels[level].style, levels[level].label, message, NULL);
}

int sbx_cli_print_json(const struct sbx_cli_stream *stream, const json_t *value, bool indented) {
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(TEXT_MAX);
        _cleanup_free_ char *text = NULL;
        int r = 0;

        if (indented) {
                /* 15 digits: the 17 that tell neighbours apart are noise to people, as in 0.00026729999999999999. */
                text = json_dumps(value, JSON_INDENT(2) | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
                r = text == NULL ? -ENOMEM : sbx_buffer_append_text(&out, text);
        } else {
                r = sbx_json_encode(value, &out);
        }
        if (r >= 0)
                r = sbx_buffer_append_text(&out, "\n");
        return r < 0 ? r : sbx_cli_write(stream, sbx_buffer_bytes(&out));
}

const char *sbx_cli_bytes_text(uint64_t bytes, char text[SBX_CLI_AMOUNT_SIZE]) {
        static const char *const units[] = {"KB", "MB", "GB", "TB"};
        double amount = (double)bytes;
        size_t unit = 0;

        if (bytes < 1024) {
                snprintf(text, SBX_CLI_AMOUNT_SIZE, "%u bytes", (unsigned)bytes);
                return text;
        }
        amount /= 1024;
        while (amount >= 1024 && unit < 3) {
                amount /= 1024;
                unit++;
        }
        snprintf(text, SBX_CLI_AMOUNT_SIZE, amount < 10 ? "%.1f %s" : "%.0f %s", amount, units[unit]);
        return text;
}

const char *sbx_cli_duration_text(uint64_t ns, char text[SBX_CLI_AMOUNT_SIZE]) {
        double ms = (double)ns / 1e6;

        if (ms < 1000)
                snprintf(text, SBX_CLI_AMOUNT_SIZE, ms < 10 ? "%.2f ms" : "%.0f ms", ms);
        else
                snprintf(text, SBX_CLI_AMOUNT_SIZE, "%.1f s", ms / 1000);
        return text;
}
