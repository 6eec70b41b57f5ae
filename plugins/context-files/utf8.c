/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 (RFC 3629) of what was read: is it text, repair, cut; and JSON strings of it. */
#include "utf8.h"

#define REPLACEMENT "\xEF\xBF\xBD"

/* Length of the character at `bytes` (Unicode, table 3-7: no overlong forms, no surrogates); 0: not one, or NUL;
 * negative: the end cuts it. */
static int character_length(const unsigned char *bytes, size_t size) {
        unsigned char lead = bytes[0], low = 0x80, high = 0xBF;
        int length;

        if (lead < 0x80)
                return lead != 0;
        if (lead < 0xC2 || lead > 0xF4)
                return 0;
        length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        if (lead == 0xE0)
                low = 0xA0;
        else if (lead == 0xED)
                high = 0x9F;
        else if (lead == 0xF0)
                low = 0x90;
        else if (lead == 0xF4)
                high = 0x8F;
        for (int i = 1; i < length; i++) {
                if ((size_t)i >= size)
                        return -1;
                if (bytes[i] < (i == 1 ? low : 0x80) || bytes[i] > (i == 1 ? high : 0xBF))
                        return 0;
        }
        return length;
}

bool utf8_is_text(const char *data, size_t size, bool cut) {
        const unsigned char *bytes = (const unsigned char *)data;

        for (size_t i = 0; i < size;) {
                int length = character_length(bytes + i, size - i);

                if (length < 0)
                        return cut;
                if (length == 0)
                        return false;
                i += (size_t)length;
        }
        return true;
}

char *utf8_repair(const char *data, size_t size, size_t *ret_size) {
        const unsigned char *bytes = (const unsigned char *)data;
        size_t bad = 0, at = 0;
        char *text;

        for (size_t i = 0; i < size;) {
                int length = character_length(bytes + i, size - i);

                bad += length <= 0;
                i += length > 0 ? (size_t)length : 1;
        }
        text = malloc(size + bad * 2 + 1);
        if (text == NULL)
                return NULL;
        for (size_t i = 0; i < size;) {
                int length = character_length(bytes + i, size - i);

                if (length > 0) {
                        memcpy(text + at, bytes + i, (size_t)length);
                        at += (size_t)length;
                        i += (size_t)length;
                } else {
                        memcpy(text + at, REPLACEMENT, 3);
                        at += 3;
                        i++;
                }
        }
        text[at] = '\0';
        *ret_size = at;
        return text;
}

size_t utf8_cut(const char *data, size_t size, size_t limit) {
        if (size <= limit)
                return size;
        while (limit > 0 && ((unsigned char)data[limit] & 0xC0) == 0x80)
                limit--;
        return limit;
}

json_t *utf8_json(const char *data, size_t size) {
        _cleanup_free_ char *text = NULL;

        if (size == 0)
                return json_string("");
        if (utf8_is_text(data, size, false))
                return json_stringn_nocheck(data, size);
        text = utf8_repair(data, size, &size);
        return text != NULL ? json_stringn_nocheck(text, size) : NULL;
}
