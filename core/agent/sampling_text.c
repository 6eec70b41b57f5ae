/* SPDX-License-Identifier: Apache-2.0 */
/* The text protocol for models that can't be given tools. What a model writes is read by one strict rule, so that it is
 * plain what of it is executed: nothing is guessed or mended. */
#include "agent/sampling_text.h"

#include <stdbool.h>
#include <string.h>

#define FENCE "```"
#define CODE_FENCE "```python"
#define FINAL_WORD "FINAL:"

static const char code_rules[] =
        "To run Python in the session, write one block, its fences on lines of their own:\n" CODE_FENCE "\n"
        "print(6 * 7)\n" FENCE "\n"
        "and nothing after it: what follows the first block is not read. The next message tells what came of it. Other "
        "tools, where there are any, are called in such code, and only there.\n";

static const char final_rules[] =
        "To end with an answer, write a line that begins with `" FINAL_WORD
        "` and the answer after it, up to the end of your message. Never write it together with a block: look at what "
        "came of the code first.\n";

/* ---- reading ---- */

static bool begins_with(struct sbx_bytes line, const char *word) {
        size_t length = strlen(word);

        return line.size >= length && memcmp(line.data, word, length) == 0;
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct sbx_bytes without_end_blanks(struct sbx_bytes text) {
        while (text.size > 0 && is_blank(((const char *)text.data)[text.size - 1]))
                text.size--;
        return text;
}

static struct sbx_bytes without_blanks(struct sbx_bytes text) {
        while (text.size > 0 && is_blank(*(const char *)text.data))
                text = (struct sbx_bytes){(const char *)text.data + 1, text.size - 1};
        return without_end_blanks(text);
}

/* The line at `at`, without its end; `*ret_next` is where the next one begins. */
static struct sbx_bytes line_at(struct sbx_bytes text, size_t at, size_t *ret_next) {
        const char *begin = (const char *)text.data + at, *end = memchr(begin, '\n', text.size - at);
        size_t size = end != NULL ? (size_t)(end - begin) : text.size - at;

        *ret_next = at + size + (end != NULL);
        return (struct sbx_bytes){begin, size};
}

static bool is_line(struct sbx_bytes line, const char *word) {
        line = without_end_blanks(line);
        return line.size == strlen(word) && begins_with(line, word);
}

/* Where the closing fence of a block begins whose first line is at `at`; false: it has none. */
static bool find_end(struct sbx_bytes text, size_t at, size_t *ret_end, size_t *ret_next) {
        while (at < text.size) {
                size_t next;

                if (is_line(line_at(text, at, &next), FENCE)) {
                        *ret_end = at;
                        *ret_next = next;
                        return true;
                }
                at = next;
        }
        return false;
}

static struct sbx_bytes part(struct sbx_bytes text, size_t from, size_t to) {
        return (struct sbx_bytes){(const char *)text.data + from, to - from};
}

/* The line at `at` as an action; false: it is none. */
static bool read_action(struct sbx_bytes answer, size_t at, size_t next, unsigned can,
                        struct sbx_text_action *ret_action) {
        struct sbx_bytes line = part(answer, at, next);
        size_t end, after;

        if (is_line(line, CODE_FENCE) && (can & SBX_TEXT_CAN_CODE) != 0 && find_end(answer, next, &end, &after)) {
                *ret_action = (struct sbx_text_action){SBX_TEXT_CODE, without_end_blanks(part(answer, 0, at)),
                                                       part(answer, next, end)};
                return true;
        }
        if (begins_with(line, FINAL_WORD) && (can & SBX_TEXT_CAN_FINAL) != 0) {
                *ret_action =
                        (struct sbx_text_action){SBX_TEXT_FINAL, without_end_blanks(part(answer, 0, at)),
                                                 without_blanks(part(answer, at + strlen(FINAL_WORD), answer.size))};
                return ret_action->body.size > 0;
        }
        return false;
}

void sbx_text_action_find(struct sbx_bytes answer, unsigned can, struct sbx_text_action *ret_action) {
        for (size_t at = 0, next; at < answer.size; at = next) {
                struct sbx_bytes line = line_at(answer, at, &next);
                size_t end;

                if (read_action(answer, at, next, can, ret_action))
                        return;
                /* Another block, or one without an end: what is quoted in it is not meant. */
                if (begins_with(line, FENCE) && !find_end(answer, next, &end, &next))
                        break;
        }
        *ret_action = (struct sbx_text_action){SBX_TEXT_ONLY, answer, {0}};
}

/* ---- writing ---- */

int sbx_text_rules(unsigned can, struct sbx_buffer *out) {
        int r;

        if (can == 0)
                return 0;
        r = sbx_buffer_append_text(out,
                                   "\nHow to act: this is a conversation in plain text, and you have no other way "
                                   "to call tools than the following. Where tools are spoken of above, do it so.\n");
        if (r == 0 && (can & SBX_TEXT_CAN_CODE) != 0)
                r = sbx_buffer_append_text(out, code_rules);
        if (r == 0 && (can & SBX_TEXT_CAN_FINAL) != 0)
                r = sbx_buffer_append_text(out, final_rules);
        return r;
}

int sbx_text_code(struct sbx_bytes code, struct sbx_buffer *out) {
        bool ended = code.size == 0 || ((const char *)code.data)[code.size - 1] == '\n';
        int r = sbx_buffer_append_text(out, CODE_FENCE "\n");

        if (r == 0 && code.size > 0)
                r = sbx_buffer_append(out, code.data, code.size);
        return r < 0 ? r : sbx_buffer_append_text(out, ended ? FENCE "\n" : "\n" FENCE "\n");
}

int sbx_text_final(struct sbx_bytes answer, struct sbx_buffer *out) {
        int r = sbx_buffer_append_text(out, FINAL_WORD " ");

        return r < 0 ? r : sbx_buffer_append(out, answer.data, answer.size);
}
