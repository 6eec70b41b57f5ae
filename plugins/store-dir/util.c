/* SPDX-License-Identifier: Apache-2.0 */
/* Growing bytes, waiting within a call, whole reads and writes. */
#include "util.h"

#include <poll.h>

int bytes_reserve(struct bytes *bytes, size_t more, size_t max) {
        size_t capacity = bytes->capacity < 256 ? 256 : bytes->capacity;
        uint8_t *grown;

        if (bytes->size > max || more > max - bytes->size)
                return -EFBIG;
        if (more <= bytes->capacity - bytes->size)
                return 0;
        while (capacity < bytes->size + more)
                capacity = capacity > max / 2 ? max : 2 * capacity;
        grown = realloc(bytes->data, capacity);
        if (grown == NULL)
                return -ENOMEM;
        bytes->data = grown;
        bytes->capacity = capacity;
        return 0;
}

int bytes_append(struct bytes *bytes, const void *data, size_t size, size_t max) {
        int r = bytes_reserve(bytes, size, max);

        if (r < 0)
                return r;
        if (size > 0)
                memcpy(bytes->data + bytes->size, data, size);
        bytes->size += size;
        return 0;
}

static int canceled(struct sbx_error *err) {
        return sbx_error_set(err, -ECANCELED, DIR_ORIGIN, NULL, "the call was cancelled");
}

int call_pause(const struct sbx_call *call, unsigned ms, struct sbx_error *err) {
        struct pollfd cancel = {.fd = call != NULL ? call->cancel_fd : -1, .events = POLLIN};

        if (poll(&cancel, 1, (int)ms) > 0)
                return canceled(err);
        if (call != NULL && call->deadline_ns != 0 && clock_ns(CLOCK_MONOTONIC) >= call->deadline_ns)
                return sbx_error_set(err, -ETIMEDOUT, DIR_ORIGIN, NULL, "the call's time is over");
        return 0;
}

int call_check(const struct sbx_call *call, struct sbx_error *err) {
        if (call == NULL || (call->cancel_fd < 0 && call->deadline_ns == 0))
                return 0;
        return call_pause(call, 0, err);
}

ssize_t read_at(int fd, void *data, size_t size, uint64_t offset) {
        size_t done = 0;

        while (done < size) {
                ssize_t got = pread(fd, (uint8_t *)data + done, size - done, (off_t)(offset + done));

                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return -errno;
                if (got == 0)
                        break;
                done += (size_t)got;
        }
        return (ssize_t)done;
}

int write_at(int fd, const void *data, size_t size, uint64_t offset) {
        size_t done = 0;

        while (done < size) {
                ssize_t written = pwrite(fd, (const uint8_t *)data + done, size - done, (off_t)(offset + done));

                if (written < 0 && errno == EINTR)
                        continue;
                if (written <= 0)
                        return written < 0 ? -errno : -ENOSPC;
                done += (size_t)written;
        }
        return 0;
}
