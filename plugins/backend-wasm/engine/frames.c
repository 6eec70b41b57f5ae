/* SPDX-License-Identifier: Apache-2.0 */
/* Sends requests to guests. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "frames.h"

int frames_read(int fd, void *data, size_t size) {
        size_t done = 0;

        while (done < size) {
                ssize_t count = read(fd, (char *)data + done, size - done);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0)
                        return -EIO;
                done += (size_t)count;
        }
        return 0;
}

int frames_write(int fd, const void *data, size_t size) {
        size_t done = 0;

        while (done < size) {
                ssize_t count = write(fd, (const char *)data + done, size - done);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0)
                        return -EIO;
                done += (size_t)count;
        }
        return 0;
}

static int send_head(int fd, enum frame type, size_t size) {
        uint32_t length = (uint32_t)size;
        uint8_t kind = (uint8_t)type;
        int r = frames_write(fd, &length, sizeof(length));

        return r < 0 ? r : frames_write(fd, &kind, sizeof(kind));
}

int frames_send_hello(int fd) {
        static const char json[] = "{\"protocol\": 1, \"session\": \"image\", \"framed_output\": true}";
        int r = send_head(fd, FRAME_HELLO, strlen(json));

        return r < 0 ? r : frames_write(fd, json, strlen(json));
}

int frames_send_exec(int fd, const void *source, size_t size) {
        static const char json[] = "{\"id\": 1, \"filename\": \"<program>\", \"memory_bytes\": 0, \"tools\": false}";
        uint32_t json_size = sizeof(json) - 1;
        int r = send_head(fd, FRAME_EXEC, sizeof(json_size) + json_size + size);

        if (r == 0)
                r = frames_write(fd, &json_size, sizeof(json_size));
        if (r == 0)
                r = frames_write(fd, json, json_size);
        return r < 0 ? r : frames_write(fd, source, size);
}
