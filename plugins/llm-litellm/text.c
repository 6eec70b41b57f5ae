/* SPDX-License-Identifier: Apache-2.0 */
/* Growing text, and UTF-8 that is valid whatever it was made of. */
#include "text.h"

#include <stdlib.h>

#include <snipara-sandbox/utf8.h>

void llm_text_free(struct llm_text *text) {
        free(text->data);
        *text = (struct llm_text)LLM_TEXT(text->max);
}

void llm_text_clear(struct llm_text *text) {
        text->size = 0;
        text->error = 0;
        if (text->data != NULL)
                text->data[0] = '\0';
}

static int reserve(struct llm_text *text, size_t more) {
        size_t needed, capacity;
        char *data;

        if (text->error != 0)
                return text->error;
        if (more > text->max - text->size)
                return text->error = -EFBIG;
        needed = text->size + more + 1;
        if (needed <= text->capacity)
                return 0;
        for (capacity = text->capacity > 0 ? text->capacity : 128; capacity < needed;)
                capacity *= 2;
        data = realloc(text->data, capacity);
        if (data == NULL)
                return text->error = -ENOMEM;
        text->data = data;
        text->capacity = capacity;
        return 0;
}

int llm_text_append(struct llm_text *text, const void *data, size_t size) {
        if (reserve(text, size) < 0)
                return text->error;
        if (size > 0)
                memcpy(text->data + text->size, data, size);
        text->size += size;
        text->data[text->size] = '\0';
        return 0;
}

int llm_text_literal(struct llm_text *text, const char *literal) {
        return llm_text_append(text, literal, strlen(literal));
}

int llm_text_printf(struct llm_text *text, const char *format, ...) {
        va_list args;
        int size;

        va_start(args, format);
        size = vsnprintf(NULL, 0, format, args);
        va_end(args);
        if (size < 0)
                return text->error = -EFBIG;
        if (reserve(text, (size_t)size) < 0)
                return text->error;
        va_start(args, format);
        vsnprintf(text->data + text->size, (size_t)size + 1, format, args);
        va_end(args);
        text->size += (size_t)size;
        return 0;
}

bool llm_utf8_valid(const void *data, size_t size) {
        const unsigned char *bytes = data;

        for (size_t i = 0, length; i < size; i += length) {
                length = sbx_utf8_length(bytes + i, size - i);
                if (length == 0)
                        return false;
        }
        return true;
}

int llm_text_repaired(struct llm_text *text, const void *data, size_t size) {
        const unsigned char *bytes = data;
        size_t run = 0, i = 0; /* bytes[run..i) are fine and are appended at once */

        while (i < size) {
                size_t length = sbx_utf8_length(bytes + i, size - i);

                if (length > 0) {
                        i += length;
                        continue;
                }
                llm_text_append(text, bytes + run, i - run);
                llm_text_literal(text, SBX_UTF8_REPLACEMENT);
                run = ++i;
        }
        return llm_text_append(text, size > 0 ? bytes + run : (const unsigned char *)"", size - run);
}
