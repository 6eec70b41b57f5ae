/* SPDX-License-Identifier: Apache-2.0 */
/* Growing text with a maximum; the first failure sticks, so that a row of appends needs one check. One thread. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/types.h>

struct llm_text {
        char *data; /* NULL while nothing was ever appended; else NUL-terminated beyond `size` */
        size_t size, capacity;
        size_t max; /* the most `size` may become */
        int error;  /* 0, -ENOMEM or -EFBIG; nothing is appended once it is set */
};
#define LLM_TEXT(max_bytes)                                                                                            \
        { NULL, 0, 0, (max_bytes), 0 }

void llm_text_free(struct llm_text *text); /* leaves it empty and usable */
#define _cleanup_text_ __attribute__((cleanup(llm_text_free)))
void llm_text_clear(struct llm_text *text); /* empties it, keeps the memory */

/* Each returns text->error. */
int llm_text_append(struct llm_text *text, const void *data, size_t size);
int llm_text_literal(struct llm_text *text, const char *literal);
int llm_text_printf(struct llm_text *text, const char *format, ...) SBX_PRINTF(2, 3);
/* `data` as UTF-8: what is not becomes U+FFFD. */
int llm_text_repaired(struct llm_text *text, const void *data, size_t size);

bool llm_utf8_valid(const void *data, size_t size);

static inline struct sbx_bytes llm_text_bytes(const struct llm_text *text) {
        return (struct sbx_bytes){text->data, text->size};
}
