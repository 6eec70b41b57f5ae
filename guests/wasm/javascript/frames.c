/* SPDX-License-Identifier: Apache-2.0 */
/* Frames on the control stream: u32 length, u8 type, payload. docs/guest-protocol.md. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine.h"

#define HEADER_SIZE 5
#define PAYLOAD_MAX (65u << 20) /* the largest that a host may send */

static uint32_t get_u32(const uint8_t *bytes) {
        return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static void put_u32(uint8_t *bytes, uint32_t value) {
        for (unsigned i = 0; i < 4; i++)
                bytes[i] = (uint8_t)(value >> (8 * i));
}

/* 1: all of it; 0: the stream ended; -1 with errno, EINTR only if nothing was read. */
static int read_all(uint8_t *data, size_t size) {
        for (size_t have = 0; have < size;) {
                ssize_t count = read(CONTROL_FD, data + have, size - have);

                if (count == 0)
                        return 0;
                if (count > 0)
                        have += (size_t)count;
                else if (errno != EINTR || have == 0)
                        return -1;
        }
        return 1;
}

int frame_receive(uint8_t *ret_type, uint8_t **ret_data, uint32_t *ret_size) {
        uint8_t header[HEADER_SIZE], *data;
        uint32_t size;
        int r = read_all(header, sizeof(header));

        if (r <= 0)
                return r;
        size = get_u32(header);
        if (size > PAYLOAD_MAX) {
                errno = EPROTO;
                return -1;
        }
        data = malloc((size_t)size + 1); /* never of nothing */
        if (data == NULL) {
                errno = ENOMEM;
                return -1;
        }
        do
                r = read_all(data, size);
        while (r < 0 && errno == EINTR);
        if (r <= 0) {
                free(data);
                return r;
        }
        *ret_type = header[4];
        *ret_data = data;
        *ret_size = size;
        return 1;
}

int write_all(int fd, const void *data, size_t size) {
        const uint8_t *bytes = data;

        while (size > 0 && !guest.rehearsing) {
                ssize_t count = write(fd, bytes, size);

                if (count < 0 && errno != EINTR)
                        return -1;
                if (count > 0) {
                        bytes += count;
                        size -= (size_t)count;
                }
        }
        return 0;
}

/* In one call where the stream takes it all. */
static int write_parts(struct iovec *parts, int count) {
        ssize_t done;

        if (guest.rehearsing)
                return 0;
        do
                done = writev(CONTROL_FD, parts, count);
        while (done < 0 && errno == EINTR);
        if (done < 0)
                return -1;
        for (int i = 0; i < count; i++) {
                size_t skip = (size_t)done < parts[i].iov_len ? (size_t)done : parts[i].iov_len;

                done -= (ssize_t)skip;
                if (write_all(CONTROL_FD, (const uint8_t *)parts[i].iov_base + skip, parts[i].iov_len - skip) < 0)
                        return -1;
        }
        return 0;
}

int frame_send(uint8_t type, const void *json, size_t json_size, const void *blob, size_t blob_size) {
        uint8_t header[HEADER_SIZE + 4];
        size_t prefix = blob != NULL ? 4 : 0;
        struct iovec parts[3] = {{header, HEADER_SIZE + prefix}, {(void *)json, json_size}, {(void *)blob, blob_size}};

        put_u32(header, (uint32_t)(prefix + json_size + blob_size));
        header[4] = type;
        put_u32(header + HEADER_SIZE, (uint32_t)json_size);
        return write_parts(parts, blob != NULL ? 3 : 2);
}
