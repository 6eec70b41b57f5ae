/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for people: columns as wide as their widest cell. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "cli/output.h"

#define COLUMN_GAP 2
#define TABLE_MAX (64u << 20)

struct cell {
        char *text;
        enum sbx_cli_style style;
};

struct sbx_cli_table {
        size_t columns, count, capacity;
        struct cell *cells;
        int problem;
};

struct sbx_cli_table *sbx_cli_table_new(size_t columns) {
        struct sbx_cli_table *table = calloc(1, sizeof(*table));

        if (table != NULL)
                table->columns = columns;
        return table;
}

void sbx_cli_table_free(struct sbx_cli_table *table) {
        if (table == NULL)
                return;
        for (size_t i = 0; i < table->count; i++)
                free(table->cells[i].text);
        free(table->cells);
        free(table);
}

static int table_grow(struct sbx_cli_table *table) {
        size_t capacity = table->capacity > 0 ? table->capacity * 2 : 64;
        struct cell *cells;

        if (table->count < table->capacity)
                return 0;
        cells = reallocarray(table->cells, capacity, sizeof(*cells));
        if (cells == NULL)
                return -ENOMEM;
        table->cells = cells;
        table->capacity = capacity;
        return 0;
}

/* A cell is one line: what would break it becomes a blank. Takes `text`. */
static void table_add(struct sbx_cli_table *table, enum sbx_cli_style style, char *text) {
        if (text == NULL || table_grow(table) < 0) {
                free(text);
                table->problem = -ENOMEM;
                return;
        }
        for (char *p = text; *p != '\0'; p++)
                if (*p == '\n' || *p == '\r' || *p == '\t' || *p == '\b')
                        *p = ' ';
        table->cells[table->count++] = (struct cell){text, style};
}

void sbx_cli_table_cell(struct sbx_cli_table *table, enum sbx_cli_style style, const char *text) {
        if (table != NULL)
                table_add(table, style, strdup(text != NULL ? text : ""));
}

void sbx_cli_table_cellf(struct sbx_cli_table *table, enum sbx_cli_style style, const char *format, ...) {
        char *text = NULL;
        va_list args;
        int size;

        if (table == NULL)
                return;
        va_start(args, format);
        size = vasprintf(&text, format, args);
        va_end(args);
        table_add(table, style, size < 0 ? NULL : text);
}

/* Characters, which is the width of all that the program itself prints. */
static size_t text_width(const char *text) {
        size_t width = 0;

        for (; *text != '\0'; text++)
                width += ((unsigned char)*text & 0xC0) != 0x80;
        return width;
}

static int append_row(const struct sbx_cli_table *table, size_t first, const size_t *widths,
                      const struct sbx_cli_stream *stream, unsigned indent, struct sbx_buffer *out) {
        size_t last = table->columns;
        int r;

        /* Empty cells at the end of a row need no padding before them. */
        while (last > 0 && (first + last > table->count || table->cells[first + last - 1].text[0] == '\0'))
                last--;
        r = sbx_buffer_printf(out, "%*s", (int)indent, "");
        for (size_t i = 0; i < last && r >= 0; i++) {
                const struct cell *cell = &table->cells[first + i];
                struct sbx_bytes text = {cell->text, strlen(cell->text)};

                r = sbx_cli_append(stream, cell->style, text, out);
                if (r >= 0 && i + 1 < last)
                        r = sbx_buffer_printf(out, "%*s", (int)(widths[i] - text_width(cell->text) + COLUMN_GAP), "");
        }
        return r < 0 ? r : sbx_buffer_append_text(out, "\n");
}

int sbx_cli_table_show(const struct sbx_cli_table *table, const struct sbx_cli_stream *stream, unsigned indent) {
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(TABLE_MAX);
        _cleanup_free_ size_t *widths = NULL;

        if (table == NULL || table->problem < 0)
                return -ENOMEM;
        widths = calloc(table->columns, sizeof(*widths));
        if (widths == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < table->count; i++) {
                size_t width = text_width(table->cells[i].text);

                if (width > widths[i % table->columns])
                        widths[i % table->columns] = width;
        }
        for (size_t row = 0; row < table->count; row += table->columns) {
                int r = append_row(table, row, widths, stream, indent, &out);

                if (r < 0)
                        return r;
        }
        return sbx_cli_write(stream, sbx_buffer_bytes(&out));
}
