/* SPDX-License-Identifier: Apache-2.0 */
/* Free text to an FTS5 query. */
#include "match.h"

#include <string.h>
#include <strings.h>

#define WORD_BYTES_MAX 100u

static bool is_word_byte(unsigned char c) {
        return c >= 0x80 || c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

static bool is_common(const struct match_word *word) {
        static const char *const common[] = {
                "a",    "about", "all",   "an",    "and",  "any",  "are",  "as",   "at",    "be",   "by",  "can", "do",
                "does", "for",   "from",  "has",   "have", "how",  "i",    "in",   "is",    "it",   "its", "me",  "my",
                "of",   "on",    "or",    "our",   "show", "tell", "that", "the",  "there", "this", "to",  "was", "we",
                "what", "when",  "where", "which", "who",  "why",  "will", "with", "you",   "your"};

        for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
                if (strlen(common[i]) == word->size && strncasecmp(common[i], word->text, word->size) == 0)
                        return true;
        return false;
}

static bool is_known(const struct match_word *words, size_t count, const struct match_word *word) {
        for (size_t i = 0; i < count; i++)
                if (words[i].size == word->size && strncasecmp(words[i].text, word->text, word->size) == 0)
                        return true;
        return false;
}

static size_t collect(struct sbx_bytes text, bool common, struct match_word *words) {
        const char *bytes = text.data;
        size_t count = 0;

        for (size_t at = 0; at < text.size && count < MATCH_WORDS_MAX;) {
                struct match_word word = {bytes + at, 0};

                while (at + word.size < text.size && is_word_byte((unsigned char)bytes[at + word.size]))
                        word.size++;
                at += word.size > 0 ? word.size : 1;
                while (word.size > 0 && word.text[0] == '_') {
                        word.text++;
                        word.size--;
                }
                while (word.size > 0 && word.text[word.size - 1] == '_')
                        word.size--;
                if (word.size > 0 && word.size <= WORD_BYTES_MAX && (common || !is_common(&word)) &&
                    !is_known(words, count, &word))
                        words[count++] = word;
        }
        return count;
}

size_t match_words(struct sbx_bytes text, struct match_word *ret_words) {
        size_t count = collect(text, false, ret_words);

        return count > 0 ? count : collect(text, true, ret_words);
}

static char *append_quoted(char *at, const char *start, const char *text, size_t size) {
        if (at > start)
                at = stpcpy(at, " OR ");
        *at++ = '"';
        at = mempcpy(at, text, size);
        *at++ = '"';
        return at;
}

char *match_query(const struct match_word *words, size_t count) {
        size_t size = 1;
        char *query, *at;

        for (size_t i = 0; i < count; i++)
                size += 8 * (words[i].size +
                             1); /* the word and its parts: at the most a quoted byte, with OR, for every 2 */
        query = at = malloc(size);
        if (query == NULL)
                return NULL;
        for (size_t i = 0; i < count; i++) {
                const char *text = words[i].text, *end = text + words[i].size;

                at = append_quoted(at, query, text, words[i].size);
                if (memchr(text, '_', words[i].size) == NULL)
                        continue;
                while (text < end) {
                        const char *part_end = memchr(text, '_', (size_t)(end - text));

                        if (part_end == NULL)
                                part_end = end;
                        if (part_end > text)
                                at = append_quoted(at, query, text, (size_t)(part_end - text));
                        text = part_end + 1;
                }
        }
        *at = '\0';
        return query;
}
