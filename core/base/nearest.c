/* SPDX-License-Identifier: Apache-2.0 */
/* The known name that a mistyped one most likely meant: edit distance (optimal string alignment). */
#include "base/nearest.h"

#include <string.h>

#define NAME_LENGTH_MAX 64

/* Without what costs nothing. Returns its length; beyond the maximum it stops. */
static size_t fold(const char *name, char folded[NAME_LENGTH_MAX]) {
        size_t length = 0;

        for (; *name != '\0' && length < NAME_LENGTH_MAX; name++)
                if (*name != '_' && *name != '-')
                        folded[length++] = *name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name;
        return length;
}

static unsigned smaller(unsigned a, unsigned b) {
        return a < b ? a : b;
}

static unsigned edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
        unsigned rows[3][NAME_LENGTH_MAX + 1];

        for (size_t j = 0; j <= b_length; j++)
                rows[0][j] = (unsigned)j;
        for (size_t i = 1; i <= a_length; i++) {
                unsigned *row = rows[i % 3], *above = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];

                row[0] = (unsigned)i;
                for (size_t j = 1; j <= b_length; j++) {
                        unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);

                        best = smaller(best, smaller(above[j], row[j - 1]) + 1);
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                                best = smaller(best, before[j - 2] + 1);
                        row[j] = best;
                }
        }
        return rows[a_length % 3][b_length];
}

void sbx_nearest_offer(struct sbx_nearest *nearest, const char *candidate) {
        char wanted[NAME_LENGTH_MAX], offered[NAME_LENGTH_MAX];
        size_t wanted_length, offered_length;
        unsigned distance;

        if (nearest->wanted[0] == '\0' || strlen(nearest->wanted) > NAME_LENGTH_MAX || strlen(candidate) > NAME_LENGTH_MAX)
                return;
        wanted_length = fold(nearest->wanted, wanted);
        offered_length = fold(candidate, offered);
        distance = edit_distance(wanted, wanted_length, offered, offered_length);
        if (distance > 1 && wanted_length >= 2 && wanted_length < offered_length &&
            memcmp(wanted, offered, wanted_length) == 0)
                distance = 1;
        /* When all of a short name would have to change, it is another word. */
        if (distance > 1 + (wanted_length >= 3 ? wanted_length / 3 : 0) || distance >= offered_length)
                return;
        if (nearest->best == NULL || distance < nearest->distance) {
                nearest->best = candidate;
                nearest->distance = distance;
        }
}
