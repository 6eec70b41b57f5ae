/* SPDX-License-Identifier: Apache-2.0 */
/* WASI's functions that read and write: files of the session, and streams of the host. */
#include "wasi_files.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define BUFFERS_MAX 1024 /* of one call, as IOV_MAX of Linux */

/* docs/guest-protocol.md */
#define FRAME_HEADER_SIZE 5
#define FRAME_PAYLOAD_MAX (1u << 20)
#define FRAME_STDOUT 0x82
#define FRAME_STDERR 0x83

/* The next of a call's buffers. */
static uint32_t get_buffer(struct wasm_instance *instance, uint32_t iovs, uint32_t index, void **ret_data,
                           uint32_t *ret_size) {
        struct wasi_iovec iov;
        const void *from = wasm_range(instance, iovs, (uint64_t)(index + 1) * sizeof(iov));

        if (from == NULL)
                return WASI_EFAULT;
        memcpy(&iov, (const uint8_t *)from + (size_t)index * sizeof(iov), sizeof(iov));
        *ret_data = wasm_range(instance, iov.address, iov.size);
        *ret_size = iov.size;
        return *ret_data == NULL ? WASI_EFAULT : 0;
}

static uint32_t errno_of_stream(int error) {
        switch (error) {
        case EINTR:
                return WASI_EINTR;
        case EAGAIN:
                return WASI_EAGAIN;
        case EPIPE:
        case ECONNRESET:
                return WASI_EPIPE;
        default:
                return WASI_EIO;
        }
}

/* Waits for a host descriptor, so that an interrupt ends the wait. Most often it is ready already. */
static uint32_t stream_wait(struct wasm_instance *instance, int host_fd, short events, uint16_t flags) {
        struct pollfd fd = {.fd = host_fd, .events = events};
        const struct timespec now = {0};

        if (ppoll(&fd, 1, &now, NULL) == 1)
                return 0;
        return flags & WASI_FD_NONBLOCK ? WASI_EAGAIN : wasi_wait(instance, host_fd, events, -1);
}

static uint32_t stream_read(struct wasm_instance *instance, const struct vfs_descriptor *stream, void *data,
                            size_t size, size_t *ret_size) {
        ssize_t n = 0;
        uint32_t r;

        if (!stream->read)
                return WASI_EBADF;
        if (stream->stream_fd >= 0 && size > 0) {
                r = stream_wait(instance, stream->stream_fd, POLLIN, stream->flags);
                if (r != 0)
                        return r;
                n = read(stream->stream_fd, data, size);
        }
        if (n < 0)
                return errno_of_stream(errno);
        *ret_size = (size_t)n;
        return 0;
}

/* All of it: half a frame would break the protocol, so nothing interrupts this but the host's end. */
static int write_whole(int fd, struct iovec *parts, int count) {
        while (count > 0) {
                ssize_t n = writev(fd, parts, count);

                if (n < 0 && errno == EAGAIN) {
                        struct pollfd ready = {.fd = fd, .events = POLLOUT};

                        (void)ppoll(&ready, 1, NULL, NULL);
                }
                if (n < 0 && errno != EINTR && errno != EAGAIN)
                        return -errno;
                for (; count > 0 && n >= (ssize_t)parts->iov_len; parts++, count--)
                        n -= (ssize_t)parts->iov_len;
                if (count > 0 && n > 0) {
                        parts->iov_base = (uint8_t *)parts->iov_base + n;
                        parts->iov_len -= (size_t)n;
                }
        }
        return 0;
}

/* Output without a descriptor of its own goes over the control stream, as frames of docs/guest-protocol.md. */
static uint32_t write_frame(struct wasm_instance *instance, int control_fd, uint32_t fd, uint16_t flags,
                            const void *data, size_t size, size_t *ret_size) {
        uint8_t header[FRAME_HEADER_SIZE] = {[4] = fd == 1 ? FRAME_STDOUT : FRAME_STDERR};
        struct iovec parts[2] = {{header, sizeof(header)}};
        uint32_t length, r = stream_wait(instance, control_fd, POLLOUT, flags);
        int error;

        if (r != 0)
                return r;
        if (size > FRAME_PAYLOAD_MAX)
                size = FRAME_PAYLOAD_MAX;
        length = htole32((uint32_t)size);
        memcpy(header, &length, sizeof(length));
        parts[1] = (struct iovec){(void *)(uintptr_t)data, size};
        error = write_whole(control_fd, parts, 2);
        if (error < 0)
                return errno_of_stream(-error);
        *ret_size = size;
        return 0;
}

static uint32_t stream_write(struct wasm_instance *instance, uint32_t fd, const struct vfs_descriptor *stream,
                             const void *data, size_t size, size_t *ret_size) {
        ssize_t n = (ssize_t)size;
        int control_fd = -1;
        uint32_t r;

        if (!stream->write)
                return WASI_EBADF;
        vfs_host_fd(instance->host->vfs, VFS_CONTROL_FD, &control_fd);
        if (stream->stream_fd < 0 && control_fd >= 0 && size > 0)
                return write_frame(instance, control_fd, fd, stream->flags, data, size, ret_size);
        if (stream->stream_fd >= 0 && size > 0) {
                r = stream_wait(instance, stream->stream_fd, POLLOUT, stream->flags);
                if (r != 0)
                        return r;
                n = write(stream->stream_fd, data, size);
        }
        if (n < 0)
                return errno_of_stream(errno);
        *ret_size = (size_t)n;
        return 0;
}

enum transfer { TRANSFER_READ, TRANSFER_WRITE, TRANSFER_PREAD, TRANSFER_PWRITE };

/* One buffer. */
static uint32_t transfer_one(struct wasm_instance *instance, enum transfer transfer, uint32_t fd, uint64_t offset,
                             void *data, size_t size, size_t *ret_size) {
        struct vfs *vfs = instance->host->vfs;
        struct vfs_descriptor descriptor;
        int r = vfs_describe(vfs, fd, &descriptor);

        if (r != 0)
                return (uint32_t)r;
        switch (transfer) {
        case TRANSFER_READ:
                return descriptor.stream ? stream_read(instance, &descriptor, data, size, ret_size)
                                         : (uint32_t)vfs_read(vfs, fd, data, size, ret_size);
        case TRANSFER_WRITE:
                return descriptor.stream ? stream_write(instance, fd, &descriptor, data, size, ret_size)
                                         : (uint32_t)vfs_write(vfs, fd, data, size, ret_size);
        case TRANSFER_PREAD:
                return (uint32_t)vfs_pread(vfs, fd, offset, data, size, ret_size);
        default:
                return (uint32_t)vfs_pwrite(vfs, fd, offset, data, size, ret_size);
        }
}

/* All buffers of a call, until one isn't filled. What was done before an error counts: the error comes again. */
static uint32_t transfer_all(struct wasm_instance *instance, enum transfer transfer, uint32_t fd, uint32_t iovs,
                             uint32_t count, uint64_t offset, uint32_t ret_size) {
        uint64_t total = 0;
        uint32_t r = 0;

        if (count > BUFFERS_MAX || offset > INT64_MAX)
                return WASI_EINVAL;
        for (uint32_t i = 0; i < count || i == 0; i++) {
                uint32_t size = 0;
                size_t done = 0;
                void *data = NULL;

                if (count > 0)
                        r = get_buffer(instance, iovs, i, &data, &size);
                if (r == 0 && total + size > INT32_MAX)
                        size = (uint32_t)(INT32_MAX - total);
                if (r == 0)
                        r = transfer_one(instance, transfer, fd, offset + total, data, size, &done);
                total += done;
                if (r != 0 || done < size || total >= INT32_MAX)
                        break;
        }
        if (r != 0 && total == 0)
                return r;
        return wasi_store_u32(instance, ret_size, (uint32_t)total);
}

uint32_t wasi_fd_read(struct wasm_instance *instance, uint32_t fd, uint32_t iovs, uint32_t count, uint32_t ret_size) {
        return transfer_all(instance, TRANSFER_READ, fd, iovs, count, 0, ret_size);
}

uint32_t wasi_fd_pread(struct wasm_instance *instance, uint32_t fd, uint32_t iovs, uint32_t count, uint64_t offset,
                       uint32_t ret_size) {
        return transfer_all(instance, TRANSFER_PREAD, fd, iovs, count, offset, ret_size);
}

uint32_t wasi_fd_write(struct wasm_instance *instance, uint32_t fd, uint32_t iovs, uint32_t count, uint32_t ret_size) {
        wasi_files_change(instance);
        return wasi_files_changed(instance, (int)transfer_all(instance, TRANSFER_WRITE, fd, iovs, count, 0, ret_size));
}

uint32_t wasi_fd_pwrite(struct wasm_instance *instance, uint32_t fd, uint32_t iovs, uint32_t count, uint64_t offset,
                        uint32_t ret_size) {
        wasi_files_change(instance);
        return wasi_files_changed(instance,
                                  (int)transfer_all(instance, TRANSFER_PWRITE, fd, iovs, count, offset, ret_size));
}
