/* SPDX-License-Identifier: Apache-2.0 */
/* Base64, both ways. */
#include "base/base64.h"

#include <errno.h>
#include <stdbool.h>

int sbx_base64_encode(struct sbx_bytes data, struct sbx_buffer *out) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const unsigned char *in = data.data;
        char *at;
        int r;

        if (data.size > SIZE_MAX / 4)
                return -EFBIG;
        r = sbx_buffer_reserve(out, sbx_base64_size(data.size));
        if (r < 0 || data.size == 0)
                return r;
        at = out->data + out->size;
        for (size_t i = 0; i < data.size; i += 3) {
                size_t left = data.size - i;
                uint32_t group = (uint32_t)in[i] << 16;

                if (left > 1)
                        group |= (uint32_t)in[i + 1] << 8;
                if (left > 2)
                        group |= in[i + 2];
                *at++ = digits[group >> 18];
                *at++ = digits[group >> 12 & 63];
                *at++ = left > 1 ? digits[group >> 6 & 63] : '=';
                *at++ = left > 2 ? digits[group & 63] : '=';
        }
        *at = '\0';
        out->size += sbx_base64_size(data.size);
        return 0;
}

static int digit_value(unsigned char c) {
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* The group at `in` of which `digits` (2 to 4) are digits. False: `*ret_wrong` of them is none, or has unused bits. */
static bool decode_group(const unsigned char *in, unsigned digits, unsigned char out[3], unsigned *ret_wrong) {
        uint32_t group = 0;

        for (unsigned i = 0; i < digits; i++) {
                int value = digit_value(in[i]);

                *ret_wrong = i;
                if (value < 0)
                        return false;
                group |= (uint32_t)value << (18 - 6 * i);
        }
        out[0] = (unsigned char)(group >> 16);
        out[1] = (unsigned char)(group >> 8);
        out[2] = (unsigned char)group;
        return digits == 4 || (group & (digits == 3 ? 0xffu : 0xffffu)) == 0;
}

int sbx_base64_decode(struct sbx_bytes text, struct sbx_buffer *out, size_t *ret_position) {
        const unsigned char *in = text.data;
        size_t before = out->size, position = text.size;
        unsigned padding = 0, wrong = 0;
        int r;

        r = text.size % 4 == 0 ? sbx_buffer_reserve(out, text.size / 4 * 3) : -EINVAL;
        if (r == 0 && text.size > 0)
                padding = in[text.size - 1] != '=' ? 0 : in[text.size - 2] != '=' ? 1 : 2;
        for (size_t i = 0; i < text.size && r == 0; i += 4) {
                unsigned digits = i + 4 == text.size ? 4 - padding : 4;

                if (decode_group(in + i, digits, (unsigned char *)out->data + out->size, &wrong)) {
                        out->size += digits - 1;
                } else {
                        position = i + wrong;
                        r = -EINVAL;
                }
        }
        if (r < 0)
                out->size = before;
        if (out->data != NULL)
                out->data[out->size] = '\0';
        if (r == -EINVAL && ret_position != NULL)
                *ret_position = position;
        return r;
}
