/* SPDX-License-Identifier: Apache-2.0 */
/* What a build says: its end is kept for an error, its last line for whoever watches. It comes from programs of the
 * project and of packages: control characters and escape sequences do not survive. */
#include <ctype.h>

#include "prepare_internal.h"

/* The character at `text`, or what stands for it; returns how many bytes were used. */
static size_t next_character(const char *text, char *ret_character) {
        size_t used = 1;

        *ret_character = *text;
        if (*text == '\033') { /* CSI: up to its final byte */
                *ret_character = '\0';
                if (text[1] != '[')
                        return 1;
                for (used = 2; text[used] >= 0x20 && text[used] < 0x40;)
                        used++;
                return text[used] >= 0x40 && text[used] < 0x7F ? used + 1 : used;
        }
        if (*text == '\r')
                *ret_character = '\n';
        else if (*text == '\t')
                *ret_character = ' ';
        else if (((unsigned char)*text < 0x20 && *text != '\n') || *text == 0x7F)
                *ret_character = '\0';
        return used;
}

static void add_character(struct build_log *log, char character) {
        size_t half = BUILD_LOG_MAX / 2;

        if (character == '\0' || (character == '\n' && log->size > 0 && log->text[log->size - 1] == '\n'))
                return;
        if (log->size + 1 == BUILD_LOG_MAX) {
                memmove(log->text, log->text + half, log->size - half);
                log->size -= half;
        }
        log->text[log->size++] = character;
        log->text[log->size] = '\0';
}

/* "Step 3/8 : RUN ..." of Docker, "STEP 3/8: RUN ..." of Podman. What the steps before it said is no longer of
 * interest.
 */
static void take_step(struct build_log *log, const char *line) {
        const char *number;
        size_t length;

        if (strncmp(line, "Step ", 5) != 0 && strncmp(line, "STEP ", 5) != 0)
                return;
        number = strchr(line, ' ') + 1;
        length = strspn(number, "0123456789/");
        if (length == 0 || length >= sizeof(log->step))
                return;
        snprintf(log->step, sizeof(log->step), "%.*s", (int)length, number);
        log->size = 0;
        log->text[0] = '\0';
}

/* What engines say of their own layers and containers. */
static bool is_machinery(const char *line) {
        static const char *const beginnings[] = {
                "--->",  "-->", "Removing intermediate", "COMMIT ", "Successfully built ", "Successfully tagged ",
                "LABEL "};

        for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
                if (strncmp(line, beginnings[i], strlen(beginnings[i])) == 0)
                        return true;
        return false;
}

static const char *without_step(const char *line) {
        if (strncmp(line, "Step ", 5) == 0 || strncmp(line, "STEP ", 5) == 0) {
                line += 5 + strspn(line + 5, "0123456789/");
                line += strspn(line, " :");
        }
        return line;
}

static void take_line(struct build_log *log, const char *text) {
        const char *last = text + strspn(text, " \r\n\t");
        size_t size;

        for (const char *at = last; *at != '\0'; at += strspn(at, "\r\n")) {
                last = at;
                at += strcspn(at, "\r\n");
        }
        last = without_step(last + strspn(last, " "));
        if ((unsigned char)*last <= 0x20 || is_machinery(last))
                return;
        size = strcspn(last, "\r\n\033");
        if (size >= sizeof(log->line))
                size = sizeof(log->line) - 1;
        while (size > 0 && ((unsigned char)last[size] & 0xC0) == 0x80)
                size--; /* no half of a character */
        memcpy(log->line, last, size);
        log->line[size] = '\0';
        for (char *at = log->line; *at != '\0'; at++)
                if (iscntrl((unsigned char)*at))
                        *at = ' ';
}

void build_log_add(struct build_log *log, const char *text) {
        take_step(log, text);
        take_line(log, text);
        if (is_machinery(text + strspn(text, " ")))
                return;
        text = without_step(text);
        while (*text != '\0') {
                char character;

                text += next_character(text, &character);
                add_character(log, character);
        }
}

void build_log_tail(const struct build_log *log, unsigned lines, char *text, size_t size) {
        size_t end = log->size, begin;

        while (end > 0 && log->text[end - 1] == '\n')
                end--;
        for (begin = end; begin > 0 && lines > 0 && end - begin < size - 1; begin--)
                if (log->text[begin - 1] == '\n' && --lines == 0)
                        break;
        /* Not from the middle of a line, if there is another. */
        if (begin > 0 && log->text[begin - 1] != '\n') {
                const char *line = memchr(log->text + begin, '\n', end - begin);

                if (line != NULL)
                        begin = (size_t)(line - log->text) + 1;
        }
        while (begin < end && ((unsigned char)log->text[begin] & 0xC0) == 0x80)
                begin++;
        memcpy(text, log->text + begin, end - begin);
        text[end - begin] = '\0';
}
