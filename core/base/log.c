/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines to one receiver, made safe to print. */
#include "base/log.h"

#include <strings.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/utf8.h"

/* A line is at most this long; what is longer ends in "...". On the stack, so that logging works without memory. */
#define LINE_MAX_BYTES 4096

static const char *const level_names[] = {NULL, "error", "warning", "info", "debug"};
#define LEVEL_COUNT (int)(sizeof(level_names) / sizeof(level_names[0]))

int sbx_log_level_from_name(const char *name, int *ret_level) {
        for (int level = 1; level < LEVEL_COUNT; level++)
                if (strcasecmp(name, level_names[level]) == 0) {
                        *ret_level = level;
                        return 0;
                }
        return -EINVAL;
}

/* Bytes at `text` that a terminal or a log reader could take for something else than text: their number, 0 for none.
 * Controls, C1 controls, line separators, bidirectional overrides, and bytes that are not UTF-8. */
static size_t unsafe_length(const unsigned char *text, size_t size) {
        size_t length;

        if (text[0] < 0x80)
                return text[0] < 0x20 || text[0] == 0x7F;
        for (length = 1; length < size && length < 4 && (text[length] & 0xC0) == 0x80; length++)
                ;
        if (!sbx_utf8_valid((struct sbx_bytes){text, length}))
                return 1;
        if (length == 2 && text[0] == 0xC2 && text[1] < 0xA0)
                return 2;
        if (length == 3 && text[0] == 0xE2 && text[1] == 0x80 && text[2] >= 0xA8 && text[2] <= 0xAE)
                return 3; /* U+2028 .. U+202E */
        if (length == 3 && text[0] == 0xE2 && text[1] == 0x81 && text[2] >= 0xA6 && text[2] <= 0xA9)
                return 3; /* U+2066 .. U+2069 */
        return 0;
}

/* Writes `text` with unsafe bytes as \n, \t or \xNN. Returns false when it had to be cut. */
static bool escape_line(const char *text, char *out, size_t capacity) {
        const unsigned char *p = (const unsigned char *)text;
        size_t left = strlen(text), used = 0;

        while (left > 0) {
                size_t bad = unsafe_length(p, left);
                size_t take = 1;

                if (capacity - used <= 4 * 3 + 1)
                        break;
                if (bad == 0) {
                        while (take < left && (p[take] & 0xC0) == 0x80)
                                take++;
                        memcpy(out + used, p, take);
                        used += take;
                } else if (*p == '\n' || *p == '\t') {
                        out[used++] = '\\';
                        out[used++] = *p == '\n' ? 'n' : 't';
                } else {
                        take = bad;
                        for (size_t i = 0; i < bad; i++)
                                used += (size_t)snprintf(out + used, capacity - used, "\\x%02x", p[i]);
                }
                p += take;
                left -= take;
        }
        out[used] = '\0';
        return left == 0;
}

static void write_stderr(int level, const char *message) {
        static const char program[] = "snipara-sandbox: ", separator[] = ": ", newline[] = "\n";
        const char *name = level > 0 && level < LEVEL_COUNT ? level_names[level] : "log";
        struct iovec parts[] = {
                {(void *)program, sizeof(program) - 1},
                {(void *)name, strlen(name)},
                {(void *)separator, sizeof(separator) - 1},
                {(void *)message, strlen(message)},
                {(void *)newline, 1},
        };

        /* One write, so that lines of several threads do not mix. There is nobody to tell that it failed. */
        if (writev(STDERR_FILENO, parts, sizeof(parts) / sizeof(parts[0])) < 0)
                return;
}

void sbx_log(const struct sbx_logger *logger, int level, const char *format, ...) {
        char text[LINE_MAX_BYTES], line[LINE_MAX_BYTES + sizeof("...")];
        va_list args;
        int length;

        if (level > (logger != NULL ? logger->level : SBX_LOG_WARNING))
                return;
        va_start(args, format);
        length = vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        if (length < 0)
                return;
        if ((size_t)length >= sizeof(text))
                text[sbx_utf8_cut((struct sbx_bytes){text, sizeof(text) - 1}, sizeof(text) - 5)] = '\0';
        if (!escape_line(text, line, LINE_MAX_BYTES) || (size_t)length >= sizeof(text))
                memcpy(line + strlen(line), "...", sizeof("..."));
        if (logger != NULL && logger->write != NULL)
                logger->write(logger->data, level, line);
        else
                write_stderr(level, line);
}
