/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of the guest protocol (docs/guest-protocol.md), as far as images are baked and tried with it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum frame {
        FRAME_HELLO = 0x01,
        FRAME_EXEC = 0x02,
        FRAME_READY = 0x81,
        FRAME_STDOUT = 0x82,
        FRAME_STDERR = 0x83,
        FRAME_RESULT = 0x86,
};

/* 0, or -EIO: the other end is gone. */
int frames_read(int fd, void *data, size_t size);
int frames_write(int fd, const void *data, size_t size);
int frames_send_hello(int fd);
int frames_send_exec(int fd, const void *source, size_t size);
