/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to lines, lines to fields, fields to events. */
#include "sse.h"

void llm_sse_init(struct llm_sse *sse, int (*event)(void *user, const char *name, struct llm_text *data), void *user) {
        *sse = (struct llm_sse){
                .event = event, .user = user, .line = LLM_TEXT(LLM_SSE_EVENT_MAX), .data = LLM_TEXT(LLM_SSE_EVENT_MAX)};
}

void llm_sse_free(struct llm_sse *sse) {
        llm_text_free(&sse->line);
        llm_text_free(&sse->data);
}

static int dispatch(struct llm_sse *sse) {
        int r = 0;

        if (sse->has_data)
                r = sse->event(sse->user, sse->name, &sse->data);
        llm_text_clear(&sse->data);
        sse->has_data = false;
        sse->name[0] = '\0';
        return r;
}

static int take_field(struct llm_sse *sse, const char *name, size_t name_size, const char *value, size_t size) {
        if (name_size == 4 && memcmp(name, "data", 4) == 0) {
                if (sse->has_data)
                        llm_text_append(&sse->data, "\n", 1);
                sse->has_data = true;
                return llm_text_append(&sse->data, value, size);
        }
        if (name_size == 5 && memcmp(name, "event", 5) == 0 && memchr(value, '\0', size) == NULL) {
                /* No name that counts is as long as that. */
                size_t length = size < sizeof(sse->name) ? size : 0;

                memcpy(sse->name, value, length);
                sse->name[length] = '\0';
        }
        return 0; /* id, retry and unknown fields change nothing here */
}

static int take_line(struct llm_sse *sse, const char *line, size_t size) {
        const char *colon;
        size_t name_size, skip;

        if (!sse->begun && size >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0) {
                line += 3;
                size -= 3;
        }
        sse->begun = true;
        if (size == 0)
                return dispatch(sse);
        colon = memchr(line, ':', size);
        if (colon == line)
                return 0; /* a comment: servers send them to keep a connection open */
        if (colon == NULL)
                return take_field(sse, line, size, line + size, 0);
        name_size = (size_t)(colon - line);
        skip = name_size + 1;
        if (skip < size && line[skip] == ' ')
                skip++;
        return take_field(sse, line, name_size, line + skip, size - skip);
}

/* The first end of a line; NULL: none. */
static const char *find_end(const char *p, size_t size) {
        const char *feed = memchr(p, '\n', size);
        const char *carriage = memchr(p, '\r', feed != NULL ? (size_t)(feed - p) : size);

        return carriage != NULL ? carriage : feed;
}

/* A whole line; only one that came in pieces was copied. */
static int end_line(struct llm_sse *sse, const char *rest, size_t size) {
        int r;

        if (sse->line.size == 0)
                return take_line(sse, rest, size);
        r = llm_text_append(&sse->line, rest, size);
        if (r == 0)
                r = take_line(sse, sse->line.data, sse->line.size);
        llm_text_clear(&sse->line);
        return r;
}

int llm_sse_feed(struct llm_sse *sse, struct sbx_bytes piece) {
        const char *p = piece.data, *end = p + piece.size;

        while (p < end) {
                const char *stop;
                int r;

                if (sse->after_cr && *p == '\n')
                        p++;
                sse->after_cr = false;
                if (p == end)
                        break;
                stop = find_end(p, (size_t)(end - p));
                if (stop == NULL)
                        return llm_text_append(&sse->line, p, (size_t)(end - p));
                r = end_line(sse, p, (size_t)(stop - p));
                if (r < 0)
                        return r;
                sse->after_cr = *stop == '\r';
                p = stop + 1;
        }
        return 0;
}

int llm_sse_finish(struct llm_sse *sse) {
        /* A last line without its end is whole only if it can't go on: the sign of the end of OpenAI's streams. */
        if (sse->line.size >= 6 && memcmp(sse->line.data + sse->line.size - 6, "[DONE]", 6) == 0) {
                int r = end_line(sse, "", 0);

                if (r < 0)
                        return r;
        }
        return dispatch(sse);
}
