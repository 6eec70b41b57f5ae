/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 for plugins, in this header alone: JSON and error texts that cross the ABI must be valid, whatever came from a
 * network, a file or a model. Since ABI 1.1. */
#ifndef SNIPARA_SANDBOX_UTF8_H
#define SNIPARA_SANDBOX_UTF8_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What stands for bytes that are no character: U+FFFD. */
#define SBX_UTF8_REPLACEMENT "\xEF\xBF\xBD"

/* Length in bytes of the character at `data`, of which `size` (at least 1) bytes are there; 0: they do not begin with one
 * (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF). NUL is a character. Any thread. */
static inline size_t sbx_utf8_length(const void *data, size_t size) {
        const unsigned char *bytes = (const unsigned char *)data;
        unsigned char lead = bytes[0], low = 0x80, high = 0xBF;
        size_t length;

        if (lead < 0x80)
                return 1;
        if (lead < 0xC2 || lead > 0xF4)
                return 0;
        length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        if (length > size)
                return 0;
        if (lead == 0xE0)
                low = 0xA0;
        else if (lead == 0xED)
                high = 0x9F;
        else if (lead == 0xF0)
                low = 0x90;
        else if (lead == 0xF4)
                high = 0x8F;
        if (bytes[1] < low || bytes[1] > high)
                return 0;
        for (size_t i = 2; i < length; i++)
                if ((bytes[i] & 0xC0) != 0x80)
                        return 0;
        return length;
}

#ifdef __cplusplus
}
#endif
#endif
