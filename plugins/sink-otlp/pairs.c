/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of keys and values in environment variables. */
#include "pairs.h"

#include "util.h"

static char *trim(char *text) {
        size_t size;

        text += strspn(text, " \t");
        size = strlen(text);
        while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\t'))
                size--;
        text[size] = '\0';
        return text;
}

static int digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place. "%" that begins no escape stays; a NUL is not made, it would end the text. */
static void percent_decode(char *text) {
        char *out = text;

        for (const char *in = text; *in != '\0'; out++) {
                int high = in[0] == '%' ? digit(in[1]) : -1, low = high >= 0 ? digit(in[2]) : -1;

                if (low >= 0 && (high | low) != 0) {
                        *out = (char)(high << 4 | low);
                        in += 3;
                } else {
                        *out = *in++;
                }
        }
        *out = '\0';
}

int otlp_pairs_read(const char *text, int (*each)(void *data, const char *key, char *value), void *data,
                    size_t *ret_index) {
        _cleanup_free_ char *copy = strdup(text);
        char *rest = copy;

        if (copy == NULL)
                return -ENOMEM;
        for (size_t i = 0; rest != NULL; i++) {
                char *entry = strsep(&rest, ",");
                char *value = strchr(entry, '=');
                char *key;
                int r;

                if (*trim(entry) == '\0')
                        continue; /* a comma too many harms nobody */
                *ret_index = i;
                if (value == NULL || i >= OTLP_PAIRS_MAX)
                        return -EINVAL;
                *value++ = '\0';
                key = trim(entry);
                if (*key == '\0')
                        return -EINVAL;
                value = trim(value);
                percent_decode(value);
                r = each(data, key, value);
                if (r < 0)
                        return r;
        }
        return 0;
}
