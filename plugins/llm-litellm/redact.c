/* SPDX-License-Identifier: Apache-2.0 */
/* Making what a server said fit to be shown: short, on one line, and without the key that it was sent. */
#include "errors.h"

#define PART_MIN 8   /* bytes of the key that count as a part of it */
#define PREFIX_MIN 6 /* bytes of its beginning, as servers show it: "sk-abc***wxyz" */

/* How many bytes of `key`, from any place in it, stand at `text`. */
static size_t longest_part(const char *text, size_t size, const char *key, size_t key_size, size_t part_min) {
        size_t longest = 0;

        for (size_t from = 0; from + part_min <= key_size; from++) {
                size_t length = 0;

                while (length < size && from + length < key_size && text[length] == key[from + length])
                        length++;
                if (length > longest && (length >= part_min || (from == 0 && length >= PREFIX_MIN)))
                        longest = length;
        }
        return longest;
}

void llm_redact(char *text, size_t size, const char *key) {
        size_t key_size = key != NULL ? strlen(key) : 0;
        size_t part_min = key_size < PART_MIN ? key_size : PART_MIN;

        if (key_size == 0)
                return;
        for (size_t i = 0; i < size;) {
                size_t length = longest_part(text + i, size - i, key, key_size, part_min);

                memset(text + i, '*', length);
                i += length > 0 ? length : 1;
        }
}

void llm_mask_key(char *text, size_t size, const char *key) {
        size_t key_size = key != NULL ? strlen(key) : 0;
        char *found;

        /* A short one is a made-up one ("none", "ollama"), and a word that an answer may have in it. */
        if (key_size < 16)
                return;
        while (size >= key_size && (found = memmem(text, size, key, key_size)) != NULL) {
                memset(found, '*', key_size);
                size -= (size_t)(found - text) + key_size;
                text = found + key_size;
        }
}

int llm_plain_line(struct llm_text *out, const char *data, size_t size, size_t max) {
        bool blank = true; /* nothing yet, or a blank before */
        size_t begin = out->size;
        bool cut = size > max;

        if (cut)
                for (size = max; size > 0 && ((unsigned char)data[size] & 0xC0) == 0x80;)
                        size--;
        llm_text_repaired(out, data, size);
        if (out->error != 0)
                return out->error;
        size = begin;
        for (size_t i = begin; i < out->size; i++) {
                unsigned char c = (unsigned char)out->data[i];

                /* C1 controls are C2 80 to C2 9F in UTF-8. */
                if (c == 0xC2 && (unsigned char)out->data[i + 1] < 0xA0) {
                        i++;
                        c = ' ';
                } else if (c < 0x20 || c == 0x7F)
                        c = ' ';
                if (c == ' ' && blank)
                        continue;
                blank = c == ' ';
                out->data[size++] = (char)c;
        }
        out->size = size;
        if (out->data != NULL)
                out->data[size] = '\0';
        return cut ? llm_text_literal(out, "...") : 0;
}
