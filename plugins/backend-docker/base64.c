/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 (RFC 4648), for credentials. */
#include <stdlib.h>

#include "image_internal.h"

char *base64_url_encode(const void *data, size_t size) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        const unsigned char *bytes = data;
        char *text = malloc((size + 2) / 3 * 4 + 1), *to = text;

        if (text == NULL)
                return NULL;
        for (size_t i = 0; i < size; i += 3) {
                uint32_t group = (uint32_t)bytes[i] << 16;

                group |= i + 1 < size ? (uint32_t)bytes[i + 1] << 8 : 0;
                group |= i + 2 < size ? (uint32_t)bytes[i + 2] : 0;
                *to++ = digits[group >> 18];
                *to++ = digits[group >> 12 & 63];
                *to++ = i + 1 < size ? digits[group >> 6 & 63] : '=';
                *to++ = i + 2 < size ? digits[group & 63] : '=';
        }
        *to = '\0';
        return text;
}

static int digit_of(char c) {
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(const char *text, char **ret_data, size_t *ret_size) {
        size_t length = strlen(text), size = 0;
        uint32_t group = 0;
        char *data;

        while (length > 0 && text[length - 1] == '=')
                length--;
        if (length % 4 == 1)
                return -EINVAL;
        data = malloc(length / 4 * 3 + 3);
        if (data == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < length; i++) {
                int digit = digit_of(text[i]);

                if (digit < 0) {
                        explicit_bzero(data, size);
                        free(data);
                        return -EINVAL;
                }
                group = group << 6 | (uint32_t)digit;
                if (i % 4 != 0)
                        data[size++] = (char)(group >> (6 - 2 * (i % 4)) & 255);
        }
        data[size] = '\0';
        *ret_data = data;
        *ret_size = size;
        return 0;
}
