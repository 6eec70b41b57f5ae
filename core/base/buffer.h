/* SPDX-License-Identifier: Apache-2.0 */
/* Growing bytes with a maximum. Always NUL-terminated beyond `size`, so that text needs no copy. One thread. */
#pragma once

#include <snipara-sandbox/types.h>

struct sbx_buffer {
        char *data; /* NULL while empty */
        size_t size, capacity;
        size_t max; /* the most `size` may become */
};
#define SBX_BUFFER(max_bytes) {NULL, 0, 0, (max_bytes)}

void sbx_buffer_free(struct sbx_buffer *buffer); /* leaves it empty and usable */
/* -EFBIG beyond the maximum, -ENOMEM; the content is unchanged then. */
int sbx_buffer_reserve(struct sbx_buffer *buffer, size_t more);
int sbx_buffer_append(struct sbx_buffer *buffer, const void *data, size_t size);
int sbx_buffer_append_text(struct sbx_buffer *buffer, const char *text);
int sbx_buffer_printf(struct sbx_buffer *buffer, const char *format, ...) SBX_PRINTF(2, 3);
void sbx_buffer_consume(struct sbx_buffer *buffer, size_t size); /* drops bytes at the front */
void sbx_buffer_clear(struct sbx_buffer *buffer);
/* The bytes, NUL-terminated, to be freed with free(); the buffer is empty afterwards. NULL only for -ENOMEM. */
char *sbx_buffer_steal(struct sbx_buffer *buffer);
static inline struct sbx_bytes sbx_buffer_bytes(const struct sbx_buffer *buffer) {
        return (struct sbx_bytes){buffer->data, buffer->size};
}
#define _cleanup_buffer_ __attribute__((cleanup(sbx_buffer_free)))
