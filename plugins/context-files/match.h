/* SPDX-License-Identifier: Apache-2.0 */
/* Free text to an FTS5 query. Pure. */
#pragma once

#include "util.h"

#define MATCH_WORDS_MAX 32u

struct match_word {
        const char *text; /* part of the query: letters, digits, _ and bytes beyond ASCII only */
        size_t size;
};

/* The distinct words of the text, without the commonest English ones unless there are no others. Returns how many. */
size_t match_words(struct sbx_bytes text, struct match_word *ret_words);
/* The FTS5 query for any of the words, to be freed: each word is quoted, nothing of the text is syntax. A word with _
 * in it is asked for as a phrase and in its parts. NULL: -ENOMEM. */
char *match_query(const struct match_word *words, size_t count);
