/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes and durations from text, whole or not at all. */
#include "base/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

int sbx_number_int(const char *text, int64_t *ret) {
        bool negative = *text == '-';
        int64_t value = 0;

        if (*text == '-' || *text == '+')
                text++;
        if (!is_digit(*text))
                return -EINVAL;
        for (const char *p = text; *p != '\0'; p++)
                if (!is_digit(*p))
                        return -EINVAL;
        for (; *text != '\0'; text++) {
                int digit = *text - '0';

                /* Built on the negative side, which reaches one further. */
                if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, digit, &value))
                        return -ERANGE;
        }
        if (!negative && __builtin_sub_overflow(0, value, &value))
                return -ERANGE;
        *ret = value;
        return 0;
}

static const char *skip_digits(const char *text) {
        while (is_digit(*text))
                text++;
        return text;
}

/* [sign] digits [. digits] [e [sign] digits]: bars what strtod() takes beyond that (hex, inf, nan, blanks). */
static bool is_decimal(const char *text) {
        const char *start;

        if (*text == '-' || *text == '+')
                text++;
        start = text;
        text = skip_digits(text);
        if (text == start)
                return false;
        if (*text == '.') {
                start = ++text;
                text = skip_digits(text);
                if (text == start)
                        return false;
        }
        if (*text == 'e' || *text == 'E') {
                text++;
                if (*text == '-' || *text == '+')
                        text++;
                start = text;
                text = skip_digits(text);
                if (text == start)
                        return false;
        }
        return *text == '\0';
}

int sbx_number_float(const char *text, double *ret) {
        locale_t locale;
        double value;

        if (!is_decimal(text))
                return -EINVAL;
        locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        if (locale == (locale_t)0)
                return -errno;
        value = strtod_l(text, NULL, locale);
        freelocale(locale);
        if (!isfinite(value))
                return -ERANGE;
        *ret = value;
        return 0;
}

struct unit {
        const char *name;
        int64_t factor;
};

/* number [. fraction] [unit], where `units` ends with a NULL name and an empty name stands for "no unit". Exact integer
 * arithmetic; what is smaller than one is dropped. */
static int parse_scaled(const char *text, const struct unit *units, int64_t *ret) {
        int64_t whole = 0, fraction = 0, divisor = 1, factor = 0;
        bool dotted = false;
        const char *p = text;

        if (!is_digit(*p))
                return -EINVAL;
        p = skip_digits(p);
        if (*p == '.') {
                dotted = true;
                if (!is_digit(*++p))
                        return -EINVAL;
                p = skip_digits(p);
        }
        for (const struct unit *unit = units; unit->name != NULL; unit++)
                if (strcasecmp(unit->name, p) == 0)
                        factor = unit->factor;
        if (factor == 0 || (dotted && factor == 1))
                return -EINVAL;
        for (p = text; is_digit(*p); p++)
                if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, *p - '0', &whole))
                        return -ERANGE;
        /* Six digits are enough for the smallest step of every unit that people write, and can't overflow. */
        if (dotted)
                for (p++; is_digit(*p) && divisor < 1000000; p++) {
                        fraction = fraction * 10 + (*p - '0');
                        divisor *= 10;
                }
        if (__builtin_mul_overflow(whole, factor, &whole) ||
            __builtin_add_overflow(whole, fraction * factor / divisor, &whole))
                return -ERANGE;
        *ret = whole;
        return 0;
}

int sbx_number_size(const char *text, int64_t *ret_bytes) {
        static const struct unit units[] = {
                {"", 1},
                {"b", 1},
                {"k", 1 << 10},
                {"kb", 1 << 10},
                {"kib", 1 << 10},
                {"m", 1 << 20},
                {"mb", 1 << 20},
                {"mib", 1 << 20},
                {"g", 1 << 30},
                {"gb", 1 << 30},
                {"gib", 1 << 30},
                {"t", INT64_C(1) << 40},
                {"tb", INT64_C(1) << 40},
                {"tib", INT64_C(1) << 40},
                {NULL, 0},
        };

        return parse_scaled(text, units, ret_bytes);
}

int sbx_number_duration(const char *text, int64_t *ret_ms) {
        static const struct unit units[] = {
                {"ms", 1}, {"", 1000}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}, {NULL, 0},
        };

        return parse_scaled(text, units, ret_ms);
}

int sbx_number_bool(const char *text, bool *ret) {
        static const char *const yes[] = {"true", "yes", "on", "1"};
        static const char *const no[] = {"false", "no", "off", "0"};

        for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
                if (strcasecmp(text, yes[i]) == 0) {
                        *ret = true;
                        return 0;
                }
                if (strcasecmp(text, no[i]) == 0) {
                        *ret = false;
                        return 0;
                }
        }
        return -EINVAL;
}
