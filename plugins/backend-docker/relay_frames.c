/* SPDX-License-Identifier: Apache-2.0 */
/* Multiplexing, frames and the last words, byte by byte as they come. */
#include "relay_frames.h"

#include <snipara-sandbox/utf8.h>

#include "util.h"

#define FRAME_TOOL_RESULT 0x0b
#define FRAME_REQUEST_MAX 0x0a
#define FRAME_READY 0x81
#define FRAME_RESULT 0x86
#define MUX_STREAM_MAX 3 /* of the engine itself; 0 would be our own input */

static uint32_t read_be32(const unsigned char *bytes) {
        return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static uint32_t read_le32(const unsigned char *bytes) {
        return (uint32_t)bytes[3] << 24 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[1] << 8 | bytes[0];
}

ssize_t mux_take(struct mux *mux, struct sbx_bytes bytes, int *ret_stream, struct sbx_bytes *ret_piece) {
        size_t used;

        *ret_piece = (struct sbx_bytes){0};
        if (mux->left == 0) {
                used = sizeof(mux->head) - mux->have;
                if (used > bytes.size)
                        used = bytes.size;
                memcpy(mux->head + mux->have, bytes.data, used);
                mux->have += used;
                if (mux->have < sizeof(mux->head))
                        return (ssize_t)used;
                if (mux->head[0] > MUX_STREAM_MAX || mux->head[1] != 0 || mux->head[2] != 0 || mux->head[3] != 0)
                        return -EPROTO;
                mux->left = read_be32(mux->head + 4);
                if (mux->left == 0)
                        mux->have = 0;
                return (ssize_t)used;
        }
        used = mux->left < bytes.size ? mux->left : bytes.size;
        *ret_stream = mux->head[0] == MUX_STDOUT ? MUX_STDOUT : MUX_STDERR;
        *ret_piece = (struct sbx_bytes){bytes.data, used};
        mux->left -= (uint32_t)used;
        if (mux->left == 0)
                mux->have = 0;
        return (ssize_t)used;
}

void frames_pass(struct frames *frames, struct sbx_bytes bytes, void (*whole)(void *data, uint8_t type), void *data) {
        const unsigned char *at = bytes.data;
        size_t left = bytes.size;

        while (left > 0) {
                size_t used;

                if (frames->left > 0) {
                        used = frames->left < left ? frames->left : left;
                        frames->left -= (uint32_t)used;
                } else {
                        used = sizeof(frames->head) - frames->have;
                        if (used > left)
                                used = left;
                        memcpy(frames->head + frames->have, at, used);
                        frames->have += used;
                        if (frames->have == sizeof(frames->head))
                                frames->left = read_le32(frames->head);
                }
                at += used;
                left -= used;
                if (frames->have == sizeof(frames->head) && frames->left == 0) {
                        frames->have = 0;
                        whole(data, frames->head[4]);
                }
        }
}

bool frame_is_request(uint8_t type) {
        return type <= FRAME_REQUEST_MAX; /* tool_result, beyond it, is an answer to the guest */
}

bool frame_is_answer(uint8_t type) {
        return type == FRAME_READY || type == FRAME_RESULT;
}

void tail_add(struct tail *tail, struct sbx_bytes bytes) {
        const char *data = bytes.data;

        if (tail->bytes == NULL)
                tail->bytes = malloc(TAIL_MAX);
        if (tail->bytes == NULL)
                return; /* words for an error, and no more */
        if (bytes.size > TAIL_MAX) {
                tail->total += bytes.size - TAIL_MAX;
                data += bytes.size - TAIL_MAX;
                bytes.size = TAIL_MAX;
        }
        for (size_t i = 0; i < bytes.size; i++)
                tail->bytes[tail->total++ % TAIL_MAX] = data[i];
}

static bool is_blank(char c) {
        return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Control characters could make a terminal lie. */
static size_t put_character(char *text, size_t used, size_t size, const char *from, size_t length) {
        if (length == 0) {
                from = SBX_UTF8_REPLACEMENT;
                length = strlen(from);
        } else if (length == 1 && (((unsigned char)*from < 0x20 && *from != '\n' && *from != '\t') || *from == 0x7f)) {
                from = "?";
        } else if (length == 2 && (unsigned char)from[0] == 0xC2 && (unsigned char)from[1] < 0xA0) {
                from = "?";
                length = 1;
        }
        if (used + length >= size)
                return 0;
        memcpy(text + used, from, length);
        return length;
}

void tail_text(const struct tail *tail, char *text, size_t size) {
        size_t count = tail->total < TAIL_MAX ? (size_t)tail->total : TAIL_MAX, used = 0, start = 0;
        char flat[TAIL_MAX];

        text[0] = '\0';
        if (tail->bytes == NULL)
                return;
        for (size_t i = 0; i < count; i++)
                flat[i] = tail->bytes[(tail->total - count + i) % TAIL_MAX];
        while (count > 0 && is_blank(flat[count - 1]))
                count--;
        /* The end counts. */
        if (count >= size)
                start = count - (size > 1 ? size - 1 : 0);
        if (start > 0 || tail->total > TAIL_MAX)
                while (start < count && ((unsigned char)flat[start] & 0xC0) == 0x80)
                        start++;
        while (start < count && is_blank(flat[start]))
                start++;
        for (size_t i = start, n; i<count; i += n> 0 ? n : 1) {
                size_t put;

                n = sbx_utf8_length(flat + i, count - i);
                put = put_character(text, used, size, flat + i, n);
                if (put == 0)
                        break;
                used += put;
        }
        text[used] = '\0';
}

void tail_clear(struct tail *tail) {
        free(tail->bytes);
        *tail = (struct tail){0};
}
