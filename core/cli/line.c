/* SPDX-License-Identifier: Apache-2.0 */
/* The plain line reader, and the choice between it and the editing one. */
#include "cli/line.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/line_internal.h"
#include "cli/output.h"

struct sbx_cli_line {
        const struct sbx_cli *cli;
        struct sbx_cli_input input;
        struct sbx_cli_editor *editor; /* NULL: plain */
};

int sbx_cli_input_fill(struct sbx_cli_input *input) {
        struct pollfd fds[2] = {
                {.fd = STDIN_FILENO, .events = POLLIN},
                {.fd = input->signals->fd, .events = POLLIN},
        };
        ssize_t n;

        if (input->at < input->size)
                return 1;
        for (;;) {
                if (poll(fds, 2, -1) < 0 && errno != EINTR)
                        return -errno;
                if (fds[1].revents != 0)
                        return -EINTR;
                if (fds[0].revents == 0)
                        continue;
                n = read(STDIN_FILENO, input->bytes, sizeof(input->bytes));
                if (n >= 0)
                        break;
                if (errno != EINTR && errno != EAGAIN)
                        return -errno;
        }
        input->at = 0;
        input->size = (size_t)n;
        return n > 0;
}

int sbx_cli_line_open(const struct sbx_cli *cli, const char *history, const struct sbx_cli_signals *signals,
                      struct sbx_cli_line **ret_line, struct sbx_error *err) {
        struct sbx_cli_line *line = calloc(1, sizeof(*line));

        if (line == NULL)
                return SBX_NOMEM(err, "cli");
        line->cli = cli;
        line->input.signals = signals;
#if SBX_HAVE_LIBEDIT
        if (isatty(STDIN_FILENO) != 0 && cli->out.terminal)
                line->editor = sbx_cli_editor_new(cli, history, &line->input);
#else
        (void)history;
#endif
        *ret_line = line;
        return 0;
}

void sbx_cli_line_free(struct sbx_cli_line *line) {
        if (line == NULL)
                return;
#if SBX_HAVE_LIBEDIT
        sbx_cli_editor_free(line->editor);
#endif
        free(line);
}

bool sbx_cli_line_edits(const struct sbx_cli_line *line) {
        return line->editor != NULL;
}

static int read_plain(struct sbx_cli_line *line, const char *prompt, struct sbx_buffer *out) {
        struct sbx_cli_input *input = &line->input;
        bool any = false;
        int r = 0;

        if (isatty(STDIN_FILENO) != 0)
                r = sbx_cli_print(&line->cli->out, "%s", prompt);
        while (r >= 0) {
                const char *begin, *newline;
                size_t size;

                r = sbx_cli_input_fill(input);
                if (r <= 0)
                        break;
                begin = input->bytes + input->at;
                newline = memchr(begin, '\n', input->size - input->at);
                size = newline != NULL ? (size_t)(newline - begin) + 1 : input->size - input->at;
                input->at += size;
                any = true;
                r = sbx_buffer_append(out, begin, size);
                if (r >= 0 && newline != NULL)
                        return 1;
        }
        return r == 0 && any ? 1 : r;
}

int sbx_cli_line_read(struct sbx_cli_line *line, const char *prompt, struct sbx_buffer *out) {
#if SBX_HAVE_LIBEDIT
        if (line->editor != NULL)
                return sbx_cli_editor_read(line->editor, prompt, out);
#endif
        return read_plain(line, prompt, out);
}
