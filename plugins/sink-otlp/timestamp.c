/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 3339 timestamps, read without the C library's locale and time zone. */
#include "timestamp.h"

#include <stdbool.h>
#include <stddef.h>

#define NS_PER_S INT64_C(1000000000)

/* `count` digits; false: there are fewer. */
static bool take_digits(const char **text, unsigned count, int64_t *ret) {
        int64_t number = 0;

        for (unsigned i = 0; i < count; i++, (*text)++) {
                if (**text < '0' || **text > '9')
                        return false;
                number = number * 10 + (**text - '0');
        }
        *ret = number;
        return true;
}

static bool take(const char **text, char expected) {
        if (**text != expected)
                return false;
        (*text)++;
        return true;
}

/* Days since 1970-01-01 in the Gregorian calendar: years count from March, so that a leap day is the last of its year.
 */
static int64_t days_since_1970(int64_t year, int64_t month, int64_t day) {
        int64_t shifted = month <= 2 ? year - 1 : year;
        int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

        return shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + of_year - 719468;
}

static int64_t take_fraction(const char **text) {
        int64_t nanoseconds = 0, unit = NS_PER_S / 10;

        if (!take(text, '.'))
                return 0;
        for (; **text >= '0' && **text <= '9'; (*text)++, unit /= 10)
                nanoseconds += (**text - '0') * unit;
        return nanoseconds;
}

/* Seconds that the local time is ahead of UTC. */
static bool take_offset(const char **text, int64_t *ret_seconds) {
        int64_t hours, minutes;
        int64_t sign = **text == '-' ? -1 : 1;

        *ret_seconds = 0;
        if (take(text, 'Z') || take(text, 'z'))
                return true;
        if ((!take(text, '+') && !take(text, '-')) || !take_digits(text, 2, &hours) || !take(text, ':') ||
            !take_digits(text, 2, &minutes))
                return false;
        *ret_seconds = sign * (hours * 3600 + minutes * 60);
        return hours < 24 && minutes < 60;
}

uint64_t otlp_timestamp(const char *text) {
        int64_t year, month, day, hour, minute, second, offset, fraction;

        if (text == NULL || !take_digits(&text, 4, &year) || !take(&text, '-') || !take_digits(&text, 2, &month) ||
            !take(&text, '-') || !take_digits(&text, 2, &day) ||
            (!take(&text, 'T') && !take(&text, 't') && !take(&text, ' ')) || !take_digits(&text, 2, &hour) ||
            !take(&text, ':') || !take_digits(&text, 2, &minute) || !take(&text, ':') ||
            !take_digits(&text, 2, &second))
                return 0;
        fraction = take_fraction(&text);
        if (!take_offset(&text, &offset) || *text != '\0')
                return 0;
        /* 2262 is the last year whose nanoseconds fit 63 bits; a 60th second is a leap second. */
        if (year < 1970 || year > 2261 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 ||
            second > 60)
                return 0;
        second += days_since_1970(year, month, day) * 86400 + hour * 3600 + minute * 60 - offset;
        return second < 0 ? 0 : (uint64_t)(second * NS_PER_S + fraction);
}
