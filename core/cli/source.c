/* SPDX-License-Identifier: Apache-2.0 */
/* Python source: where it comes from, and whether what was typed so far is a whole statement.
 *
 * Completeness is judged here and not in the guest: a prompt must not depend on what the code did to the interpreter.
 * The rules are those of Python's own interactive reader, from the lexical grammar alone
 * (docs.python.org/3/reference/lexical_analysis.html): a wrong guess costs an extra empty line, nothing else. */
#include "cli/source.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "session/session.h"

#define ORIGIN "cli"
#define CHUNK 65536

static int read_stream(int fd, const char *name, struct sbx_buffer *out, struct sbx_error *err) {
        for (;;) {
                ssize_t n;
                int r = sbx_buffer_reserve(out, out->max - out->size < CHUNK ? out->max - out->size : CHUNK);

                if (r < 0)
                        return SBX_NOMEM(err, ORIGIN);
                if (out->size > SBX_CODE_MAX_BYTES)
                        return sbx_error_set(err, -EFBIG, ORIGIN, "the limit for one piece of code is 16 MiB",
                                             "%s is too long", name);
                n = read(fd, out->data + out->size, out->capacity - out->size - 1);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "can't read %s: %s", name,
                                             SBX_ERRNO_TEXT(-errno));
                if (n == 0)
                        return 0;
                out->size += (size_t)n;
                out->data[out->size] = '\0';
        }
}

int sbx_cli_source_read(const char *path, struct sbx_buffer *out, struct sbx_error *err) {
        _cleanup_close_ int fd = -1;

        if (strcmp(path, "-") == 0)
                return read_stream(STDIN_FILENO, "standard input", out, err);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0) {
                int code = -errno;

                return sbx_error_set(
                        err, -EINVAL, ORIGIN,
                        code == -ENOENT ? "give the path of a Python file, '-' for standard input, or -c CODE" : NULL,
                        "can't open %s: %s", path, SBX_ERRNO_TEXT(code));
        }
        return read_stream(fd, path, out, err);
}

/* ---- completeness -------------------------------------------------------------------------------------- */

struct scan {
        const char *text;
        size_t size, at;
        unsigned depth; /* open brackets */
        bool open;      /* a triple-quoted string or a backslash reaches beyond the end */
        bool block;     /* a compound statement waits for its empty line */
        bool logical;   /* something of the logical line has been seen */
        bool blank;     /* nothing of the physical line has been seen */
        char last;      /* last character of the logical line that is no blank and no comment */
};

static bool is_word(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
               ((unsigned char)c & 0x80) != 0;
}

static bool starts_with_word(const struct scan *scan, const char *word) {
        size_t length = strlen(word);

        return scan->size - scan->at >= length && memcmp(scan->text + scan->at, word, length) == 0 &&
               (scan->at + length == scan->size || !is_word(scan->text[scan->at + length]));
}

static bool starts_compound(const struct scan *scan) {
        static const char *const words[] = {"if", "while", "for", "def", "class", "with", "try", "async"};

        if (scan->text[scan->at] == '@')
                return true;
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                if (starts_with_word(scan, words[i]))
                        return true;
        return false;
}

/* Steps over a string literal that begins here. */
static void skip_string(struct scan *scan) {
        char quote = scan->text[scan->at];
        const char triple[3] = {quote, quote, quote};
        bool is_triple = scan->size - scan->at >= 3 && memcmp(scan->text + scan->at, triple, 3) == 0;

        scan->at += is_triple ? 3 : 1;
        while (scan->at < scan->size) {
                char c = scan->text[scan->at];

                if (c == '\\') {
                        scan->at += 2;
                        continue;
                }
                if (!is_triple && (c == quote || c == '\n')) {
                        scan->at += c == quote;
                        return;
                }
                if (is_triple && scan->size - scan->at >= 3 && memcmp(scan->text + scan->at, triple, 3) == 0) {
                        scan->at += 3;
                        return;
                }
                scan->at++;
        }
        scan->at = scan->size;
        scan->open = true;
}

static void end_line(struct scan *scan) {
        if (scan->depth == 0 && scan->last == ':')
                scan->block = true;
        else if (scan->depth == 0 && scan->blank)
                scan->block = false;
        if (scan->depth == 0) {
                scan->logical = false;
                scan->last = '\0';
        }
        scan->blank = true;
        scan->at++;
}

/* One token, or one character of it: the first of a logical line tells whether it begins a compound statement. */
static void scan_token(struct scan *scan) {
        char c = scan->text[scan->at];

        if (!scan->logical && starts_compound(scan))
                scan->block = true;
        scan->logical = true;
        scan->blank = false;
        scan->last = c;
        if (c == '"' || c == '\'') {
                skip_string(scan);
                return;
        }
        if (strchr("([{", c) != NULL)
                scan->depth++;
        else if (strchr(")]}", c) != NULL && scan->depth > 0)
                scan->depth--;
        scan->at++;
}

bool sbx_cli_source_incomplete(struct sbx_bytes text) {
        struct scan scan = {.text = text.data, .size = text.size, .blank = true};

        while (scan.at < scan.size) {
                char c = scan.text[scan.at];

                if (c == '\n')
                        end_line(&scan);
                else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\0')
                        scan.at++;
                else if (c == '#')
                        while (scan.at < scan.size && scan.text[scan.at] != '\n')
                                scan.at++;
                else if (c == '\\' && scan.at + 1 < scan.size && scan.text[scan.at + 1] == '\n') {
                        scan.blank = false;
                        scan.at += 2;
                        scan.open = scan.at == scan.size;
                } else
                        scan_token(&scan);
        }
        return scan.open || scan.depth > 0 || scan.block;
}
