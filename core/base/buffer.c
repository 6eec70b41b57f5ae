/* SPDX-License-Identifier: Apache-2.0 */
/* Growing bytes with a maximum. */
#include "base/buffer.h"

#include <stdlib.h>

#define CAPACITY_MIN 64

void sbx_buffer_free(struct sbx_buffer *buffer) {
        free(buffer->data);
        buffer->data = NULL;
        buffer->size = buffer->capacity = 0;
}

/* The capacity to ask for: doubled, so that many small appends cost amortised O(1), but never more than the maximum
 * and the final NUL need. */
static size_t next_capacity(const struct sbx_buffer *buffer, size_t needed) {
        size_t limit = buffer->max < SIZE_MAX ? buffer->max + 1 : SIZE_MAX;
        size_t capacity = buffer->capacity > CAPACITY_MIN ? buffer->capacity : CAPACITY_MIN;

        while (capacity < needed && capacity <= SIZE_MAX / 2)
                capacity *= 2;
        if (capacity > limit)
                capacity = limit;
        return capacity < needed ? needed : capacity;
}

int sbx_buffer_reserve(struct sbx_buffer *buffer, size_t more) {
        size_t needed, capacity;
        char *data;

        if (buffer->size > buffer->max || more > buffer->max - buffer->size)
                return -EFBIG;
        if (__builtin_add_overflow(buffer->size, more, &needed) || __builtin_add_overflow(needed, 1, &needed))
                return -EFBIG;
        if (needed <= buffer->capacity)
                return 0;
        capacity = next_capacity(buffer, needed);
        data = realloc(buffer->data, capacity);
        if (data == NULL)
                return -ENOMEM;
        data[buffer->size] = '\0';
        buffer->data = data;
        buffer->capacity = capacity;
        return 0;
}

int sbx_buffer_append(struct sbx_buffer *buffer, const void *data, size_t size) {
        int r;

        if (size == 0)
                return 0;
        r = sbx_buffer_reserve(buffer, size);
        if (r < 0)
                return r;
        memcpy(buffer->data + buffer->size, data, size);
        buffer->size += size;
        buffer->data[buffer->size] = '\0';
        return 0;
}

int sbx_buffer_append_text(struct sbx_buffer *buffer, const char *text) {
        return sbx_buffer_append(buffer, text, strlen(text));
}

SBX_PRINTF(2, 0)
static int append_format(struct sbx_buffer *buffer, const char *format, va_list args) {
        size_t room = buffer->capacity - buffer->size;
        va_list again;
        int length, r;

        va_copy(again, args);
        length = vsnprintf(room > 0 ? buffer->data + buffer->size : NULL, room, format, args);
        if (length < 0)
                r = -EINVAL;
        else
                r = sbx_buffer_reserve(buffer, (size_t)length);
        /* The first try may have written a cut text, or may have fitted. */
        if (r == 0 && (size_t)length >= room)
                vsnprintf(buffer->data + buffer->size, (size_t)length + 1, format, again);
        va_end(again);
        if (r == 0)
                buffer->size += (size_t)length;
        else if (buffer->data != NULL)
                buffer->data[buffer->size] = '\0';
        return r;
}

int sbx_buffer_printf(struct sbx_buffer *buffer, const char *format, ...) {
        va_list args;
        int r;

        va_start(args, format);
        r = append_format(buffer, format, args);
        va_end(args);
        return r;
}

void sbx_buffer_consume(struct sbx_buffer *buffer, size_t size) {
        if (size >= buffer->size) {
                sbx_buffer_clear(buffer);
                return;
        }
        if (size == 0)
                return;
        buffer->size -= size;
        memmove(buffer->data, buffer->data + size, buffer->size + 1);
}

void sbx_buffer_clear(struct sbx_buffer *buffer) {
        buffer->size = 0;
        if (buffer->data != NULL)
                buffer->data[0] = '\0';
}

char *sbx_buffer_steal(struct sbx_buffer *buffer) {
        char *data = buffer->data != NULL ? buffer->data : calloc(1, 1);

        if (data == NULL)
                return NULL;
        buffer->data = NULL;
        buffer->size = buffer->capacity = 0;
        return data;
}
