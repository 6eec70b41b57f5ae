/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 (RFC 3629): validate, repair, cut. */
#include "base/utf8.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */
#define NUL_SYMBOL "\xE2\x90\x80"  /* U+2400 */

/* How many bytes at `bytes` are plain ASCII; eight at a time, since most text is. */
static size_t skip_ascii(const unsigned char *bytes, size_t size) {
        size_t position = 0;
        uint64_t word;

        while (size - position >= sizeof(word)) {
                memcpy(&word, bytes + position, sizeof(word));
                if ((word & UINT64_C(0x8080808080808080)) != 0)
                        break;
                position += sizeof(word);
        }
        while (position < size && bytes[position] < 0x80)
                position++;
        return position;
}

/* Length of the character that a lead byte begins, and the range its second byte must have (RFC 3629, section 4): that
 * range alone bars overlong forms, surrogates and values above U+10FFFF. 0: no lead byte. */
static unsigned sequence_length(unsigned char lead, unsigned char *ret_low, unsigned char *ret_high) {
        *ret_low = 0x80;
        *ret_high = 0xBF;
        if (lead < 0x80)
                return 1;
        if (lead >= 0xC2 && lead <= 0xDF)
                return 2;
        if (lead >= 0xE0 && lead <= 0xEF) {
                if (lead == 0xE0)
                        *ret_low = 0xA0;
                else if (lead == 0xED)
                        *ret_high = 0x9F;
                return 3;
        }
        if (lead >= 0xF0 && lead <= 0xF4) {
                if (lead == 0xF0)
                        *ret_low = 0x90;
                else if (lead == 0xF4)
                        *ret_high = 0x8F;
                return 4;
        }
        return 0;
}

/* Looks at one character. True: valid, *ret_length bytes long. False: *ret_length bytes form the maximal invalid part
 * (Unicode 15, section 3.9, "U+FFFD Substitution of Maximal Subparts"), at least 1. */
static bool scan_character(const unsigned char *bytes, size_t size, size_t *ret_length) {
        unsigned char low, high;
        unsigned length = sequence_length(bytes[0], &low, &high);

        *ret_length = 1;
        if (length == 0)
                return false;
        for (unsigned i = 1; i < length; i++) {
                if (i >= size || bytes[i] < low || bytes[i] > high)
                        return false;
                low = 0x80;
                high = 0xBF;
                *ret_length = i + 1;
        }
        return true;
}

/* Length of the valid part at the front. */
static size_t valid_prefix(const unsigned char *bytes, size_t size) {
        size_t position = 0, length;

        for (;;) {
                position += skip_ascii(bytes + position, size - position);
                if (position == size || !scan_character(bytes + position, size - position, &length))
                        return position;
                position += length;
        }
}

bool sbx_utf8_valid(struct sbx_bytes text) {
        return text.size == 0 || valid_prefix(text.data, text.size) == text.size;
}

/* Appends valid text, with its NULs shown. */
static int append_visible(const unsigned char *bytes, size_t size, struct sbx_buffer *out) {
        while (size > 0) {
                const unsigned char *nul = memchr(bytes, 0, size);
                size_t span = nul != NULL ? (size_t)(nul - bytes) : size;
                int r = sbx_buffer_append(out, bytes, span);

                if (r == 0 && nul != NULL)
                        r = sbx_buffer_append(out, NUL_SYMBOL, sizeof(NUL_SYMBOL) - 1);
                if (r < 0)
                        return r;
                span += nul != NULL;
                bytes += span;
                size -= span;
        }
        return 0;
}

static int append_repaired(const unsigned char *bytes, size_t size, bool replace_nul, struct sbx_buffer *out) {
        while (size > 0) {
                size_t valid = valid_prefix(bytes, size), broken;
                int r = replace_nul ? append_visible(bytes, valid, out) : sbx_buffer_append(out, bytes, valid);

                if (r < 0)
                        return r;
                bytes += valid;
                size -= valid;
                if (size == 0)
                        break;
                scan_character(bytes, size, &broken);
                r = sbx_buffer_append(out, REPLACEMENT, sizeof(REPLACEMENT) - 1);
                if (r < 0)
                        return r;
                bytes += broken;
                size -= broken;
        }
        return 0;
}

int sbx_utf8_repair(struct sbx_bytes text, bool replace_nul, struct sbx_buffer *out) {
        size_t before = out->size;
        int r = append_repaired(text.data, text.size, replace_nul, out);

        if (r < 0 && out->data != NULL) {
                out->size = before;
                out->data[before] = '\0';
        }
        return r;
}

size_t sbx_utf8_cut(struct sbx_bytes text, size_t limit) {
        const unsigned char *bytes = text.data;
        unsigned char low, high;

        if (text.size <= limit)
                return text.size;
        if ((bytes[limit] & 0xC0) != 0x80)
                return limit;
        /* A lead byte can stand at most three bytes before; bytes without one are no character and may be cut. */
        for (size_t back = 1; back <= 3 && back <= limit; back++) {
                unsigned char byte = bytes[limit - back];

                if ((byte & 0xC0) != 0x80)
                        return sequence_length(byte, &low, &high) > back ? limit - back : limit;
        }
        return limit;
}
