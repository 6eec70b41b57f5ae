/* SPDX-License-Identifier: Apache-2.0 */
/* What flows through a relay, looked at without being kept: the engine's multiplexing, frames of the guest protocol
 * (docs/guest-protocol.md), and the last bytes of a stream. */
#ifndef DOCKER_RELAY_FRAMES_H
#define DOCKER_RELAY_FRAMES_H

#include <stdbool.h>

#include <snipara-sandbox/types.h>

/* The engine's multiplexing. */
struct mux {
        unsigned char head[8];
        size_t have;   /* of the head */
        uint32_t left; /* of the payload */
};
enum { MUX_STDOUT = 1, MUX_STDERR = 2 };
/* The next piece of payload at the start of `bytes`. Returns how many bytes were used up, at least 1 of a non-empty
 * `bytes`; `ret_piece` is empty if they were a head's. -EPROTO: what no engine sends. */
ssize_t mux_take(struct mux *mux, struct sbx_bytes bytes, int *ret_stream, struct sbx_bytes *ret_piece);
static inline bool mux_at_boundary(const struct mux *mux) {
        return mux->have == 0 && mux->left == 0;
}

/* Where frames begin and end in one direction. */
struct frames {
        unsigned char head[5];
        size_t have;
        uint32_t left;
};
/* Calls `whole` with the type of each frame that ends within `bytes`. */
void frames_pass(struct frames *frames, struct sbx_bytes bytes, void (*whole)(void *data, uint8_t type), void *data);
static inline bool frames_at_boundary(const struct frames *frames) {
        return frames->have == 0 && frames->left == 0;
}
bool frame_is_request(uint8_t type); /* one that a `result` or `ready` answers */
bool frame_is_answer(uint8_t type);

/* The last bytes of a stream. */
#define TAIL_MAX 4096u
struct tail {
        char *bytes; /* TAIL_MAX; NULL: nothing came */
        uint64_t total;
};
void tail_add(struct tail *tail, struct sbx_bytes bytes);
/* As text: repaired UTF-8, NUL-terminated, its end if `size` is too small; without blanks around it. */
void tail_text(const struct tail *tail, char *text, size_t size);
void tail_clear(struct tail *tail);

#endif
