/* SPDX-License-Identifier: Apache-2.0 */
/* Divides a text into sections. */
#include "sections.h"

#include <string.h>
#include <strings.h>

#include "utf8.h"

#define BLOCK_LINES_MIN 20u /* from here on a block ends at an empty line that something unindented follows */
#define BLOCK_LINES_MAX 60u

struct line {
        const char *text;
        size_t size; /* without the newline */
        size_t whole;
};

struct splitter {
        int (*found)(void *data, const struct section *section);
        void *data;
        struct section open; /* text.data NULL: nothing is open */
        bool front_matter;
        char fence; /* of a code block that is open, else 0 */
        size_t fence_size;
        struct line previous;
        size_t line; /* number of the line at hand */
};

static struct line next_line(const char *text, size_t size) {
        const char *newline = memchr(text, '\n', size);
        struct line line = {.text = text, .size = newline != NULL ? (size_t)(newline - text) : size};

        line.whole = line.size + (newline != NULL);
        if (line.size > 0 && text[line.size - 1] == '\r')
                line.size--;
        return line;
}

static bool is_space(char c) {
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct sbx_bytes trim(const char *text, size_t size) {
        while (size > 0 && is_space(text[0])) {
                text++;
                size--;
        }
        while (size > 0 && is_space(text[size - 1]))
                size--;
        return (struct sbx_bytes){text, utf8_cut(text, size, SECTION_TITLE_MAX)};
}

static bool is_blank(const struct line *line) {
        return trim(line->text, line->size).size == 0;
}

static bool has_word(struct sbx_bytes text) {
        const unsigned char *bytes = text.data;

        for (size_t i = 0; i < text.size; i++)
                if (bytes[i] >= 0x80 || (bytes[i] >= '0' && bytes[i] <= '9') ||
                    ((bytes[i] | 32) >= 'a' && (bytes[i] | 32) <= 'z'))
                        return true;
        return false;
}

/* ---- sections ---- */

/* The first line with a word in it names a section that has no heading. */
static struct sbx_bytes find_title(struct sbx_bytes text) {
        const char *bytes = text.data;

        for (size_t at = 0; at < text.size;) {
                struct line line = next_line(bytes + at, text.size - at);
                struct sbx_bytes title = trim(line.text, line.size);

                if (has_word(title))
                        return title;
                at += line.whole;
        }
        return (struct sbx_bytes){"", 0};
}

static int emit(struct splitter *splitter) {
        struct section section = splitter->open;

        splitter->open.text = (struct sbx_bytes){NULL, 0};
        if (section.text.data == NULL || trim(section.text.data, section.text.size).size == 0)
                return 0;
        if (section.level == 0 && section.title.size == 0)
                section.title = find_title(section.text);
        return splitter->found(splitter->data, &section);
}

/* Ends the open section, and opens one that begins with this text. A continuation keeps the title. */
static int begin(struct splitter *splitter, const char *text, size_t line, unsigned level, struct sbx_bytes title) {
        int r = emit(splitter);

        splitter->open = (struct section){.start_line = line, .level = level, .title = title, .text = {text, 0}};
        return r;
}

static int begin_again(struct splitter *splitter, const char *text, size_t line) {
        struct section *open = &splitter->open;

        return begin(splitter, text, line, open->level, open->level > 0 ? open->title : (struct sbx_bytes){"", 0});
}

/* Adds bytes of one line to the open section, which is divided when it is full. */
static int add(struct splitter *splitter, const char *text, size_t size) {
        int r = 0;

        if (splitter->open.text.data == NULL)
                r = begin(splitter, text, splitter->line, 0, (struct sbx_bytes){"", 0});
        else if (splitter->open.text.size + size > SECTION_BYTES_MAX ||
                 splitter->line - splitter->open.start_line >= SECTION_LINES_MAX)
                r = begin_again(splitter, text, splitter->line);
        while (r == 0 && size > SECTION_BYTES_MAX) {
                size_t part = utf8_cut(text, size, SECTION_BYTES_MAX);

                splitter->open.text.size = part;
                splitter->open.end_line = splitter->line;
                text += part;
                size -= part;
                r = begin_again(splitter, text, splitter->line);
        }
        splitter->open.text.size += size;
        splitter->open.end_line = splitter->line;
        return r;
}

/* ---- Markdown: CommonMark's headings, outside of its fenced code ---- */

static size_t count_run(const struct line *line, size_t at, char c) {
        size_t size = 0;

        while (at + size < line->size && line->text[at + size] == c)
                size++;
        return size;
}

static size_t indent_of(const struct line *line) {
        return count_run(line, 0, ' ');
}

/* Opens or closes a code block. True: the line is a fence, or inside of one. */
static bool in_fence(struct splitter *splitter, const struct line *line) {
        size_t indent = indent_of(line), size;
        char c = indent < line->size ? line->text[indent] : 0;

        if (indent > 3 || (c != '`' && c != '~'))
                return splitter->fence != 0;
        size = count_run(line, indent, c);
        if (splitter->fence == 0 && size >= 3) {
                splitter->fence = c;
                splitter->fence_size = size;
                return true;
        }
        if (splitter->fence == c && size >= splitter->fence_size &&
            trim(line->text + indent + size, line->size - indent - size).size == 0) {
                splitter->fence = 0;
                return true;
        }
        return splitter->fence != 0;
}

/* "# Title ##" is closed, "# C#" is not. */
static struct sbx_bytes without_closing(struct sbx_bytes title) {
        const char *text = title.data;
        size_t size = title.size;

        while (size > 0 && text[size - 1] == '#')
                size--;
        return size == 0 || is_space(text[size - 1]) ? trim(text, size) : title;
}

static unsigned hash_heading(const struct line *line, struct sbx_bytes *ret_title) {
        size_t indent = indent_of(line), level = count_run(line, indent, '#'), after = indent + level;
        struct sbx_bytes title;

        if (indent > 3 || level < 1 || level > 6 || (after < line->size && !is_space(line->text[after])))
                return 0;
        title = trim(line->text + after, line->size - after);
        *ret_title = without_closing(title);
        return (unsigned)level;
}

/* A row of = or - below a line of text. */
static unsigned underline(const struct line *line) {
        struct sbx_bytes row = trim(line->text, line->size);
        char c = row.size > 1 ? *(const char *)row.data : 0;

        if (indent_of(line) > 3 || (c != '=' && c != '-') || count_run(line, indent_of(line), c) != row.size)
                return 0;
        return c == '=' ? 1 : 2;
}

/* The heading was taken for text of the section before it. */
static int begin_underlined(struct splitter *splitter, const struct line *line, unsigned level) {
        struct section *open = &splitter->open;
        const struct line *heading = &splitter->previous;
        int r;

        if (open->text.data == NULL || heading->whole > open->text.size)
                return add(splitter, line->text, line->whole);
        open->text.size -= heading->whole;
        open->end_line = splitter->line - 2;
        r = begin(splitter, heading->text, splitter->line - 1, level, trim(heading->text, heading->size));
        splitter->open.text.size = heading->whole;
        return r < 0 ? r : add(splitter, line->text, line->whole);
}

static int markdown_line(struct splitter *splitter, const struct line *line) {
        bool after_text = splitter->previous.text != NULL && !is_blank(&splitter->previous);
        struct sbx_bytes title;
        unsigned level;
        int r;

        if (splitter->line == 1 && trim(line->text, line->size).size == 3 && underline(line) == 2)
                splitter->front_matter = true;
        else if (splitter->front_matter && underline(line) == 2)
                splitter->front_matter = after_text = false;
        if (splitter->front_matter || in_fence(splitter, line)) {
                splitter->previous.text = NULL;
                return add(splitter, line->text, line->whole);
        }
        level = hash_heading(line, &title);
        if (level > 0) {
                splitter->previous.text = NULL;
                r = begin(splitter, line->text, splitter->line, level, title);
                return r < 0 ? r : add(splitter, line->text, line->whole);
        }
        level = after_text ? underline(line) : 0;
        if (level > 0) {
                r = begin_underlined(splitter, line, level);
                splitter->previous.text = NULL;
                return r;
        }
        splitter->previous = *line;
        return add(splitter, line->text, line->whole);
}

/* ---- other text ---- */

static int block_line(struct splitter *splitter, const struct line *line) {
        size_t lines = splitter->line - splitter->open.start_line;
        bool after_blank = splitter->previous.text == NULL || is_blank(&splitter->previous);
        bool fresh = after_blank && line->size > 0 && !is_space(line->text[0]) && line->text[0] != '}';
        int r = 0;

        splitter->previous = *line;
        if (splitter->open.text.data != NULL && (lines >= BLOCK_LINES_MAX || (lines >= BLOCK_LINES_MIN && fresh)))
                r = begin_again(splitter, line->text, splitter->line);
        return r < 0 ? r : add(splitter, line->text, line->whole);
}

int sections_split(struct sbx_bytes text, bool markdown, int (*found)(void *data, const struct section *section),
                   void *data, size_t *ret_lines) {
        struct splitter splitter = {.found = found, .data = data};
        const char *bytes = text.data;
        int r = 0;

        for (size_t at = 0; at < text.size && r >= 0;) {
                struct line line = next_line(bytes + at, text.size - at);

                splitter.line++;
                r = markdown ? markdown_line(&splitter, &line) : block_line(&splitter, &line);
                at += line.whole;
        }
        if (r >= 0)
                r = emit(&splitter);
        if (r < 0)
                return r;
        *ret_lines = splitter.line;
        return 0;
}

bool sections_is_markdown(const char *path) {
        static const char *const endings[] = {".md", ".markdown", ".mdx", ".mkd", ".qmd"};
        size_t size = strlen(path);

        for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
                size_t length = strlen(endings[i]);

                if (size > length && strcasecmp(path + size - length, endings[i]) == 0)
                        return true;
        }
        return false;
}
