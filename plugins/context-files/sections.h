/* SPDX-License-Identifier: Apache-2.0 */
/* Divides a text into the sections that are indexed and answered with: at headings in Markdown, else into blocks of
 * lines that end where an empty line is. Pure. */
#pragma once

#include "util.h"

#define SECTION_BYTES_MAX 6000u /* a longer one is divided, in the middle of a line if it must be */
#define SECTION_LINES_MAX 120u
#define SECTION_TITLE_MAX 160u

struct section {
        size_t start_line, end_line; /* from 1, inclusive */
        unsigned level;              /* of the heading, 1 to 6; 0: none */
        struct sbx_bytes title;      /* parts of the text */
        struct sbx_bytes text;
};

/* Calls `found` for each section in order, until it answers negative, which is returned. `ret_lines`: of the text. */
int sections_split(struct sbx_bytes text, bool markdown, int (*found)(void *data, const struct section *section),
                   void *data, size_t *ret_lines);
bool sections_is_markdown(const char *path);
