/* SPDX-License-Identifier: Apache-2.0 */
/* Makes untrusted bytes harmless for a terminal. Control sequences are those of ECMA-48. */
#include "cli/terminal.h"

#include <stdbool.h>

#include "base/utf8.h"

enum verdict {
        PASS,   /* harmless as it is */
        SHOW,   /* a control character, to be made visible */
        BROKEN, /* not UTF-8 */
        MORE,   /* can't be told yet */
};

/* A control sequence: ESC [ parameters intermediates final. Only some finals are obeyed, without private parameters:
 * SGR (colour), EL (clear in the line), and cursor movement that progress bars need. Reports, modes, titles are not. */
static enum verdict classify_escape(const unsigned char *text, size_t size, size_t *ret_size) {
        size_t i = 2;

        *ret_size = 1;
        if (size >= 2 && text[1] != '[')
                return SHOW;
        while (i < size && ((text[i] >= '0' && text[i] <= '9') || text[i] == ';' || text[i] == ':'))
                i++;
        if (i >= sizeof(((struct sbx_cli_filter *)NULL)->pending))
                return SHOW;
        if (i >= size)
                return MORE;
        if (strchr("mKABCDG", text[i]) == NULL || text[i] == '\0')
                return SHOW;
        *ret_size = i + 1;
        return PASS;
}

static size_t utf8_length(unsigned char lead) {
        return lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
}

static uint32_t utf8_decode(const unsigned char *text, size_t size) {
        uint32_t code = text[0] & (0xFFu >> (size + 1));

        for (size_t i = 1; i < size; i++)
                code = code << 6 | (text[i] & 0x3Fu);
        return code;
}

/* Changes of the writing direction can make text read as something else (CVE-2021-42574). */
static bool is_invisible_control(uint32_t code) {
        return (code >= 0x80 && code <= 0x9F) || code == 0x200E || code == 0x200F ||
               (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

static enum verdict classify_wide(const unsigned char *text, size_t size, size_t *ret_size) {
        size_t length = utf8_length(text[0]);

        *ret_size = 1;
        if (text[0] < 0xC2 || text[0] > 0xF4)
                return BROKEN;
        for (size_t i = 1; i < length; i++) {
                if (i >= size)
                        return MORE;
                if ((text[i] & 0xC0) != 0x80)
                        return BROKEN;
        }
        if (!sbx_utf8_valid((struct sbx_bytes){text, length}))
                return BROKEN;
        *ret_size = length;
        return is_invisible_control(utf8_decode(text, length)) ? SHOW : PASS;
}

static bool is_plain(unsigned char c) {
        return (c >= 0x20 && c < 0x7F) || c == '\n' || c == '\t' || c == '\r' || c == '\b';
}

/* Judges the front of `text`, which is not empty. */
static enum verdict classify(const unsigned char *text, size_t size, size_t *ret_size) {
        if (is_plain(text[0])) {
                size_t i = 1;

                while (i < size && is_plain(text[i]))
                        i++;
                *ret_size = i;
                return PASS;
        }
        if (text[0] == 0x1B)
                return classify_escape(text, size, ret_size);
        if (text[0] >= 0x80)
                return classify_wide(text, size, ret_size);
        *ret_size = 1;
        return SHOW;
}

static int append_shown(const unsigned char *text, size_t size, struct sbx_buffer *out) {
        if (size == 1)
                return sbx_buffer_printf(out, "^%c", text[0] ^ 0x40);
        return sbx_buffer_printf(out, "\\u%04x", (unsigned)utf8_decode(text, size));
}

static int filter_bytes(const unsigned char *text, size_t size, bool last, struct sbx_buffer *out, size_t *ret_used) {
        size_t used = 0;
        int r = 0;

        while (used < size && r >= 0) {
                size_t length = 1;
                enum verdict verdict = classify(text + used, size - used, &length);

                if (verdict == MORE && !last)
                        break;
                if (verdict == MORE) {
                        verdict = text[used] == 0x1B ? SHOW : BROKEN;
                        length = 1;
                }
                if (verdict == PASS)
                        r = sbx_buffer_append(out, text + used, length);
                else if (verdict == SHOW)
                        r = append_shown(text + used, length, out);
                else
                        r = sbx_buffer_append_text(out, "\xEF\xBF\xBD");
                used += length;
        }
        *ret_used = used;
        return r < 0 ? r : 0;
}

int sbx_cli_filter_append(struct sbx_cli_filter *filter, struct sbx_bytes bytes, struct sbx_buffer *out) {
        const unsigned char *text = bytes.data;
        size_t size = bytes.size, used = 0;
        int r;

        /* Complete what is pending byte by byte; it is at most a few. */
        while (filter->pending_size > 0 && size > 0) {
                filter->pending[filter->pending_size++] = *text++;
                size--;
                r = filter_bytes(filter->pending, filter->pending_size, false, out, &used);
                if (r < 0)
                        return r;
                filter->pending_size -= used;
                memmove(filter->pending, filter->pending + used, filter->pending_size);
        }
        if (size == 0)
                return 0;
        r = filter_bytes(text, size, false, out, &used);
        if (r < 0)
                return r;
        filter->pending_size = size - used;
        memcpy(filter->pending, text + used, filter->pending_size);
        return 0;
}

int sbx_cli_filter_finish(struct sbx_cli_filter *filter, struct sbx_buffer *out) {
        size_t used;
        int r = filter_bytes(filter->pending, filter->pending_size, true, out, &used);

        filter->pending_size = 0;
        return r;
}
