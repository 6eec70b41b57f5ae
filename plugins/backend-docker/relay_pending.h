/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that came from one side of a relay and that the other has not taken yet. */
#ifndef DOCKER_RELAY_PENDING_H
#define DOCKER_RELAY_PENDING_H

#include "relay.h"
#include "util.h"

struct pending {
        char *data;
        size_t start, end, capacity;
};

#define PENDING_STEP ((size_t)64 << 10)

static inline size_t pending_size(const struct pending *pending) {
        return pending->end - pending->start;
}

static inline struct sbx_bytes pending_bytes(const struct pending *pending) {
        return (struct sbx_bytes){pending->data + pending->start, pending->end - pending->start};
}

static inline size_t pending_room(const struct pending *pending) {
        size_t size = pending_size(pending);

        return size < RELAY_PENDING_MAX ? RELAY_PENDING_MAX - size : 0;
}

/* Room for `size` more bytes at data + end; the caller keeps to pending_room, but for the first bytes of a line. */
static inline int pending_reserve(struct pending *pending, size_t size) {
        size_t held = pending_size(pending), capacity;
        char *data;

        if (pending->capacity - pending->end >= size)
                return 0;
        if (held > 0)
                memmove(pending->data, pending->data + pending->start, held);
        pending->start = 0;
        pending->end = held;
        if (pending->capacity - held >= size)
                return 0;
        capacity = (held + size + PENDING_STEP - 1) / PENDING_STEP * PENDING_STEP;
        data = realloc(pending->data, capacity);
        if (data == NULL)
                return -ENOMEM;
        pending->data = data;
        pending->capacity = capacity;
        return 0;
}

static inline int pending_add(struct pending *pending, struct sbx_bytes bytes) {
        if (pending_reserve(pending, bytes.size) < 0)
                return -ENOMEM;
        if (bytes.size > 0)
                memcpy(pending->data + pending->end, bytes.data, bytes.size);
        pending->end += bytes.size;
        return 0;
}

static inline void pending_free(struct pending *pending) {
        free(pending->data);
        *pending = (struct pending){0};
}

/* What a large answer needed is given back after it. */
static inline void pending_drop(struct pending *pending, size_t size) {
        pending->start += size;
        if (pending->start < pending->end)
                return;
        pending->start = pending->end = 0;
        if (pending->capacity > PENDING_STEP)
                pending_free(pending);
}

#endif
