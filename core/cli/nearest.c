/* SPDX-License-Identifier: Apache-2.0 */
/* The known name that a mistyped word most likely meant. */
#include "cli/help.h"

#define WORD_MAX 40

/* Edits from one word to the other, a swap of neighbours counting as one (optimal string alignment). */
static size_t edit_distance(const char *a, const char *b) {
        size_t rows[3][WORD_MAX + 1], a_size = strlen(a), b_size = strlen(b);

        if (a_size > WORD_MAX || b_size > WORD_MAX)
                return WORD_MAX;
        for (size_t j = 0; j <= b_size; j++)
                rows[0][j] = j;
        for (size_t i = 1; i <= a_size; i++) {
                size_t *row = rows[i % 3], *above = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];

                row[0] = i;
                for (size_t j = 1; j <= b_size; j++) {
                        size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);

                        if (above[j] + 1 < best)
                                best = above[j] + 1;
                        if (row[j - 1] + 1 < best)
                                best = row[j - 1] + 1;
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                                best = before[j - 2] + 1;
                        row[j] = best;
                }
        }
        return rows[a_size % 3][b_size];
}

const char *sbx_cli_nearest(const char *word, const char *(*next)(const void *list, size_t index), const void *list) {
        size_t size = strlen(word), best = size < 3 ? 1 : size / 3 + 1;
        const char *name, *found = NULL;

        if (size == 0)
                return NULL;
        for (size_t i = 0; (name = next(list, i)) != NULL; i++) {
                size_t distance = edit_distance(word, name);

                /* A word cut short ("plug" for "plugins") is as good as one typo. */
                if (distance > 1 && size >= 2 && strncmp(word, name, size) == 0)
                        distance = 1;
                if (distance < best || (distance == best && found == NULL)) {
                        best = distance;
                        found = name;
                }
        }
        return found;
}
