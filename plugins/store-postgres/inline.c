/* SPDX-License-Identifier: Apache-2.0 */
/* Small blobs, which stand in the row of their name: one statement writes them. */
#include <sodium.h>

#include "blob.h"

static const char context_word[] = "inline ";
#define CONTEXT_BYTES_MAX (sizeof(context_word) + NAME_BYTES_MAX)

static struct sbx_bytes make_context(const char *name, char text[CONTEXT_BYTES_MAX]) {
        int size = snprintf(text, CONTEXT_BYTES_MAX, "%s%s", context_word, name);

        return (struct sbx_bytes){text, (size_t)size};
}

void blob_sum(const struct sealing *sealing, const char *name, bool is_object, struct sbx_bytes what,
              uint8_t ret_sum[SEALING_HASH_SIZE]) {
        sealing_hash(sealing, is_object ? "object of name" : "inline of name", (struct sbx_bytes){name, strlen(name)},
                     what, ret_sum);
}

bool blob_sum_matches(const struct sealing *sealing, const char *name, bool is_object, struct sbx_bytes what,
                      struct sbx_bytes sum) {
        uint8_t expected[SEALING_HASH_SIZE];

        blob_sum(sealing, name, is_object, what, expected);
        return sum.size == sizeof(expected) && sodium_memcmp(sum.data, expected, sizeof(expected)) == 0;
}

int blob_seal_inline(const struct connection *connection, const char *name, struct sbx_bytes content,
                     uint8_t **ret_piece, size_t *ret_size) {
        _cleanup_free_ uint8_t *piece = malloc(content.size + SEALING_OVERHEAD);
        char context[CONTEXT_BYTES_MAX];
        int r;

        if (piece == NULL)
                return -ENOMEM;
        r = sealing_seal(&connection->sealing, connection->options->compression, make_context(name, context), content,
                         piece, ret_size);
        if (r == 0)
                *ret_piece = steal_pointer(piece);
        return r;
}

int blob_open_inline(const struct connection *connection, const char *name, struct sbx_bytes piece,
                     struct sbx_bytes sum, uint8_t *content, size_t size) {
        char context[CONTEXT_BYTES_MAX];
        int r;

        if (size > INLINE_BYTES_MAX || piece.data == NULL || strlen(name) > NAME_BYTES_MAX)
                return -EBADMSG;
        r = sealing_unseal(&connection->sealing, make_context(name, context), piece, size, content);
        if (r < 0)
                return r;
        return blob_sum_matches(&connection->sealing, name, false, (struct sbx_bytes){content, size}, sum) ? 0
                                                                                                           : -EBADMSG;
}
