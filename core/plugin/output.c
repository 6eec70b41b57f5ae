/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that plugins hand back: a growing buffer with a maximum, behind an opaque type. One thread at a time. */
#include "plugin/registry.h"

#include "base/buffer.h"
#include "base/cleanup.h"

struct sbx_output {
        struct sbx_buffer buffer;
};

int sbx_output_new(size_t max_bytes, struct sbx_output **ret_output) {
        struct sbx_output *output = calloc(1, sizeof(*output));

        if (output == NULL)
                return -ENOMEM;
        output->buffer.max = max_bytes;
        *ret_output = output;
        return 0;
}

struct sbx_bytes sbx_output_bytes(const struct sbx_output *output) {
        return sbx_buffer_bytes(&output->buffer);
}

void sbx_output_free(struct sbx_output *output) {
        if (output == NULL)
                return;
        sbx_buffer_free(&output->buffer);
        free(output);
}

int sbx_output_append(struct sbx_output *output, const void *data, size_t size) {
        return sbx_buffer_append(&output->buffer, data, size);
}

void sbx_output_move(struct sbx_output *output, struct sbx_buffer *to) {
        sbx_buffer_free(to);
        *to = output->buffer;
        output->buffer = (struct sbx_buffer)SBX_BUFFER(to->max);
}
