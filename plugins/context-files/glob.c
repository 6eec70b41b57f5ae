/* SPDX-License-Identifier: Apache-2.0 */
/* Shell-like patterns as git's wildmatch understands them. A pattern becomes a row of items, and a text is matched by
 * following all places in the row at once: no backtracking, so that a hostile pattern costs no more than another. */
#include "glob.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN_MAX 4096u
#define WORDS(items) ((items) / 64 + 1)

enum item_kind {
        ITEM_BYTE,
        ITEM_ANY,   /* ? */
        ITEM_SET,   /* [...] */
        ITEM_STAR,  /* what follows takes no byte of text, or can do without */
        ITEM_STARS, /* ** over directories */
        ITEM_SKIP,  /* before the ** and / that together may stand for no directory at all */
};

struct item {
        uint8_t kind;
        unsigned char byte;
        uint32_t set;
};

struct glob {
        bool pathname, never;
        size_t count, set_count;
        struct item *items;
        uint64_t (*sets)[4]; /* one bit for each byte */
};

struct parser {
        const unsigned char *pattern;
        size_t size, at;
        struct glob *glob;
};

/* Beyond the end there is a 0, as in a C string. */
static unsigned char peek(const struct parser *parser, size_t ahead) {
        return parser->at + ahead < parser->size ? parser->pattern[parser->at + ahead] : 0;
}

static void set_add(uint64_t *set, unsigned char byte) {
        set[byte / 64] |= UINT64_C(1) << (byte % 64);
}

static bool set_has(const uint64_t *set, unsigned char byte) {
        return (set[byte / 64] >> (byte % 64) & 1) != 0;
}

/* ---- brackets ---- */

static bool is_lower(unsigned char c) {
        return c >= 'a' && c <= 'z';
}
static bool is_upper(unsigned char c) {
        return c >= 'A' && c <= 'Z';
}
static bool is_digit(unsigned char c) {
        return c >= '0' && c <= '9';
}
static bool is_alpha(unsigned char c) {
        return is_lower(c) || is_upper(c);
}
static bool is_alnum(unsigned char c) {
        return is_alpha(c) || is_digit(c);
}
static bool is_blank(unsigned char c) {
        return c == ' ' || c == '\t';
}
static bool is_cntrl(unsigned char c) {
        return c < 0x20 || c == 0x7F;
}
static bool is_graph(unsigned char c) {
        return c > 0x20 && c < 0x7F;
}
static bool is_print(unsigned char c) {
        return c >= 0x20 && c < 0x7F;
}
static bool is_punct(unsigned char c) {
        return is_graph(c) && !is_alnum(c);
}
static bool is_space(unsigned char c) {
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
static bool is_xdigit(unsigned char c) {
        return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* ASCII alone, whatever the locale. False: no such class. */
static bool add_class(uint64_t *set, const unsigned char *name, size_t size) {
        static const struct {
                const char *name;
                bool (*has)(unsigned char c);
        } classes[] = {{"alnum", is_alnum}, {"alpha", is_alpha}, {"blank", is_blank}, {"cntrl", is_cntrl},
                       {"digit", is_digit}, {"graph", is_graph}, {"lower", is_lower}, {"print", is_print},
                       {"punct", is_punct}, {"space", is_space}, {"upper", is_upper}, {"xdigit", is_xdigit}};

        for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
                if (strlen(classes[i].name) != size || memcmp(classes[i].name, name, size) != 0)
                        continue;
                for (unsigned byte = 1; byte < 256; byte++)
                        if (classes[i].has((unsigned char)byte))
                                set_add(set, (unsigned char)byte);
                return true;
        }
        return false;
}

/* At the "[" of a "[:"; moves to the last byte of what it took. 1: a class; 0: not one, the "[" is itself; -1: the
 * pattern is broken. */
static int parse_class(struct parser *parser, uint64_t *set) {
        size_t start = parser->at + 2, end = start;

        while (end < parser->size && parser->pattern[end] != ']')
                end++;
        if (end >= parser->size)
                return -1;
        if (end == start || parser->pattern[end - 1] != ':')
                return 0;
        if (!add_class(set, parser->pattern + start, end - 1 - start))
                return -1;
        parser->at = end;
        return 1;
}

/* One member of a bracket, at parser->at; leaves it at the member's last byte. `previous` is where a range would begin,
 * 0 after what can't begin one. False: the pattern is broken. */
static bool parse_member(struct parser *parser, uint64_t *set, unsigned char *previous) {
        unsigned char byte = peek(parser, 0);
        int r = 0;

        if (byte == '\\') {
                parser->at++;
                byte = peek(parser, 0);
        } else if (byte == '-' && *previous != 0 && peek(parser, 1) != 0 && peek(parser, 1) != ']') {
                parser->at++;
                byte = peek(parser, 0);
                if (byte == '\\') {
                        parser->at++;
                        byte = peek(parser, 0);
                }
                for (unsigned i = *previous; byte != 0 && i <= byte; i++)
                        set_add(set, (unsigned char)i);
                *previous = 0;
                return byte != 0;
        } else if (byte == '[' && peek(parser, 1) == ':') {
                r = parse_class(parser, set);
        }
        if (r != 0) {
                *previous = 0;
                return r > 0;
        }
        if (byte != 0)
                set_add(set, byte);
        *previous = byte;
        return byte != 0;
}

/* At the "["; leaves it at the "]". */
static int parse_bracket(struct parser *parser) {
        struct glob *glob = parser->glob;
        uint64_t *set = glob->sets[glob->set_count];
        unsigned char previous = 0;
        bool negated;

        parser->at++;
        negated = peek(parser, 0) == '!' || peek(parser, 0) == '^';
        if (negated)
                parser->at++;
        do { /* the first member may be a "]" */
                if (!parse_member(parser, set, &previous))
                        return -EINVAL;
                parser->at++;
        } while (peek(parser, 0) != ']');
        for (size_t i = 0; negated && i < 4; i++)
                set[i] = ~set[i];
        glob->items[glob->count++] = (struct item){.kind = ITEM_SET, .set = (uint32_t)glob->set_count++};
        return 0;
}

/* ---- the rest ---- */

/* At the first of some stars; leaves it at the last. */
static void parse_stars(struct parser *parser) {
        struct glob *glob = parser->glob;
        size_t start = parser->at;
        bool bounded, slash;

        while (peek(parser, 1) == '*')
                parser->at++;
        slash = peek(parser, 1) == '/';
        /* Two or more mean directories only if they are a whole component. */
        bounded = parser->at > start && (start == 0 || parser->pattern[start - 1] == '/') &&
                  (parser->at + 1 == parser->size || slash || (peek(parser, 1) == '\\' && peek(parser, 2) == '/'));
        if (glob->pathname && bounded && slash)
                glob->items[glob->count++].kind = ITEM_SKIP;
        glob->items[glob->count++].kind = glob->pathname && !bounded ? ITEM_STAR : ITEM_STARS;
}

static int parse(struct parser *parser) {
        struct glob *glob = parser->glob;

        for (; parser->at < parser->size; parser->at++) {
                unsigned char byte = peek(parser, 0);

                if (byte == '*') {
                        parse_stars(parser);
                } else if (byte == '[') {
                        if (parse_bracket(parser) < 0)
                                return -EINVAL;
                } else if (byte == '?') {
                        glob->items[glob->count++].kind = ITEM_ANY;
                } else {
                        if (byte == '\\') {
                                parser->at++;
                                byte = peek(parser, 0);
                                if (byte == 0)
                                        return -EINVAL;
                        }
                        glob->items[glob->count++] = (struct item){.kind = ITEM_BYTE, .byte = byte};
                }
        }
        return 0;
}

int glob_compile(const char *pattern, size_t size, bool pathname, struct glob **ret_glob) {
        struct glob *glob = calloc(1, sizeof(*glob));
        struct parser parser = {.pattern = (const unsigned char *)pattern, .size = size, .glob = glob};
        size_t brackets = 0;

        if (glob == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < size; i++)
                brackets += pattern[i] == '[';
        glob->pathname = pathname;
        glob->items = calloc(size * 2 + 1, sizeof(*glob->items));
        glob->sets = calloc(brackets + 1, sizeof(*glob->sets));
        if (glob->items == NULL || glob->sets == NULL) {
                glob_free(glob);
                return -ENOMEM;
        }
        glob->never = size > PATTERN_MAX || memchr(pattern, '\0', size) != NULL || parse(&parser) < 0;
        *ret_glob = glob;
        return 0;
}

void glob_free(struct glob *glob) {
        if (glob == NULL)
                return;
        free(glob->items);
        free(glob->sets);
        free(glob);
}

/* ---- matching ---- */

static void place_add(uint64_t *places, size_t place) {
        places[place / 64] |= UINT64_C(1) << (place % 64);
}

static bool place_has(const uint64_t *places, size_t place) {
        return (places[place / 64] >> (place % 64) & 1) != 0;
}

/* What can be reached without a byte of text; that is always further on, so one pass finds it all. */
static void follow_empty(const struct glob *glob, uint64_t *places) {
        for (size_t i = 0; i < glob->count; i++) {
                if (!place_has(places, i) || glob->items[i].kind < ITEM_STAR)
                        continue;
                place_add(places, i + 1);
                if (glob->items[i].kind == ITEM_SKIP)
                        place_add(places, i + 3);
        }
}

static void step(const struct glob *glob, const uint64_t *from, unsigned char byte, uint64_t *to) {
        bool barrier = glob->pathname && byte == '/';

        for (size_t i = 0; i < glob->count; i++) {
                const struct item *item = &glob->items[i];

                if (!place_has(from, i))
                        continue;
                if ((item->kind == ITEM_BYTE && item->byte == byte) || (item->kind == ITEM_ANY && !barrier) ||
                    (item->kind == ITEM_SET && !barrier && set_has(glob->sets[item->set], byte)))
                        place_add(to, i + 1);
                else if (item->kind == ITEM_STARS || (item->kind == ITEM_STAR && !barrier))
                        place_add(to, i);
        }
}

bool glob_match(const struct glob *glob, const char *text, size_t size) {
        uint64_t places[2][WORDS(2 * PATTERN_MAX + 1)];
        size_t words = WORDS(glob->count + 1), now = 0;

        if (glob->never)
                return false;
        memset(places[0], 0, words * sizeof(places[0][0]));
        place_add(places[0], 0);
        follow_empty(glob, places[0]);
        for (size_t i = 0; i < size; i++) {
                uint64_t any = 0;

                memset(places[1 - now], 0, words * sizeof(places[0][0]));
                step(glob, places[now], (unsigned char)text[i], places[1 - now]);
                now = 1 - now;
                follow_empty(glob, places[now]);
                for (size_t word = 0; word < words; word++)
                        any |= places[now][word];
                if (any == 0)
                        return false;
        }
        return place_has(places[now], glob->count);
}
