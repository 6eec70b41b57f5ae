/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the isolation report, from a guest to the server (protocol.h has the format). */
#include <stdio.h>
#include <string.h>

#include "jail.h"
#include "util.h"

/* The separators stay out of what is separated. */
static void clean(char *text) {
        for (; *text != '\0'; text++)
                if (*text == '\t' || *text == '\n')
                        *text = ' ';
}

void jail_report_add(struct jail_report *report, const char *name, const char *state, const char *format, ...) {
        char detail[512];
        va_list args;
        int n;

        va_start(args, format);
        vsnprintf(detail, sizeof(detail), format, args);
        va_end(args);
        clean(detail);
        n = snprintf(report->text + report->size, sizeof(report->text) - report->size, "%s\t%s\t%s\n", name, state,
                     detail);
        if (n > 0 && (size_t)n < sizeof(report->text) - report->size)
                report->size += (size_t)n;
        report->text[report->size] = '\0';
}

int jail_report_send(struct jail_report *report, int fd) {
        static const char ready[] = "ready\n";

        if (report->size + sizeof(ready) > sizeof(report->text))
                return -EFBIG;
        memcpy(report->text + report->size, ready, sizeof(ready));
        report->size += sizeof(ready) - 1;
        return write_whole(fd, report->text, report->size);
}

void jail_report_send_failure(int fd, const struct sbx_error *err) {
        char line[sizeof(err->message) + sizeof(err->hint) + 64], message[sizeof(err->message)],
                hint[sizeof(err->hint)];
        int n;

        snprintf(message, sizeof(message), "%s", err->message);
        snprintf(hint, sizeof(hint), "%s", err->hint);
        clean(message);
        clean(hint);
        n = snprintf(line, sizeof(line), "failed\t%d\t%s\t%s\n", err->code, message, hint);
        if (n > 0)
                (void)write_whole(fd, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}
