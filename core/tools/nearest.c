/* SPDX-License-Identifier: Apache-2.0 */
/* What a mistyped name was meant to be: the nearest candidate by edit distance. */
#include "tools/state.h"

#define NAME_LENGTH_MAX 64u

static unsigned smallest(unsigned a, unsigned b, unsigned c) {
        unsigned least = a < b ? a : b;

        return least < c ? least : c;
}

/* Letters to insert, delete or replace (Levenshtein); underscores, dashes and case cost nothing. */
static size_t fold(const char *name, char *folded) {
        size_t length = 0;

        for (; *name != '\0' && length < NAME_LENGTH_MAX; name++) {
                if (*name == '_' || *name == '-')
                        continue;
                folded[length++] = *name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name;
        }
        return length;
}

static unsigned distance(const char *left, const char *right) {
        char a[NAME_LENGTH_MAX], b[NAME_LENGTH_MAX];
        size_t a_length = fold(left, a), b_length = fold(right, b);
        unsigned row[NAME_LENGTH_MAX + 1];

        for (size_t j = 0; j <= b_length; j++)
                row[j] = (unsigned)j;
        for (size_t i = 1; i <= a_length; i++) {
                unsigned diagonal = row[0];

                row[0] = (unsigned)i;
                for (size_t j = 1; j <= b_length; j++) {
                        unsigned above = row[j];

                        row[j] = smallest(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u));
                        diagonal = above;
                }
        }
        return row[b_length];
}

const char *sbx_nearest(const char *name, const char *const *candidates, size_t count) {
        const char *found = NULL;
        unsigned best = (unsigned)strnlen(name, NAME_LENGTH_MAX) / 3 + 1;

        for (size_t i = 0; i < count; i++) {
                unsigned d = distance(name, candidates[i]);

                /* Half of a short name would have to change: that is another word. */
                if (d > best || d >= strlen(candidates[i]) || (found != NULL && d == best))
                        continue;
                best = d;
                found = candidates[i];
        }
        return found;
}
