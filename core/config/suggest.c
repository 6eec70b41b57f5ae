/* SPDX-License-Identifier: Apache-2.0 */
/* The nearest known name to one that is not known. */
#include "config/internal.h"

#define NAME_MAX_LENGTH 64

static unsigned min_of(unsigned a, unsigned b) {
        return a < b ? a : b;
}

static char lower(char c) {
        return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Edits between two names: insert, delete, replace, swap of neighbours ("optimal string alignment"). */
static unsigned edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
        unsigned rows[3][NAME_MAX_LENGTH + 1];
        unsigned *before = rows[0], *previous = rows[1], *current = rows[2];

        for (size_t j = 0; j <= b_length; j++)
                previous[j] = (unsigned)j;
        for (size_t i = 1; i <= a_length; i++) {
                unsigned *spare = before;

                current[0] = (unsigned)i;
                for (size_t j = 1; j <= b_length; j++) {
                        unsigned cost = lower(a[i - 1]) != lower(b[j - 1]);

                        current[j] = min_of(previous[j - 1] + cost, min_of(previous[j], current[j - 1]) + 1);
                        if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
                                current[j] = min_of(current[j], before[j - 2] + 1);
                }
                before = previous;
                previous = current;
                current = spare;
        }
        return previous[b_length];
}

void sbx_suggestion_offer(struct sbx_suggestion *suggestion, const char *candidate) {
        size_t wanted = strlen(suggestion->wanted), length = strlen(candidate);
        unsigned distance, limit = (unsigned)(wanted / 3 < 1 ? 1 : wanted / 3);

        if (wanted == 0 || wanted > NAME_MAX_LENGTH || length > NAME_MAX_LENGTH)
                return;
        distance = edit_distance(suggestion->wanted, wanted, candidate, length);
        if (distance <= limit && (suggestion->best == NULL || distance < suggestion->distance)) {
                suggestion->best = candidate;
                suggestion->distance = distance;
        }
}
